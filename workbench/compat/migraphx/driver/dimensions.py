"""Parsing of the driver's options with names and values: ``"@x" 1 3 224``, ``"@n" "{min:1, max:4}"``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeGuard, cast

from workbench.compat.migraphx.driver.messages import UsageError
from workbench.compiler.ir.shape import Dim

_WORD = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_][A-Za-z0-9_.+]*')
_PLAIN = {"null", "true", "false"}


def by_name(option: str, words: Sequence[str]) -> dict[str, list[str]]:
    """The words after each ``@name``.

    Raises:
        UsageError: The first word is not a name, or a name has no value.
    """
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("@"):
            name = word[1:]
            found.setdefault(name, [])
        elif not name:
            raise UsageError(f'{option}: expected a name first, as in "@x", found {word!r}')
        else:
            found[name].append(word)
    for name, values in found.items():
        if not values:
            raise UsageError(f"{option}: expected a value after @{name}")
    return found


def lens_by_name(option: str, words: Sequence[str]) -> dict[str, list[int]]:
    """Lengths by parameter.

    Raises:
        UsageError: A word is neither a name nor a length.
    """
    return {
        name: [_length(option, name, value) for value in values]
        for name, values in by_name(option, words).items()
    }


def _length(option: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{option}: @{name}: expected a length, found {text!r}")
    return int(text)


def single(option: str, name: str, values: Sequence[str]) -> str:
    """The one word after a name.

    Raises:
        UsageError: There are more.
    """
    if len(values) > 1:
        raise UsageError(f"{option}: @{name}: expected one value, found {len(values)}")
    return values[0]


def dims_by_name(option: str, words: Sequence[str]) -> dict[str, list[Dim]]:
    """Ranges of all dimensions by parameter.

    Raises:
        UsageError: A text is not a list of dimensions.
    """
    return {
        name: dims(f"{option}: @{name}", single(option, name, values))
        for name, values in by_name(option, words).items()
    }


def dim_by_name(option: str, words: Sequence[str]) -> dict[str, Dim]:
    """A range or length by symbolic dimension.

    Raises:
        UsageError: A text is not a dimension.
    """
    return {
        name: dim(f"{option}: @{name}", single(option, name, values))
        for name, values in by_name(option, words).items()
    }


def dims(where: str, text: str) -> list[Dim]:
    """Dimensions from ``[{min:1, max:4, optimals:[2]}, 3]``.

    Raises:
        UsageError: The text is something else.
    """
    value = relaxed_json(where, text)
    if not isinstance(value, list):
        raise UsageError(f"{where}: expected a list of dimensions, found {text!r}")
    return [_dim(where, one) for one in cast("list[Any]", value)]


def dim(where: str, text: str) -> Dim:
    """A dimension from ``4``, ``{min:1, max:4}`` or a list of one.

    Raises:
        UsageError: The text is something else.
    """
    value = relaxed_json(where, text)
    if isinstance(value, list):
        several = cast("list[Any]", value)
        if len(several) != 1:
            raise UsageError(f"{where}: expected one dimension, found {len(several)}")
        value = several[0]
    return _dim(where, value)


def _dim(where: str, value: Any) -> Dim:
    if _is_count(value):
        return Dim(value, value)
    entries = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    given: Any = entries.get("optimals", [])
    optimals: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [None]
    low, high = entries.get("min"), entries.get("max")
    known = set(entries) <= {"min", "max", "optimals"}
    if known and _is_count(low) and _is_count(high) and all(map(_is_count, optimals)):
        return Dim(int(low), int(high), tuple(sorted(set(optimals))))
    raise UsageError(
        f"{where}: expected a length or {{min:1, max:4, optimals:[2]}}, found {json.dumps(value)}"
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def relaxed_json(where: str, text: str) -> Any:
    """A JSON value in which words need no quotes.

    Raises:
        UsageError: The text is not such a value.
    """
    try:
        return json.loads(_WORD.sub(_in_quotes, text))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(
            f"{where}: expected a list, object or number, found {text!r}: {error}"
        ) from error


def _in_quotes(match: re.Match[str]) -> str:
    word = match.group()
    return word if word.startswith('"') or word in _PLAIN else f'"{word}"'
