"""Values as JSON, as MIGraphX writes it: sorted keys, no spaces, binary data as a list of bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from workbench.compiler.errors import ModelError

_UNUSUAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Floats that JSON numbers cannot represent; they are written as strings, where MIGraphX loses them."""


def write_json(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return {"bytes": list(memoryview(cast("bytes", value)).cast("B"))}
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        case Mapping():
            return {k: _plain(v) for k, v in cast("Mapping[str, Any]", value).items()}
        case str() | None | bool() | int() | float():
            return value
        case Sequence():
            return [_plain(v) for v in cast("Sequence[Any]", value)]
        case _:
            raise ModelError(f"a {type(value).__name__} cannot be written: {value!r}")


def float_of(value: Any) -> float | None:
    """The float for a number in a file, or for the string of a float that JSON cannot represent."""
    if isinstance(value, str):
        return _UNUSUAL.get(value)
    return float(value) if isinstance(value, int | float) else None


def read_json(text: str | bytes | bytearray | memoryview) -> Any:
    """The value of a JSON text.

    Raises:
        ModelError: The text is truncated, not JSON, or nested too deeply.
    """
    try:
        shown = text if isinstance(text, str) else bytes(text).decode("utf-8", "surrogatepass")
        return json.loads(shown, object_pairs_hook=_object, parse_constant=_refuse)
    except RecursionError as error:
        raise ModelError("the lists are nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"byte {error.start}: the text is not UTF-8: {error.reason}") from error
    except ValueError as error:
        raise (
            error if isinstance(error, ModelError) else ModelError(f"not JSON: {error}")
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1 and pairs[0][0] == "bytes" and isinstance(pairs[0][1], list):
        try:
            return bytes(cast("list[int]", pairs[0][1]))
        except (TypeError, ValueError) as error:
            raise ModelError("binary data: expected a list of integers from 0 to 255") from error
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [k for k, _ in pairs]
        twice = next(k for k in names if names.count(k) > 1)
        raise ModelError(f"key {twice!r} occurs twice in one object")
    return found


def _refuse(name: str) -> Any:
    raise ModelError(f"{name} is not a JSON number")
