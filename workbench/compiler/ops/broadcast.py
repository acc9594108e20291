"""Broadcasts: views that repeat elements without copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import (
    ANY,
    aligned,
    any_dynamic,
    any_symbolic,
    broadcast_dims,
    dims_of,
    expect,
    expect_integers,
    expect_rank,
    expect_tensors,
    ranged,
    symbolic,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ir.sym import lit
from workbench.compiler.ir.sym.bindings import bound

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

Ints: TypeAlias = tuple[int, ...]


def broadcast_shape(x: Shape, lens: Sequence[int]) -> Shape:
    """``x`` viewed with lens ``lens``, aligned at the right; stride 0 where it repeats."""
    skip = len(lens) - x.ndim
    kept = [
        s if n == want else 0 for n, s, want in zip(x.lens, x.strides, lens[skip:], strict=True)
    ]
    return Shape(x.type, lens, [0] * skip + kept)


def symbolic_target(op: Operation, x: Shape, dims: Sequence[Dim]) -> tuple[Sequence[Dim], Shape]:
    """The symbolic dimensions that an input is broadcast to, and the input as a symbolic shape.

    Raises:
        ShapeError: There are none, or one of them or of the input's is known as a range only.
    """
    loose = [d for d in dims if d.sym is None and not d.is_fixed]
    expect(
        op, bool(dims) and not loose, f"out_dyn_dims {list(map(str, dims))} for the symbolic {x}"
    )
    known = x.dims is None or x.is_symbolic
    expect(op, known, f"input 0 is {x}; expected it static or symbolic")
    return [d if d.sym is not None else Dim.of(d.min) for d in dims], symbolic(x)


def _common(op: Operation, *lens: Sequence[int]) -> Ints:
    try:
        return broadcast_lens(*lens)
    except ShapeError as error:
        raise ShapeError(f"{op.name}: {error}") from None


@operation
class Multibroadcast(Operation):
    """The input repeated along axes of length 1, and along new leading axes."""

    name = "multibroadcast"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.REPEATED
    out_lens: Ints = ()
    out_dyn_dims: tuple[Dim, ...] = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``out_lens``, or the common lens of all inputs; stride 0 where elements repeat."""
        return self._shape(inputs)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules repeat only dimensions that are always 1."""
        return rules.settle(inputs, self._shape(inputs, rules.strict))

    def _shape(self, inputs: Sequence[Shape], strict: bool = False) -> Shape:
        if not inputs:
            raise ShapeError("multibroadcast: expected 1 input or more, found 0")
        expect_tensors(self, inputs)
        if len(inputs) > 1:
            return self._shape_of_many(inputs, strict)
        x = inputs[0]
        if self.out_dyn_dims or x.is_symbolic:
            return self._symbolic_shape(x)
        expect_static(self, inputs)
        fits = x.ndim <= len(self.out_lens) and all(
            n in (1, want)
            for n, want in zip(reversed(x.lens), reversed(self.out_lens), strict=False)
        )
        if not fits:
            raise ShapeError(
                f"multibroadcast: {x} does not broadcast to {list(self.out_lens)}; "
                "expected each dimension, from the last, to be equal or 1"
            )
        return broadcast_shape(x, self.out_lens)

    def _symbolic_shape(self, x: Shape) -> Shape:
        """One input over symbolic dimensions: each of the input's is the same expression, or 1."""
        dims, x = symbolic_target(self, x, self.out_dyn_dims)
        own = x.dims or ()
        pairs = list(zip(reversed(own), reversed(dims), strict=False))
        fits = len(own) <= len(dims) and all(d.min == d.max == 1 or d == e for d, e in pairs)
        expect(
            self,
            fits,
            f"{x} does not broadcast to {list(map(str, dims))}; expected equal ones or 1",
        )
        skip = len(dims) - len(own)
        kept = zip(own, x.dyn_strides, dims[skip:], strict=True)
        strides = [*[lit(0)] * skip, *(s if d == e else lit(0) for d, s, e in kept)]
        return Shape.dynamic(x.type, dims, strides)

    def _shape_of_many(self, inputs: Sequence[Shape], strict: bool) -> Shape:
        x = inputs[0]
        if not any_dynamic(inputs):
            return broadcast_shape(x, _common(self, *(s.lens for s in inputs)))
        if self.out_dyn_dims:
            return ranged(x.type, self.out_dyn_dims)
        dims, *others = aligned(inputs)
        for other in others:
            dims = broadcast_dims(self, dims, other, strict)
        return ranged(x.type, dims)

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """The same, over the lens that the symbols have in this run."""
        x: Array = inputs[0]
        if len(inputs) > 1 or not shape.is_symbolic:
            return self.compute(*inputs)
        return np.broadcast_to(x, shape.to_static(bound.get()).lens)

    def compute(self, *inputs: Any) -> Any:
        """``numpy.broadcast_to``."""
        x: Array = inputs[0]
        if len(inputs) == 1:
            return np.broadcast_to(x, self.out_lens)
        lens, dims = np.broadcast_shapes(*(i.shape for i in inputs)), self.out_dyn_dims
        if len(dims) == len(lens):  # a length that is already static is used
            lens = tuple(d.min if d.is_fixed else n for d, n in zip(dims, lens, strict=True))
        return np.broadcast_to(x, lens)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One input and several, a new leading axis, a strided operand."""
        yield cls(out_lens=(2, 4, 3)), [grid(4, 1)]
        yield cls(out_lens=(2, 3)), [grid(2, 3, type=np.int64)]
        yield cls(out_lens=(2, 3)), [np.array([2.5], np.float16)]
        yield cls(out_lens=(5, 4, 3)), [grid(3, 4).T]
        yield cls(), [grid(3, 1), grid(2, 1, 4)]
        yield cls(), [grid(2, 3), grid(1, 3), grid(3)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g summed over what was repeated."""
        x, *others = operands
        return [given.sum_to(x.shape), *[None] * len(others)]


@operation
class Broadcast(Operation):
    """The input placed on consecutive axes from ``axis`` on, and repeated along all others."""

    name = "broadcast"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.REPEATED
    axis: int = 0
    out_lens: Ints = ()
    out_dyn_dims: tuple[Dim, ...] = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``out_lens``, or the lens of the second input; stride 0 on all axes but the input's."""
        expect_count(self, inputs, 1, 2)
        expect_tensors(self, inputs)
        if any_symbolic(inputs) or (len(inputs) == 1 and self.out_dyn_dims):
            return self._symbolic_shape(inputs)
        if len(inputs) == 2 and inputs[1].dims is not None:
            return self._dynamic_shape(inputs[0], inputs[1], inputs[1].dims)
        expect_static(self, inputs)
        x = inputs[0]
        lens = self.out_lens if len(inputs) == 1 else inputs[1].lens
        if len(inputs) == 2:
            expect_rank(self, [x], 1, 1)
        end = self.axis + x.ndim
        if self.axis < 0 or end > len(lens) or lens[self.axis : end] != x.lens:
            raise ShapeError(
                f"broadcast: {x} does not fit {list(lens)} from axis {self.axis} on; "
                "expected the same lens there"
            )
        strides = [0] * len(lens)
        strides[self.axis : end] = x.strides
        return Shape(x.type, lens, strides)

    def _symbolic_shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs) == 2:
            expect_rank(self, inputs[:1], 1, 1)
            x, dims = symbolic(inputs[0]), dims_of(symbolic(inputs[1]))
        else:
            dims, x = symbolic_target(self, inputs[0], self.out_dyn_dims)
        own, end = x.dims or (), self.axis + x.ndim
        fits = self.axis >= 0 and end <= len(dims) and tuple(dims[self.axis : end]) == own
        expect(self, fits, f"{x} does not fit {list(map(str, dims))} from axis {self.axis} on")
        strides = [lit(0)] * len(dims)
        strides[self.axis : end] = x.dyn_strides
        return Shape.dynamic(x.type, dims, strides)

    def _dynamic_shape(self, x: Shape, like: Shape, dims: Sequence[Dim]) -> Shape:
        expect_static(self, [x])
        expect_rank(self, [x], 1, 1)
        if not 0 <= self.axis < len(dims) or dims[self.axis] != Dim(x.lens[0], x.lens[0]):
            raise ShapeError(f"broadcast: {x} does not fit axis {self.axis} of {like}")
        return like

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """The same, over the lens that the symbols have in this run."""
        x: Array = inputs[0]
        if len(inputs) > 1 or not shape.is_symbolic:
            return self.compute(*inputs)
        return self._laid(x, shape.to_static(bound.get()).lens)

    def compute(self, *inputs: Any) -> Any:
        """A reshape, then ``numpy.broadcast_to``."""
        return self._laid(inputs[0], self.out_lens if len(inputs) == 1 else inputs[1].shape)

    def _laid(self, x: Array, lens: Ints) -> Any:
        tail = len(lens) - self.axis - x.ndim
        return np.broadcast_to(x.reshape(x.shape + (1,) * tail), lens)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A bias along channels, two axes at once, the two-input form."""
        yield cls(axis=1, out_lens=(2, 3, 4, 5)), [grid(3)]
        yield cls(axis=1, out_lens=(2, 3, 4, 5)), [grid(4, 3, type=np.float16).T]
        yield cls(axis=0, out_lens=(3,)), [grid(3, type=np.int32)]
        yield cls(axis=1), [grid(3), grid(2, 3, 4)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g summed over what was repeated."""
        x, *others = operands
        repeated = [a for a in range(given.ndim) if not 0 <= a - self.axis < x.ndim]
        return [given.sum(repeated) if repeated else given, *[None] * len(others)]


@operation
class BroadcastForDot(Operation):
    """The first input with its leading axes broadcast to the second's; its last two axes are kept."""

    name = "broadcast_for_dot"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.REPEATED

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The common leading lens, then the last two of the first input."""
        return self._shape(inputs)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape; strict rules repeat only dimensions that are always 1."""
        return rules.settle(inputs, self._shape(inputs, rules.strict))

    def _shape(self, inputs: Sequence[Shape], strict: bool = False) -> Shape:
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_rank(self, inputs, 2)
        a, b = inputs
        if any_dynamic(inputs):
            x, y = aligned(inputs)
            return ranged(a.type, broadcast_dims(self, x[:-2], y[:-2], strict) + x[-2:])
        if a.ndim == b.ndim == 2:
            return a
        common = _common(self, (*a.lens[:-2], 1, 1), (*b.lens[:-2], 1, 1))[:-2]
        return broadcast_shape(a, common + a.lens[-2:])

    def compute(self, *inputs: Any) -> Any:
        """``numpy.broadcast_to``."""
        a, b = inputs
        return np.broadcast_to(a, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + a.shape[-2:])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Either operand with more leading axes."""
        yield cls(), [grid(4, 5), grid(2, 3, 5, 6)]
        yield cls(), [grid(2, 1, 4, 5), grid(3, 5, 6)]
        yield cls(), [grid(4, 5), grid(5, 6)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g summed over what was repeated."""
        return [given.sum_to(operands[0].shape), None]


@operation
class BroadcastWithDims(Operation):
    """The first input broadcast with the lens given by the values of the second."""

    name = "broadcast_with_dims"
    not_differentiable = "only a run knows its lengths; fix them first"
    on_host = "lengths known only at run time"
    family = Family.VIEW
    alias = 0
    dynamic = True
    rearranges = Rearrangement.REPEATED

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Unknown lengths; only the number of dimensions is known."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_static(self, inputs[1:])
        expect_rank(self, inputs[1:], 1, 1)
        expect_integers(self, inputs, 1)
        return ranged(inputs[0].type, [ANY] * max(inputs[0].ndim, inputs[1].lens[0]))

    def compute(self, *inputs: Any) -> Any:
        """``numpy.broadcast_to`` the common lens."""
        x, dims = inputs
        lens = tuple(int(n) for n in dims)
        try:
            return np.broadcast_to(x, np.broadcast_shapes(x.shape, lens))
        except ValueError:
            message = f"{list(x.shape)} does not broadcast with the dims {list(lens)}"
            raise EvaluationError(f"broadcast_with_dims: {message}") from None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A 1 in the dims keeps the input's length."""
        yield cls(), [grid(3, 1), np.array([2, 1, 4])]
        yield cls(), [grid(2, 3), np.array([3])]


@operation
class Scalar(Operation):
    """One element, repeated over ``scalar_bcst_dims``."""

    name = "scalar"
    family = Family.VIEW
    alias = 0
    rearranges = Rearrangement.REPEATED
    scalar_bcst_dims: Ints = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The given lens, with stride 0 everywhere."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        x = inputs[0]
        expect(self, x.lens in {(), (1,)}, f"input 0 is {x}; expected one element")
        return Shape(x.type, self.scalar_bcst_dims, [0] * len(self.scalar_bcst_dims))

    def compute(self, *inputs: Any) -> Any:
        """``numpy.broadcast_to``."""
        return np.broadcast_to(inputs[0].reshape(()), self.scalar_bcst_dims)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A float over a matrix."""
        yield cls(scalar_bcst_dims=(2, 3)), [grid(1)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The sum of g."""
        return [given.sum().reshape(operands[0].shape)]
