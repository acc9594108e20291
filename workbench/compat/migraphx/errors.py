"""The package's only exception, the translation of the core's errors into it, and the checks of arguments."""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from workbench.compiler.errors import WorkbenchError

P = ParamSpec("P")
R = TypeVar("R")
Check: TypeAlias = Callable[[Any], Any]

Size: TypeAlias = Annotated[int, "0 or more"]
"""An integer that is not negative."""

FileName: TypeAlias = str | PathLike[str]
"""A path."""


class Error(WorkbenchError, RuntimeError):
    """MIGraphX's RuntimeError with a more detailed message; the core's error is its cause."""


class MismatchError(Exception):
    """An argument of the wrong type; the message is the expected type."""


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of the core to the exception that scripts for MIGraphX expect."""
    try:
        yield
    except Error:
        raise
    except WorkbenchError as error:
        made = Error(str(error))
        made.recording = error.recording
        raise made from error


@contextmanager
def written(filename: FileName) -> Generator[None]:
    """Translate failures to write a file to an error that names it."""
    try:
        yield
    except OSError as error:
        raise Error(f"{str(filename)!r} cannot be written: {error}") from error


def bound(function: Callable[P, R]) -> Callable[P, R]:
    """A function with MIGraphX's checks of argument types, and its errors.

    Raises:
        TypeError: An argument is missing, unknown, or not of its annotation's type.
        Error: The core raised an error.
    """
    signature = inspect.signature(function)
    name = function.__qualname__
    checks: dict[str, Check] = {}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not checks:
            checks.update(_checks(function, signature))
        try:
            given = signature.bind(*args, **kwargs)
            for key, value in given.arguments.items():
                given.arguments[key] = _checked(key, value, checks.get(key))
        except (TypeError, MismatchError) as error:
            shown = _signature_text(name, signature)
            raise TypeError(f"{name}(): incompatible arguments: {error}; it is {shown}") from None
        with translated():
            return function(*given.args, **given.kwargs)

    return call


def _signature_text(name: str, signature: inspect.Signature) -> str:
    shown = [p.replace(annotation=p.empty) for k, p in signature.parameters.items() if k != "self"]
    return f"{name}({', '.join(map(str, shown))})"


def _checked(key: str, value: Any, check: Check | None) -> Any:
    if check is None:
        return value
    try:
        return check(value)
    except MismatchError as error:
        shown = repr(value)
        shown = shown if len(shown) < 60 else f"{shown[:56]} ..."
        raise MismatchError(
            f"{key}: expected {error}, found {type(value).__name__} {shown}"
        ) from None


def _checks(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Check]:
    said = {k: v for k, v in function.__annotations__.items() if k != "return"}
    known = function.__globals__  # pyright: ignore[reportFunctionMemberAccess]
    hints = get_type_hints(SimpleNamespace(__annotations__=said), known, include_extras=True)
    plain = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {
        key: check_of(hints[key])
        for key, p in signature.parameters.items()
        if key in hints and p.kind not in plain
    } or {"": lambda v: v}


def check_of(hint: Any) -> Check:
    """A check for values of this annotation, which raises ``MismatchError`` for any other."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return lambda value: value
    if origin is Annotated:
        return _size
    if origin in (Union, types.UnionType):
        return _union([check_of(a) for a in args])
    if origin in (list, Sequence):
        return _list(check_of(args[0]))
    if origin is set:
        return _set(check_of(args[0]))
    if origin is dict:
        return _dict(check_of(args[0]), check_of(args[1]))
    return _SIMPLE.get(hint) or _instance(origin or hint)


def _instance(cls: type) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, cls):
            raise MismatchError("None" if cls is types.NoneType else cls.__name__)
        return value

    return check


def _union(checks: list[Check]) -> Check:
    def check(value: Any) -> Any:
        expected: list[str] = []
        for one in checks:
            try:
                return one(value)
            except MismatchError as error:
                expected.append(str(error))
        raise MismatchError(" or ".join(expected))

    return check


def _list(element: Check) -> Check:
    def check(value: Any) -> list[Any]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise MismatchError("a list")
        return [
            _element(element, v, f"element {i}") for i, v in enumerate(cast("Sequence[Any]", value))
        ]

    return check


def _set(element: Check) -> Check:
    def check(value: Any) -> set[Any]:
        if not isinstance(value, set | frozenset):
            raise MismatchError("a set")
        return {_element(element, v, "an element") for v in cast("set[Any]", value)}

    return check


def _dict(key: Check, element: Check) -> Check:
    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise MismatchError("a dict")
        items = cast("dict[Any, Any]", value).items()
        return {_element(key, k, "a key"): _element(element, v, f"of {k!r}") for k, v in items}

    return check


def _element(check: Check, value: Any, where: str) -> Any:
    try:
        return check(value)
    except MismatchError as error:
        raise MismatchError(f"{error} ({where})") from None


def _int(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise MismatchError("int")
    try:
        return operator.index(value)
    except TypeError:
        raise MismatchError("int") from None


def _size(value: Any) -> int:
    number = _int(value)
    if number < 0:
        raise MismatchError("an int of 0 or more")
    return number


def _float(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise MismatchError("float")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise MismatchError("float") from None


def _bool(value: Any) -> bool:
    if value is not None and not hasattr(value, "__bool__"):
        raise MismatchError("bool")
    return bool(value)


_SIMPLE: dict[Any, Check] = {int: _int, float: _float, bool: _bool}
