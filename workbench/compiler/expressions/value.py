"""Values: results of instructions with NumPy's operators, and every operation as a method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import index as whole
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import OperationError, did_you_mean
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import OPERATIONS, find
from workbench.compiler.ir.shape import Dim
from workbench.compiler.macros import MACROS
from workbench.compiler.macros.emit import common_type

if TYPE_CHECKING:
    from workbench.compiler.expressions.module_builder import ModuleBuilder, Operand


class Value:
    """The result of an instruction. Operators and methods append instructions to the builder's program."""

    __slots__ = ("builder", "instruction")
    __array_ufunc__ = None  # NumPy arrays leave their operators to values
    __hash__ = object.__hash__

    def __init__(self, builder: ModuleBuilder, instruction: Instruction) -> None:
        """A value of a builder's program."""
        self.builder = builder
        self.instruction = instruction

    @property
    def shape(self) -> tuple[int | Dim, ...]:
        """The length of each axis; a range where only a run knows it."""
        shape = self.instruction.shape
        return (
            shape.lens
            if shape.dims is None
            else tuple(d.min if d.is_fixed else d for d in shape.dims)
        )

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.instruction.shape.type

    # Arithmetic

    def __add__(self, other: Operand) -> Value:
        return self.apply("add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._from("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.apply("sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._from("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.apply("mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._from("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return _divided(self, self._value(other))

    def __rtruediv__(self, other: Operand) -> Value:
        return _divided(self._value(other), self)

    def __floordiv__(self, other: Operand) -> Value:
        return _floored(self, self._value(other))

    def __rfloordiv__(self, other: Operand) -> Value:
        return _floored(self._value(other), self)

    def __mod__(self, other: Operand) -> Value:
        return self.apply("mod", other)

    def __rmod__(self, other: Operand) -> Value:
        return self._from("mod", other)

    def __pow__(self, other: Operand) -> Value:
        return self.apply("pow", other)

    def __rpow__(self, other: Operand) -> Value:
        return self._from("pow", other)

    def __matmul__(self, other: Operand) -> Value:
        return _product(self, self._value(other))

    def __rmatmul__(self, other: Operand) -> Value:
        return _product(self._value(other), self)

    def __neg__(self) -> Value:
        return self.apply("neg")

    def __abs__(self) -> Value:
        return self.apply("abs")

    # Comparisons and logic

    def __lt__(self, other: Operand) -> Value:
        return self.apply("less", other).astype(DType.BOOL)

    def __gt__(self, other: Operand) -> Value:
        return self.apply("greater", other).astype(DType.BOOL)

    def __le__(self, other: Operand) -> Value:
        return (self < other) | (self == other)

    def __ge__(self, other: Operand) -> Value:
        return (self > other) | (self == other)

    def __eq__(self, other: Operand) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.apply("equal", other).astype(DType.BOOL)

    def __ne__(self, other: Operand) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ~(self == other)

    def __and__(self, other: Operand) -> Value:
        return self._bits("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._bits("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._bits("xor", other)

    def __invert__(self) -> Value:
        return self.apply("not" if self.dtype is DType.BOOL else "bitwise_not")

    def __bool__(self) -> bool:
        """Refuse: what a value is only a run knows.

        Raises:
            OperationError: Always.
        """
        raise OperationError(
            "a value is not known while a program is written; use where(condition, x, y) in place of if"
        )

    def __iter__(self) -> Any:
        """The rows, if their number is fixed."""
        if not self.ndim or isinstance(self.shape[0], Dim):
            raise OperationError(f"{self!r} cannot be iterated; its first length is not fixed")
        return iter([self[k] for k in range(self.shape[0])])

    # Layout

    def __getitem__(self, index: Any) -> Value:
        """Elements as in NumPy: whole numbers, slices, ``None``, ``...``, or one array of numbers."""
        from workbench.compiler.expressions.indexing import indexed  # noqa: PLC0415 - it makes values

        return indexed(self, index)

    def reshape(self, *lens: int | Sequence[int]) -> Value:
        """The same elements with other lengths, one of which may be -1."""
        return self.apply("reshape", dims=_flat(lens))

    def transpose(self, *permutation: int | Sequence[int]) -> Value:
        """The axes in another order; reversed by default."""
        order = _flat(permutation) or tuple(reversed(range(self.ndim)))
        return self.apply("transpose", permutation=tuple(a % max(self.ndim, 1) for a in order))

    @property
    def T(self) -> Value:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Value:  # noqa: N802 - NumPy's name
        """The last two axes exchanged."""
        order = list(range(self.ndim))
        order[-2:] = reversed(order[-2:])
        return self.transpose(order)

    def astype(self, dtype: str | DType) -> Value:
        """The value with another element type; itself if it has that type."""
        type = DType.of(dtype)
        return self if self.dtype is type else self.apply("convert", target_type=type)

    def broadcast_to(self, *lens: int | Sequence[int]) -> Value:
        """The value with these lengths, by NumPy's rules."""
        return self.apply("multibroadcast", out_lens=_flat(lens))

    def where_true(self, condition: Value) -> Value:
        """This value where a condition holds, and 0 elsewhere."""
        zero = self.builder.value(0, self.dtype)
        return self.builder.apply("where", condition, self, zero)  # pyright: ignore[reportReturnType]

    def sum_to(self, lens: Sequence[int]) -> Value:
        """The sum over what a broadcast from these lengths to this value's repeats."""
        skip = self.ndim - len(lens)
        lengths = enumerate(zip(lens, self.shape[skip:], strict=True), skip)
        axes = [*range(skip), *[axis for axis, (n, m) in lengths if n != m]]
        found = self.sum(axes, keepdims=True) if axes else self
        return found.reshape(tuple(lens)) if skip else found

    def along(self, axis: int, matrix: Any) -> Value:
        """The product of a constant matrix with each line along an axis."""
        order = [a for a in range(self.ndim) if a != axis] + [axis]
        factor = self.builder.constant(matrix.T.astype(self.dtype.numpy))
        lines = self.transpose(order) @ factor if self.ndim > 1 else self @ factor
        back = sorted(range(self.ndim), key=order.__getitem__)
        return lines.transpose(back)

    # Reductions

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The sum over some axes, or all."""
        return self._reduced("reduce_sum", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The mean over some axes, or all; of integers as float32."""
        value = self if self.dtype.is_float else self.astype(DType.FLOAT)
        return value._reduced("reduce_mean", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The largest element over some axes, or all."""
        return self._reduced("reduce_max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The smallest element over some axes, or all."""
        return self._reduced("reduce_min", axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """The product over some axes, or all."""
        return self._reduced("reduce_prod", axis, keepdims)

    def _reduced(self, name: str, axis: int | Sequence[int] | None, keepdims: bool) -> Value:
        given = range(self.ndim) if axis is None else axis
        axes = _flat((given,) if isinstance(given, Sequence) else (whole(given),))
        if not axes:
            return self
        found = self.apply(name, axes=axes)
        return found if keepdims else found.apply("squeeze", axes=axes)

    def maximum(self, other: Operand) -> Value:
        """The larger element of two."""
        return self.apply("max", other)

    def minimum(self, other: Operand) -> Value:
        """The smaller element of two."""
        return self.apply("min", other)

    # Every other operation

    def apply(self, name: str, *others: Operand, **attributes: Any) -> Value:
        """Apply an operation or a macro by name to this value and others, as `Builder.apply` does."""
        return self.builder.apply(name, self, *others, **attributes)  # pyright: ignore[reportReturnType]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """An operation or a macro as a method; this value is its first operand.

        Raises:
            AttributeError: There is no such operation.
        """
        if name.startswith("_") or not _is_known(name):
            hint = did_you_mean(name, [*OPERATIONS, *MACROS])
            raise AttributeError(f"no operation {name!r}{hint}")
        return partial(self.builder.apply, name, self)

    def __dir__(self) -> list[str]:
        """The attributes, with all operations and macros."""
        find("add")
        names = {n for n in (*OPERATIONS, *MACROS) if n.isidentifier()}
        return sorted({*object.__dir__(self), *names})

    def __repr__(self) -> str:
        """The operation and the shape."""
        i = self.instruction
        return f"<Value of {i.parameter or i.name}: {i.shape}>"

    def _from(self, name: str, other: Operand) -> Value:
        """The operation with this value as its second operand."""
        return self.builder.apply(name, other, self)  # pyright: ignore[reportReturnType]

    def _value(self, other: Operand) -> Value:
        return self.builder.value(other, self.dtype)

    def _bits(self, name: str, other: Operand) -> Value:
        value = self._value(other)
        logical = self.dtype is DType.BOOL and value.dtype is DType.BOOL
        return self.apply(f"{'logical' if logical else 'bitwise'}_{name}", value)


def _is_known(name: str) -> bool:
    find("add")  # imports all operations
    return name in OPERATIONS or name in MACROS


def _flat(given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Numbers given one by one, or as one sequence."""
    first = given[0] if len(given) == 1 else None
    listed = first if isinstance(first, Sequence) else given
    return tuple(map(whole, listed))  # pyright: ignore[reportArgumentType] - it refuses all else


def _divided(a: Value, b: Value) -> Value:
    """A quotient; of two integers as float32."""
    if not (a.dtype.is_float or b.dtype.is_float):
        a = a.astype(DType.FLOAT)
    return a.apply("div", b)


def _floored(a: Value, b: Value) -> Value:
    """A quotient rounded down."""
    if a.dtype.is_float or b.dtype.is_float:
        return a.apply("div", b).apply("floor")
    return (a - a % b).apply("div", b)


def _product(a: Value, b: Value) -> Value:
    """The matrix product by NumPy's rules: vectors are rows on the left and columns on the right."""
    if not a.ndim or not b.ndim:
        raise OperationError("@: expected vectors or matrices; found a number")
    type = common_type([a.dtype, b.dtype])
    a, b = a.astype(type), b.astype(type)
    left = a.apply("unsqueeze", axes=(0,)) if a.ndim == 1 else a
    right = b.apply("unsqueeze", axes=(1,)) if b.ndim == 1 else b
    found = left.apply("dot", right)
    dropped = [axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1]
    return found.apply("squeeze", axes=tuple(dropped)) if dropped else found
