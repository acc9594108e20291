"""Rules about broadcast operands: compute first, then broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.module import Instruction, infer
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.passes.broadcasting import common, is_broadcast, laid, repeats, spread
from workbench.compiler.passes.shapes.transform.chains import BROADCASTS
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, is_pointwise, op, rule, var


def _repeats(instruction: Instruction) -> bool:
    """Whether every input of an operation is the broadcast of a smaller value."""
    size = instruction.shape.elements
    for given in instruction.inputs:  # a loop: this runs at every attempt
        if not is_broadcast(given) or given.inputs[0].shape.elements >= size:
            return False
    return True


@rule(
    Pattern(
        kind=is_pointwise,
        reads=BROADCASTS,
        each=BROADCASTS,
        structure=_repeats,
    )
)
def find_inner_broadcast(b: Rewriter) -> Instruction | Decline:
    """f(broadcast(x), broadcast(y)) → broadcast(f(x, y))"""
    inputs = b.root.inputs
    lead = next((i for i in inputs if not i.shape.is_scalar), inputs[0])
    if not _alike(inputs, lead):
        return _narrowed(b)
    within = [_innermost(i) for i in inputs]
    at_most = max(v.shape.ndim for v in within)
    rank = _innermost(lead).shape.ndim if isinstance(lead.op, Broadcast) else at_most
    values = [
        _squeezed(b, i, v) if v.shape.ndim != rank else v
        for i, v in zip(inputs, within, strict=True)
    ]
    return b(lead.op, common(b, b.root.op, *values))


def _innermost(broadcast: Instruction) -> Instruction:
    """The value under a broadcast, through broadcasts of broadcasts."""
    value = broadcast.inputs[0]
    while is_broadcast(value):
        value = value.inputs[0]
    return value


def _alike(inputs: Sequence[Instruction], lead: Instruction) -> bool:
    """Whether each input is one element or, from ``lead`` on, broadcast by the same operation as ``lead``."""
    at, wanted = inputs.index(lead), _innermost(lead).shape.lens

    def fits(place: int, broadcast: Instruction) -> bool:
        inner = _innermost(broadcast).shape
        if inner.elements == 1:
            return place < at or lead.shape.is_scalar or broadcast.op == lead.op
        same = place >= at and broadcast.op == lead.op and inner.lens == wanted
        sure = same and not lead.shape.is_scalar and not repeats(inner)
        return sure and _repeated_alike(broadcast)

    return all(map(fits, range(len(inputs)), inputs))


def _repeated_alike(broadcast: Instruction) -> bool:
    """Whether nested broadcasts equal the outer one applied to the innermost value."""
    inner, shape = _innermost(broadcast), broadcast.shape
    if inner is broadcast.inputs[0]:
        return True
    if isinstance(broadcast.op, Broadcast) and inner.shape.ndim != broadcast.inputs[0].shape.ndim:
        return False
    try:
        direct = infer(broadcast.op, [inner])
    except ShapeError:
        return False
    pairs = zip(shape.lens, shape.strides, direct.strides, strict=True)
    return all(n == 1 or s == t for n, s, t in pairs)


def _squeezed(b: Rewriter, broadcast: Instruction, value: Instruction) -> Instruction:
    """A one-element value squeezed to one dimension, before its broadcast."""
    if value.shape.elements != 1 or value.shape.ndim == 1:
        return value
    return _ahead(b, broadcast)("squeeze", value)


def _ahead(b: Rewriter, broadcast: Instruction) -> Rewriter:
    """A rewriter that inserts before a broadcast, or before the root if that is in another module."""
    return Rewriter(broadcast) if broadcast.module is b.module else Rewriter(b.root)


def _narrowed(b: Rewriter) -> Instruction | Decline:
    """The operation on the axes along which some input varies, then broadcast along the others."""
    inputs, lens = b.root.inputs, b.root.shape.lens
    for broadcast in inputs:
        inside = broadcast.inputs[0]
        if repeats(inside.shape):
            return Decline(f"{inside.name} #{inside.id}, an operand's input, is itself repeated")
    inner = [
        axis for axis, n in enumerate(lens) if n != 1 and any(i.shape.strides[axis] for i in inputs)
    ]
    if len(inner) == len(lens):
        return Decline("together, its inputs vary along every axis")
    value = common(b, b.root.op, *[_on_axes(b, i, inner) for i in inputs])
    if len(inner) == 1:
        return b(Broadcast(axis=inner[0], out_lens=lens), value)
    outer = tuple(a for a in range(len(lens)) if a not in inner)
    if value.shape.elements != 1 and outer != tuple(range(len(outer))):
        value = b("unsqueeze", value, axes=outer)
    return b(Multibroadcast(out_lens=lens), value)


def _on_axes(b: Rewriter, broadcast: Instruction, inner: Sequence[int]) -> Instruction:
    """The input of a broadcast, laid out on those of the axes ``inner`` that it has."""
    value, lens = broadcast.inputs[0], broadcast.shape.lens
    if value.shape.elements == 1:
        return _squeezed(b, broadcast, value)
    op, rank = broadcast.op, value.shape.ndim
    shift = op.axis if isinstance(op, Broadcast) else len(lens) - rank
    build = _ahead(b, broadcast)
    if gone := tuple(a for a in range(rank) if a + shift not in inner):
        value = build("squeeze", value, axes=gone)
    kept = tuple(lens[a] for a in inner)
    first = next(i for i, a in enumerate(inner) if a >= shift)
    fits = kept[first : first + value.shape.ndim] == value.shape.lens
    if value.shape.ndim < len(inner) and fits:
        value = build(Broadcast(axis=first, out_lens=kept), value)
    return value


def _leading_repeats(dot: Instruction) -> int:
    """The number of leading axes along which both inputs of a dot are broadcast."""
    count = 0
    for one, other in zip(*[i.shape.strides[:-2] for i in dot.inputs], strict=True):
        if one or other:
            break
        count += 1
    return count


def _repeating(dot: Instruction) -> bool:
    return all(map(is_broadcast, dot.inputs)) and _leading_repeats(dot) > 0


@rule(op("dot", var("x"), var("y")).reading(BROADCASTS).when(_repeating))
def find_dot_broadcast(b: Rewriter, x: Instruction, y: Instruction) -> Instruction | Decline:
    """dot(broadcast(x), broadcast(y)) → broadcast(dot(x, y)), over leading axes"""
    n = _leading_repeats(b.root)
    for side in (x, y):
        if not _drops(side, n):
            inside = side.inputs[0]
            return Decline(f"{inside.name} #{inside.id}, an operand's input, is itself repeated")
    value = b("dot", _without(b, x, n), _without(b, y, n))
    return b(Multibroadcast(out_lens=b.root.shape.lens), value)


def _drops(broadcast: Instruction, n: int) -> bool:
    """Whether a broadcast can be made without its first ``n`` axes."""
    op, shape = broadcast.op, broadcast.inputs[0].shape
    if isinstance(op, Broadcast):
        return op.axis >= n or shape.elements == 1
    return set(shape.lens[: max(0, shape.ndim - broadcast.shape.ndim + n)]) <= {1}


def _without(b: Rewriter, broadcast: Instruction, n: int) -> Instruction:
    """A broadcast without its first ``n`` axes, along which it does not vary."""
    lens, value = broadcast.shape.lens[n:], broadcast.inputs[0]
    if value.shape.lens == lens:
        return value
    if isinstance(broadcast.op, Broadcast):
        return laid(b, broadcast, lens)
    if (extra := value.shape.ndim - len(lens)) > 0:
        value = b("squeeze", value, axes=tuple(range(extra)))
    return spread(b, value, lens)
