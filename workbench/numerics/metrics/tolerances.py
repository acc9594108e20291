"""Tolerances of a comparison: one for all values, and others for nodes, scopes, operations or types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from workbench.compiler.arrays.metrics import program_tolerance, type_tolerance
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector, select

Given: TypeAlias = "float | Mapping[Selector | DType, float] | None"
"""One tolerance, or several by selector: those of ``keep=``, a ``DType``, ``"output:NAME"``, and ``"*"`` for
all other values. Where several fit a value, the last one counts."""
_OTHERS = "*"
_OUTPUT = "output:"


def tolerances_of(program: Program, given: Given) -> tuple[float, dict[int, float]]:
    """The tolerance of most values, and those of single instructions by id.

    Args:
        program: The compiled program.
        given: What the caller gave; None is the tolerance of the narrowest type that the program rounds to.

    Raises:
        OperationError: A tolerance is not a number from 0, or a selector chooses nothing.
    """
    if not isinstance(given, Mapping):
        return (rounding_tolerance(program) if given is None else _checked(given)), {}
    several = {key: _checked(value) for key, value in given.items()}
    most = several.pop(_OTHERS, None)
    single: dict[int, float] = {}
    for key, value in several.items():
        single |= dict.fromkeys(_chosen(program, key), value)
    return (rounding_tolerance(program) if most is None else most), single


def _checked(tolerance: Any) -> float:
    if not isinstance(tolerance, int | float) or not tolerance >= 0:
        raise OperationError(f"tolerance {tolerance!r}; expected a number from 0")
    return float(tolerance)


def _chosen(program: Program, key: Selector | DType) -> frozenset[int]:
    if isinstance(key, DType):
        return frozenset(i.id for i in program.main if i.shape.type is key)
    if isinstance(key, str) and key.startswith(_OUTPUT):
        return _output(program, key.removeprefix(_OUTPUT))
    return select(program, key)


def _output(program: Program, name: str) -> frozenset[int]:
    """The instruction that computes an output, and the views through which it is returned."""
    named = dict(zip(program.output_names, program.outputs, strict=False))
    if name not in named:
        known = ", ".join(map(repr, named)) or "no names"
        raise OperationError(f"tolerance for output {name!r}: outputs have {known}")
    found = [named[name]]
    while (alias := found[-1].op.alias) is not None and found[-1].inputs:
        found.append(found[-1].inputs[alias])
    return frozenset(i.id for i in found)


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
