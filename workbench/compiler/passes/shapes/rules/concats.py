"""Rules about concatenations: of transposes, reshapes, broadcasts and concatenations, and their slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.movement import Concat
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, op, rule


def axis_of(concat: Instruction) -> int:
    """The axis of a concatenation, counted from the front."""
    return concat.op.normalized([i.shape for i in concat.inputs]).attributes()["axis"]


def _all_named(*names: str) -> Pattern:
    """A pattern for a concatenation of two or more results of operations of these names."""

    def fits(instruction: Instruction) -> bool:
        inputs = instruction.inputs
        return len(inputs) > 1 and all(i.name in names and len(i.inputs) == 1 for i in inputs)

    return Pattern(frozenset({"concat"}), binding="root", structure=fits)


def _others(lens: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*lens[:axis], *lens[axis + 1 :])


@rule(op("slice", op("concat", name="joined"), name="root"))
def find_concat_slice(b: Rewriter, root: Instruction, joined: Instruction) -> Instruction | Decline:  # noqa: ARG001
    """slice(concat(x, y…)) → y where the slice is exactly y"""
    cut, axis = root.op.normalized([joined.shape]), axis_of(joined)
    if not isinstance(cut, Slice) or cut.axes != (axis,):
        return Decline(f"the slice is not along the axis of the concat, {axis}")
    start = 0
    for piece in joined.inputs:
        end = start + piece.shape.lens[axis]
        if (start, end) == (cut.starts[0], cut.ends[0]):
            return piece
        start = end
    return Decline(
        f"elements {cut.starts[0]} to {cut.ends[0]} of axis {axis} are not exactly one input"
    )


@rule(_all_named("transpose"))
def find_concat_transpose(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(transpose(x), transpose(y)…) → transpose(concat(x, y…))"""
    order = root.inputs[0].shape.permutation
    if other := next((i for i in root.inputs if i.shape.permutation != order), None):
        return Decline(
            f"the axes of #{root.inputs[0].id} are in the order {list(order)} in memory, "
            f"those of #{other.id} in the order {list(other.shape.permutation)}"
        )
    if list(order) == sorted(order):
        return Decline(f"the axes of #{root.inputs[0].id} are already in row-major order")
    back = [order.index(i) for i in range(len(order))]
    turned = [b("transpose", i, permutation=order) for i in root.inputs]
    return b("transpose", b("concat", *turned, axis=back[axis_of(root)]), permutation=back)


@rule(_all_named("reshape", "unsqueeze", "squeeze", "reshape_lazy"))
def find_concat_reshape(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(reshape(x), reshape(y)…) → reshape(concat(x, y…)) where an axis of x is the concat's"""
    sources = [i.inputs[0] for i in root.inputs]
    lens, wanted, at = sources[0].shape.lens, root.shape.lens, axis_of(root)
    if other := next((s for s in sources if s.shape.lens != lens), None):
        return Decline(f"#{sources[0].id} has the lens {list(lens)}, #{other.id} has others")
    before, behind = prod(wanted[:at]), prod(wanted[at + 1 :])
    axis = next((j for j in range(len(lens)) if prod(lens[: j + 1]) > before), None)
    if (
        0 in wanted
        or axis is None
        or (prod(lens[:axis]), prod(lens[axis + 1 :]))
        != (
            before,
            behind,
        )
    ):
        return Decline(f"no axis of {list(lens)} becomes axis {at} of {list(wanted)}")
    return b.reshape(b("concat", *sources, axis=axis), wanted)


def _along(broadcast: Instruction, axis: int) -> int | None:
    """The axis of a broadcast's input that becomes ``axis``; None if elements repeat along it."""
    source = broadcast.inputs[0].shape
    offset: int = broadcast.op.attributes().get("axis", broadcast.shape.ndim - source.ndim)
    inner = axis - offset
    kept = 0 <= inner < source.ndim and source.lens[inner] == broadcast.shape.lens[axis]
    return inner if kept and broadcast.shape.strides[axis] else None


@rule(_all_named("broadcast", "multibroadcast"))
def find_concat_multibroadcasts(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(broadcast(x), broadcast(y)…) → broadcast(concat(x, y…))"""
    at, sources = axis_of(root), [i.inputs[0] for i in root.inputs]
    if repeated := next((i for i in root.inputs if _along(i, at) is None), None):
        return Decline(f"{repeated.name} #{repeated.id} repeats elements along axis {at}")
    kinds = {(i.name, i.op.attributes().get("axis"), i.inputs[0].shape.ndim) for i in root.inputs}
    if len(kinds) > 1:
        return Decline("the inputs are broadcast in different ways")
    ((name, start, _),) = kinds
    axis = _along(root.inputs[0], at) or 0
    rest = {_others(s.shape.lens, axis) for s in sources}
    if len(rest) > 1:
        return Decline(f"the broadcast values differ in lens outside axis {axis}: {sorted(rest)}")
    where = {} if start is None else {"axis": start}
    return b(name, b("concat", *sources, axis=axis), out_lens=root.shape.lens, **where)


def _flattened(root: Instruction, axis: int) -> list[Instruction]:
    """The operands, each inner concat that nothing else needs replaced by its own.

    One that is an operand twice stays: its operands would double at every level.
    """
    found: list[Instruction] = []
    uses = Counter(root.inputs)
    for value in root.inputs:
        own = isinstance(value.op, Concat) and value.only_user is root and uses[value] == 1
        found += _flattened(value, axis) if own and axis_of(value) == axis else [value]
    return found


@rule(
    Pattern(
        frozenset({"concat"}),
        binding="root",
        structure=lambda i: any(isinstance(x.op, Concat) for x in i.inputs),
    )
)
def find_nested_concat(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(concat(x, y…), z…) → concat(x, y…, z…)"""
    axis = axis_of(root)
    inputs = _flattened(root, axis)
    if inputs == list(root.inputs):
        return Decline(
            f"the inner concat has other users, is joined twice, or is not along axis {axis}"
        )
    return b("concat", *inputs, axis=axis)
