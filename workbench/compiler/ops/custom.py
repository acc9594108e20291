"""Operations that users declare from Python: ``operation`` registers one, which works like any other."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, make_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np

from workbench.compiler.errors import (
    DifferentiationError,
    EvaluationError,
    OperationError,
    ShapeError,
    WorkbenchError,
)
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    OPERATIONS,
    Evaluate,
    Family,
    Operation,
    all_operations,
    forget_plain,
    make,
)
from workbench.compiler.ir.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

ShapeRule: TypeAlias = Callable[..., Shape]
Compute: TypeAlias = Callable[..., Any]
Alias: TypeAlias = Callable[[Sequence[Shape]], Sequence[int] | None]
Gradient: TypeAlias = Callable[..., Sequence[Any]]

_NAME = re.compile(r"[^\s\[\](){},@\"=]+")
_FLAGS = {"clip_min", "clip_max", "include_min", "exclude_min", "include_max"}


class Custom(Operation):
    """Base of the operations that users declare; the attributes below come from their functions."""

    family: ClassVar[Family] = Family.KERNEL
    dynamic: ClassVar[bool] = True
    shape_rule: ClassVar[ShapeRule]
    meaning: ClassVar[Compute | None] = None
    alias_rule: ClassVar[Alias | None] = None
    slopes: ClassVar[Gradient | None] = None
    op_attributes: ClassVar[Mapping[str, Any]] = {}
    normalizes: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Attributes that name axes of the first input, and how to treat values out of range."""
    is_alias_known: ClassVar[bool] = True
    """Whether ``alias`` is known from ``output_alias``; False until that accepts some inputs."""
    wide: ClassVar[type[Custom] | None] = None
    """The same operation for a run in which every float is a float64; None in that operation itself."""

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """This operation with its axes counted from the front, if it was declared with ``normalizes``."""
        if not self.normalizes or not inputs:
            return self
        rank = inputs[0].ndim
        known = self.attributes()
        changes = {k: _axes(self, k, known[k], rank, f) for k, f in self.normalizes.items()}
        return type(self)(**(known | changes)) if changes else self

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Call the user's function."""
        op = self.normalized(inputs)
        try:
            given = {"modules": list(modules), "attributes": op.attributes()}
            found: object = call(type(self).shape_rule, (list(inputs), list(modules)), given)
        except WorkbenchError:
            raise
        except Exception as error:  # a user's function may raise anything
            shapes = "; ".join(map(str, inputs)) or "none"
            raise ShapeError(
                f"{self.name}: compute_shape raised {type(error).__name__}: {error}; "
                f"inputs were {shapes}"
            ) from error
        if not isinstance(found, Shape):
            raise ShapeError(f"{self.name}: compute_shape returned {found!r}; expected a Shape")
        self._learn_alias(inputs)
        return found

    def _learn_alias(self, inputs: Sequence[Shape]) -> None:
        """Check that ``output_alias`` gives the same answer for these inputs as before."""
        cls, count = type(self), len(inputs)
        if cls.alias_rule is None or not count:
            return
        said = _alias_of(cls, inputs)
        if not cls.is_alias_known:
            cls.alias, cls.is_alias_known = said, True
        known = None if cls.alias is None else cls.alias % count
        if said == known:
            return
        raise ShapeError(
            f"{self.name}: output_alias returned {said} for {count} inputs, but {cls.alias} "
            "for others; expected the same input, counted from the first or from the last"
        )

    def compute(self, *inputs: Any) -> Any:
        """Call the user's function."""
        shapes = [_shape_of(x) for x in inputs]
        return self._computed(self.compute_shape(shapes), inputs, ())

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """Call the user's function for a result of this shape."""
        return self._computed(shape, inputs, ())

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """Call the user's function, which may run the modules."""
        shape = self.compute_shape([_shape_of(x) for x in inputs], modules)
        bodies = [_body(evaluate, m) for m in modules]
        return self._computed(shape, inputs, bodies)

    def _computed(
        self, shape: Shape, inputs: Sequence[Any], bodies: Sequence[Callable[..., Any]]
    ) -> Any:
        meaning = type(self).meaning
        if meaning is None:
            raise EvaluationError(
                f"{self.name}: the operation was declared without compute, so it cannot run"
            )
        if self.wide is None:
            shape = _widened(shape)
        if (
            self.pointwise and shape.is_tensor
        ):  # a fused body is written for scalars but runs on whole arrays
            shape = Shape(shape.type, np.broadcast_shapes(*map(np.shape, inputs)))
        values = list(inputs)
        op = self.normalized([_shape_of(x) for x in inputs])
        given = {"modules": list(bodies), "attributes": op.attributes()}
        try:
            found: object = call(meaning, (shape, values), given)
        except WorkbenchError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise EvaluationError(
                f"{self.name}: compute raised {type(error).__name__}: {error}"
            ) from error
        alias = self.alias
        if found is None:
            if alias is None or not values:
                raise EvaluationError(
                    f"{self.name}: compute returned None; expected a value, as output_alias names no "
                    "input that holds it"
                )
            found = values[alias]
        return _fitting(self, found, shape, values)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """Call the user's function."""
        slopes = type(self).slopes
        if slopes is None:
            raise DifferentiationError(f"{self.name}: the operation was declared without gradient")
        op = self.normalized([x.instruction.shape for x in operands])
        found = call(slopes, (given, result, list(operands)), {"attributes": op.attributes()})
        if len(found) != len(operands):
            raise DifferentiationError(
                f"{self.name}: gradient returned {len(found)} values; expected {len(operands)}, "
                "one for each operand, None where there is none"
            )
        return found

    def widened(self) -> Operation:
        """This operation for a run in which every float is a float64."""
        return self if self.wide is None else self.wide(**self.attributes())


def operation(
    *,
    name: str,
    attributes: Mapping[str, Any] | None = None,
    compute_shape: ShapeRule,
    compute: Compute | None = None,
    output_alias: Alias | None = None,
    context_free: bool = False,
    op_attributes: Mapping[str, Any] | None = None,
    normalizes: bool = False,
    gradient: Gradient | None = None,
) -> Operation:
    """Declare an operation of your own and register it under its name.

    It is used like any other: by name in modules and text, in passes, recordings and runs. A file that
    contains it can be read after it is declared. Declaring a name again replaces its meaning.

    A function with a parameter ``attributes`` gets a dict of the operation's attributes;
    ``compute`` may have a parameter ``modules``: functions that run the module arguments.

    Args:
        name: Its name, which must not be the name of a built-in operation.
        attributes: Its attributes with their defaults, in printing order. The type of a
            default is the type of the attribute.
        compute_shape: ``f(shapes, modules)`` or ``f(shapes)``: the Shape of the result.
        compute: ``f(output_shape, arrays)``: the value of the result; None if it was written into the
            input that ``output_alias`` names. Without it the operation has a shape but no value.
        output_alias: ``f(shapes)``: a list with the index of the input whose memory the result shares.
        context_free: Whether equal inputs always give equal results, so that it may be folded and shared.
        op_attributes: Properties for passes, as in MIGraphX: ``pointwise``, ``commutative``,
            ``normalize_axes``; others are stored.
        normalizes: Whether attributes that name axes (those of ``normalize_axes``, else ``axis`` and
            ``axes``) are counted from the front before its functions see them.
        gradient: ``f(given, result, operands)``: a list with the gradient of each operand, or None, from
            that of the result. All are values with NumPy's operators. Without it there is no gradient.

    Returns:
        The operation with all attributes at their defaults.

    Raises:
        OperationError: The name is taken or invalid, or a default's type is not an attribute type.
    """
    _check_name(name)
    known = dict(op_attributes or {})
    specs = [_spec(name, key, value) for key, value in (attributes or {}).items()]
    namespace: dict[str, Any] = {
        "name": name,
        "family": Family.POINTWISE if known.get("pointwise") else Family.KERNEL,
        "pointwise": bool(known.get("pointwise")),
        "commutative": bool(known.get("commutative")),
        "context_free": context_free,
        "shape_rule": staticmethod(compute_shape),
        "meaning": None if compute is None else staticmethod(compute),
        "alias_rule": None if output_alias is None else staticmethod(output_alias),
        "slopes": None if gradient is None else staticmethod(gradient),
        "op_attributes": known,
        "normalizes": _normalized_names(name, known, [s[0] for s in specs]) if normalizes else {},
        "__doc__": inspect.getdoc(compute or compute_shape) or f"{name}, declared by a user.",
        "__module__": __name__,
    }
    made = make_dataclass(
        "".join(c if c.isalnum() else "_" for c in name),
        specs,
        bases=(Custom,),
        namespace=namespace,
        frozen=True,
    )
    cls = cast("type[Custom]", made)
    cls.alias, cls.is_alias_known = _first_alias(cls)
    cls.wide = cast("type[Custom]", type(cls.__name__, (cls,), {"wide": None}))
    OPERATIONS[name] = cls
    forget_plain(name)
    return make(name)


def custom_operations() -> list[str]:
    """The names of the operations that users have declared."""
    return sorted(name for name, cls in OPERATIONS.items() if issubclass(cls, Custom))


def forget(name: str) -> None:
    """Remove the declaration of an operation; programs that contain it keep it.

    Raises:
        OperationError: No user has declared an operation of that name.
    """
    if name not in custom_operations():
        listed = ", ".join(custom_operations()) or "none"
        raise OperationError(f"no operation {name!r} was declared; those declared are: {listed}")
    del OPERATIONS[name]
    forget_plain(name)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or "->" in name:
        raise OperationError(
            f"operation name {name!r}; expected no spaces, brackets, commas, '=' or '@'"
        )
    known = all_operations()
    if name in known and not issubclass(known[name], Custom):
        raise OperationError(f"{name!r} is the name of a built-in operation; choose another name")


def _spec(op: str, key: str, value: Any) -> tuple[str, Any, Any]:
    """The dataclass field of an attribute."""
    taken = hasattr(Custom, key) or keyword.iskeyword(key) or not key.isidentifier()
    if taken or key.startswith("_"):
        raise OperationError(f"{op}: {key!r} cannot be the name of an attribute; choose another")
    frozen = _frozen(value)
    return key, _type_of(op, key, frozen), field(default=frozen)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, cast("Iterable[Any]", value)))
    return value


def _type_of(op: str, key: str, value: Any) -> Any:
    """The type of an attribute, from its default."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        kinds = {_type_of(op, key, item) for item in items} or {int}
        if kinds == {int, float}:
            kinds = {float}
        if len(kinds) > 1:
            raise OperationError(
                f"{op}: attribute {key!r} is {value!r}; expected items of one type"
            )
        return tuple[kinds.pop(), ...]
    if value is None:
        return int | None
    if isinstance(value, bool | int | float | str | DType | Shape | Dim | Operation | Enum):
        return Operation if isinstance(value, Operation) else type(value)
    raise OperationError(
        f"{op}: attribute {key!r} is {value!r}; expected numbers, strings, shapes, or lists of them"
    )


def _normalized_names(
    op: str, known: Mapping[str, Any], names: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Attributes that name axes, with the flags for their values."""
    given = known.get("normalize_axes")
    if given is None:
        return {name: frozenset() for name in names if name in {"axis", "axes"}}
    found: dict[str, frozenset[str]] = {}
    for name, flags in cast("Mapping[str, Any]", given).items():
        said = frozenset(map(str, flags or ()))
        if name not in names:
            listed = ", ".join(names) or "none"
            raise OperationError(f"{op}: normalize_axes names {name!r}; expected one of: {listed}")
        if not said <= _FLAGS:
            listed = ", ".join(sorted(_FLAGS))
            raise OperationError(
                f"{op}: normalize_axes has {', '.join(sorted(said - _FLAGS))}; expected {listed}"
            )
        found[name] = said
    return found


def _axes(op: Operation, key: str, value: Any, rank: int, flags: frozenset[str]) -> Any:
    if isinstance(value, tuple):
        items = cast("tuple[int, ...]", value)
        return tuple(_axis(op, key, item, rank, flags) for item in items)
    return _axis(op, key, value, rank, flags)


def _axis(op: Operation, key: str, value: int, rank: int, flags: frozenset[str]) -> int:
    """An axis counted from the front; clamped to the valid range if the operation says ``clip``."""
    high = rank if "include_max" in flags else rank - 1
    low = 1 - rank if "exclude_min" in flags else -rank
    if "clip_max" in flags:
        value = min(value, high)
    if "clip_min" in flags:
        value = max(value, low)
    if not low <= value <= high:
        raise ShapeError(f"{op.name}: {key}={value} is out of range; expected {low} to {high}")
    return value + rank if value < 0 else value


def call(function: Callable[..., Any], values: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """Call a user's function with as many values as it takes, and the named arguments it asks for."""
    count, names = _parameters(function)
    by_name = {k: v for k, v in given.items() if k in names}
    return function(*values[:count], **by_name)


def _parameters(function: Callable[..., Any]) -> tuple[int | None, set[str]]:
    """The number of positional arguments of a function (None: any), and its keyword names."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature
        return None, set()
    asked = {p.name for p in found[1:] if p.name == "attributes"}
    asked |= {p.name for p in found if p.kind is p.KEYWORD_ONLY}
    asked |= {p.name for p in found[2:] if p.name == "modules"}
    if any(p.kind is p.VAR_POSITIONAL for p in found):
        return None, asked
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in plain if p.name not in asked]), asked


def _alias_of(cls: type[Custom], inputs: Sequence[Shape]) -> int | None:
    """The index of the input that a result shares memory with, or None."""
    rule = cls.alias_rule
    found = [] if rule is None else list(rule(list(inputs)) or ())
    if len(found) > 1:
        raise ShapeError(f"{cls.name}: output_alias returned {found}; expected at most one index")
    if found and not 0 <= found[0] < len(inputs):
        raise ShapeError(
            f"{cls.name}: output_alias returned {found} for {len(inputs)} inputs; "
            f"expected an index from 0 to {len(inputs) - 1}"
        )
    return found[0] if found else None


_COUNTS = range(1, 9)


def _first_alias(cls: type[Custom]) -> tuple[int | None, bool]:
    """The aliased input for any number of inputs, counted from the first or last."""
    said: dict[int, int | None] = {}
    for count in _COUNTS if cls.alias_rule is not None else ():
        with suppress(Exception):  # it may reject this number or these shapes
            said[count] = _alias_of(cls, [Shape(DType.FLOAT, (1,))] * count)
    found = {v for v in said.values() if v is not None}
    if len(found) > 1 and all(v == n - 1 for n, v in said.items()):
        return -1, True
    if len(found) > 1 or (not said and cls.alias_rule is not None):
        return None, False
    return (found.pop() if found else None), True


def _shape_of(value: Any) -> Shape:
    if isinstance(value, tuple):
        return Shape.tuple_of([_shape_of(v) for v in cast("tuple[Any, ...]", value)])
    array: Array = value
    return Shape(DType.of(array.dtype), array.shape)


def _widened(shape: Shape) -> Shape:
    if shape.subs is not None:
        return Shape.tuple_of([_widened(s) for s in shape.subs])
    return shape.with_type(DType.DOUBLE) if shape.type.is_float else shape


def _body(evaluate: Evaluate, module: Module) -> Callable[..., Any]:
    def run(*values: Any) -> list[Any]:
        return evaluate(module, list(values))

    return run


def _fitting(op: Custom, value: object, shape: Shape, inputs: Sequence[Any]) -> Any:
    """A result as the interpreter keeps it: an array of the shape's type, in memory of its own."""
    if shape.subs is not None:
        parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
        if len(parts) != len(shape.subs):
            raise EvaluationError(
                f"{op.name}: compute returned {len(parts)} values; expected {len(shape.subs)}, {shape}"
            )
        return tuple(_fitting(op, v, s, inputs) for v, s in zip(parts, shape.subs, strict=True))
    array: Array = np.asarray(value)
    fits = shape.dims is not None or array.size == shape.elements
    if array.dtype != shape.type.numpy or not fits:
        raise EvaluationError(
            f"{op.name}: compute returned {array.dtype}{list(array.shape)}; expected {shape}"
        )
    if shape.dims is None:
        array = array.reshape(shape.array_lens)
    alias = op.alias
    own: object = None if alias is None or not inputs else inputs[alias]
    shared = any(x is not own and _shares(array, x) for x in inputs)
    return array.copy() if shared else array


def _shares(array: Array, value: object) -> bool:
    return isinstance(value, np.ndarray) and np.may_share_memory(array, cast("Array", value))
