"""Selections: the best, the distinct and the non-zero elements, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import DifferentiationError, EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.ranges import (
    ANY,
    agree,
    any_dynamic,
    dims_of,
    expect,
    expect_floats,
    expect_integers,
    expect_rank,
    expect_same_rank,
    expect_tensors,
    fixed,
    intersection,
    product,
    ranged,
)
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ops.accumulate import quiet, widened
from workbench.compiler.ops.elementwise import cast

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class TopK(Operation):
    """The ``k`` largest (or smallest) elements along ``axis``, best first, and their indices.

    There are fewer if the axis is a range and shorter than ``k`` in a run.

    Of equal elements the one with the smaller index comes first. A second input replaces the indices.
    """

    name = "topk"
    family = Family.REDUCE
    dynamic = True
    axes_of_input = ("axis",)
    k: int = 1
    axis: int = 0
    largest: bool = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Values and int64 indices; the axis has length k."""
        expect_count(self, inputs, 1, 2)
        expect_tensors(self, inputs)
        x = inputs[0]
        axis, dims = normalize_axis(self, self.axis, x.ndim), list(dims_of(x))
        expect(
            self,
            0 <= self.k <= dims[axis].max,
            f"k {self.k}; expected 0 to the length of axis {axis} of {x}",
        )
        if len(inputs) == 2:
            expect(
                self,
                agree(dims, dims_of(inputs[1])),
                f"{x} and indices {inputs[1]}; expected equal lens",
            )
            expect_integers(self, inputs, 1)
        if dims[axis].max > self.k:
            dims[axis] = Dim(min(self.k, dims[axis].min), self.k)
        return Shape.tuple_of([ranged(x.type, dims), ranged(DType.INT64, dims)])

    def compute(self, *inputs: Any) -> Any:
        """A stable sort, from the end for the largest."""
        x: Array = np.moveaxis(inputs[0], self.axis, -1)
        keys = widened(x)
        given: Array = np.empty(0)
        if len(inputs) == 2:
            given = np.moveaxis(inputs[1], self.axis, -1)
            before = np.argsort(given, axis=-1, kind="stable")
            x, keys, given = (np.take_along_axis(v, before, -1) for v in (x, keys, given))
        if self.largest:
            last = x.shape[-1] - 1
            order = last - np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(keys, axis=-1, kind="stable")
        order = order[..., : self.k]
        found = np.take_along_axis(x, order, -1)
        where = order if len(inputs) == 1 else np.take_along_axis(given, order, -1)
        both = (np.moveaxis(v, -1, self.axis) for v in (found, where.astype(np.int64)))
        return tuple(np.ascontiguousarray(v) for v in both)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Both directions, ties, half types, given indices."""
        yield cls(k=2, axis=1), [noise(3, 5)]
        yield cls(k=3, axis=-1, largest=False), [digits(2, 6, low=0, high=3, type=np.int32)]
        yield cls(k=2, axis=0), [noise(4, 3, type=np.float16)]
        yield cls(k=2, axis=0), [digits(4, low=0, high=2, type=np.uint8), np.array([7, 3, 5, 1])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g of the values, each at the place that the indices give."""
        if len(operands) == 2:
            raise DifferentiationError(
                "topk: a second operand gives the indices, so positions are unknown; expected one operand"
            )
        values, x = given[0], operands[0]
        if values is None:
            return [None]
        zeros = values.builder.zeros(x.shape, x.dtype)
        return [zeros.scatter_add(result[1], values, axis=self.axis)]


@operation
class OneHot(Operation):
    """A new axis of length ``depth``, "on" at each index and "off" elsewhere; values are (off, on)."""

    name = "onehot"
    on_host = "a depth that an input holds"
    family = Family.MOVEMENT
    dynamic = True
    axis: int = -1
    depth: int | None = None

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The indices' lens with the depth inserted at ``axis``."""
        expect_count(self, inputs, 3 if self.depth is None else 2)
        expect_tensors(self, inputs)
        expect_static(self, inputs[1:])
        index, values = inputs[0], inputs[-1]
        expect(self, values.lens == (2,), f"values {values}; expected (off, on)")
        if self.depth is None:
            expect(self, inputs[1].elements == 1, f"depth {inputs[1]}; expected one element")
        axis = normalize_axis(self, self.axis, index.ndim + 1)
        dims = list(dims_of(index))
        if self.depth is None:
            dims.insert(axis, ANY)
            return ranged(values.type, dims)
        expect(self, self.depth >= 0, f"depth {self.depth}; expected a non-negative number")
        dims.insert(axis, Dim(self.depth, self.depth))
        if index.dims is not None:
            return ranged(values.type, dims)
        return Shape(values.type, [d.min for d in dims])

    def compute(self, *inputs: Any) -> Any:
        """A comparison of the indices with 0, 1, 2…; an index out of range is off everywhere."""
        index: Array = cast(inputs[0], np.dtype(np.int64))
        values: Array = inputs[-1]
        depth = int(inputs[1].reshape(-1)[0]) if self.depth is None else self.depth
        if depth < 0:
            raise EvaluationError(f"onehot: depth {depth}; expected a non-negative number")
        axis = normalize_axis(self, self.axis, index.ndim + 1)
        at: Array = np.where(index < 0, index + depth, index)
        shape = [1] * (index.ndim + 1)
        shape[axis] = depth
        hot: Array = np.expand_dims(at, axis) == np.arange(depth).reshape(shape)
        return values[hot.astype(np.intp)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Last and first axis, indices out of range, a depth from an input."""
        values = np.array([0.5, 2.0], np.float32)
        yield cls(depth=3), [np.array([[0, 2], [-1, 5]]), values]
        yield cls(axis=0, depth=4), [np.array([1, 3], np.int32), values.astype(np.float16)]
        yield cls(), [np.array([0, 1]), np.array([3]), np.array([0, 1])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The sum of g where the result is "off", and where it is "on"."""
        index, *depth, values = operands
        zero_one = given.builder.constant(np.array([0, 1]).astype(values.dtype.numpy))
        on = (given * self._same(index, *depth, zero_one)).sum().reshape(1)
        off = given.sum().reshape(1) - on
        return [None, *[None] * len(depth), off.concat(on, axis=0)]

    def _same(self, index: Any, *others: Any) -> Any:
        return index.builder.apply(self.name, index, *others, axis=self.axis, depth=self.depth)


@operation
class NonZero(Operation):
    """Coordinates of the non-zero elements, one column each, in row-major order; the rest is 0."""

    name = "nonzero"
    flat = True
    family = Family.REDUCE
    dynamic = True
    needs_standard = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """int64: one row per axis, and columns for all elements."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        if x.dims is not None:
            return ranged(DType.INT64, [*fixed(x.ndim), product(x.dims)])
        expect(self, x.standard, f"input 0 is {x}; expected a standard shape")
        return Shape(DType.INT64, (x.ndim, x.elements))

    def compute(self, *inputs: Any) -> Any:
        """``numpy.nonzero``."""
        x: Array = inputs[0]
        out = np.zeros((x.ndim, x.size), np.int64)
        found = np.nonzero(x) if x.ndim else [()]
        out[:, : len(found[0])] = found
        return out

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Some zeros; NaN is not zero."""
        yield cls(), [digits(3, 4, low=-1, high=2)]
        yield cls(), [np.array([0.0, np.nan, 2.0], np.float32)]


@operation
class Unique(Operation):
    """The distinct elements (or slices along ``axis``), their first indices, inverse indices and counts."""

    name = "unique"
    not_differentiable = "the number of its elements depends on its operand"
    on_host = "the number of results is known only at run time"
    family = Family.REDUCE
    dynamic = True
    axis: int | None = None
    sorted: bool = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Four shapes, each with at most as many entries as there are elements or slices."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        axis = None if self.axis is None else normalize_axis(self, self.axis, x.ndim)
        lens = dims_of(x)
        count = product(lens) if axis is None else lens[axis]
        dim = Dim(min(1, count.min), count.max)
        dims = [dim] if axis is None else [*lens[:axis], dim, *lens[axis + 1 :]]
        places = ranged(DType.INT64, [dim])
        return Shape.tuple_of([ranged(x.type, dims), places, places, places])

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shapes; strict rules allow only the first axis."""
        made = super().shape_by(rules, inputs, modules)
        first = not self.axis or self.axis + inputs[0].ndim == 0
        found = f"axis {self.axis} of {inputs[0]}; expected the first"
        expect(self, first or not rules.strict, found)
        return made

    def compute(self, *inputs: Any) -> Any:
        """``numpy.unique``, put back into the order of first appearance unless sorted."""
        x: Array = inputs[0]
        found = np.unique(
            widened(x), return_index=True, return_inverse=True, return_counts=True, axis=self.axis
        )
        _, first, inverse, counts = found
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            first, counts, inverse = first[order], counts[order], rank[inverse]
        values = np.take(x, first, self.axis)
        return values, *(v.astype(np.int64) for v in (first, inverse, counts))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Elements, rows and columns, sorted and not; none."""
        yield cls(), [np.array([2, 1, 1, 3, 4, 3], np.float32)]
        yield cls(sorted=False), [np.array([2, 1, 1, 3, 4, 3])]
        yield cls(axis=0), [np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float16)]
        yield cls(axis=-2, sorted=False), [np.array([[3, 1], [1, 0], [3, 1]], np.int32)]
        yield cls(axis=1), [np.array([[2, 1, 2], [0, 5, 0]], np.float32)]
        yield cls(axis=1), [np.zeros((2, 0), np.float32)]


def _belong_together(boxes: Sequence[Dim], scores: Sequence[Dim]) -> bool:
    """Whether there may be as many boxes, of four numbers, as each class has scores."""
    pairs = ((boxes[0], scores[0]), (boxes[1], scores[2]), (boxes[2], Dim(4, 4)))
    return all(intersection(p, q) is not None for p, q in pairs)


@operation
class NonMaxSuppression(Operation):
    """The best boxes of each batch and class, without those that overlap a better one too much.

    Inputs are boxes ``[B, N, 4]``, scores ``[B, C, N]``, then the maximum number of boxes per class, the
    largest overlap (intersection over union) and the score threshold, which scores must exceed.
    Rows of the result are batch, class, box.
    """

    name = "nonmaxsuppression"
    flat = True
    on_host = "each box depends on those before it, and their number on the data"
    family = Family.REDUCE
    dynamic = True
    center_point_box: bool = False
    use_dyn_output: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """int64 ``[boxes, 3]``: the largest possible number of boxes, or a range."""
        expect_count(self, inputs, 2, 3, 4, 5)
        expect_tensors(self, inputs)
        expect_same_rank(self, inputs[:2])
        expect_rank(self, inputs[:2], 3, 3)
        boxes, scores = inputs[:2]
        fits = _belong_together(dims_of(boxes), dims_of(scores))
        expect(
            self,
            fits,
            f"boxes {boxes} do not fit scores {scores}; expected [B, N, 4] and [B, C, N]",
        )
        return self._as_many(inputs)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules check only in a run that there are as many boxes as scores."""
        if not (rules.strict and self.use_dyn_output):
            return super().shape_by(rules, inputs, modules)
        expect_count(self, inputs, 2, 3, 4, 5)
        expect_tensors(self, inputs)
        expect_rank(self, inputs[:2], 3, 3)
        return rules.settle(inputs, self._as_many(inputs))

    def _as_many(self, inputs: Sequence[Shape]) -> Shape:
        a, b = map(dims_of, inputs[:2])
        expect_floats(self, inputs, 0, 1)
        expect_static(self, inputs[2:])
        for limit in inputs[2:]:
            expect(self, limit.elements == 1, f"limit {limit}; expected one element")
        most = a[0].max * b[1].max * a[1].max
        if self.use_dyn_output or any_dynamic(inputs[:2]):
            return ranged(DType.INT64, (Dim(0, most), Dim(3, 3)))
        return Shape(DType.INT64, (most, 3))

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Greedily: take the best box that is left, and drop those that overlap it."""
        boxes, scores = widened(inputs[0]), widened(inputs[1])
        dims = [[Dim(n, n) for n in x.shape] for x in (boxes, scores)]
        if not _belong_together(*dims):
            lens = f"boxes {list(boxes.shape)} and scores {list(scores.shape)}"
            raise EvaluationError(
                f"nonmaxsuppression: {lens}; expected [B, N, 4] and [B, C, N] with equal B and N"
            )
        most, overlap, least = self._limits(inputs[2:])
        rows: list[tuple[int, int, int]] = []
        for batch, label in np.ndindex(*scores.shape[:2]):
            corners = self._corners(boxes[batch])
            kept = _suppressed(corners, scores[batch, label], int(most), overlap, least)
            rows += [(batch, label, box) for box in kept]
        found = np.array(rows, np.int64).reshape(-1, 3)
        if self.use_dyn_output:
            return found
        out = np.zeros((prod(boxes.shape[:2]) * scores.shape[1], 3), np.int64)
        out[: len(found)] = found
        return out

    def _limits(self, given: Sequence[Array]) -> tuple[float, float, float | None]:
        values = [float(v.reshape(-1)[0]) for v in given]
        most, overlap = (*values[:2], *[0.0] * (2 - len(values[:2])))
        return most, overlap, values[2] if len(values) > 2 else None

    def _corners(self, boxes: Array) -> Array:
        """Boxes as two opposite corners, the lower one first."""
        a, b = boxes[:, :2], boxes[:, 2:]
        if self.center_point_box:
            a, b = a - b / 2, a + b / 2
        return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Corner and centre boxes, a fixed and a dynamic result."""
        corners = np.array(
            [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]
        )
        boxes = corners[None].astype(np.float32)
        scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5]]], np.float32)
        limits = [np.array([3]), np.array([0.5], np.float32), np.array([0.2], np.float32)]
        yield cls(use_dyn_output=True), [boxes, scores, *limits]
        yield cls(), [boxes, scores, *limits]
        yield cls(center_point_box=True), [boxes, scores, *limits[:1]]


def _suppressed(
    corners: Array, scores: Array, most: int, overlap: float, least: float | None
) -> list[int]:
    """Indices of the boxes that remain, best first."""
    left = np.argsort(-scores, kind="stable")
    if least is not None:
        left = left[scores[left] > least]
    kept: list[int] = []
    while len(left) and len(kept) < most:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        left = left[_overlap(corners[best], corners[left]) <= overlap]
    return kept


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others; 0 if there is no area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = np.prod(box[2:] - box[:2]) + areas - common
    return np.where((common > 0) & (union > 0), common / union, 0)
