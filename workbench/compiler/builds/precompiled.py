"""Already compiled programs: making their builds, and the part of a build that a file keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.targets import Target, all_targets
from workbench.compiler.files.mxr.kernels import NOTHING, Compiled
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pipeline


def target_of(program: Program) -> Target:
    """The target that a program was compiled for; ``cpu`` if it is unknown or cannot be used here."""
    known = all_targets()
    name = program.targets[0] if program.targets else "ref"
    found = known.get(name, known["cpu"])
    return found if found.available else known["cpu"]


def pipeline_for(
    target: Target, program: Program, fast_math: bool = True, offload_copy: bool = True
) -> Pipeline:
    """A target's passes, with those of MIGraphX's options that apply to it.

    Args:
        target: The target.
        program: The program to compile.
        fast_math: Whether rewrites may be approximate.
        offload_copy: Whether runs copy results from the device. Otherwise buffers for results are parameters,
            unless lengths are ranges; then each run allocates its own.
    """
    fixed = not any(s.is_dynamic for s in program.parameters.values())
    options = {"fast_math": fast_math, "offload_copy": offload_copy or not fixed}
    return target.pipeline_for(None, **{k: v for k, v in options.items() if k in target.options})


def build_of(program: Program, kept: Compiled = NOTHING) -> Build:
    """The build of a program that needs no further passes.

    Args:
        program: The program, after a target's passes, or to be run unchanged.
        kept: The compiled part of a file: the machine code of its kernels is used if it was compiled for the
            present device from the present source. Other kernels are compiled.

    Raises:
        DeviceError: The requested device is not available.
    """
    target = target_of(program)

    def variant(source: Program) -> Build:
        return compile(source, target.name, record=False)

    runner = target.prepare(program, source=program, compile=variant)
    runner.choose(dict(kept.choices))
    runner.trust(kept.kernels)
    return Build(program, program, target, None, 0.0, runner)


def outputs_of(
    build: Build, inputs: Mapping[str, Any], progress: bool | None = False, float64: bool = False
) -> list[Any]:
    """The values of a build's outputs.

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
    """The part of a build that a file keeps: its kernels, if they are for one set of lengths.

    Raises:
        DeviceError: A kernel does not compile.
    """
    runner = build.runner
    return Compiled(
        runner.saved(), offload_copy or not build.target.takes_device, tuple(runner.choices.items())
    )
