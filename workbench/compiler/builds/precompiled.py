"""Programs that are compiled already: what runs them, and what a file keeps of their compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.targets import TARGETS, Target
from workbench.compiler.files.mxr.kernels import Compiled, SavedKernel
from workbench.compiler.ir.program import Program
from workbench.compiler.run.evaluate import evaluate
from workbench.compiler.run.reference import Interpreter


def target_of(program: Program) -> Target:
    """The target that a program was compiled for; ``cpu`` where it is none of ours or not here."""
    name = program.targets[0] if program.targets else "ref"
    found = TARGETS.get(name, TARGETS["cpu"])
    return found if found.available else TARGETS["cpu"]


def device_passes(
    program: Program, fast_math: bool = True, offload_copy: bool = True
) -> list[tuple[str, dict[str, Any]]]:
    """The passes that prepare a program for a device, as ``compile`` takes them.

    Args:
        program: What is to be compiled.
        fast_math: Whether rewrites may only come close.
        offload_copy: Whether runs copy results from the device; otherwise their buffers are parameters,
            unless lengths are ranges: then each run makes its own.
    """
    fixed = not any(s.is_dynamic for s in program.parameters.values())
    options = {"fast_math": fast_math, "offload_copy": offload_copy or not fixed}
    return [("gpu", options)]


def build_of(program: Program, trusted: Iterable[SavedKernel] = ()) -> Build:
    """The build of a program that no pass has to change any more.

    Args:
        program: The program, as a target's passes left it, or one that is to be run as it is.
        trusted: Kernels of a file: their machine code runs where they were compiled for the device that
            is here from the source that they have now. Without them, kernels are compiled.

    Raises:
        DeviceError: The device that is asked for is not here.
    """
    made = Build(program, program, target_of(program), None, 0.0)
    if made.target.kernels:
        from workbench.gpu.lowering.lengths import Dispatch, is_dynamic  # noqa: PLC0415
        from workbench.gpu.run.runner import Runner  # noqa: PLC0415

        made.runner = Runner(program)
        made.runner.trust(trusted)
        if is_dynamic(program):
            made.dispatch = Dispatch(program, lambda static: compile(static, "gpu", record=False))
    return made


def outputs_of(
    build: Build, inputs: Mapping[str, Any], progress: bool | None = False, float64: bool = False
) -> list[Any]:
    """Values of a build's outputs, computed on its device or by the interpreter.

    Args:
        build: The build.
        inputs: An array for each parameter, by name.
        progress: Show a progress bar; None shows one after the first second.
        float64: Compute every float in float64, which only the interpreter does.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
        EvaluationError: An instruction failed.
        DeviceError: A kernel failed.
    """
    evaluator = build.evaluator(float64)
    if isinstance(evaluator, Interpreter):
        return evaluate(evaluator, inputs, progress=progress)
    runner = build.specialised(inputs).runner
    assert runner is not None
    return runner.run(inputs, progress=progress)


def compiled_part(build: Build, offload_copy: bool = True) -> Compiled:
    """What a file keeps of a build: its kernels, where they are those of one set of lengths.

    Raises:
        DeviceError: A kernel does not compile.
    """
    if build.runner is None:
        return Compiled()
    kernels = build.runner.saved() if build.dispatch is None else ()
    return Compiled(kernels, offload_copy)
