"""The macro for rotary embeddings: pairs of elements rotated by an angle that grows with the position."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.macros.emit import Emit
from workbench.compiler.macros.table import macro


@macro("rotary_embedding", least=3, most=4)
def rotary_embedding(
    emit: Emit, inputs: list[Instruction], *, interleaved: bool = False
) -> Instruction:
    """A value with its pairs rotated: ``x * cos + rotated x * sin``.

    Inputs are the value (batch, heads, length, size), positions, and tables of cosines and sines; or the
    value with the cosines and sines for each of its positions.
    """
    x = inputs[0]
    lens = emit.static(x, "the value")
    if not lens or lens[-1] % 2:
        raise emit.fail(f"input {x.shape}; expected an even last dimension")
    if len(inputs) == 3:
        cosines, sines = inputs[1:]
    else:
        cosines, sines = _gathered(emit, inputs, lens, interleaved=interleaved)
    turned, signs = _turned(emit, x, lens, interleaved=interleaved)
    signs = emit.multibroadcast(signs, lens)
    straight = emit.common("mul", x, cosines)
    signed = emit.common("mul", signs, sines)
    return emit.common("add", straight, emit.common("mul", turned, signed))


def _gathered(
    emit: Emit, inputs: list[Instruction], lens: tuple[int, ...], *, interleaved: bool
) -> list[Instruction]:
    """The rows of both tables at the positions, each repeated to the size of the value."""
    if len(lens) != 4:
        raise emit.fail(f"input {inputs[0].shape}; expected (batch, heads, length, size)")
    batch, _, length, size = lens
    for table, what in zip(inputs[2:], ("cosines", "sines"), strict=True):
        if emit.static(table, f"the table of {what}")[-1:] != (size // 2,):
            raise emit.fail(f"the table of {what} is {table.shape}; expected {size // 2} columns")
    places = _positions(emit, inputs[1], batch, length)
    rows = [emit.add("gathernd", table, places, batch_dims=0) for table in inputs[2:]]
    if interleaved:
        rows = [emit.reshape(row, row.shape.elements, 1) for row in rows]
    doubled = [emit.add("concat", row, row, axis=-1) for row in rows]
    return [emit.reshape(row, batch, 1, length, size) for row in doubled]


def _positions(emit: Emit, given: Instruction, batch: int, length: int) -> Instruction:
    """A position for each element of each sequence, from one start per sequence or a common one."""
    count = 1
    for n in emit.static(given, "positions"):
        count *= n
    if count == batch * length and length > 1:
        return emit.reshape(given, batch, length, 1)
    if count not in (1, batch):
        raise emit.fail(f"positions {given.shape}; expected 1, {batch} or {batch * length}")
    if count == 1 and batch > 1:
        start = emit.multibroadcast(emit.reshape(given, 1, 1, 1), (batch, 1, 1))
    else:
        start = emit.reshape(given, batch, 1, 1)
    if length == 1:
        return start
    starts = emit.multibroadcast(start, (batch, length, 1))
    steps = emit.literal(given.shape.type, range(length), (1, length, 1))
    return emit.common("add", starts, emit.multibroadcast(steps, (batch, length, 1)))


def _turned(
    emit: Emit, x: Instruction, lens: tuple[int, ...], *, interleaved: bool
) -> tuple[Instruction, Instruction]:
    """The value with the elements of each pair swapped, and a sign for each element."""
    half, type = lens[-1] // 2, x.shape.type
    signs = emit.literal(type, [-1, 1], (2,))
    if interleaved:
        signs = emit.multibroadcast(emit.reshape(signs, 1, 2), (half, 2))
        signs = emit.reshape(signs, 2 * half)
        pairs = emit.reshape(x, x.shape.elements // 2, 2)
        left, right = emit.slice(pairs, 1, 0, 1), emit.slice(pairs, 1, 1, 2)
        return emit.reshape(emit.add("concat", right, left, axis=-1), *lens), signs
    signs = emit.multibroadcast(emit.reshape(signs, 2, 1), (2, half))
    signs = emit.reshape(signs, 2 * half)
    left, right = emit.slice(x, -1, 0, half), emit.slice(x, -1, half, 2 * half)
    return emit.add("concat", right, left, axis=-1), signs
