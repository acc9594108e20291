"""The table of macros: names that insert several instructions at once, and options with defaults."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import OPERATIONS, find, make
from workbench.compiler.macros.emit import Emit
from workbench.compiler.ops.custom import Custom
from workbench.compiler.ops.index import Gather
from workbench.compiler.ops.reshape import Flatten

Body: TypeAlias = "Callable[..., Instruction | list[Instruction]]"


@dataclass(frozen=True)
class Macro:
    """A composition of operations. Its body takes an Emit, the inputs, and the options by keyword."""

    name: str
    least: int
    most: int | None
    """Number of inputs; None for any number."""
    options: Mapping[str, Any]
    """The options' defaults, by name."""
    hints: Mapping[str, Any]
    """The options' types, by name."""
    body: Body
    law: str
    """The macro's summary, one line."""


MACROS: dict[str, Macro] = {}
"""All macros by name."""


def macro(*names: str, least: int = 1, most: int | None = None) -> Callable[[Body], Body]:
    """Register a function as the body of macros; its keyword-only parameters are the options.

    Args:
        names: The macros' names; ``emit.name`` tells the body which one is expanded.
        least: The least number of inputs.
        most: The largest number of inputs; None for any.
    """

    def register(body: Body) -> Body:
        given = inspect.signature(body).parameters.values()
        options = {p.name: p.default for p in given if p.kind is p.KEYWORD_ONLY}
        hints = get_type_hints(body)
        typed = {name: hints[name] for name in options}
        law = (inspect.getdoc(body) or "").partition("\n")[0]
        for name in names:
            MACROS[name] = Macro(name, least, most, options, typed, body, law)
        return body

    return register


def expand(
    module: Module,
    before: Instruction | None,
    name: str,
    inputs: Sequence[Instruction],
    options: Mapping[str, Any] | None = None,
    modules: Sequence[Module] = (),
) -> list[Instruction]:
    """Insert the instructions of a macro; any other name is inserted as an operation.

    Args:
        module: The module to insert into.
        before: The instruction before which they go; None for the end of the module.
        name: A macro, or an operation.
        inputs: The inputs.
        options: The macro's options, or the operation's attributes.
        modules: Module arguments of the operation; a macro takes none.

    Returns:
        The results; for most macros one instruction.

    Raises:
        OperationError: There is no such macro or operation, it has no such option, or it does not
            take these inputs.
        ShapeError: An operation rejects the shapes.
    """
    found, emit = MACROS.get(name), Emit(module, before, name)
    if found is None:
        return [_plain(emit, name, inputs, dict(options or {}), modules)]
    if modules:
        raise emit.fail(f"{len(modules)} module arguments; expected none")
    most = found.most
    if len(inputs) < found.least or (most is not None and len(inputs) > most):
        wanted = f"{found.least}" if most == found.least else f"{found.least} to {most or 'any'}"
        raise emit.fail(f"{len(inputs)} inputs; expected {wanted}")
    made = found.body(emit, list(inputs), **_read(found, options or {}))
    return made if isinstance(made, list) else [made]


def _plain(
    emit: Emit,
    name: str,
    inputs: Sequence[Instruction],
    attributes: dict[str, Any],
    modules: Sequence[Module],
) -> Instruction:
    if name not in OPERATIONS:
        _known(name)
    op = make(name, **attributes)
    if modules and not (op.takes_modules or isinstance(op, Custom)):
        raise OperationError(
            f"{name}: {len(modules)} module arguments; it takes none, they should be empty"
        )
    if isinstance(op, Flatten | Gather):  # laid out row by row, as MIGraphX has it
        inputs = [i if i.shape.standard else emit.add("contiguous", i) for i in inputs]
    return emit.module.insert(emit.before, op, *inputs, modules=modules)


def _known(name: str) -> None:
    """Raise an OperationError for a name that is neither a macro nor an operation."""
    try:
        find(name)
    except OperationError as error:
        near = difflib.get_close_matches(name, MACROS, 3)
        hint = f"; similar macros: {' or '.join(near)}" if near else ""
        raise OperationError(f"{error}{hint}") from None


def _read(found: Macro, options: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in options.items():
        if key not in found.options:
            listed = ", ".join(found.options) or "none"
            raise OperationError(f"macro {found.name}: no option {key!r}; it has {listed}")
        try:
            read[key] = converted(value, found.hints[key])
        except (TypeError, ValueError) as error:
            raise OperationError(
                f"macro {found.name}: option {key!r} is {value!r}; expected {error}"
            ) from None
    return read


def converted(value: Any, hint: Any) -> Any:
    """``value`` converted to the type of an option.

    Raises:
        TypeError: It has another type; the message is the expectation.
        ValueError: It is out of range.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in args:
            return None
        return converted(value, next(a for a in args if a is not NoneType))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError("a list")
        return tuple(converted(v, args[0]) for v in cast("Sequence[Any]", value))
    return _single(value, hint)


def _single(value: Any, hint: type[Any]) -> Any:
    if hint is DType:
        return DType.of(value) if isinstance(value, str | DType) else DType(int(value))
    if issubclass(hint, Enum):
        return hint(int(value))
    if hint is str:
        if not isinstance(value, str):
            raise TypeError("a text")
        return value
    if isinstance(value, str):
        raise TypeError("a number" if hint is not bool else "true or false")
    if hint is int and int(value) != value:
        raise TypeError("a whole number")
    return hint(value)
