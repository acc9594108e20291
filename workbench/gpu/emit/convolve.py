"""Values of convolutions, one element at a time: any rank, groups, strides, dilation, data types."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product as combinations

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.convolve import Convolution, ConvolutionBackwards, QuantConvolution
from workbench.compiler.ops.deform import DeformConvolution
from workbench.compiler.ops.windows import Window, both_sides, window_of
from workbench.gpu.emit.index import Index, Variable, joined
from workbench.gpu.emit.products import operand_product, product_type
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number
from workbench.gpu.emit.sums import bounded, finished, over, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes
from workbench.gpu.emit.windows import guarded_taps, start_of


@value_of(Convolution, QuantConvolution)
def convolved(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The sum over the channels of a group and the taps inside the input."""
    op, (x, w) = attributes(t, i), i.inputs[:2]
    image, filter_, *outputs = index
    group, _ = filter_.divmod(max(w.shape.lens[0] // op.group, 1), t.w)
    window = window_of(op, x.shape.lens[2:], w.shape.lens[2:])
    channels = w.shape.lens[1]
    work = product_type(i)
    total = t.w.variable(c_type(work), number(0, work).text)
    with over(t.w, [channels]) as (c,), guarded_taps(t, window, outputs) as (tap, place, counts):
        term = operand_product(t, i, (image, group * channels + c, *place), (filter_, c, *tap))
        t.w.line(f"{total} += {term if counts == '1' else f'{counts} ? {term} : 0'};")
    return finished(t.w, Scalar(total, work), i.shape.type)


@value_of(ConvolutionBackwards)
def convolved_backwards(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The sum over the channels of a group and the inputs that have a tap on this output."""
    op, (x, w) = attributes(t, i), i.inputs
    image, filter_, *outputs = index
    group, own = filter_.divmod(w.shape.lens[1], t.w)
    channels = x.shape.lens[1] // op.group
    work = product_type(i)
    total = t.w.variable(c_type(work), number(0, work).text)
    with over(t.w, [channels]) as (c,):
        channel = group * channels + c
        with _sources(t, i, outputs) as (tap, place):
            term = operand_product(t, i, (image, channel, *place), (channel, own, *tap))
            t.w.line(f"{total} += {term};")
    return finished(t.w, Scalar(total, work), i.shape.type)


@contextmanager
def _sources(
    t: Tensors, i: Instruction, outputs: Sequence[Index]
) -> Generator[tuple[Indices, Indices]]:
    """Loops over the taps of a transposed convolution, with the input that each tap adds to an output."""
    op, (x, w) = attributes(t, i), i.inputs
    tap: list[Index] = []
    place: list[Index] = []
    with ExitStack() as blocks:
        for axis, (n, size) in enumerate(zip(x.shape.lens[2:], w.shape.lens[2:], strict=True)):
            tap.append(blocks.enter_context(t.w.loop(size)) if size != 1 else Index())
            at = outputs[axis] + op.padding[axis] - tap[-1] * op.dilation[axis]
            source, rest = at.divmod(op.stride[axis], t.w)
            conditions = [t.inside([source], [n]), *_zero(rest)]
            blocks.enter_context(t.w.block(f"if ({' && '.join(conditions)})"))
            place.append(bounded(t.w, source, n))
        yield tuple(tap), tuple(place)


def _zero(rest: Index) -> list[str]:
    return [f"{rest.text()} == 0"] if rest.range != (0, 0) else []


# Taps displaced by data


@value_of(DeformConvolution)
def deformed(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The sum over the taps and the channels of a group; each tap is interpolated at its offset."""
    op, (x, w) = attributes(t, i), i.inputs[:2]
    image, filter_, *outputs = index
    channels = w.shape.lens[1]
    group, _ = filter_.divmod(w.shape.lens[0] // op.group, t.w)
    begin, end = both_sides(op, op.padding, len(outputs))
    window = Window(x.shape.lens[2:], w.shape.lens[2:], op.stride, op.dilation, begin, end)
    work = real_type(i.shape.type)
    total = t.w.variable(c_type(work), number(0, work).text)
    with over(t.w, window.size) as tap:
        whole = _Moved(t, i, window, tap, index) if op.offset_group == 1 else None
        with over(t.w, [channels]) as (c,):
            channel = group * channels + c
            part_, _ = channel.divmod(x.shape.lens[1] // op.offset_group, t.w)
            moved = whole or _Moved(t, i, window, tap, index, part_)
            value = moved.interpolated((image, channel))
            weight = cast(t.w, t.at(w, (filter_, c, *tap)), work)
            t.w.line(f"{total} += {value} * {weight.text};")
    return finished(t.w, Scalar(total, work), i.shape.type)


class _Moved:
    """A tap displaced by its offset, with its mask factor.

    Args:
        t: The kernel's values.
        i: The convolution.
        window: Its window.
        tap: The tap's index in the window.
        index: The index of the output.
        group: The group of offsets.
    """

    def __init__(
        self,
        t: Tensors,
        i: Instruction,
        window: Window,
        tap: Indices,
        index: Indices,
        group: Index | None = None,
    ) -> None:
        self._t, self._x, self._lens = t, i.inputs[0], window.input
        self._work = real_type(i.shape.type)
        image, _, *outputs = index
        rank = len(tap)
        number_ = joined((group or Index(), *tap), (1, *window.size))
        self._places: list[str] = []
        for axis in range(rank):
            offset = t.at(i.inputs[2], (image, number_ * rank + axis, *outputs))
            start = start_of(window, axis, outputs[axis]) + tap[axis] * window.dilation[axis]
            text = f"{cast(t.w, offset, self._work).text} + ({self._kind})({start.text()})"
            self._places.append(t.w.let(self._kind, text))
        factor = t.at(i.inputs[3], (image, number_, *outputs)) if len(i.inputs) == 4 else None
        self._factor = cast(t.w, factor, self._work).text if factor is not None else ""

    @property
    def _kind(self) -> str:
        return c_type(self._work)

    def interpolated(self, lead: Indices) -> str:
        """The value at the tap's position, interpolated; elements beyond the edge are zero."""
        w = self._t.w
        value = w.variable(self._kind, number(0, self._work).text)
        for corner in combinations((0, 1), repeat=len(self._places)):
            at = [self._corner(p, step) for p, step in zip(self._places, corner, strict=True)]
            ranges = zip(at, self._lens, strict=True)
            with w.block(f"if ({' && '.join(f'{a} >= 0 && {a} < {n}' for a, n in ranges)})"):
                place = [self._whole(a, n) for a, n in zip(at, self._lens, strict=True)]
                element = cast(w, self._t.at(self._x, (*lead, *place)), self._work).text
                near = zip(self._places, at, strict=True)
                weights = " * ".join(f"(1 - fabs({p} - {a}))" for p, a in near)
                w.line(f"{value} += {element} * ({weights});")
        return f"({value} * {self._factor})" if self._factor else value

    def _corner(self, place: str, step: int) -> str:
        return self._t.w.let(self._kind, f"floor({place})" + (" + 1" if step else ""))

    def _whole(self, place: str, n: int) -> Index:
        return Index.of(Variable(self._t.w.integer(f"({self._t.w.integer_type}){place}"), 0, n - 1))
