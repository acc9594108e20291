"""Compiles a loaded program as the driver's options say, and makes the inputs of its runs."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.compiler.build import Build, compile
from workbench.compiler.generate import driver_inputs, generate, std_hash
from workbench.compiler.program import Program
from workbench.compiler.shape import Shape
from workbench.compiler.targets import TARGETS, target_named
from workbench.driver.dimensions import by_name, lens_by_name, single
from workbench.driver.messages import Messages

PRECISIONS = {
    "fp16": "Quantizing to fp16 ... ",
    "bf16": "Quantizing to bf16 ... ",
    "int8": "Quantizing to int8 ... ",
    "fp8": "Quantizing to fp8 ... ",
    "int4_weights": "Quantizing weights to int4 ... ",
}
"""The options that quantize, in the order in which they are done, and what is said."""


def target_of(options: argparse.Namespace, messages: Messages) -> str:
    """The target that is compiled for: the best one here, unless the options name one."""
    if options.target is None:
        return target_named("auto").name
    if TARGETS[options.target].available:
        return options.target
    messages.warn(
        f"no device for target {options.target!r}: 'cpu' stands in; timings are the host's"
    )
    return "cpu"


def asked_precisions(options: argparse.Namespace) -> list[str]:
    """The quantizations that the options ask for, in order."""
    return [name for name in PRECISIONS if getattr(options, name)]


def compiled(program: Program, options: argparse.Namespace, messages: Messages) -> Program:
    """The program, compiled; one that is compiled already stays as it is.

    Raises:
        WorkbenchError: A pass failed, or a quantization cannot be done.
    """
    if program.targets:
        messages.info("The program is already compiled, skipping compilation ...")
        if asked_precisions(options):
            messages.warn("Quantization options are ignored as the program is already compiled.")
        return program
    _say_what_does_nothing(options, messages)
    quantized = quantize(program, options, messages)
    messages.info("Compiling ... ")
    return build(quantized, target_of(options, messages)).program


def build(program: Program, target: str) -> Build:
    """The build of a program; nothing of it is recorded."""
    return compile(program, target, record=False)


def quantize(program: Program, options: argparse.Namespace, messages: Messages) -> Program:
    """The program in the precisions that the options ask for."""
    for name in asked_precisions(options):
        messages.info(PRECISIONS[name])
        program = _quantized(program, name, options)
    return program


def _quantized(program: Program, name: str, options: argparse.Namespace) -> Program:
    from workbench.numerics.quantize import quantize  # noqa: PLC0415

    match name:
        case "int8" | "fp8":
            return quantize(program, name, calibration=[inputs_of(program, options)])
        case "fp16" | "bf16":
            return quantize(program, name)
        case _:
            return quantize(program, "int4")


def _say_what_does_nothing(options: argparse.Namespace, messages: Messages) -> None:
    if options.exhaustive_tune:
        messages.warn("--exhaustive-tune: there are no kernels to choose from on the host")
    if options.disable_fast_math:
        messages.info("--disable-fast-math: nothing is traded for speed anyway")
    if options.enable_offload_copy:
        messages.info("--enable-offload-copy: inputs and outputs are on the host anyway")


# Inputs


def inputs_of(program: Program, options: argparse.Namespace) -> dict[str, Any]:
    """An input for each parameter: from a file, filled, or generated from the parameter's name.

    Raises:
        WorkbenchError: An option names no parameter, or a file holds something else.
    """
    given = _with_lens(program, options)
    for name, files in by_name("--load-arg", options.load_arg).items():
        given[name] = _loaded(single("--load-arg", name, files))
    return driver_inputs(program, options.fill0, options.fill1, given, options.batch)


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
    from workbench.driver import files  # noqa: PLC0415

    return files.read_argument(file)
