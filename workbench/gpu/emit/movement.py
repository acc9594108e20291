"""Values of operations that copy elements: padding, concatenation, filling, im2col."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ops.buffers import Preallocate
from workbench.compiler.ops.convolve import Im2col
from workbench.compiler.ops.fused import FusedConcat
from workbench.compiler.ops.movement import Allocate, Concat, Fill, FixedPad, Pad, PadMode
from workbench.compiler.ops.view import AsShape, Load
from workbench.compiler.ops.windows import window_of
from workbench.gpu.emit.choices import Arm, Arms, axis_of, below, chosen
from workbench.gpu.emit.index import Index, Variable, linear, split
from workbench.gpu.emit.scalar import Scalar, loaded, memory_type, number
from workbench.gpu.emit.tensors import At, Indices, Tensors, is_scalar_work, value_of
from workbench.gpu.emit.views import attributes

# Padding


@value_of(Pad)
def padded(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element inside; in the padding a constant, or the element that the mode says."""
    op, lens = attributes(t, i), i.inputs[0].shape.lens
    begins = op.pads[: len(lens)]
    if op.mode != PadMode.CONSTANT:
        moved = zip(index, begins, lens, strict=True)
        return t.at(i.inputs[0], [_source(t, op.mode, at - b, n) for at, b, n in moved])
    type = i.shape.type
    fill = number(_item(type.numpy.type(op._fill(type.numpy))), type)
    bounds = {a: (b, b + n) for a, (b, n) in enumerate(zip(begins, lens, strict=True))}

    def source(index: Indices) -> Indices:
        return tuple(at - b for at, b in zip(index, begins, strict=True))

    inner = Arm(lambda at: t.inside(source(at), lens), lambda at: t.at(i.inputs[0], source(at)))
    return chosen(t, i, index, Arms(type, [inner, _constant(fill)], bounds))


def _item(value: Any) -> float:
    return value.item() if hasattr(value, "item") else value


def _constant(value: Scalar) -> Arm:
    return Arm(lambda _: "1", lambda _: value)


def _source(t: Tensors, mode: PadMode, at: Index, n: int) -> Index:
    """The source position, along an axis of length ``n``, of an element in the padding."""
    low, high = at.range
    if low >= 0 and high < n:
        return at
    if mode == PadMode.EDGE:
        text = at.text()
        clipped = t.w.integer(f"{text} < 0 ? 0 : {text} < {n} ? {text} : {n - 1}")
        return Index.of(Variable(clipped, 0, n - 1))
    period = n if mode == PadMode.WRAP else max(2 * (n - 1), 1)
    _, rest = at.divmod(period, t.w)
    if rest.range[1] < n:
        return rest
    text = rest.text()
    folded = t.w.integer(f"{text} < {n} ? {text} : {period} - ({text})")
    return Index.of(Variable(folded, 0, n - 1))


@value_of(FixedPad, when=lambda i: i.shape.lens == i.inputs[0].shape.lens)
def as_it_is(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The input's element: a static input already has its largest lens."""
    return t.at(i.inputs[0], index)


# Concatenation


@value_of(Concat)
def concatenated(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element of the input in whose part of the axis the index lies."""
    axis = axis_of(i)
    pieces = [(x.shape.lens[axis], _element(t, x)) for x in i.inputs]
    return chosen(t, i, index, _joined(i.shape.type, index, axis, pieces))


def _element(t: Tensors, x: Instruction) -> At:
    return lambda index: t.at(x, index)


def _joined(type: DType, index: Indices, axis: int, pieces: Sequence[tuple[int, At]]) -> Arms:
    """Pieces of given lengths, one after the other along an axis."""
    starts = list(accumulate((n for n, _ in pieces), initial=0))
    low, high = index[axis].range
    ends = zip(pairwise(starts), pieces, strict=True)
    arms = [
        _piece(at, axis, start, end)
        for (start, end), (_, at) in ends
        if start < end and start <= high and end > low
    ]
    return Arms(type, arms, {axis: [s for s in starts if low < s <= high]})


def _piece(at: At, axis: int, start: int, end: int) -> Arm:
    def value(index: Indices) -> Scalar:
        return at((*index[:axis], index[axis] - start, *index[axis + 1 :]))

    return Arm(lambda index: below(index[axis], end), value)


def _is_scalar_work(i: Instruction) -> bool:
    return all(is_scalar_work(x) for m in i.modules for x in m)


@value_of(FusedConcat, when=_is_scalar_work)
def fused_concatenated(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The last module's result for the element of the piece in which the index lies."""
    axis, first = axis_of(i), 0
    pieces: list[tuple[int, At]] = []
    for module in i.modules[:-1]:
        inputs = i.inputs[first : first + len(module.parameters)]
        first += len(inputs)
        pieces.append((inputs[0].shape.lens[axis], _made(t, module, inputs)))
    rest = i.inputs[first:]

    def whole(at: Indices, value: Scalar) -> Scalar:
        return t.body(i.modules[-1], [value, *(t.at(x, at) for x in rest)])[0]

    type = i.modules[0].outputs[0].shape.type
    return chosen(t, i, index, _joined(type, index, axis, pieces), whole)


def _made(t: Tensors, module: Module, inputs: Sequence[Instruction]) -> At:
    return lambda index: t.body(module, [t.at(x, index) for x in inputs])[0]


# Filling


@value_of(Fill)
def filled(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The value that fills the result."""
    return t.at(i.inputs[0], ())


@value_of(Allocate, Preallocate, when=lambda i: i.shape.subs is None)
def zeros(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """Zero, the contents of a new buffer."""
    return number(0, i.shape.type)


# Memory read with another shape


def _is_within(i: Instruction) -> bool:
    """Whether the input holds the result's bytes, as elements of the result's type or as single bytes."""
    x, op = i.inputs[0].shape, cast("Any", i.op)
    if i.shape.subs is not None or not 0 <= op.offset <= x.bytes - i.shape.bytes:
        return False
    in_elements = i.shape.type is x.type and op.offset % x.type.size == 0
    return in_elements or x.type in (DType.INT8, DType.UINT8)


@value_of(Load, when=_is_within)
def loaded_part(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element at the index's position in memory, counted from the offset."""
    offset, type, w = attributes(t, i).offset, i.shape.type, t.w
    if type is i.inputs[0].shape.type:
        return _flat(t, i, index, offset // type.size)
    first = linear(index, i.shape.strides) * type.size + offset
    lens = i.inputs[0].shape.lens
    bytes = [t.at(i.inputs[0], split(first + k, lens, w)).text for k in range(type.size)]
    whole = " | ".join(f"(u64)(u8){b} << {8 * k}" for k, b in enumerate(bytes))
    kind = memory_type(type)
    back = {"f32": "BITS_F32((u32){})", "f64": "BITS_F64({})"}.get(kind, f"({kind}){{}}")
    return loaded(w, back.format(w.let("u64", whole)), type)


@value_of(AsShape)
def reshaped_memory(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element at the index's position in memory."""
    return _flat(t, i, index, 0)


def _flat(t: Tensors, i: Instruction, index: Indices, offset: int) -> Scalar:
    x = i.inputs[0]
    return t.at(x, split(linear(index, i.shape.strides, offset), x.shape.lens, t.w))


# Windows


@value_of(Im2col)
def columns(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The element under one tap of one window; 0 in the padding."""
    x, w = (s.shape.lens for s in i.inputs)
    window = window_of(t.op(i), x[2:], w[2:])

    output = split(index[0], window.output, t.w)
    channel, *tap = split(index[1], w[1:], t.w)
    steps = zip(output, tap, window.stride, window.dilation, window.begin, strict=True)
    at = (channel, *(o * s + k * d - b for o, k, s, d, b in steps))
    inside = t.inside(at, x[1:])
    if inside == "0":
        return number(0, i.shape.type)
    if inside == "1":
        return t.at(i.inputs[0], (Index(), *at))
    zero = number(0, i.shape.type)
    return t.choose(inside, i.shape.type, lambda: t.at(i.inputs[0], (Index(), *at)), lambda: zero)
