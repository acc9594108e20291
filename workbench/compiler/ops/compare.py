"""Comparison, logic, selection and bounds: results are 1 or 0 in the type of the operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array, DType, NaN
from workbench.compiler.ir.operation import Sample, expect_count, expect_same_type, operation
from workbench.compiler.ir.ranges import ranged
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import (
    INTEGERS,
    Binary,
    Function,
    Pointwise,
    Unary,
    draw,
    expect_same_dims,
    expect_tensors,
    winner,
)

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_TRUTH: tuple[tuple[float, float], ...] = ((-1.0, 1.0),)


class _Test(Binary):
    """A test of two operands; ``function`` gives bools. It is exact without a wider type."""

    flat = True

    keeps_types = True

    def compute(self, *inputs: Any) -> Array:
        """1 or 0 in the type of the operands."""
        with np.errstate(all="ignore"):
            return type(self).function(*inputs).astype(inputs[0].dtype)


class _Property(Unary):
    """A property of a float; the result is a bool tensor."""

    flat = True

    keeps_types = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The input's lens, of bools."""
        return super().compute_shape(inputs, modules).with_type(DType.BOOL)

    def compute(self, *inputs: Any) -> Array:
        """A bool for each element; always false for integers."""
        if DType.of(inputs[0].dtype).is_float:
            return type(self).function(inputs[0])
        return np.zeros(inputs[0].shape, np.bool_)


_FNUZ = frozenset(t.numpy for t in DType if t.format.nan is NaN.FNUZ)


def _equal(x: Array, y: Array) -> Array:
    """Equality of values; of codes where every value, NaN included, has exactly one code."""
    if x.dtype in _FNUZ and y.dtype == x.dtype:
        return np.equal(x.view(np.uint8), y.view(np.uint8))
    return np.equal(x, y)


@operation
class Equal(_Test):
    """Whether x = y. Infinities equal themselves; NaN equals nothing, except in the fnuz types of fp8."""

    name = "equal"
    expression = "T({0} == {1})"
    commutative = True
    domains = _TRUTH
    function = _equal


@operation
class Greater(_Test):
    """Whether x > y."""

    name = "greater"
    expression = "T({0} > {1})"
    function = np.greater


@operation
class Less(_Test):
    """Whether x < y."""

    name = "less"
    expression = "T({0} < {1})"
    function = np.less


@operation
class LogicalAnd(_Test):
    """Whether x and y are both non-zero."""

    name = "logical_and"
    expression = "T({0} != T(0) && {1} != T(0))"
    domains = _TRUTH

    def compute(self, *inputs: Any) -> Array:
        """1 or 0 in the type of the operands."""
        return ((inputs[0] != 0) & (inputs[1] != 0)).astype(inputs[0].dtype)


@operation
class LogicalOr(_Test):
    """Whether x or y is non-zero."""

    name = "logical_or"
    expression = "T({0} != T(0) || {1} != T(0))"
    domains = _TRUTH

    def compute(self, *inputs: Any) -> Array:
        """1 or 0 in the type of the operands."""
        return ((inputs[0] != 0) | (inputs[1] != 0)).astype(inputs[0].dtype)


@operation
class LogicalXor(_Test):
    """Whether exactly one of x and y is non-zero."""

    name = "logical_xor"
    expression = "T(({0} != T(0)) != ({1} != T(0)))"
    domains = _TRUTH

    def compute(self, *inputs: Any) -> Array:
        """1 or 0 in the type of the operands."""
        return ((inputs[0] != 0) ^ (inputs[1] != 0)).astype(inputs[0].dtype)


@operation
class Not(Unary):
    """1 where x is 0, else 0."""

    name = "not"
    flat = True
    expression = "T({0} == T(0))"
    keeps_types = True
    domains = _TRUTH

    def compute(self, *inputs: Any) -> Array:
        """1 or 0 in the type of the operand."""
        return np.equal(inputs[0], 0).astype(inputs[0].dtype)


@operation
class BitwiseAnd(Binary):
    """The bits that x and y have in common, for integers."""

    name = "bitwise_and"
    flat = True
    expression = "{0} & {1}"
    exact = True
    commutative = True
    types = (*INTEGERS, DType.BOOL)
    function = np.bitwise_and

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the inputs, which must be integers or bools."""
        result = super().compute_shape(inputs, modules)
        if not result.type.is_integral:
            found = result.type.type_name
            raise ShapeError(f"bitwise_and: the inputs are {found}; expected integers")
        return result


@operation
class Isnan(_Property):
    """Whether x is NaN, as a bool."""

    name = "isnan"
    expression = "isnan({0})"
    function = np.isnan


@operation
class Isinf(_Property):
    """Whether x is infinite, as a bool."""

    name = "isinf"
    expression = "isinf({0})"
    function = np.isinf


@operation
class Where(Pointwise):
    """x where the condition is non-zero, else y."""

    name = "where"
    expression = "{0} ? {1} : {2}"
    keeps_types = True
    arity = 3
    overwrites = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of x and y; a static condition of one element fits any lens."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        _, x, y = inputs
        whole = self.alike(inputs) == inputs
        dims = expect_same_dims(self, inputs) if whole else None
        if y.type is not x.type:
            raise ShapeError(f"where: input 2 is {y}; expected the type of input 1, {x}")
        if dims is not None:
            return ranged(x.type, dims)
        return winner(self, x, y, standard=True)

    def alike(self, inputs: Sequence[Shape]) -> Sequence[Shape]:
        """All inputs except a static condition of one element."""
        condition = inputs[0]
        return inputs if condition.is_dynamic or condition.elements != 1 else inputs[1:]

    def compute(self, *inputs: Any) -> Array:
        """The chosen elements."""
        condition, x, y = inputs
        select: Function = np.where
        return select(condition if condition.dtype == np.bool_ else condition != 0, x, y)

    def compute_as(self, shape: Shape, *inputs: Any) -> Array:
        """The chosen elements; where a run decides the lens, one condition chooses a whole operand."""
        condition, x, y = inputs
        if shape.dims is not None and condition.size == 1 and x.shape != y.shape:
            return np.array(x if condition.reshape(-1)[0] else y)
        return self.compute(*inputs)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """A bool condition for every type, a float one, one of one element, strided operands."""
        for type in cls.types:
            yield cls(), [draw(DType.BOOL, (2, 3), 0, 1), *cls.draw(type, (2, 3))[1:]]
        yield cls(), cls.draw(DType.INT32, (2, 3))
        x, y = cls.draw(DType.FLOAT, (3, 4))[1:]
        yield cls(), [np.array([True]), x, y]
        for operands in cls.float_operands():
            yield cls(), [operands[0] > 0, *operands[1:]]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """No gradient for the condition; g where it holds, and g where it does not."""
        condition = operands[0].astype("bool")
        return [None, given.where_true(condition), given.where_true(~condition)]


@operation
class Clip(Pointwise):
    """min(max(x, low), high)."""

    name = "clip"
    expression = "min(max({0}, {1}), {2})"
    arity = 3
    exact = True
    cost = 2
    domains = ((-4.0, 4.0), (-2.0, 0.0), (1.0, 2.0))
    function = np.clip

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of x, including its strides."""
        expect_count(self, inputs, 3)
        expect_tensors(self, inputs)
        expect_same_type(self, inputs)
        dims = expect_same_dims(self, inputs)
        return inputs[0] if dims is None else ranged(inputs[0].type, dims)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g for the operand whose value is the result: a bound where x is beyond it, else x."""
        x, low, high = operands
        above = x.maximum(low) > high
        below = (x < low) & ~above
        return [
            given.where_true(~(above | below)),
            given.where_true(below),
            given.where_true(above),
        ]
