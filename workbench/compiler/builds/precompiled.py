"""Programs that are compiled already: what runs them, and what a file keeps of their compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.targets import Target, all_targets
from workbench.compiler.files.mxr.kernels import Compiled, SavedKernel
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pipeline


def target_of(program: Program) -> Target:
    """The target that a program was compiled for; ``cpu`` where it is none of ours or not here."""
    known = all_targets()
    name = program.targets[0] if program.targets else "ref"
    found = known.get(name, known["cpu"])
    return found if found.available else known["cpu"]


def pipeline_for(
    target: Target, program: Program, fast_math: bool = True, offload_copy: bool = True
) -> Pipeline:
    """A target's passes with those of MIGraphX's options that mean something to it.

    Args:
        target: The target.
        program: What is to be compiled.
        fast_math: Whether rewrites may only come close.
        offload_copy: Whether runs copy results from the device; otherwise their buffers are parameters,
            unless lengths are ranges: then each run makes its own.
    """
    fixed = not any(s.is_dynamic for s in program.parameters.values())
    options = {"fast_math": fast_math, "offload_copy": offload_copy or not fixed}
    return target.pipeline(**{k: v for k, v in options.items() if k in target.options})


def build_of(program: Program, trusted: Iterable[SavedKernel] = ()) -> Build:
    """The build of a program that no pass has to change any more.

    Args:
        program: The program, as a target's passes left it, or one that is to be run as it is.
        trusted: Kernels of a file: their machine code runs where they were compiled for the device that
            is here from the source that they have now. Without them, kernels are compiled.

    Raises:
        DeviceError: The device that is asked for is not here.
    """
    target = target_of(program)

    def variant(source: Program) -> Build:
        return compile(source, target.name, record=False)

    runner = target.prepare(program, source=program, compile=variant)
    runner.trust(trusted)
    return Build(program, program, target, None, 0.0, runner)


def outputs_of(
    build: Build, inputs: Mapping[str, Any], progress: bool | None = False, float64: bool = False
) -> list[Any]:
    """Values of a build's outputs.

    Args:
        build: The build.
        inputs: An array for each parameter, by name.
        progress: Show a progress bar; None shows one after the first second.
        float64: Compute every float in float64.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
        EvaluationError: An instruction failed.
        DeviceError: A kernel failed.
    """
    return build.evaluator(float64).run(inputs, progress=progress)


def compiled_part(build: Build, offload_copy: bool = True) -> Compiled:
    """The part of a build that a file keeps: its kernels, where they are for one set of lengths.

    Raises:
        DeviceError: A kernel does not compile.
    """
    return Compiled(build.runner.saved(), offload_copy or not build.target.takes_device)
