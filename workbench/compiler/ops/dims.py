"""Operations, not in MIGraphX, on lengths computed at run time; they state what is known of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    distinct_axes,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import (
    ANY,
    dims_of,
    expect,
    expect_integers,
    expect_rank,
    expect_tensors,
    intersection,
    ranged,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.movement import Pad, PadMode

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class ExpectDims(Operation):
    """The input, whose lengths must be within ``out_dyn_dims``; a run checks them."""

    name = "expect_dims"
    family = Family.VIEW
    alias = 0
    dynamic = True
    out_dyn_dims: tuple[Dim, ...] = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The intersection of the input's dimensions and the expected ones."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        x = inputs[0]
        expect_rank(self, inputs, len(self.out_dyn_dims), len(self.out_dyn_dims))
        both = [intersection(b, a) for a, b in zip(dims_of(x), self.out_dyn_dims, strict=True)]
        found = [d for d in both if d is not None]
        expect(
            self,
            len(found) == len(both),
            f"input 0 is {x}; its dimensions cannot be within out_dyn_dims",
        )
        return x if x.dims is None else ranged(x.type, found)

    def compute(self, *inputs: Any) -> Any:
        """The input; an error if a length is outside its range."""
        x: Array = inputs[0]
        dims = self.out_dyn_dims
        fits = all(d.min <= n <= d.max for d, n in zip(dims, x.shape, strict=True))
        if not fits:
            shown = ", ".join(map(str, dims))
            raise EvaluationError(f"{self.name}: lens {list(x.shape)}; expected {{{shown}}}")
        return x

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Ranges and single lengths."""
        yield cls(out_dyn_dims=(Dim(1, 4), Dim(3, 3))), [grid(2, 3)]
        yield cls(out_dyn_dims=(Dim(0, 8),)), [grid(4, type=np.float16)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g."""
        return [given]


@operation
class ReshapeWithDims(Operation):
    """The first input's elements with the lens given by the values of the second.

    As in ``reshape``, 0 copies the input's length (unless ``allowzero``) and -1 is inferred.
    ``out_dyn_dims`` states what is known of the lens.
    """

    name = "reshape_with_dims"
    not_differentiable = "only a run knows its lengths; fix them first"
    on_host = "lengths known only at run time"
    family = Family.MOVEMENT
    dynamic = True
    rearranges = Rearrangement.RELAID
    out_dyn_dims: tuple[Dim, ...] = ()
    allowzero: bool = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``out_dyn_dims``."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_rank(self, inputs[1:], 1, 1)
        expect_integers(self, inputs, 1)
        count = dims_of(inputs[1])[0]
        fits = count == Dim(len(self.out_dyn_dims), len(self.out_dyn_dims))
        expect(self, fits, f"{count} lens; expected {len(self.out_dyn_dims)}, as out_dyn_dims has")
        return ranged(inputs[0].type, self.out_dyn_dims)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.reshape``."""
        x: Array = inputs[0]
        given = [int(n) for n in inputs[1]]
        copied = not self.allowzero
        lens = [x.shape[i] if n == 0 and copied and i < x.ndim else n for i, n in enumerate(given)]
        if -1 in lens:
            rest = prod(n for n in lens if n != -1)
            lens[lens.index(-1)] = x.size // rest if rest else 0
        if min(lens, default=0) < 0 or prod(lens) != x.size:
            raise EvaluationError(f"{self.name}: {list(x.shape)} does not reshape to {given}")
        dims = self.out_dyn_dims
        if not all(d.min <= n <= d.max for d, n in zip(dims, lens, strict=True)):
            shown = ", ".join(map(str, dims))
            raise EvaluationError(f"{self.name}: lens {lens}; expected {{{shown}}}")
        return x.reshape(lens)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """0 and -1, known lens, no elements."""
        any_ = Dim(0, 99)
        yield cls(out_dyn_dims=(any_, any_)), [grid(2, 3, 4), np.array([0, -1])]
        yield cls(out_dyn_dims=(Dim(3, 3), Dim(1, 4))), [grid(4, 3).T, np.array([3, 4])]
        empty = grid(0, 3, type=np.float16)
        yield cls(out_dyn_dims=(any_, any_), allowzero=True), [empty, np.array([3, 0])]


@operation
class PadBy(Operation):
    """The first input padded as by ``pad``, with the pads given by the values of the second.

    The pads are the begins of ``axes``, then their ends; negative ones crop. The third input fills.
    """

    name = "pad_by"
    not_differentiable = "only a run knows its lengths; fix them first"
    on_host = "lengths known only at run time"
    family = Family.MOVEMENT
    dynamic = True
    axes_of_input = ("axes",)
    axes: tuple[int, ...] = ()
    mode: PadMode = PadMode.CONSTANT

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Any lengths along the axes."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        expect_integers(self, inputs, 1)
        expect_static(self, inputs[2:])
        expect_same_type(self, [inputs[0], inputs[2]])
        expect(self, inputs[2].elements == 1, f"input 2 is {inputs[2]}; expected one element")
        count = dims_of(inputs[1])
        wanted = Dim(2 * len(self.axes), 2 * len(self.axes))
        expect(self, count == (wanted,), f"pads {inputs[1]}; expected {wanted}, two per axis")
        x = inputs[0]
        padded = distinct_axes(self, self.axes, x.ndim)
        return ranged(x.type, [ANY if i in padded else d for i, d in enumerate(dims_of(x))])

    def compute(self, *inputs: Any) -> Any:
        """``pad`` with these pads."""
        x, given, value = inputs
        pads = [0] * (2 * x.ndim)
        for i, axis in enumerate(a % x.ndim for a in self.axes):
            pads[axis], pads[axis + x.ndim] = int(given[i]), int(given[i + len(self.axes)])
        made = Pad(mode=self.mode, pads=tuple(pads), value=value.reshape(-1)[0])
        try:
            return made.compute(x)
        except EvaluationError as error:
            raise EvaluationError(f"{self.name}: {error}") from None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Two axes, one, a crop, a mirrored margin."""
        half = np.array([0.5], np.float32)
        yield cls(axes=(0, 1)), [grid(2, 3), np.array([1, 0, 0, 2]), half]
        yield cls(axes=(1,)), [grid(2, 4), np.array([-1, 1]), half]
        reflect = PadMode.REFLECT
        yield cls(axes=(0,), mode=reflect), [grid(4, 2), np.array([1, 2]), half]
