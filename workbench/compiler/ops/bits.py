"""Operations on the bits of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Operation, Sample, operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import INTEGERS, Binary, Unary

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_WHOLE = (*INTEGERS, DType.UINT16, DType.UINT32, DType.UINT64)


def _expect_bits(op: Operation, type: DType, bool_too: bool) -> None:
    if not type.is_integral or (type is DType.BOOL and not bool_too):
        raise ShapeError(f"{op.name}: the inputs are {type.type_name}; expected integers")


class _Bitwise(Binary):
    """An operation on the bits of two integers, or on two bools."""

    flat = True

    exact = True
    commutative = True
    types = (*_WHOLE, DType.BOOL)

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the inputs, which must be integers or bools."""
        result = super().compute_shape(inputs, modules)
        _expect_bits(self, result.type, bool_too=True)
        return result


@operation
class BitwiseOr(_Bitwise):
    """The bits set in x or y, for integers."""

    name = "bitwise_or"
    expression = "{0} | {1}"
    function = np.bitwise_or


@operation
class BitwiseXor(_Bitwise):
    """The bits in which x and y differ, for integers."""

    name = "bitwise_xor"
    expression = "{0} ^ {1}"
    function = np.bitwise_xor


@operation
class BitwiseNot(Unary):
    """The bits of x inverted, for integers."""

    name = "bitwise_not"
    flat = True
    expression = "~{0}"
    exact = True
    types = _WHOLE
    function = np.invert

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the input, which must be an integer tensor."""
        result = super().compute_shape(inputs, modules)
        _expect_bits(self, result.type, bool_too=False)
        return result


class _Shift(Binary):
    """A shift by a number of bits; a negative number counts as past the width."""

    flat = True

    exact = True
    domains = ((-100.0, 100.0), (0.0, 9.0))
    types = _WHOLE

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the inputs, which must be integers."""
        result = super().compute_shape(inputs, modules)
        _expect_bits(self, result.type, bool_too=False)
        return result

    @classmethod
    def float_operands(cls) -> Iterator[list[Array]]:
        """None: only integers are shifted."""
        return iter(())

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every integer type, and shifts below 0 and past the width."""
        yield from super().samples()
        for kind in (np.int8, np.int32):
            bits = np.iinfo(kind).bits
            places = np.array([[0, bits - 1, bits], [bits + 1, -1, -bits]], kind)
            yield cls(), [np.array([[-8, 1, -1], [4, -8, 4]], kind), places]


@operation
class ShiftLeft(_Shift):
    """x shifted left by y bits; 0 if y is negative or at least the width of x."""

    name = "shift_left"
    expression = "shift_left({0}, {1})"

    def value(self, *inputs: Any) -> Array:
        """NumPy's shift, which is defined for any number of bits."""
        return np.left_shift(*inputs)


@operation
class ShiftRight(_Shift):
    """x shifted right by y bits, keeping the sign; all sign bits if y is negative or past the width."""

    name = "shift_right"
    expression = "shift_right({0}, {1})"

    def value(self, *inputs: Any) -> Array:
        """NumPy's shift, which is defined for any number of bits."""
        return np.right_shift(*inputs)
