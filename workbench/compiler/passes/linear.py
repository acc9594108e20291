"""Rules about dots and convolutions: factors go into weights, terms come out, equal inputs share."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir import Instruction
from workbench.compiler.passes.broadcasting import (
    is_broadcast,
    is_factor,
    laid,
    moving,
    spread,
    varying_axes,
)
from workbench.compiler.rewrite import Decline, Rewriter, Rule, constant, op, rule, var

_FACTOR = var("a").when(is_factor)
_LARGE = 1 << 20


def _too_large(weights: Instruction) -> str:
    """Why a dot's weights are left as they are: to compute others costs more than it saves in a run."""
    count = weights.shape.elements
    return (
        "" if count <= _LARGE else f"input #{weights.id} has {count} elements, more than {_LARGE}"
    )


def _per_channel(factor: Instruction) -> bool:
    return set(varying_axes(factor)) <= {1}


@rule(
    op(
        "mul",
        op("convolution", moving("x"), constant("w"), name="conv").once,
        _FACTOR.where(_per_channel, "it varies along another axis than the channels"),
    )
)
def find_mul_conv(
    b: Rewriter, x: Instruction, w: Instruction, conv: Instruction, a: Instruction
) -> Instruction:
    """mul(convolution(x, w), a) → convolution(x, mul(w, a)), for a factor a per channel"""
    flat, channels = a.inputs[0], w.shape.lens[0]
    if flat.shape.elements == 1:
        return b(conv.op, x, b("mul", laid(b, a, w.shape.lens), w))
    if flat.shape.lens != (channels,):
        flat = b("reshape", flat, dims=(channels,))
    return b(conv.op, x, b("mul", b("broadcast", flat, axis=0, out_lens=w.shape.lens), w))


@rule(op("mul", op("dot", var("x"), var("y"), name="dot").once, _FACTOR))
def find_mul_dot(
    b: Rewriter, x: Instruction, y: Instruction, a: Instruction
) -> Instruction | Decline:
    """mul(dot(x, y), a) → dot(mul(x, a), y) or dot(x, mul(y, a)), on the constant side"""
    rank, axes = b.root.shape.ndim, varying_axes(a)
    if axes not in ([], [rank - 1], [rank - 2]):
        return Decline("the factor varies along other axes than the rows or the columns")
    left = axes == [rank - 2] or (not axes and x.constant)
    side = x if left else y
    if not side.constant:
        return Decline(
            f"input {0 if left else 1} of the dot, which would take the factor, is not constant"
        )
    if reason := _too_large(side):
        return Decline(reason)
    scaled = b("mul", side, laid(b, a, side.shape.lens))
    return b("dot", scaled, y) if left else b("dot", x, scaled)


def _sides(dot: Instruction, name: str) -> tuple[Instruction, Instruction] | None:
    """An input of a dot that is a ``name``, and the other one, if that is constant."""
    x, y = dot.inputs
    if x.name == name and y.constant and not x.constant:
        return x, y
    return (y, x) if y.name == name and x.constant and not y.constant else None


def _in_order(b: Rewriter, part: Instruction, side: Instruction, other: Instruction) -> Instruction:
    """A dot like the root, with ``part`` in place of ``side``."""
    return b("dot", part, other) if b.root.inputs[0] is side else b("dot", other, part)


@rule(op("dot", var("x"), var("y")).when(lambda i: _sides(i, "mul") is not None))
def find_dot_mul(b: Rewriter) -> Instruction | Decline:
    """dot(mul(x, a), c) → dot(x, mul(c, a)), for a constant c and a factor a along the summed axis"""
    side, c = _sides(b.root, "mul") or b.root.inputs
    x, a = side.inputs if side.inputs[1].constant else side.inputs[::-1]
    rank, left = c.shape.ndim, side is b.root.inputs[0]
    if reason := _not_a_factor(side, x, a, rank - 1 if left else rank - 2) or _too_large(c):
        return Decline(reason)
    turned = (*range(rank - 2), rank - 1, rank - 2)
    lens = tuple(c.shape.lens[i] for i in turned)
    factor = (
        b("transpose", laid(b, a, lens), permutation=turned)
        if varying_axes(a)
        else laid(b, a, c.shape.lens)
    )
    return _in_order(b, x, side, b("mul", c, factor))


def _not_a_factor(mul: Instruction, x: Instruction, a: Instruction, summed: int) -> str:
    """Why ``a`` in ``mul(x, a)`` cannot go to the other side of a dot that sums over axis ``summed``."""
    if x.constant or not a.constant or not is_factor(a):
        return f"mul #{mul.id}: neither operand is a constant repeated along some axis"
    if mul.only_user is None:
        return f"mul #{mul.id}: its value has other users"
    if set(varying_axes(a)) - {summed}:
        return f"the factor varies along another axis than {summed}, the one summed over"
    return ""


@rule(op("dot", var("x"), var("y")).when(lambda i: _sides(i, "add") is not None))
def find_dot_add(b: Rewriter) -> Instruction | Decline:
    """dot(add(x, a), c) → add(dot(x, c), dot(a, c)), for constants a and c"""
    side, c = _sides(b.root, "add") or b.root.inputs
    x, a = side.inputs if side.inputs[1].constant else side.inputs[::-1]
    if x.constant or not a.constant:
        return Decline(f"add #{side.id}: neither operand is constant")
    if side.only_user is None:
        return Decline(f"add #{side.id}: its value has other users")
    if reason := _too_large(c):
        return Decline(reason)
    free = c.shape.ndim - (2 if side is b.root.inputs[0] else 1)
    batch = [i for i in range(c.shape.ndim - 2) if not {i} & {*varying_axes(a), *varying_axes(c)}]
    rows = [] if free in varying_axes(a) else [free]
    part = _in_order(b, _first(b, a, [*batch, *rows]), side, _first(b, c, batch))
    return b("add", _in_order(b, x, side, c), spread(b, part, b.root.shape.lens))


def _first(b: Rewriter, value: Instruction, axes: Sequence[int]) -> Instruction:
    """A value that does not vary along ``axes``, with length 1 there: one row says it all."""
    axes = tuple(a for a in axes if value.shape.lens[a] > 1)
    if not axes:
        return value
    return b("slice", value, axes=axes, starts=(0,) * len(axes), ends=(1,) * len(axes))


@rule(
    op(
        "convolution",
        op("add", moving("x"), constant("a")).once,
        constant("w"),
    )
)
def find_conv_add(b: Rewriter, x: Instruction, a: Instruction, w: Instruction) -> Instruction:
    """convolution(add(x, a), w) → add(convolution(a, w), convolution(x, w)), for constants a and w"""
    return b("add", b(b.root.op, a, w), b(b.root.op, x, w))


def _leading_repeats(dot: Instruction) -> int:
    """How many leading axes both inputs of a dot only repeat along; 0 if that repeats nothing."""
    n = 0
    for axis in range(dot.shape.ndim - 2):
        if any(i.shape.strides[axis] and i.shape.lens[axis] > 1 for i in dot.inputs):
            break
        n += 1
    return n if any(k > 1 for k in dot.shape.lens[:n]) else 0


def _repeating(dot: Instruction) -> bool:
    return all(map(is_broadcast, dot.inputs)) and _leading_repeats(dot) > 0


@rule(op("dot", var("x"), var("y")).when(_repeating))
def find_dot_broadcast(b: Rewriter, x: Instruction, y: Instruction) -> Instruction:
    """dot(broadcast(x), broadcast(y)) → broadcast(dot(x, y)), over leading axes"""
    n = _leading_repeats(b.root)
    return spread(b, b("dot", _without(b, x, n), _without(b, y, n)), b.root.shape.lens)


def _without(b: Rewriter, broadcast: Instruction, n: int) -> Instruction:
    """A broadcast without its first ``n`` axes, along which it does not vary."""
    lens = broadcast.shape.lens[n:]
    value = broadcast.inputs[0]
    if broadcast.name == "broadcast":
        return laid(b, broadcast, lens)
    if (extra := value.shape.ndim - len(lens)) > 0:
        value = b("squeeze", value, axes=tuple(range(extra)))
    return spread(b, value, lens)


@rule(
    op(
        "add",
        op("convolution", moving("x"), constant("w"), name="one").once,
        op("convolution", moving("y"), constant("v"), name="two").once,
    )
)
def find_add_convs(
    b: Rewriter,
    x: Instruction,
    w: Instruction,
    one: Instruction,
    y: Instruction,
    v: Instruction,
    two: Instruction,
) -> Instruction | Decline:
    """add(convolution(x, w), convolution(y, v)) → convolution(concat(x, y), concat(w, v))"""
    steps = _strides_apart(one, two)
    if isinstance(steps, str):
        return Decline(steps)
    first, second = steps
    op = two.op if first > 1 else one.op
    inputs = _stepped(b, x, first), _stepped(b, y, second)
    return b(op, b("concat", *inputs, axis=1), b("concat", w, v, axis=1))


def _strides_apart(one: Instruction, two: Instruction) -> tuple[int, int] | str:
    """How many elements to step over in the inputs of two convolutions to make them one; or why not."""
    a, c = one.op.attributes(), two.op.attributes()
    if a["group"] != 1 or c["group"] != 1:
        return "the convolutions are grouped"
    kernel = one.inputs[1].shape.lens[2:]
    if kernel != two.inputs[1].shape.lens[2:]:
        return "the kernels differ in size"
    if any(a[k] != c[k] for k in ("padding", "dilation", "padding_mode")):
        return "the convolutions differ in padding or dilation"
    if a["stride"] == c["stride"]:
        same = one.inputs[0].shape.lens[2:] == two.inputs[0].shape.lens[2:]
        return (1, 1) if same else "the inputs differ in size"
    return _steps(
        a["stride"], c["stride"], one.inputs[0].shape.lens[2:], two.inputs[0].shape.lens[2:], kernel
    )


def _steps(
    s: tuple[int, ...],
    t: tuple[int, ...],
    m: tuple[int, ...],
    n: tuple[int, ...],
    kernel: tuple[int, ...],
) -> tuple[int, int] | str:
    if (
        set(kernel) != {1}
        or len(set(s)) != 1
        or len(set(t)) != 1
        or max(s[0], t[0]) % min(s[0], t[0])
    ):
        return "the strides differ, and cannot be stepped over: kernels are not 1 × 1 or strides no multiples"
    first, second = max(1, s[0] // t[0]), max(1, t[0] // s[0])
    left, right = [-(-k // first) for k in m], [-(-k // second) for k in n]
    return (
        (first, second) if left == right else "the inputs differ in size once they are stepped over"
    )


def _stepped(b: Rewriter, value: Instruction, step: int) -> Instruction:
    axes = tuple(range(2, value.shape.ndim))
    return value if step == 1 else b("step", value, axes=axes, steps=(step,) * len(axes))


LINEAR_RULES: tuple[Rule, ...] = (
    find_dot_broadcast,
    find_add_convs,
    find_mul_conv,
    find_mul_dot,
    find_dot_mul,
    find_dot_add,
    find_conv_add,
)
