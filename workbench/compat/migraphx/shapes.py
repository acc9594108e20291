"""Shapes and dynamic dimensions of MIGraphX's Python interface."""

from __future__ import annotations

import operator
from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound, translated
from workbench.compat.migraphx.numbered import Numbered
from workbench.compat.migraphx.showing import bundle
from workbench.compiler.errors import OperationError
from workbench.compiler.files.mxr.values import dim_of, shape_of, shape_value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim, Shape


class type_t(Numbered):
    """Element types by name; ``int(type_t.float_type)`` is the number that attributes print."""

    bool_type = 0
    half_type = 1
    float_type = 2
    double_type = 3
    uint8_type = 4
    int8_type = 5
    uint16_type = 6
    int16_type = 7
    int32_type = 8
    int64_type = 9
    uint32_type = 10
    uint64_type = 11
    fp8e4m3fnuz_type = 12
    fp8e4m3fn_type = 13
    fp8e5m2_type = 14
    bf16_type = 15
    fp8e5m2fnuz_type = 16
    tuple_type = 17
    fp4x2_type = 18


class dynamic_dimension:
    """A dimension with a range of lengths, and the lengths worth compiling for.

    ``dynamic_dimension()``, ``(min, max)``, ``(min, max, {optimals})``, or of a symbolic expression:
    ``(sym)`` or ``("n * 3", {"n": dynamic_dimension(1, 8)})``.
    """

    def __init__(self, *args: Any) -> None:
        with translated():
            self._core = _dim(args)

    @classmethod
    def of(cls, core: Dim) -> dynamic_dimension:
        """The dimension that wraps one of the core's."""
        made = cls.__new__(cls)
        made._core = core
        return made

    @property
    def core(self) -> Dim:
        """The core's dimension."""
        return self._core

    @property
    def min(self) -> int:
        """The least length."""
        return self._core.min

    @property
    def max(self) -> int:
        """The largest length."""
        return self._core.max

    @property
    def optimals(self) -> set[int]:
        """Lengths worth compiling for."""
        return set(self._core.optimals)

    @bound
    def is_fixed(self) -> bool:
        """Whether only one length is possible."""
        return self._core.is_fixed

    @bound
    def is_symbolic(self) -> bool:
        """Whether the length is a symbolic expression."""
        return self._core.sym is not None

    def __repr__(self) -> str:
        """The dimension as shapes print it."""
        return str(self._core)


def _dim(args: tuple[Any, ...]) -> Dim:
    match args:
        case ():
            return Dim(0, 0)
        case (low, high):
            if isinstance(low, str):
                return _symbolic_text(low, high)
            return Dim(_length(low), _length(high))
        case (low, high, optimals) if isinstance(optimals, set | frozenset):
            best = sorted(_length(n) for n in cast("set[Any]", optimals))
            return Dim(_length(low), _length(high), tuple(best))
        case (expression,):
            return _symbolic(expression)
        case _:
            raise _wrong(args)


def _length(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise _wrong((value,))
    return number


def _wrong(args: tuple[Any, ...]) -> TypeError:
    return TypeError(
        f"dynamic_dimension(): incompatible arguments {args}; it is dynamic_dimension(), "
        "(min, max), (min, max, {optimals}), (sym) or (expression, {name: dynamic_dimension})"
    )


def _symbolic(expression: Any) -> Dim:
    from workbench.compat.migraphx.sym import dim_of  # noqa: PLC0415

    return dim_of(expression)


def _symbolic_text(text: str, names: Any) -> Dim:
    from workbench.compat.migraphx.sym import dim_of_text  # noqa: PLC0415

    return dim_of_text(text, names)


class shape:
    """Type, lens and strides of a tensor; ``shape(type="float", lens=[2, 3])``.

    Args:
        **kw: ``type``, ``lens`` and one of ``dyn_dims``, ``strides`` and ``permutation``; or
            ``type="tuple_type"`` with ``sub_shapes``. Others are ignored, as MIGraphX does.
    """

    type_t = type_t
    dynamic_dimension = dynamic_dimension

    def __init__(self, **kw: Any) -> None:
        with translated():
            self._core = _made(kw)

    @property
    def core(self) -> Shape:
        """The core's shape."""
        return self._core

    @staticmethod
    @bound
    def from_json(text: str) -> shape:
        """The shape that ``to_json`` wrote.

        Raises:
            Error: The text does not describe a shape.
        """
        from workbench.compiler.files.mxr.json_form import read_json  # noqa: PLC0415

        return from_core(shape_of(read_json(text)))

    @bound
    def to_json(self) -> str:
        """The shape as JSON, in the form that files have."""
        from workbench.compiler.files.mxr.json_form import write_json  # noqa: PLC0415

        return write_json(shape_value(self._core))

    @bound
    def type(self) -> type_t:
        """The element type."""
        return type_t(int(self._core.type))

    @bound
    def lens(self) -> list[int]:
        """The lengths."""
        return list(_static(self._core, "lens").lens)

    @bound
    def strides(self) -> list[int]:
        """The strides, in elements."""
        return list(_static(self._core, "strides").strides)

    @bound
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._core.ndim

    @bound
    def elements(self) -> int:
        """The number of elements."""
        return _static(self._core, "elements").elements

    @bound
    def bytes(self) -> int:
        """The bytes that a tensor of this shape spans in memory."""
        return self._core.bytes

    @bound
    def type_string(self) -> str:
        """The name of the element type, such as ``float_type``."""
        return self._core.type.type_name

    @bound
    def type_size(self) -> int:
        """The bytes of one element."""
        if self._core.subs is not None:
            raise Error(f"type_size() of {self._core}: a tuple has no elements of its own")
        return self._core.type.size

    @bound
    def dyn_dims(self) -> list[dynamic_dimension]:
        """The dynamic dimensions."""
        if self._core.dims is None:
            raise Error(f"dyn_dims() of {self._core}: the shape is static; ask for lens()")
        return [dynamic_dimension.of(d) for d in self._core.dims]

    @bound
    def sub_shapes(self) -> list[shape]:
        """The shapes of a tuple's elements; empty for a tensor."""
        return [from_core(s) for s in self._core.subs or ()]

    @bound
    def packed(self) -> bool:
        """Whether the elements are in memory without gaps or repeats."""
        return self._core.packed

    @bound
    def transposed(self) -> bool:
        """Whether the strides are not in descending order."""
        return self._core.transposed

    @bound
    def broadcasted(self) -> bool:
        """Whether some stride is 0."""
        return self._core.broadcasted

    @bound
    def standard(self) -> bool:
        """Whether the elements are in row-major order without gaps."""
        return self._core.standard

    @bound
    def scalar(self) -> bool:
        """Whether all strides are 0."""
        return self._core.is_scalar

    @bound
    def dynamic(self) -> bool:
        """Whether a dimension is a range."""
        return self._core.is_dynamic

    @bound
    def _equals(self, other: shape) -> bool:
        return self._core == other._core

    def __eq__(self, other: object) -> bool:
        """Equal type, lens and strides; other things cannot be compared."""
        return self._equals(cast("shape", other))

    def __ne__(self, other: object) -> bool:
        """Not equal."""
        return not self._equals(cast("shape", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        """The text that programs print."""
        return str(self._core)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        rows = {k: getattr(self._core, k) for k in _SHOWN}
        return bundle(repr(self), "shape", {"type": self._core.type.type_name} | rows)


_SHOWN = (
    "lens",
    "strides",
    "dims",
    "subs",
    "bytes",
    "packed",
    "transposed",
    "broadcasted",
    "standard",
)
"""The properties that a notebook shows of a shape."""


def from_core(core: Shape) -> shape:
    """The shape that wraps one of the core's."""
    made = shape.__new__(shape)
    made._core = core  # pyright: ignore[reportPrivateUsage]
    return made


def _static(core: Shape, what: str) -> Shape:
    if core.dims is not None:
        raise Error(f"{what}() of {core}: the shape is dynamic; ask for dyn_dims()")
    return core


def type_named(name: Any) -> DType:
    """The element type of this name.

    Raises:
        IndexError: There is none.
    """
    if isinstance(name, str):
        text = "tuple_type" if name == "tuple" else name
        try:
            if not text.startswith(("fp16", "fp32", "fp64")):
                return DType.of(text)
        except OperationError:
            pass
    listed = ", ".join(t.type_name for t in DType)
    raise IndexError(f"type={name!r}: no element type has this name; types are {listed}")


def _made(kw: dict[str, Any]) -> Shape:
    from workbench.compat.migraphx.values import read  # noqa: PLC0415

    given = {k: read(v) for k, v in kw.items()}
    kind = type_named(given.get("type", "float"))
    if kind is DType.TUPLE:
        return Shape.tuple_of([_sub(s) for s in _listed(given, "sub_shapes", [])])
    if "dyn_dims" in given:
        return Shape.dynamic(kind, [_dyn(d) for d in _listed(given, "dyn_dims")])
    lens = _lengths(given, "lens", [1])
    if not lens:
        return Shape.absent(kind)
    if "strides" in given:
        return Shape(kind, lens, _lengths(given, "strides"))
    if "permutation" in given:
        return Shape.permuted(kind, lens, _permutation(given, len(lens)))
    return Shape(kind, lens)


def _listed(given: dict[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    value = given.get(key, default)
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _lengths(given: dict[str, Any], key: str, default: list[int] | None = None) -> list[int]:
    found = _listed(given, key, default)
    for n in found:
        if not isinstance(n, int) or n < 0:
            raise Error(f"shape: {key}={found}: {n!r} is not an integer of 0 or more")
    return [int(n) for n in found]


def _permutation(given: dict[str, Any], rank: int) -> list[int]:
    found = _lengths(given, "permutation")
    if sorted(found) != list(range(rank)):
        raise Error(f"shape: permutation={found}: expected the axes 0 to {rank - 1}, each once")
    return found


def _sub(value: Any) -> Shape:
    if not isinstance(value, shape):
        raise Error(f"shape: sub_shapes: expected shapes, found {type(value).__name__} {value!r}")
    return value.core


def _dyn(value: Any) -> Dim:
    if isinstance(value, dynamic_dimension):
        return value.core
    if isinstance(value, int) and value >= 0:
        return Dim(value, value)
    if isinstance(value, dict):
        return dim_of(value, "shape: dyn_dims")
    raise Error(
        f"shape: dyn_dims: expected dynamic_dimension, found {type(value).__name__} {value!r}"
    )
