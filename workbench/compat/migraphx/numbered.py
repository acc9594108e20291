"""Enumerations whose members are numbers, as MIGraphX's are seen from Python."""

from __future__ import annotations

from enum import Enum


class Numbered(Enum):
    """A name for a number: ``int(member)`` gives it, and so does use as an attribute."""

    def __int__(self) -> int:
        """The number."""
        return self.value

    __index__ = __int__

    @classmethod
    def _missing_(cls, value: object) -> None:
        known = ", ".join(m.name for m in cls)
        raise TypeError(f"{cls.__name__}({value!r}): incompatible arguments: it is {known}")
