"""Attributes whose values are words, as the operation's enums declare them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from workbench.compiler.ir.operation import find


def choice(op: str, attribute: str, word: str) -> Any:
    """The value of an operation's attribute for ``word``: a member of its enum, or the word itself."""
    default = getattr(find(op)(), attribute)
    if not isinstance(default, Enum):
        return word
    return type(default)[word.upper()]
