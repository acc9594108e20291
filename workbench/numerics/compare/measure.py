"""Errors of each value of a build: as it ran, and of each kernel on the reference's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from workbench.compiler.builds.build import Build
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.recurrent import Recurrent
from workbench.numerics.capture.evaluator import as_typed
from workbench.numerics.compare.expected import Expected, fits, is_computed
from workbench.numerics.metrics.metrics import INCOMPARABLE, Metrics, compare_arrays

Wanted: TypeAlias = Callable[[Instruction], "Value | None"]


def inherited(
    build: Build,
    inputs: Mapping[str, Any],
    wanted: Iterable[tuple[Wanted, dict[int, Metrics]]],
    progress: bool | None,
) -> None:
    """Measure the error of each value as it ran, by instruction id: that of its kernel and of all before it.

    Args:
        build: The build, which runs once.
        inputs: An array for each parameter.
        wanted: References, each with the dictionary for the errors against it: a reference gives the value
            that an instruction should have, or None if it has none.
        progress: Show a progress bar.
    """
    pairs = list(wanted)

    def measure(instruction: Instruction, value: Value, _: Sequence[Value]) -> None:
        for one, part in results_of(instruction, value):
            for reference, errors in pairs:
                known = reference(one)
                if known is not None:
                    errors[one.id] = distance(part, known)

    build.evaluator().run(inputs, hook=measure, progress=progress)


def local(
    build: Build,
    inputs: Mapping[str, Any],
    expected: Expected,
    found: dict[int, Metrics],
    progress: bool | None,
) -> None:
    """Measure the error of each kernel on the expected values of its inputs, by instruction id.

    One run, in which each value is replaced by the expected one, rounded to its type, once it is measured.
    So no error reaches the next kernel but that of rounding its inputs.

    Args:
        build: The build, which runs once.
        inputs: An array for each parameter.
        expected: The expected values.
        found: Receives the errors.
        progress: Show a progress bar.
    """

    def measure(instruction: Instruction, value: Value, _: Sequence[Value]) -> Value | None:
        results = results_of(instruction, value)
        for one, part in results:
            found[one.id] = distance(part, expected[one])
        if not results or isinstance(instruction.op, Recurrent):
            return None
        return _forced(value, results, expected)

    build.evaluator().run(inputs, hook=measure, progress=progress)


def _forced(
    value: Value, results: Sequence[tuple[Instruction, Value]], expected: Expected
) -> Value | None:
    """The expected value in the types of a value; None where the lens differ."""
    wanted = [as_typed(expected[one], one.shape) for one, _ in results]
    if not isinstance(value, tuple):
        return wanted[0] if fits(value, results[0][0].shape) else None
    if len(wanted) == 1 and not isinstance(results[0][0].op, GetTupleElem):
        return wanted[0]
    parts = {_index(one): w for (one, _), w in zip(results, wanted, strict=True)}
    return tuple(parts.get(k, part) for k, part in enumerate(value))


def _index(instruction: Instruction) -> int:
    """The part of a tuple that an instruction takes."""
    assert isinstance(instruction.op, GetTupleElem)
    return instruction.op.index


def results_of(instruction: Instruction, value: Value) -> list[tuple[Instruction, Value]]:
    """The values that an instruction computes, each with the instruction that stands for it.

    A tuple's parts are the values of the instructions that take them; a tuple of which none is taken is a
    value by itself. Empty for views, constants and inputs.
    """
    if not is_computed(instruction):
        return []
    if isinstance(value, tuple) and not instruction.shape.kind:
        taken = [u for u in instruction.users if isinstance(u.op, GetTupleElem)]
        if taken:
            return [(u, value[_index(u)]) for u in taken]
    return [(instruction, value)]


def distance(value: Value, wanted: Value) -> Metrics:
    """The metrics between two values; those of a tuple are computed over all of its elements."""
    a, b = arrays_of(value), arrays_of(wanted)
    if [x.shape for x in a] != [x.shape for x in b]:
        return INCOMPARABLE
    if len(a) == 1:
        return compare_arrays(a[0], b[0])
    return compare_arrays(_joined(a), _joined(b))


def arrays_of(value: Value) -> list[Array]:
    """The arrays of a value: one, or those of a tuple."""
    if isinstance(value, tuple):
        return [array for part in value for array in arrays_of(part)]
    return [value]


def _joined(arrays: Sequence[Array]) -> Array:
    flat = [np.asarray(x, np.float64).ravel() for x in arrays]
    return np.concatenate(flat) if flat else np.empty(0)
