"""Errors of `popart.ir` that PopART raises under a name of its own."""

from __future__ import annotations


class UndefinedValue(Exception):  # noqa: N818 - PopART's name
    """A property that a tensor does not have, such as the IPU of a variable that no operation made."""
