"""Slices: the part of a tensor between starts and ends, constant or computed at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import DifferentiationError, EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array
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
    dims_of,
    expect,
    expect_integers,
    expect_tensors,
    ranged,
    unsymbolic,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


@operation
class Slice(Operation):
    """Elements ``starts[i]`` up to ``ends[i]`` along ``axes[i]``; negative values count from the end.

    Starts, ends and axes that are not attributes are inputs, in that order.
    """

    name = "slice"
    on_host = "bounds that an input holds"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.SELECTED
    axes: Ints = ()
    starts: Ints = ()
    ends: Ints = ()

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """Axes counted from the front; starts and ends too, where the lengths are known."""
        x = inputs[0]
        if x.dims is None and self._is_normal(x.lens):
            return self
        axes = distinct_axes(self, self.axes, x.ndim)
        if not axes or not (x.dims is None or all(x.dims[a].is_fixed for a in axes)):
            return self if axes == self.axes else Slice(axes, self.starts, self.ends)
        lens = [x.lens[a] if x.dims is None else x.dims[a].min for a in axes]
        starts = tuple(_clipped(s, n) for s, n in zip(self.starts, lens, strict=False))
        ends = tuple(_clipped(e, n) for e, n in zip(self.ends, lens, strict=False))
        changed = (axes, starts, ends) != (self.axes, self.starts, self.ends)
        return Slice(axes, starts, ends) if changed else self

    def _is_normal(self, lens: Ints) -> bool:
        """Whether each axis has a start and an end, all of them count from the front, and none is twice."""
        axes, starts, ends = self.axes, self.starts, self.ends
        if not (len({*axes}) == len(axes) == len(starts) == len(ends)):
            return False
        for axis, start, end in zip(axes, starts, ends, strict=True):
            if not (0 <= axis < len(lens) and 0 <= start <= lens[axis] and 0 <= end <= lens[axis]):
                return False
        return True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Shorter lens, the same strides; ranges where a bound is an input."""
        expect_count(self, inputs, 1, 2, 3, 4)
        expect_tensors(self, inputs)
        given = [v for v in (self.axes, self.starts, self.ends) if v]
        expect(
            self,
            len(given) == 4 - len(inputs),
            f"{len(inputs)} inputs, and {len(given)} of axes, starts and ends as attributes; "
            "expected each of the three once, as one or the other",
        )
        expect_static(self, inputs[1:])
        expect_integers(self, inputs, *range(1, len(inputs)))
        expect(
            self,
            all(s.ndim == 1 for s in inputs[1:]),
            "bounds that are not 1-d; expected 1-d tensors",
        )
        distinct_axes(self, self.axes, inputs[0].ndim)
        counts = {len(v) for v in given} | {s.lens[0] for s in inputs[1:]}
        expect(self, len(counts) == 1, f"axes, starts and ends of different lengths {counts}")
        return self._shape_of_inputs(inputs) if len(inputs) > 1 else self._shape(inputs[0])

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules require bounds of ranges to be inputs."""
        made = super().shape_by(rules, inputs, modules)
        x = inputs[0]
        if rules.strict and len(inputs) == 1:
            for axis in distinct_axes(self, self.axes, x.ndim):
                known = x.dims is None or x.dims[axis].is_fixed
                expect(self, known, f"axis {axis} of {x} is a range; give the bounds as inputs")
        return made

    def _shape(self, x: Shape) -> Shape:
        bounds = list(zip(self.axes, self.starts, self.ends, strict=True))
        if x.dims is None:
            lens = list(x.lens)
            for a, start, end in bounds:
                axis = normalize_axis(self, a, x.ndim, "axes")
                lens[axis] = max(_clipped(end, lens[axis]) - _clipped(start, lens[axis]), 0)
            return Shape(x.type, lens, x.strides)
        dims = [Dim(d.min, d.max, (), d.name) for d in x.dims]
        for a, start, end in bounds:
            axis = normalize_axis(self, a, x.ndim, "axes")
            dims[axis] = _cut(dims[axis], start, end)
        return ranged(x.type, dims)

    def _shape_of_inputs(self, inputs: Sequence[Shape]) -> Shape:
        x = inputs[0]
        cut = {normalize_axis(self, a, x.ndim, "axes") for a in self.axes} or set(range(x.ndim))
        dims = enumerate(map(unsymbolic, dims_of(x)))
        return ranged(x.type, (Dim(0, d.max) if i in cut else d for i, d in dims))

    def compute(self, *inputs: Any) -> Any:
        """A NumPy slice, which clips and wraps in the same way."""
        x: Array = inputs[0]
        rest = iter(inputs[1:])
        starts, ends, axes = (
            v or tuple(int(i) for i in next(rest)) for v in (self.starts, self.ends, self.axes)
        )
        cut = [slice(None)] * x.ndim
        for axis, start, end in zip(self._counted(axes, x.ndim), starts, ends, strict=True):
            cut[axis] = slice(start, end)
        return x[tuple(cut)]

    def _counted(self, axes: Ints, rank: int) -> Ints:
        try:
            return distinct_axes(self, axes, rank)
        except ShapeError as error:
            raise EvaluationError(str(error)) from None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Negative bounds, bounds beyond the end, several axes, bounds as inputs."""
        yield cls(axes=(1,), starts=(1,), ends=(3,)), [grid(2, 4)]
        yield cls(axes=(0, -1), starts=(-2, 0), ends=(1 << 62, -1)), [grid(3, 4, type=np.float16)]
        yield cls(axes=(2,), starts=(0,), ends=(2,)), [grid(2, 3, 2)[:, ::2]]
        yield cls(axes=(0,), starts=(2,), ends=(2,)), [grid(3, 4)]
        yield cls(axes=(1,)), [grid(3, 4), np.array([1]), np.array([-1])]
        yield cls(starts=(1,), ends=(2,)), [grid(3, 4), np.array([-1])]
        yield cls(), [grid(3, 4), np.array([0, 1]), np.array([2, 9]), np.array([1, 0])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g with zeros around it."""
        x, *bounds = operands
        if bounds:
            raise DifferentiationError(
                "slice: bounds are inputs; expected starts, ends and axes that are attributes"
            )
        begins, ends = [0] * x.ndim, [0] * x.ndim
        for axis, start, end in zip(
            self._counted(self.axes, x.ndim), self.starts, self.ends, strict=True
        ):
            begins[axis] = _clipped(start, x.shape[axis])
            ends[axis] = x.shape[axis] - max(begins[axis], _clipped(end, x.shape[axis]))
        return [given.pad(pads=(*begins, *ends))]


def _cut(dim: Dim, start: int, end: int) -> Dim:
    """The lengths of a slice of a dimension; tighter bounds if the slice is whole or reaches an end."""
    if start == 0 and end >= dim.max:
        return dim
    tried = {dim.min, dim.max, *(n for n in (end, -start) if dim.min < n < dim.max)}
    found = [max(0, _clipped(end, n) - _clipped(start, n)) for n in tried]
    name = dim.name and f"({dim.name.replace('*', '·')}[{start}:{end}])"
    return Dim(min(found), max(found), (), name)


def _clipped(bound: int, n: int) -> int:
    """A start or end counted from the front and clamped to the length."""
    return max(0, min(bound, n) if bound >= 0 else bound + n)
