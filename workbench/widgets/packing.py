"""Deflated messages to the browser: JSON, and after it the columns of integers that it refers to."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LARGE = 1 << 18
"""Bytes from which on speed matters more than size."""


class Ints:
    """A column of integers, sent as differences: most columns grow, and equal bytes deflate well."""

    def __init__(self, values: Iterable[int]) -> None:
        """Take 32-bit integers."""
        listed = values if isinstance(values, list) else list(values)
        self.values = np.asarray(listed, np.int32)

    def differences(self) -> bytes:
        """The first integer, then the differences, modulo 2³²."""
        return np.diff(self.values, prepend=np.int32(0)).astype("<i4").tobytes()


def packed(value: object) -> bytes:
    """Deflated JSON, which replaces long lists in a widget's traits; `dom.js` decodes it.

    A column is written as ``{"ints": [first, end]}``. If there are any, they follow after a zero byte,
    aligned to four bytes.
    """
    columns: list[bytes] = []
    end = 0

    def refer(column: object) -> dict[str, list[int]]:
        nonlocal end
        if not isinstance(column, Ints):
            raise TypeError(f"{type(column).__name__} is neither JSON nor a column")
        first, end = end, end + len(column.values)
        columns.append(column.differences())
        return {"ints": [first, end]}

    text = json.dumps(value, separators=(",", ":"), default=refer).encode()
    if columns:
        text = b"".join([text, bytes(4 - len(text) % 4), *columns])
    return zlib.compress(text, 6 if len(text) < LARGE else 1)


def inlined(value: Mapping[str, Any]) -> dict[str, Any]:
    """A packed value as JSON, for a page; its title can be read without inflating the rest."""
    return {"title": value["title"], "deflated": base64.b64encode(packed(value)).decode()}
