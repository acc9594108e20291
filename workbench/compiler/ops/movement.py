"""Operations that copy elements and compute nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    distinct_axes,
    expect_count,
    expect_same_type,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    ANY,
    any_dynamic,
    dims_of,
    expect,
    expect_integers,
    expect_rank,
    expect_same_rank,
    expect_tensors,
    intersection,
    plus,
    ranged,
    total,
)
from workbench.compiler.ir.sampling import digits, grid
from workbench.compiler.ir.shape import Shape, common_permutation
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.elementwise import cast, finfo, repacked

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


@operation
class Contiguous(Operation):
    """The elements, row-major in memory."""

    name = "contiguous"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.RELAID

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The same lens, standard."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        return inputs[0].as_standard()

    def compute(self, *inputs: Any) -> Any:
        """``numpy.asarray`` in C's order."""
        return np.asarray(inputs[0], order="C")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Transposed, sliced, broadcast."""
        yield cls(), [grid(2, 3).T]
        yield cls(), [grid(4, 6, type=np.float16)[::2, 1:3]]
        yield cls(), [np.broadcast_to(grid(3, type=np.int32), (2, 3))]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g."""
        return [given]


@operation
class Layout(Operation):
    """The elements with their axes in memory in the order ``permutation``, slowest first."""

    name = "layout"
    family = Family.MOVEMENT
    rearranges = Rearrangement.RELAID
    permutation: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The same lens, packed in that order."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        x = inputs[0]
        fits = sorted(self.permutation) == list(range(x.ndim))
        expect(
            self, fits, f"permutation {self.permutation}; expected a permutation of the axes of {x}"
        )
        return Shape.permuted(x.type, x.lens, self.permutation)

    def compute(self, *inputs: Any) -> Any:
        """A copy in that order, viewed with the same lens."""
        inner = np.ascontiguousarray(np.transpose(inputs[0], self.permutation))
        return np.transpose(inner, np.argsort(self.permutation))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Channels last, and back."""
        yield cls(permutation=(0, 2, 3, 1)), [grid(2, 3, 4, 5)]
        yield cls(permutation=(0, 1)), [grid(2, 3, type=np.float16).T]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g."""
        return [given]


class PadMode(IntEnum):
    """The values beyond the edge: a constant, the mirrored tensor, its edge elements, or a periodic copy."""

    CONSTANT = 0
    REFLECT = 1
    EDGE = 2
    WRAP = 3


@operation
class Pad(Operation):
    """The input with elements added around it; ``pads`` is all begins, then all ends.

    Negative pads crop.
    """

    name = "pad"
    family = Family.MOVEMENT
    dynamic = True
    mode: PadMode = PadMode.CONSTANT
    pads: Ints = ()
    value: float = 0.0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Lens plus both pads; the order of axes in memory is kept."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        expect(
            self,
            len(self.pads) == 2 * x.ndim,
            f"{len(self.pads)} pads for {x}; expected two per axis",
        )
        added = [b + e for b, e in self._sides()]
        if x.dims is not None:
            dims = [plus(d, n) for d, n in zip(x.dims, added, strict=True)]
            return x.with_dims(dims) if x.is_symbolic else ranged(x.type, dims)
        lens = [n + more for n, more in zip(x.lens, added, strict=True)]
        expect(self, min(lens, default=0) >= 0, f"pads {self.pads} crop more than the lens of {x}")
        copies = self.mode == PadMode.CONSTANT or 0 not in x.lens or 0 in lens
        expect(self, copies, f"{x} has no elements to pad with")
        return x.with_lens(lens)

    def _sides(self) -> list[tuple[int, int]]:
        rank = len(self.pads) // 2
        return list(zip(self.pads[:rank], self.pads[rank:], strict=True))

    def compute(self, *inputs: Any) -> Any:
        """Fill and copy for a constant, else one index array per axis."""
        x: Array = inputs[0]
        lens = [n + b + e for n, (b, e) in zip(x.shape, self._sides(), strict=True)]
        if min(lens, default=0) < 0:
            raise EvaluationError(f"pad: pads {self.pads} crop more than the lens {list(x.shape)}")
        if self.mode == PadMode.CONSTANT or 0 in lens:
            return self._constant(x)
        if 0 in x.shape:
            raise EvaluationError(f"pad: {list(x.shape)} has no elements to pad with")
        for axis, (begin, end) in enumerate(self._sides()):
            if begin or end:
                x = np.take(x, self._sources(begin, end, x.shape[axis]), axis)
        return x

    def _constant(self, x: Array) -> Array:
        sides = self._sides()
        lens = [n + b + e for n, (b, e) in zip(x.shape, sides, strict=True)]
        out = np.full(lens, self._fill(x.dtype), x.dtype)
        into = tuple(slice(max(b, 0), n - max(e, 0)) for n, (b, e) in zip(lens, sides, strict=True))
        kept = tuple(
            slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, sides, strict=True)
        )
        out[into] = x[kept]
        return out

    def _fill(self, dtype: np.dtype[Any]) -> Any:
        """The fill value, clamped to the range of the type."""
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return int(min(max(self.value, info.min), info.max))
        if dtype.kind == "b":
            return self.value
        largest = float(finfo(dtype).max)
        kept = min(max(self.value, -largest), largest) if np.isfinite(self.value) else self.value
        return cast(np.array([kept]), dtype)[0]

    def _sources(self, begin: int, end: int, n: int) -> Array:
        at = np.arange(-begin, n + end)
        if self.mode == PadMode.EDGE:
            return np.clip(at, 0, n - 1)
        if self.mode == PadMode.WRAP:
            return at % max(n, 1)
        period = max(2 * (n - 1), 1)
        at %= period
        return np.where(at >= n, period - at, at)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Constants, crops, mirrored and repeated edges, copies."""
        yield cls(pads=(0, 1, 0, 2)), [grid(2, 3)]
        yield cls(pads=(1, -1, 0, 2), value=-3.5), [grid(3, 4, type=np.float16).T]
        yield cls(pads=(0, 2), value=-3.4028235e38), [digits(3, type=np.int8)]
        yield cls(pads=(2, 1), mode=PadMode.REFLECT), [grid(4)]
        yield cls(pads=(0, 2, 3, 0), mode=PadMode.EDGE), [grid(2, 3, type=np.int32)]
        yield cls(pads=(5, 7), mode=PadMode.REFLECT), [grid(3)]
        yield cls(pads=(4, -1, 3, 2), mode=PadMode.WRAP), [grid(3, 4)]
        yield cls(pads=(0, 1), value=1e40), [grid(3)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The part of g that is not padding; copies are added up at the elements that they repeat."""
        if self.mode == PadMode.CONSTANT:
            return [given.pad(pads=tuple(-n for n in self.pads))]
        lens = operands[0].shape
        for axis, (begin, end) in enumerate(self._sides()):
            if begin or end:
                copies = np.eye(lens[axis])[:, self._sources(begin, end, lens[axis])]
                given = given.along(axis, copies)
        return [given]


@operation
class FixedPad(Operation):
    """The input in the low corner of the largest lens that its dynamic dimensions allow, zeros elsewhere."""

    name = "fixed_pad"
    family = Family.MOVEMENT
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The largest lens, standard; a static input keeps its shape."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        return x if x.dims is None else Shape(x.type, [d.max for d in x.dims])

    def compute(self, *inputs: Any) -> Any:
        """A static input, unchanged."""
        return inputs[0]

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """A copy in the low corner."""
        x: Array = inputs[0]
        if x.shape == shape.lens:
            return x
        out = np.zeros(shape.lens, x.dtype)
        out[tuple(slice(n) for n in x.shape)] = x
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Static inputs."""
        yield cls(), [grid(2, 3)]
        yield cls(), [grid(4, 3, type=np.float16).T]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The part of g that is not padding."""
        x = operands[0]
        return [
            given.pad(
                pads=(*[0] * x.ndim, *(m - n for m, n in zip(x.shape, given.shape, strict=True)))
            )
        ]


@operation
class Concat(Operation):
    """The inputs, concatenated along ``axis``."""

    name = "concat"
    family = Family.MOVEMENT
    dynamic = True
    axes_of_input = ("axis",)
    axis: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Lens summed along the axis, packed in the order of axes that most inputs have."""
        expect(self, len(inputs) > 0, "expected 1 input or more, found 0")
        expect_tensors(self, inputs)
        expect_same_rank(self, inputs)
        expect_same_type(self, inputs)
        axis = normalize_axis(self, self.axis, inputs[0].ndim)
        if any_dynamic(inputs):
            return self._dynamic_shape(inputs, axis)
        first = inputs[0]
        for i, other in enumerate(inputs):
            if _without(other.lens, axis) != _without(first.lens, axis):
                raise ShapeError(
                    f"concat: input {i} is {other}; expected the lens of input 0, {first}, "
                    f"on all axes except {axis}"
                )
        lens = list(first.lens)
        lens[axis] = sum(s.lens[axis] for s in inputs)
        return Shape.permuted(first.type, lens, common_permutation(inputs))

    def _dynamic_shape(self, inputs: Sequence[Shape], axis: int) -> Shape:
        dims = [dims_of(s) for s in inputs]
        found = list(dims[0])
        for i, other in enumerate(dims[1:], 1):
            both = [intersection(a, b) for a, b in zip(found, other, strict=True)]
            wrong = [at for at, d in enumerate(both) if d is None and at != axis]
            expect(
                self,
                not wrong,
                f"input {i} is {inputs[i]}; expected {inputs[0]} except on axis {axis}",
            )
            found = [d or found[at] for at, d in enumerate(both)]
        found[axis] = total([d[axis] for d in dims])
        return ranged(inputs[0].type, found)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules require equal ranges on other axes, and no static input among them."""
        made = super().shape_by(rules, inputs, modules)
        if rules.strict and any_dynamic(inputs):
            self._expect_equal_ranges(inputs, normalize_axis(self, self.axis, inputs[0].ndim))
        return made

    def _expect_equal_ranges(self, inputs: Sequence[Shape], axis: int) -> None:
        mixed = any(s.dims is None for s in inputs)
        expect(self, not mixed, "static and dynamic inputs; expected all of one kind")
        first, *others = [_without(dims_of(s), axis) for s in inputs]
        pairs = [p for d in others for p in zip(d, first, strict=True)]
        equal = all(a == b or ANY in (a, b) for a, b in pairs)
        expect(self, equal, f"{inputs[0]} and others; expected equal ranges except on axis {axis}")

    def compute(self, *inputs: Any) -> Any:
        """``numpy.concatenate``."""
        return np.concatenate(inputs, self.axis)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One input, several, a negative axis, a transposed operand."""
        yield cls(axis=1), [grid(2, 3), grid(2, 1), grid(2, 2)]
        yield cls(axis=-1), [grid(2, 3, 4, type=np.float16), grid(2, 3, 1, type=np.float16)]
        yield cls(axis=0), [grid(3, 2).T, grid(3, 4).T]
        yield cls(axis=0), [grid(4, type=np.int64)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The part of g for each input."""
        parts: list[Any] = []
        start = 0
        for x in operands:
            end = start + x.shape[self.axis]
            parts.append(given.slice(axes=(self.axis,), starts=(start,), ends=(end,)))
            start = end
        return parts


def _without(values: Sequence[Any], axis: int) -> tuple[Any, ...]:
    return (*values[:axis], *values[axis + 1 :])


@operation
class Reverse(Operation):
    """The elements in reverse order along ``axes``."""

    name = "reverse"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.SELECTED
    axes_of_input = ("axes",)
    axes: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The same lens, packed; the order of axes in memory is kept."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        distinct_axes(self, self.axes, x.ndim)
        return repacked(x)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.flip``."""
        return np.flip(inputs[0], self.axes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One axis, two, none."""
        yield cls(axes=(1,)), [grid(2, 3)]
        yield cls(axes=(0, -1)), [grid(2, 3, 4, type=np.float16).T]
        yield cls(), [grid(3, type=np.int8)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g reversed along the same axes."""
        return [given.reverse(axes=self.axes)]


@operation
class Fill(Operation):
    """The second input's buffer with every element set to the single value of the first."""

    name = "fill"
    family = Family.MOVEMENT
    alias = 1
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the buffer."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs)
        expect_static(self, inputs[:1])
        expect(self, inputs[0].elements == 1, f"input 0 is {inputs[0]}; expected one element")
        return inputs[1]

    def compute(self, *inputs: Any) -> Any:
        """``numpy.full``."""
        value, buffer = inputs
        return np.full(buffer.shape, value.reshape(()), value.dtype)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A matrix of floats."""
        yield cls(), [np.array([2.5], np.float32), grid(2, 3)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The sum of g; the buffer is overwritten."""
        return [given.sum().reshape(operands[0].shape), None]


@operation
class Allocate(Operation):
    """A new buffer of zeros: of ``shape``, or of type ``buf_type`` with the lens given by an input."""

    name = "allocate"
    flat = True
    on_host = "lengths that an input holds"
    family = Family.MOVEMENT
    dynamic = True
    shape: Shape | None = None
    buf_type: DType | None = None

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The given shape, or unknown lengths."""
        both = (self.shape is None) == (self.buf_type is None)
        expect(self, not both, "expected one of shape and buf_type")
        expect_static(self, inputs)
        expect_rank(self, inputs, 1, 1)
        expect_integers(self, inputs, *range(len(inputs)))
        if self.buf_type is not None:
            expect_count(self, inputs, 1)
            return ranged(self.buf_type, [ANY] * inputs[0].lens[0])
        expect_count(self, inputs, 0, 1)
        return self.shape or Shape()

    def compute(self, *inputs: Any) -> Any:
        """``numpy.zeros``."""
        kind = self.buf_type if self.shape is None else self.shape.type
        if inputs:
            lens = tuple(int(n) for n in inputs[0])
            if min(lens, default=0) < 0:
                raise EvaluationError(f"allocate: lens {list(lens)}; expected no negative length")
            return np.zeros(lens, (kind or DType.FLOAT).numpy)
        if self.shape is None or self.shape.dims is not None:
            raise EvaluationError(f"{self}: the lens are unknown; expected an input with them")
        return _zeros(self.shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A known shape, and lens from an input."""
        yield cls(shape=Shape(DType.HALF, (2, 3))), []
        yield cls(buf_type=DType.INT32), [np.array([2, 0, 3])]


def _zeros(shape: Shape) -> Any:
    if shape.subs is not None:
        return tuple(map(_zeros, shape.subs))
    return np.zeros(shape.array_lens, shape.type.numpy)
