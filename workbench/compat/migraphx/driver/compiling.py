"""Compilation of a loaded program by the driver's options, and the inputs of its runs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from workbench.compat.migraphx.driver.dimensions import by_name, lens_by_name, single
from workbench.compat.migraphx.driver.loading import Loaded
from workbench.compat.migraphx.driver.messages import Messages
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.precompiled import build_of, compiled_part, pipeline_for
from workbench.compiler.builds.targets import Target, target_named
from workbench.compiler.files.mxr.kernels import Compiled
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import Pipeline
from workbench.compiler.report.tuning import ALL
from workbench.numerics.verify.generate import driver_inputs, generate, std_hash

PRECISIONS = {
    "fp16": "Quantizing to fp16 ... ",
    "bf16": "Quantizing to bf16 ... ",
    "int8": "Quantizing to int8 ... ",
    "fp8": "Quantizing to fp8 ... ",
    "int4_weights": "Quantizing weights to int4 ... ",
}
"""The options that quantize, in the order in which they are applied, with their messages."""


def target_of(options: argparse.Namespace, messages: Messages) -> Target:
    """The target to compile for: the best one that is available, unless the options name one."""
    found = target_named(options.target or "auto")
    if options.target is None or found.available:
        return found
    messages.warn(
        f"no device for target {options.target!r}: 'cpu' stands in; timings are the host's"
    )
    return target_named("cpu")


def asked_precisions(options: argparse.Namespace) -> list[str]:
    """The quantizations that the options ask for, in order."""
    return [name for name in PRECISIONS if getattr(options, name)]


@dataclass(frozen=True)
class Made:
    """A build, and whether its runs copy inputs to the device and results back."""

    build: Build
    offload_copy: bool

    def part(self) -> Compiled:
        """The compiled part, for a file."""
        return compiled_part(self.build, self.offload_copy)


def compiled(loaded: Loaded, options: argparse.Namespace, messages: Messages) -> Made:
    """The compiled program; one that is compiled already is not changed.

    Raises:
        WorkbenchError: A pass or kernel failed, or a quantization cannot be done.
    """
    program = loaded.program
    if program.targets:
        messages.info("The program is already compiled, skipping compilation ...")
        if asked_precisions(options):
            messages.warn("Quantization options are ignored as the program is already compiled.")
        if loaded.compiled.kernels and not options.trusted_kernels:
            messages.info(
                "The file's kernels are not run without --trusted-kernels: they are compiled."
            )
        return Made(
            build_of(program, loaded.compiled.trusted(options.trusted_kernels)),
            loaded.compiled.offload_copy,
        )
    target = target_of(options, messages)
    _say_what_does_nothing(options, target, messages)
    quantized = quantize(program, options, messages)
    messages.info("Compiling ... ")
    offload_copy = not target.takes_device or options.enable_offload_copy
    return Made(build(quantized, target, options, offload_copy), offload_copy)


def build(
    program: Program, target: Target, options: argparse.Namespace, offload_copy: bool = True
) -> Build:
    """The build of a program with its kernels compiled, without a recording."""
    passes = passes_of(program, options, target, offload_copy)
    made = compile(program, target.name, passes=passes, record=False)
    if options.exhaustive_tune and target.takes_device:
        made.tune(most=ALL)
    made.runner.ready()
    return made


def passes_of(
    program: Program, options: argparse.Namespace, target: Target, offload_copy: bool = True
) -> Pipeline:
    """The target's passes, as set by the options."""
    return pipeline_for(target, program, not options.disable_fast_math, offload_copy)


def quantize(program: Program, options: argparse.Namespace, messages: Messages) -> Program:
    """The program in the precisions that the options ask for."""
    for name in asked_precisions(options):
        messages.info(PRECISIONS[name])
        program = _quantized(program, name, options)
    return program


def _quantized(program: Program, name: str, options: argparse.Namespace) -> Program:
    from workbench.numerics.precision.quantize import quantize  # noqa: PLC0415

    match name:
        case "int8" | "fp8":
            return quantize(program, name, calibration=[inputs_of(program, options)])
        case "fp16" | "bf16":
            return quantize(program, name)
        case _:
            return quantize(program, "int4")


def _say_what_does_nothing(options: argparse.Namespace, target: Target, messages: Messages) -> None:
    if target.takes_device:
        return
    if options.exhaustive_tune:
        messages.warn("--exhaustive-tune: there are no kernels to choose from on the host")
    if options.disable_fast_math:
        messages.info("--disable-fast-math: nothing is traded for speed anyway")
    if options.enable_offload_copy:
        messages.info("--enable-offload-copy: inputs and outputs are on the host anyway")


# Inputs


def inputs_of(
    program: Program, options: argparse.Namespace, in_range: bool = False
) -> dict[str, Any]:
    """An input for each parameter: from a file, filled, or generated from the parameter's name.

    Args:
        program: The program.
        options: The command's options.
        in_range: Keep generated indices in range, as ``driver_inputs`` says.

    Raises:
        WorkbenchError: An option names an unknown parameter, or a file is not an argument.
    """
    given = _with_lens(program, options)
    for name, files in by_name("--load-arg", options.load_arg).items():
        given[name] = _loaded(single("--load-arg", name, files))
    return driver_inputs(
        program, options.fill0, options.fill1, given, options.batch, in_range=in_range
    )


def _with_lens(program: Program, options: argparse.Namespace) -> dict[str, Any]:
    """Inputs of dynamic parameters that ``--input-dim`` gives lens."""
    filled = {*options.fill0, *options.fill1}
    lens = lens_by_name("--input-dim", options.input_dim)
    return {
        name: generate(Shape(shape.type, lens[name]), std_hash(name), "random")
        for name, shape in program.parameters.items()
        if name in lens and shape.is_dynamic and name not in filled
    }


def _loaded(file: str) -> Any:
    from workbench.compat.migraphx.driver import files  # noqa: PLC0415

    return files.read_argument(file)
