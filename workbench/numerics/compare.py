"""Compares two builds value by value: runs both on the same inputs and aligns them by lineage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.compiler.arrays.metrics import program_tolerance, type_tolerance
from workbench.compiler.builds.build import PRECISIONS, Build, compile
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.report.result import kernel_sources, kernel_text
from workbench.compiler.text.printing import names
from workbench.numerics.metrics import INCOMPARABLE, compare_arrays
from workbench.numerics.report import Report, Row

Aligned = dict[int, Instruction]
"""Instructions of a build's program, by the id in the source program of the value that they compute."""


def compare(
    build: Build,
    inputs: Mapping[str, Any] | None = None,
    reference: str | Build = "ref",
    *,
    reference_precision: str = "float64",
    tolerance: float | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Report:
    """Compare each value of a build with the reference.

    The build runs unchanged: nothing is unfused or marked as an output, so the measured values are those of
    a normal run. Values inside a fused kernel are therefore not compared; its result is.

    Args:
        build: The build to check.
        inputs: An array for each parameter; omitted ones are generated from ``seed``.
        reference: The name of a target to build the same source for, or another build of it.
        reference_precision: ``float64`` computes the reference's floats in float64; or ``float32``.
        tolerance: Relative RMS beyond which a value counts as wrong; the default depends on the narrowest
            type that the build rounds to (docs/numbers.md).
        seed: Seed of the generated inputs.
        progress: Show a progress bar; by default if the comparison takes longer than a second.

    Raises:
        OperationError: The builds have different sources, or one was not recorded.
        InputError: An input does not fit its parameter.
    """
    if reference_precision not in PRECISIONS:
        raise OperationError(
            f"unknown reference precision {reference_precision!r}; expected {' or '.join(PRECISIONS)}"
        )
    given = completed_inputs(build.program, inputs, seed)
    build = build.specialised(given)
    other = compile(build.source, target=reference) if isinstance(reference, str) else reference
    if other.source is not build.source:
        raise OperationError(
            "the two builds were compiled from different programs; compare needs one source"
        )
    wanted, expected = aligned(build), aligned(other)
    common = {id: expected[id] for id in wanted if id in expected}
    captured = _capture(other, given, common, reference_precision == "float64", progress)
    rows = _measure(build, given, wanted, captured, names(other.program), common, progress)
    return Report(
        build.program, rows, rounding_tolerance(build.program) if tolerance is None else tolerance
    )


def aligned(build: Build) -> Aligned:
    """The instructions of the build's main module that compute a value of the source program."""
    relations = build.recording.relations
    found: Aligned = {}
    for instruction in build.program.main:
        if isinstance(instruction.op, Return | Literal | Param):
            continue
        for id in relations.equals(instruction.id):
            if id in relations.first:
                found[id] = instruction
    return found


def _capture(
    build: Build, inputs: Mapping[str, Any], wanted: Aligned, float64: bool, progress: bool | None
) -> dict[int, Any]:
    ids = {i.id: key for key, i in wanted.items()}
    values: dict[int, Any] = {}

    def keep(instruction: Instruction, value: Any, _: object) -> None:
        if instruction.id in ids:
            values[ids[instruction.id]] = value

    build.evaluator(float64).run(inputs, hook=keep, progress=progress)
    return values


def _measure(
    build: Build,
    inputs: Mapping[str, Any],
    wanted: Aligned,
    captured: dict[int, Any],
    reference_names: dict[int, str],
    common: Aligned,
    progress: bool | None,
) -> list[Row]:
    keys = {wanted[key].id: key for key in captured}
    named = names(build.program)
    rows: list[Row] = []

    def measure(instruction: Instruction, value: Any, _: object) -> None:
        key = keys.get(instruction.id)
        if key is not None and not isinstance(value, tuple) and value.size:
            reference = captured[key]
            where = reference_names[common[key].id]
            fits = value.shape == reference.shape
            metrics = compare_arrays(value, reference) if fits else INCOMPARABLE
            rows.append(_row(instruction, named[instruction.id], where, metrics))

    build.evaluator().run(inputs, hook=measure, progress=progress)
    return rows


def _row(instruction: Instruction, name: str, reference: str, metrics: Any) -> Row:
    shape = instruction.shape
    return Row(
        instruction.id,
        name,
        kernel_text(instruction),
        str(shape),
        reference,
        metrics,
        kernel_sources(instruction),
    )


def rounding_tolerance(program: Program) -> float:
    """The tolerance of the narrowest type that a program rounds to, including conversions to integers.

    A float near the middle of two integers may round to either when it is computed more precisely.
    """
    integers = {
        i.shape.type
        for i in program.instructions
        if i.shape.type.is_integral and any(x.shape.type.is_float for x in i.inputs)
    } - {DType.BOOL}
    return max([program_tolerance(program), *map(type_tolerance, integers)])
