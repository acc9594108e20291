"""Enumerations whose members are numbers, like MIGraphX's in Python."""

from __future__ import annotations

from enum import Enum


class Numbered(Enum):
    """A name for a number: ``int(member)`` returns it, and attributes take it."""

    def __int__(self) -> int:
        """The number."""
        return self.value

    __index__ = __int__

    @classmethod
    def _missing_(cls, value: object) -> None:
        known = ", ".join(m.name for m in cls)
        raise TypeError(f"{cls.__name__}({value!r}): incompatible arguments: it is {known}")
