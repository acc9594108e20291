"""Views: operations that change how elements are indexed and copy none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    distinct_axes,
    expect_count,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    ONE,
    dims_of,
    expect,
    expect_tensors,
    intersection,
    over,
    plus,
    ranged,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ir.sym import Expr

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


@operation
class Transpose(Operation):
    """Axis ``i`` of the result is axis ``permutation[i]`` of the input."""

    name = "transpose"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.RELAID
    permutation: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Lens and strides permuted."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x, order = inputs[0], self.permutation
        if sorted(order) != list(range(x.ndim)):
            raise ShapeError(
                f"transpose: permutation {order}; expected a permutation of the axes of {x}"
            )
        if x.dims is not None:
            dims, strides = [x.dims[i] for i in order], x.dyn_strides
            if strides:
                return Shape.dynamic(x.type, dims, [strides[i] for i in order])
            return ranged(x.type, dims)
        return Shape(x.type, [x.lens[i] for i in order], [x.strides[i] for i in order])

    def compute(self, *inputs: Any) -> Any:
        """``numpy.transpose``."""
        return np.transpose(inputs[0], self.permutation)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Two and four axes, half types, an operand that is already a view."""
        yield cls(permutation=(1, 0)), [grid(2, 3)]
        yield cls(permutation=(0, 2, 3, 1)), [grid(2, 3, 1, 5, type=np.float16)]
        yield cls(permutation=(2, 0, 1)), [grid(4, 6, 3)[::2, 1:4]]
        yield cls(permutation=(0, 1)), [grid(2, 3, type=np.int8)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with its axes in the order before."""
        order = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return [given.transpose(*order)]


@operation
class Squeeze(Operation):
    """The input without some axes of length 1: the given ones, or all."""

    name = "squeeze"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.RELAID
    axes_of_input = ("axes",)
    axes: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The remaining lens and strides."""
        return self._shape(inputs)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; by strict rules a range that may be 1 is not an axis to remove unless it is given."""
        return rules.settle(inputs, self._shape(inputs, rules.strict))

    def _shape(self, inputs: Sequence[Shape], strict: bool = False) -> Shape:
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        dims = dims_of(x)
        gone = set(distinct_axes(self, self.axes, x.ndim))
        for axis in gone:
            if intersection(dims[axis], ONE) is None:
                raise ShapeError(f"squeeze: axis {axis} of {x} has length {dims[axis]}; expected 1")
        if not self.axes:
            gone = {i for i, d in enumerate(dims) if d.min == d.max == 1}
            unsure = not strict and any(d.min <= 1 <= d.max and not d.is_fixed for d in dims)
            expect(
                self,
                not unsure,
                f"{x} may have length 1 on other axes; give the axes as an attribute",
            )
        kept = [i for i in range(x.ndim) if i not in gone]
        if x.is_symbolic and kept:
            strides = [x.dyn_strides[i] for i in kept]
            return Shape.dynamic(x.type, [dims[i] for i in kept], strides)
        if x.dims is not None:
            return ranged(x.type, (dims[i] for i in kept))
        return Shape(x.type, [x.lens[i] for i in kept], [x.strides[i] for i in kept])

    def compute(self, *inputs: Any) -> Any:
        """``numpy.squeeze``."""
        return np.squeeze(inputs[0], self.axes or None)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Named axes, all axes, and nothing left."""
        yield cls(axes=(0, -1)), [grid(1, 3, 4, 1)]
        yield cls(), [grid(1, 3, 1, 4)]
        yield cls(axes=(1,)), [grid(4, 1, 6)[::2, :, ::3]]
        yield cls(axes=(0, 1)), [grid(1, 1, type=np.float16)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with the axes of length 1."""
        return [given.reshape(operands[0].shape)]


@operation
class Unsqueeze(Operation):
    """The input with axes of length 1 at the positions ``axes`` of the result.

    With ``steps``, a new axis takes that many elements from the axis after it.
    """

    name = "unsqueeze"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.RELAID
    axes: Ints = ()
    steps: Ints = ()

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """Axes counted from the front of the result."""
        rank = inputs[0].ndim + len(self.axes)
        axes = tuple(normalize_axis(self, a, rank, "axes") for a in self.axes)
        return self if axes == self.axes else Unsqueeze(axes=axes, steps=self.steps)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens with the new axes; a new axis has the stride of everything after it."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        if x.dims is not None:
            return self._dynamic_shape(x, x.dims)
        if len(self.steps) > len(self.axes):
            raise ShapeError(
                f"unsqueeze: {len(self.steps)} steps; expected one for each of {len(self.axes)} axes"
            )
        lens, strides = self._placed(x)
        return Shape(x.type, lens, strides)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; MIGraphX's scalar gets one axis, however many are named."""
        if inputs and rules.is_scalar(inputs[0]):
            return Shape(inputs[0].type, (1,))
        return super().shape_by(rules, inputs, modules)

    def _dynamic_shape(self, x: Shape, dims: Sequence[Dim]) -> Shape:
        if self.steps:
            raise ShapeError(f"unsqueeze: steps need a static input, found {x}")
        found = list(dims)
        for axis in sorted(self._steps(x.ndim)):
            found.insert(axis, ONE)
        return ranged(x.type, found)

    def _steps(self, rank: int) -> dict[int, int]:
        """The length of each new axis, by its position in the result."""
        rank += len(self.axes)
        axes = [normalize_axis(self, a, rank, "axes") for a in self.axes]
        if len(set(axes)) != len(axes):
            raise ShapeError(
                f"unsqueeze: axes {self.axes} name an axis twice; expected distinct axes"
            )
        steps = self.steps + (1,) * (len(axes) - len(self.steps))
        return dict(zip(axes, steps, strict=True))

    def _placed(self, x: Shape) -> tuple[list[int], list[int]]:
        steps = self._steps(x.ndim)
        lens, strides = list(x.lens), list(x.strides)
        for axis in range(x.ndim + len(steps)):
            if axis not in steps:
                continue
            step = steps[axis]
            if axis >= len(lens):
                expect(self, step == 1, f"step {step} after the last axis; expected 1")
                lens.append(1)
                strides.append(1)
                continue
            divides = step > 0 and lens[axis] % step == 0
            expect(self, divides, f"step {step} does not divide axis {axis} of {lens}")
            expect(self, step == 1 or not x.is_scalar, "steps of a scalar; expected none")
            lens[axis] //= step
            strides.insert(axis, 1 if x.is_scalar else strides[axis] * lens[axis])
            lens.insert(axis, step)
        return lens, strides

    def compute(self, *inputs: Any) -> Any:
        """A reshape."""
        x: Array = inputs[0]
        if not self.steps:
            return np.expand_dims(x, self.axes)
        return x.reshape(self._placed(Shape(DType.FLOAT, x.shape))[0])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Front, middle, end, several at once, steps."""
        yield cls(axes=(0, -1)), [grid(3, 4)]
        yield cls(axes=(2,)), [grid(4, 4, 3)[:, :, 1]]
        yield cls(axes=(2, 4, 5), steps=(2,)), [grid(3, 4, 10, type=np.int64)]
        yield cls(axes=(1,)), [grid(3, 4, type=np.float16)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g without the new axes."""
        return [given.reshape(operands[0].shape)]


@operation
class Step(Operation):
    """Every ``steps[i]``-th element along ``axes[i]``."""

    name = "step"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.SELECTED
    axes_of_input = ("axes",)
    axes: Ints = ()
    steps: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Lens divided, rounding up; strides multiplied."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        expect(
            self,
            len(self.axes) == len(self.steps),
            f"axes {self.axes} and steps {self.steps}; expected equal numbers",
        )
        expect(
            self, all(s > 0 for s in self.steps), f"steps {self.steps}; expected positive numbers"
        )
        distinct_axes(self, self.axes, x.ndim)
        if x.dims is not None:
            dims = list(x.dims)
            for a, step in zip(self.axes, self.steps, strict=True):
                axis = normalize_axis(self, a, x.ndim, "axes")
                dims[axis] = over(plus(dims[axis], step - 1), step)
            if x.is_symbolic:
                return Shape.dynamic(x.type, dims, self._stepped(x))
            return ranged(x.type, dims)
        lens, strides = list(x.lens), list(x.strides)
        for a, step in zip(self.axes, self.steps, strict=True):
            axis = normalize_axis(self, a, x.ndim, "axes")
            lens[axis] = -(-lens[axis] // step)
            strides[axis] *= step
        return Shape(x.type, lens, strides)

    def _stepped(self, x: Shape) -> list[Expr]:
        strides = list(x.dyn_strides)
        for axis, step in zip(self.axes, self.steps, strict=True):
            strides[axis] = strides[axis] * step
        return strides

    def compute(self, *inputs: Any) -> Any:
        """A slice with steps."""
        x: Array = inputs[0]
        cut = [slice(None)] * x.ndim
        for axis, step in zip(self.axes, self.steps, strict=True):
            cut[axis] = slice(None, None, step)
        return x[tuple(cut)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One axis and two, lengths that the step does not divide."""
        yield cls(axes=(0,), steps=(2,)), [grid(5, 3)]
        yield cls(axes=(-1, 0), steps=(3, 2)), [grid(4, 2, 7, type=np.float16)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g at every ``steps[i]``-th element, and 0 between."""
        x = operands[0]
        for axis, step in zip(self.axes, self.steps, strict=True):
            given = _with_zeros(given, axis % x.ndim, step, x.shape[axis])
        return [given]


def _with_zeros(given: Any, axis: int, step: int, length: int) -> Any:
    """Elements with ``step - 1`` zeros after each along an axis, cut or filled up to a length."""
    lens = list(given.shape)
    after = given.reshape(*lens[: axis + 1], 1, *lens[axis + 1 :])
    ends = [0] * after.ndim
    ends[axis + 1] = step - 1
    lens[axis] *= step
    spread = after.pad(pads=(*[0] * after.ndim, *ends)).reshape(lens)
    ends = [0] * len(lens)
    ends[axis] = length - lens[axis]
    return spread.pad(pads=(*[0] * len(lens), *ends)) if ends[axis] else spread


def over_memory(flat: Array, shape: Shape) -> Array:
    """The elements that a static shape addresses in flat memory."""
    lens = shape.array_lens
    if 0 in lens:
        return np.empty(lens, flat.dtype)
    bits = flat.view(f"u{flat.itemsize}")  # NumPy cannot restride every small float
    strides = [s * flat.itemsize for s in shape.strides]
    return as_strided(bits, lens, strides).view(flat.dtype)


@operation
class AsShape(Operation):
    """The elements of a standard input viewed with another shape over the same memory."""

    name = "as_shape"
    not_differentiable = (
        "it reads memory in any order; differentiate the program before it is lowered"
    )
    family = Family.VIEW
    alias = 0
    dynamic = True
    needs_standard = True
    rearranges = Rearrangement.SELECTED
    shape: Shape = Shape.absent()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The given shape."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        expect(self, x.standard, f"input 0 is {x}; expected a standard shape")
        known = self.shape.dims is None or self.shape.is_symbolic
        expect(self, known, f"shape {self.shape}; expected a static or a symbolic one")
        if x.dims is not None or self.shape.dims is not None:
            expect(self, x.type is self.shape.type, f"{x} does not have the type of {self.shape}")
            return self.shape
        fits = x.type is self.shape.type and self.shape.element_space <= x.elements
        expect(self, fits, f"{x} is too small for the elements of {self.shape}")
        return self.shape

    def compute(self, *inputs: Any) -> Any:
        """A view of the flat memory."""
        flat: Array = np.ascontiguousarray(inputs[0]).reshape(-1)
        return over_memory(flat, self.shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Transposed, reshaped, repeated."""
        yield cls(shape=Shape("float", (3, 2), (1, 3))), [grid(2, 3)]
        yield cls(shape=Shape("half", (6,))), [grid(2, 3, type=np.float16)]
        yield cls(shape=Shape("float", (2, 4), (0, 1))), [grid(4)]


@operation
class Load(Operation):
    """The elements of ``shape`` in the memory of a standard input, starting at byte ``offset``."""

    name = "load"
    not_differentiable = (
        "it reads memory in any order; differentiate the program before it is lowered"
    )
    family = Family.VIEW
    alias = 0
    needs_standard = True
    shape: Shape = Shape.absent()
    offset: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The given shape."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        x = inputs[0]
        expect(self, x.standard, f"input 0 is {x}; expected a standard shape")
        for part in self.shape.subs or (self.shape,):
            static = part.dims is None and part.subs is None
            expect(self, static, f"shape {self.shape}; expected static tensors")
        return self.shape

    def compute(self, *inputs: Any) -> Any:
        """A view of the bytes; the parts of a tuple follow one another."""
        memory: Array = np.ascontiguousarray(inputs[0]).reshape(-1).view(np.uint8)
        end = self.offset + self.shape.bytes
        if self.offset < 0 or end > memory.size:
            raise EvaluationError(
                f"load: bytes {self.offset} to {end}; expected at most {memory.size}"
            )
        if self.shape.subs is None:
            return self._part(memory, self.shape, self.offset)
        starts = accumulate((s.bytes for s in self.shape.subs), initial=self.offset)
        return tuple(map(partial(self._part, memory), self.shape.subs, starts))

    def _part(self, memory: Array, shape: Shape, start: int) -> Array:
        return over_memory(memory[start : start + shape.bytes].view(shape.type.numpy), shape)

    def widened(self) -> Operation:
        """Rejected for floats: a buffer laid out for narrow floats has no room for float64."""
        types = [s.type for s in self.shape.subs or (self.shape,)]
        if any(t.is_float and t is not DType.DOUBLE for t in types):
            raise EvaluationError("load: float64 mode does not keep the bytes of narrow floats")
        return self

    def __str__(self) -> str:
        """``load[offset=0,end=512]``: the shape is printed after the arrow."""
        return f"load[offset={self.offset},end={self.offset + self.shape.bytes}]"

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """From the front, from within, with strides; of bytes and of wider elements."""
        memory = grid(96, type=np.int8)
        yield cls(Shape("float", (2, 3))), [memory]
        yield cls(Shape("half", (3, 4), (1, 3)), 72), [memory]
        yield cls(Shape("int64", (3,), (0,)), 3), [memory]
        yield cls(Shape("float", (2,)), 4), [grid(2, 3)]


@operation
class DimensionsOf(Operation):
    """The lengths of axes ``start`` to ``end`` as a tensor of int64."""

    name = "dimensions_of"
    flat = True
    family = Family.MOVEMENT
    dynamic = True
    start: int = 0
    end: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """One int64 for each axis from start to end."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        fits = 0 <= self.start < self.end <= inputs[0].ndim
        expect(
            self, fits, f"axes {self.start} to {self.end} of {inputs[0]}; expected axes that it has"
        )
        return Shape(DType.INT64, (self.end - self.start,))

    def compute(self, *inputs: Any) -> Any:
        """The lens of the array."""
        return np.array(inputs[0].shape[self.start : self.end], np.int64)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """All axes, and one."""
        yield cls(end=3), [grid(2, 3, 4)]
        yield cls(start=1, end=2), [grid(2, 3, 4, type=np.float16)]
