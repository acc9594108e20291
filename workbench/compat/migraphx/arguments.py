"""Arguments: data with a shape. They are NumPy arrays, so that buffers are passed without copies."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from workbench.compat.migraphx.errors import Error, FileName, Size, bound
from workbench.compat.migraphx.shapes import from_core, shape
from workbench.compat.migraphx.showing import bundle
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import HELD, Array, DType
from workbench.compiler.ir.operation import Value, float_text
from workbench.compiler.ir.shape import Shape
from workbench.numerics.verify import generate

MOST_SHOWN = 100
"""Most elements that a notebook shows."""


class _ArgumentType(type):
    """The type of arguments, which includes device arguments although they are not NumPy arrays."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or hasattr(instance, "is_on_device")


class argument(np.ndarray, metaclass=_ArgumentType):
    """Data with a shape, made from any buffer without a copy.

    It is an array with the shape's lens and strides: ``np.asarray(a)`` and ``memoryview(a)`` share its
    memory. NumPy's operations on it return plain arrays. Results of a run own their memory.
    """

    _shape: Shape | None
    _parts: tuple[argument, ...]
    _address: int = 0

    def __new__(cls, data: Any) -> argument:
        """The argument of a buffer; the buffer is kept alive."""
        if isinstance(data, argument):
            return data if hasattr(data, "is_on_device") else data.view(argument)
        return of_array(_array_of(data))

    def __array_finalize__(self, array: Any) -> None:
        """Give a view or copy the shape of its source, if it still has that shape."""
        same = isinstance(array, argument) and array.shape == self.shape
        same = same and array.strides == self.strides and array.dtype == self.dtype
        self._shape = array._shape if same else None
        self._parts = array._parts if same else ()
        self._address = array._address if same else 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Arithmetic, which returns plain arrays."""
        if "out" in options:
            options["out"] = tuple(_plain(o) for o in options["out"])
        return getattr(ufunc, method)(*map(_plain, inputs), **options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Functions of NumPy, which return plain arrays."""
        return func(*_plain_deep(args), **_plain_deep(kwargs))

    @property
    def core(self) -> Shape:
        """The core's shape."""
        if self._shape is None:
            self._shape = _shape_of(np.asarray(self))
        return self._shape

    @property
    def address(self) -> int:
        """The address that the caller gave, which may be on a device; 0 for any other buffer."""
        return self._address if self._address == self.ctypes.data else 0

    @address.setter
    def address(self, address: int) -> None:
        self._address = address

    @property
    def value(self) -> Value:
        """The core's value: an array, or a tuple of arrays."""
        if self.core.subs is not None:
            return tuple(p.value for p in self._parts)
        return np.asarray(self)

    @bound
    def get_shape(self) -> shape:
        """The shape."""
        return from_core(self.core)

    @bound
    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.ctypes.data

    @bound
    def get_sub_objects(self) -> list[argument]:
        """The elements of a tuple; empty for a tensor."""
        return list(self._parts)

    def empty(self) -> bool:
        """Whether there is no data."""
        return not self._parts and self.size == 0

    def tolist(self) -> list[Any]:
        """The elements in logical order, in one flat list; bools as 0 and 1."""
        if self.core.subs is not None:
            raise Error(f"tolist() of {self.core}: the argument is a tuple; see get_sub_objects()")
        flat = np.asarray(self).reshape(-1)
        if flat.dtype == np.bool_:
            flat = flat.astype(np.int8)
        return cast("list[Any]", flat.tolist())

    @staticmethod
    @bound
    def save(arg: argument, filename: FileName) -> None:
        """Write an argument to a file that MIGraphX reads."""
        from workbench.compat.migraphx.files import save_argument  # noqa: PLC0415

        save_argument(arg, filename)

    @staticmethod
    @bound
    def load(filename: FileName) -> argument:
        """Read an argument from a file that MIGraphX wrote."""
        from workbench.compat.migraphx.files import load_argument  # noqa: PLC0415

        return load_argument(filename)

    @bound
    def _equals(self, other: argument) -> bool:
        if self.core != other.core or len(self._parts) != len(other._parts):
            return False
        pairs = zip(self._parts, other._parts, strict=True)
        if self._parts:
            return all(a._equals(b) for a, b in pairs)
        return _float_equal(np.asarray(self), np.asarray(other))

    def __eq__(self, other: object) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Equal shapes and elements: floats within a unit in the last place, NaN and infinities never."""
        return self._equals(cast("argument", other))

    def __ne__(self, other: object) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Not equal."""
        return not self._equals(cast("argument", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        """True, whatever the elements are."""
        return True

    def __getitem__(self, key: Any) -> Any:
        """Elements, as a plain array."""
        return np.asarray(self)[key]

    def __iter__(self) -> Iterator[Any]:
        """Elements along the first axis, as plain arrays."""
        return iter(np.asarray(self))

    def __repr__(self) -> str:
        """The elements in logical order, ``1, 2, 3``."""
        if self._parts:
            return "".join(f"{{ {p!r} }}, " for p in self._parts)
        if self.dtype.kind in "biu" and self.core.type is not DType.FP4X2:
            return ", ".join(map(str, self.tolist()))
        return ", ".join(float_text(float(v)) for v in np.asarray(self).reshape(-1))

    __str__ = __repr__

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        parts = ", ".join(str(p.core) for p in self._parts)
        flat = np.asarray(self).reshape(-1)
        first = repr(of_array(flat[:MOST_SHOWN])) + (" ..." if flat.size > MOST_SHOWN else "")
        shown = f"of {parts}" if self._parts else first
        return bundle(shown, "argument", {"shape": self.core, "elements": shown})

    def __reduce__(self) -> Any:
        """Pickles and copies by value."""
        return _rebuilt, (self.core, self._parts or np.array(self, copy=True))

    def __copy__(self) -> argument:
        """A copy with its own memory."""
        return _rebuilt(self.core, self._parts or np.array(self, copy=True))

    def __deepcopy__(self, memo: Any) -> argument:
        """A copy with its own memory."""
        return self.__copy__()


def _rebuilt(core: Shape, held: Any) -> argument:
    if isinstance(held, tuple):
        return of_parts(core, [p.__copy__() for p in cast("tuple[argument, ...]", held)])
    return of_value(core, np.asarray(held))


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, argument) else value


def _plain_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain_deep(v) for k, v in cast("dict[Any, Any]", value).items()}
    if type(value) in (list, tuple):
        return type(value)(_plain_deep(v) for v in value)
    return _plain(value)


# Making arguments


def of_array(array: Array, core: Shape | None = None) -> argument:
    """The argument with an array as its memory, and the strides of the shape."""
    core = core or _shape_of(array)
    if core.lens != array.shape:
        array = array.reshape(core.array_lens)
    if array.size and array.strides != tuple(s * array.itemsize for s in core.strides):
        array = _viewed(array, core)
    made = array.view(argument)
    made._shape, made._parts = core, ()  # pyright: ignore[reportPrivateUsage]
    return made


def of_parts(core: Shape, parts: Sequence[argument]) -> argument:
    """The argument of a tuple."""
    made = np.empty(0, np.uint8).view(argument)
    made._shape, made._parts = core, tuple(parts)  # pyright: ignore[reportPrivateUsage]
    return made


def of_value(core: Shape, value: Any) -> argument:
    """The argument of a value that the core computed, in new memory with the shape's layout."""
    if core.kind:
        raise Error(f"a result of shape {core} is a sequence; arguments cannot hold sequences")
    if core.subs is not None:
        parts = [of_value(s, v) for s, v in zip(core.subs, value, strict=True)]
        return of_parts(core, parts)
    array = np.asarray(value)
    if core.dims is not None:
        core = Shape(core.type, array.shape)
    memory = np.empty(max(core.element_space, 0), core.type.numpy)
    if not array.size:
        return of_array(memory[:0].reshape(core.array_lens), core)
    if core.standard:
        memory[:] = array.reshape(-1)
    else:
        _viewed(memory, core)[...] = array.reshape(core.lens)
    return of_array(_viewed(memory, core), core)


def _viewed(memory: Array, core: Shape) -> Array:
    """A view of memory with a shape; made with integers, since NumPy cannot restride small floats."""
    strides = [s * memory.itemsize for s in core.strides]
    bits = memory.view(f"u{memory.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, core.lens, strides).view(memory.dtype)


def core_argument(value: argument, copy: bool = False) -> Argument:
    """The core's argument over the same memory, or over a copy.

    Raises:
        Error: It is a tuple.
    """
    if value.core.subs is not None:
        raise Error(f"an argument of shape {value.core}: expected a tensor, found a tuple")
    array = np.asarray(of_value(value.core, value.value) if copy else value)
    return Argument(value.core, array.view())


def as_argument(data: Any, where: str) -> argument:
    """The argument of a buffer that a caller gave.

    Raises:
        TypeError: It is not a buffer.
        Error: Programs do not support the type of its elements.
    """
    try:
        return argument(data)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None


def _array_of(data: Any) -> Array:
    if isinstance(data, np.ndarray):
        array = cast("Array", data)
    else:
        try:
            array = np.asarray(memoryview(data))
        except TypeError:
            array = _through_dlpack(data)
        except (ValueError, NotImplementedError) as error:
            raise Error(f"unsupported data type of the buffer: {error}") from None
    return _native(array)


def _through_dlpack(data: Any) -> Array:
    """The array of a tensor that is not a buffer, such as PyTorch's, without a copy."""
    found = type(data).__name__
    if not hasattr(data, "__dlpack__"):
        raise TypeError(f"expected a buffer, such as a NumPy array, found {found}") from None
    try:
        return np.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Error(
            f"NumPy cannot read a {found}: {error}; expected it in the host's memory, of a type "
            "that NumPy has, and without a gradient"
        ) from error


def _native(array: Array) -> Array:
    known = array.dtype not in HELD and array.dtype.isnative
    try:
        DType.of(array.dtype)
    except OperationError:
        known = False
    if not known:
        raise Error(
            f"unsupported data type {array.dtype}: elements have to be bools, integers of 8 to 64 "
            "bits or floats of 8 to 64 bits, in the machine's byte order; convert with astype()"
        )
    if any(s < 0 or s % array.itemsize for s in array.strides):
        array = np.ascontiguousarray(array)
    return array


def _shape_of(array: Array) -> Shape:
    kind = DType.of(array.dtype)
    if array.ndim == 0:
        return Shape.scalar(kind)
    if array.flags.c_contiguous or not array.size:
        return Shape(kind, array.shape)
    return Shape(kind, array.shape, [s // array.itemsize for s in array.strides])


def _float_equal(a: Array, b: Array) -> bool:
    kind = DType.of(a.dtype)
    if not kind.is_float:
        return bool(np.array_equal(a, b))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    if kind not in (DType.HALF, DType.FLOAT, DType.DOUBLE):
        return bool((np.abs(_ordered(a) - _ordered(b)) <= 1).all())
    with np.errstate(over="ignore", under="ignore"):
        low = np.nextafter(a, a.dtype.type(-np.inf))
        high = np.nextafter(a, a.dtype.type(np.inf))
    return bool(((low <= b) & (b <= high)).all())


def _ordered(array: Array) -> Array:
    """Integers in the order of the floats; adjacent floats differ by one."""
    bits = array.view(f"u{array.itemsize}").astype(np.int64)
    sign = 1 << (8 * array.itemsize - 1)
    return np.where(bits & sign, sign - bits, bits)


# The module's functions


@bound
def create_argument(shape: shape, values: list[int | float]) -> argument:
    """An argument of this shape with these elements, in logical order.

    Raises:
        Error: The number of elements is not the shape's.
    """
    core = shape.core
    if core.subs is not None or core.dims is not None:
        raise Error(f"create_argument: {core}: expected the shape of a static tensor")
    if len(values) != core.elements:
        raise Error(
            f"create_argument: values and shape elements do not match: {len(values)} values for "
            f"{core}, which has {core.elements}"
        )
    return of_value(core, _elements(values, core.type).reshape(core.array_lens))


def _elements(values: list[int | float], type: DType) -> Array:
    """Numbers in an element type; integers are not rounded by way of a double."""
    if type.is_integral and all(isinstance(v, int) for v in values):
        with suppress(OverflowError):  # integers that do not fit are converted through a double
            return np.array(values, type.numpy)
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(type.numpy)


@bound
def generate_argument(s: shape, seed: Size = 0) -> argument:
    """An argument of pseudo-random numbers; equal seeds give equal numbers."""
    return of_value(s.core, generate.generate(s.core, seed))


@bound
def fill_argument(s: shape, value: float) -> argument:
    """An argument whose elements are all equal."""
    return of_value(s.core, generate.filled(s.core, value))


def at_address(core: Shape, address: int) -> argument:
    """An argument on memory at an address, without a copy and without reading it.

    Raises:
        Error: The shape is not a tensor's, or the address is invalid.
    """
    if core.subs is not None or core.dims is not None:
        raise Error(f"argument_from_pointer: {core}: expected the shape of a static tensor")
    if address <= 0:
        raise Error(f"argument_from_pointer: address {address}: expected the address of memory")
    held = (ctypes.c_char * max(core.bytes, 1)).from_address(address)
    memory: Array = np.frombuffer(memoryview(held).cast("B"), core.type.numpy, core.element_space)
    made = of_array(_viewed(memory, core), core)
    made.address = address
    return made
