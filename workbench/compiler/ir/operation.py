"""Operations: one declaration per operation, and the registry that all readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast, dataclass_transform

from workbench.compiler.discovery import import_modules
from workbench.compiler.errors import (
    DifferentiationError,
    EvaluationError,
    OperationError,
    ShapeError,
    did_you_mean,
)
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.quoting import word_text
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ir.structure import Contraction, Monoid, Rearrangement

if TYPE_CHECKING:
    from workbench.compiler.ir.argument import Argument
    from workbench.compiler.ir.module import Module

Value: TypeAlias = "Array | tuple[Value, ...]"
"""The result of an instruction: an array, or a tuple of values where its shape is a tuple."""

Sample: TypeAlias = "tuple[Operation, Sequence[Array | Argument]]"
"""An operation with attributes and operands to test it on; ``Argument`` for types that NumPy lacks."""

Evaluate: TypeAlias = "Callable[[Module, Sequence[Value]], list[Value]]"
"""Runs a module on values for its parameters, in the order of ``Module.parameters``."""


class Family(Enum):
    """The kind of work that an operation does; views colour by it."""

    CONTRACTION = "contraction"
    POINTWISE = "pointwise"
    REDUCE = "reduce"
    VIEW = "view"
    MOVEMENT = "movement"
    CONTROL = "control"
    PARAMETER = "parameter"
    KERNEL = "kernel"


@dataclass(frozen=True)
class Operation:
    """Base of all operations. A subclass is a frozen dataclass whose fields are the attributes.

    A subclass defines the result's shape (``compute_shape``), its value (``compute``, on NumPy
    arrays) and ``samples``. Everything else (printing, parsing, panels, tests) follows from these.
    """

    name: ClassVar[str] = ""
    family: ClassVar[Family] = Family.MOVEMENT
    pointwise: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    context_free: ClassVar[bool] = True
    """Whether equal inputs always give equal results, so that constants can be folded."""
    alias: ClassVar[int | None] = None
    """Index of the input whose memory the result shares, for views."""
    may_share: ClassVar[bool] = False
    """Whether the result may be in the memory of any operand."""
    takes_modules: ClassVar[bool] = False
    expression: ClassVar[str | None] = None
    """Scalar expression over ``{0}``, ``{1}``… in C, for pointwise operations; ``T`` is the element type."""
    keeps_types: ClassVar[bool] = False
    """Whether ``expression`` takes operands in their own types, not in the one for arithmetic."""
    never_negative: ClassVar[bool] = False
    """Whether floats that it gives are never below 0, whatever the inputs are."""
    dynamic: ClassVar[bool] = False
    """Whether inputs with dynamic dimensions are accepted."""
    overwrites: ClassVar[bool] = False
    """Whether ``compute_into`` can write the result over an operand that has no later reader."""
    on_host: ClassVar[str] = ""
    """The reason why the host computes it, or some forms of it; empty if kernels compute them all."""
    axes_of_input: ClassVar[tuple[str, ...]] = ()
    """Attributes that name axes of the first input; negative values count from its end."""
    monoid: ClassVar[Monoid | None] = None
    """The monoid that joins elements along ``axes_of_input``, for reductions."""
    scan_monoid: ClassVar[Monoid | None] = None
    """The monoid that joins each element with those before it along ``axes_of_input``, for scans."""
    sliding: ClassVar[bool] = False
    """Whether a window slides over the spatial axes of the first input, with ``padding`` around it."""
    contraction: ClassVar[Contraction | None] = None
    """The contraction of the first two inputs, for matrix products and convolutions."""

    flat: ClassVar[bool] = False
    """Whether small changes of the operands do not change the result, so that all gradients are 0."""
    not_differentiable: ClassVar[str] = ""
    """The reason why the operation has no gradient; empty if it has one."""

    rearranges: ClassVar[Rearrangement | None] = None
    """How elements of the first input come to be the result, where it has no others."""
    needs_standard: ClassVar[bool] = False
    """Whether it takes its first input in row-major order only."""

    def attributes(self) -> dict[str, Any]:
        """All attributes by name, in printing order."""
        return {name: getattr(self, name) for name in attribute_names(type(self))}

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the result.

        Raises:
            ShapeError: The operation cannot take these inputs.
        """
        raise OperationError(f"{self.name}: the operation declares no shape rule")

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape of the result by a program's shape rules, which matter to few operations.

        Raises:
            ShapeError: The operation or the rules reject the inputs.
        """
        return rules.settle(inputs, self.compute_shape(inputs, modules))

    def compute(self, *inputs: Any) -> Any:
        """The value of the result, in NumPy; it defines the operation's meaning."""
        raise EvaluationError(f"{self.name}: the operation has no reference implementation")

    def compute_into(self, out: Array | None, *inputs: Any) -> Any:
        """As ``compute``, but may write the result to ``out``, an operand that may be overwritten."""
        return self.compute(*inputs)

    def compute_as(self, shape: Shape, *inputs: Any) -> Any:
        """The value of a result of this shape, where the inputs' values do not determine it."""
        return self.compute(*inputs)

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The value of the result for an operation that takes modules."""
        raise EvaluationError(f"{self.name}: the operation has no reference implementation")

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """The gradients of the operands.

        The arguments are values with NumPy's operators (``workbench.compiler.expressions.value.Value``).

        Args:
            given: The gradient of the result. If that is a tuple, a list with None for elements without one.
            result: The result.
            *operands: The operands.

        Returns:
            For each operand its gradient, or None if it has none or is 0.

        Raises:
            DifferentiationError: The operation, or this form of it, is not differentiable here.
        """
        if self.flat:
            return [None] * len(operands)
        reason = self.not_differentiable or "the operation declares no gradient"
        raise DifferentiationError(f"{self.name}: {reason}")

    def normalized(self, inputs: Sequence[Shape]) -> Operation:
        """This operation with negative axes and short paddings resolved for its inputs."""
        return normalize_axes(self, inputs)

    def widened(self) -> Operation:
        """This operation for a run in which every float is a float64 (``convert`` differs)."""
        return self

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Number of floating-point operations of one evaluation; 0 for data movement."""
        return output.elements if self.pointwise else 0

    def bytes(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Bytes read and written by one evaluation; 0 for a view."""
        if self.alias is not None:
            return 0
        return sum(s.bytes for s in inputs) + output.bytes

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Attributes and operands to test with; the contract tests and the checks of laws use them."""
        return ()

    def __str__(self) -> str:
        """The text form: ``transpose[permutation={1, 0}]``."""
        shown = [f"{k}={attribute_text(v)}" for k, v in self.attributes().items()]
        return f"{self.name}[{','.join(shown)}]" if shown else self.name


OPERATIONS: dict[str, type[Operation]] = {}


T = TypeVar("T", bound=Operation)


@dataclass_transform(frozen_default=True)
def operation(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and register it by its ``name``."""
    made = dataclass(frozen=True)(cls)
    if made.name in OPERATIONS:
        raise OperationError(f"operation {made.name!r} is declared twice")
    OPERATIONS[made.name] = made
    return made


@cache
def attribute_names(cls: type[Operation]) -> tuple[str, ...]:
    """Names of an operation's attributes in declaration order."""
    return tuple(f.name for f in fields(cls))


def all_operations() -> dict[str, type[Operation]]:
    """Every operation by its name, including those of modules that have not been imported yet."""
    import_modules("workbench.compiler.ops")
    return OPERATIONS


def names_where(test: Callable[[type[Operation]], object]) -> tuple[str, ...]:
    """Names of the operations whose class satisfies ``test``, ordered by the module that declares them."""
    found = sorted(all_operations().values(), key=lambda cls: cls.__module__)
    return tuple(cls.name for cls in found if test(cls))


def find(name: str) -> type[Operation]:
    """The operation registered under ``name``.

    Raises:
        OperationError: There is none.
    """
    known = OPERATIONS if name in OPERATIONS else all_operations()
    try:
        return known[name]
    except KeyError:
        hint = did_you_mean(name, OPERATIONS)
        own = " (workbench.operation declares one of your own)"
        raise OperationError(f"unknown operation {name!r}{hint}{own}") from None


def make(name: str, **attributes: Any) -> Operation:
    """An operation by name, with the given attributes and defaults for the rest.

    Raises:
        OperationError: The name or an attribute is unknown.
    """
    if not attributes and name in _PLAIN:
        return _PLAIN[name]
    cls = find(name)
    known = attribute_names(cls)
    for key in attributes:
        if key not in known:
            listed = ", ".join(known) or "none"
            raise OperationError(f"{name}: no attribute {key!r}; it has {listed}")
    made = cls(**{k: _attribute(cls, k, v) for k, v in attributes.items()})
    return made if attributes else _PLAIN.setdefault(name, made)


_PLAIN: dict[str, Operation] = {}
"""Cache of operations with all attributes at their defaults, which are made often."""


def forget_plain(name: str) -> None:
    """Drop the cached instance of an operation whose declaration changes."""
    _PLAIN.pop(name, None)


def _attribute(cls: type[Operation], key: str, value: Any) -> Any:
    """An attribute's value: lists become tuples; names of element types and enum members become those."""
    default = getattr(cls, key, None)
    if isinstance(default, DType):
        return DType.of(value)
    if not isinstance(default, Enum):
        return _frozen(value)
    try:
        return type(default)(value)
    except ValueError:
        known = ", ".join(str(m.value) for m in type(default))
        raise OperationError(f"{cls.name}: {key}={value!r}; expected one of {known}") from None


_LISTS = (list, tuple)


def _frozen(value: Any) -> Any:
    if not isinstance(value, _LISTS):
        return value
    items = cast("Iterable[Any]", value)
    return tuple([_frozen(v) if isinstance(v, _LISTS) else v for v in items])


def attribute_text(value: object) -> str:
    """The text of an attribute's value: ``{1, 2}``, ``0``/``1`` for bools, enums by word or code."""
    if isinstance(value, tuple):
        return "{" + ", ".join(attribute_text(v) for v in value) + "}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, bool | DType):
        return str(int(value))
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return word_text(value)
    return "nullopt" if value is None else str(value)


def float_text(value: float) -> str:
    """A float as a C++ stream prints it: six significant digits."""
    return f"{value:.6g}"


# Checks shared by shape rules. Each message names the operation, the operand and the expectation.


def expect_count(op: Operation, inputs: Sequence[Shape], *counts: int) -> None:
    """Raise a ShapeError unless the number of inputs is one of ``counts``."""
    if len(inputs) not in counts:
        expected = " or ".join(map(str, counts))
        raise ShapeError(f"{op.name}: expected {expected} inputs, found {len(inputs)}")


def expect_static(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if an input is dynamic or a tuple."""
    for i, shape in enumerate(inputs):
        if shape.dims is not None or shape.subs is not None:
            raise ShapeError(f"{op.name}: input {i} is {shape}; expected a static tensor")


_COMPUTES = {Family.CONTRACTION, Family.POINTWISE, Family.REDUCE}


def expect_unpacked(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError if an arithmetic operation has an input of floats packed two to a byte."""
    for i, shape in enumerate(inputs):
        if shape.type is DType.FP4X2 and op.family in _COMPUTES:
            raise ShapeError(
                f"{op.name}: input {i} is {shape}, two elements per byte; insert an unpack_fp4"
            )


def expect_same_type(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError unless all inputs have one element type."""
    for i, shape in enumerate(inputs[1:], 1):
        if shape.type is not inputs[0].type:
            want, found = inputs[0].type.type_name, shape.type.type_name
            raise ShapeError(
                f"{op.name}: input {i} is {found}; expected {want}, the type of input 0"
            )


def expect_same_lens(op: Operation, inputs: Sequence[Shape]) -> None:
    """Raise a ShapeError unless all inputs have the same lens (nothing is broadcast implicitly)."""
    for i, shape in enumerate(inputs[1:], 1):
        if shape.lens != inputs[0].lens:
            raise ShapeError(
                f"{op.name}: input {i} is {shape}; expected the lens of input 0, {inputs[0]}; "
                "insert a multibroadcast if a broadcast is intended"
            )


def normalize_axis(op: Operation, axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from the front.

    Raises:
        ShapeError: The axis is not in [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{op.name}: {what}={axis} is out of range; expected -{rank} to {rank - 1}"
        )
    return axis + rank if axis < 0 else axis


def distinct_axes(
    op: Operation, axes: Sequence[int], rank: int, what: str = "axes"
) -> tuple[int, ...]:
    """``axes`` counted from the front.

    Raises:
        ShapeError: One is out of range, or occurs twice.
    """
    found = tuple(normalize_axis(op, a, rank, what) for a in axes)
    if len(set(found)) < len(found):
        raise ShapeError(f"{op.name}: {what} {tuple(axes)} name an axis of {rank} twice")
    return found


def normalize_axes(op: Operation, inputs: Sequence[Shape]) -> Operation:
    """``op`` with the attributes named in ``axes_of_input`` counted from the front."""
    changes: dict[str, Any] = {}
    for key in op.axes_of_input:
        value = getattr(op, key)
        rank = inputs[0].ndim
        if isinstance(value, tuple):
            new: Any = distinct_axes(op, cast("tuple[int, ...]", value), rank, key)
        else:
            new = normalize_axis(op, value, rank, key)
        if new != value:
            changes[key] = new
    return type(op)(**(op.attributes() | changes)) if changes else op
