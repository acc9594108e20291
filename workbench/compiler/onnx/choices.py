"""Attributes that are one of a few words, as the operation declares them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from workbench.compiler.ir.operation import find


def choice(op: str, attribute: str, word: str) -> Any:
    """The value of an operation's attribute that ``word`` stands for: a member of its enum, or the word."""
    default = getattr(find(op)(), attribute)
    if not isinstance(default, Enum):
        return word
    return type(default)[word.upper()]
