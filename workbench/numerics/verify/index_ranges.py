"""The lengths that a program's integer parameters index, so that generated indices can be in range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from workbench.compiler.ir.builtin import Param
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation, Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.index import Gather, GatherElements, GatherNd
from workbench.compiler.ops.scatter import Scatter, ScatterNd


def indexed_lengths(program: Program, length: int = 1) -> dict[str, int]:
    """The length of the shortest axis that each parameter indexes, by the parameter's name.

    A parameter is an index if an operation that gathers or scatters reads its elements as they are:
    directly, converted, or rearranged, as by a reshape. Others are left out.

    Args:
        program: The program.
        length: The length of dimensions that are ranges.
    """
    found: dict[str, int] = {}
    for module in program.reachable_modules():
        for instruction in module:
            parameter = _origin(instruction)
            lengths = [d.min if d.is_fixed else length for d in _indexed(instruction)]
            if parameter is not None and lengths:
                found[parameter] = min([*lengths, *filter(None, [found.get(parameter)])])
    return {name: n for name, n in found.items() if n > 0}


def remainders(value: Value, length: int) -> Value:
    """Integers with those that are no index of an axis of this length replaced by remainders."""
    if isinstance(value, tuple) or value.dtype.kind not in "iu":
        return value
    outside = value >= length if value.dtype.kind == "u" else (value < -length) | (value >= length)
    if not bool(outside.any()):
        return value
    return np.where(outside, np.mod(value, value.dtype.type(length)), value)


def _indexed(instruction: Instruction) -> Sequence[Dim]:
    """The dimensions of the data that an instruction's indices are for; none if it has no indices."""
    op: Operation = instruction.op
    if not isinstance(op, Gather | GatherElements | GatherNd | Scatter | ScatterNd):
        return ()
    data, index = (dims_of(x.shape) for x in instruction.inputs[:2])
    if isinstance(op, GatherNd | ScatterNd):
        first = op.batch_dims if isinstance(op, GatherNd) else 0
        return data[first : first + index[-1].min]
    return [data[op.axis]]


def _origin(instruction: Instruction) -> str | None:
    """The parameter of the main module whose elements the indices of an instruction are."""
    for one in _chain(instruction.inputs[1]) if len(instruction.inputs) > 1 else ():
        if isinstance(one.op, Param) and one.module.name == "main":
            return one.op.parameter
    return None


def _chain(instruction: Instruction) -> Iterator[Instruction]:
    """An instruction, and those before it that have the same elements."""
    yield instruction
    while instruction.op.rearranges or isinstance(instruction.op, Convert):
        instruction = instruction.inputs[0]
        yield instruction
