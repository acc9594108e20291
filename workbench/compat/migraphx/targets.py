"""Targets by name. Without a device, ``gpu`` means the ``cpu`` target, with a warning."""

from __future__ import annotations

import warnings

from workbench.compat.migraphx.errors import Error, bound
from workbench.compiler.builds.targets import Target, target_named

_NAMES = ("ref", "cpu", "gpu")


class StandInWarning(UserWarning):
    """Warning that the host does the work of a missing device."""


def warn_of_stand_in(what: str) -> None:
    """Warn that the host does the work of a device; once per call site."""
    warnings.warn(f"{what}; results are the same, timings are not", StandInWarning, stacklevel=4)


_here: set[str] = set()
"""Targets whose device was found."""


def is_stood_in_for(name: str) -> bool:
    """Whether a target's device is missing."""
    if name not in _here and target_named(name).available:
        _here.add(name)
    return name not in _here


class target:
    """A target that programs are compiled for; made by ``get_target``."""

    def __init__(self) -> None:
        raise TypeError("target: No constructor defined! make one with get_target(name)")

    @classmethod
    def named(cls, name: str) -> target:
        """The target of a known name."""
        made = cls.__new__(cls)
        made._name = name
        return made

    _name: str

    @property
    def name(self) -> str:
        """The requested name."""
        return self._name

    @property
    def core_name(self) -> str:
        """The name of the core's target that is used for it."""
        return "cpu" if is_stood_in_for(self._name) else self._name

    @property
    def core(self) -> Target:
        """The core's target that is used for it."""
        return target_named(self.core_name)

    def __repr__(self) -> str:
        """The name, and the core's target if that differs."""
        shown = "" if self.core_name == self._name else f", for which {self.core_name!r} stands in"
        return f"<target {self._name!r}{shown}>"


@bound
def get_target(name: str) -> target:
    """The target of that name.

    Raises:
        Error: There is none.
    """
    if name not in _NAMES:
        raise Error(f"target {name!r} not found; targets are {', '.join(_NAMES)}")
    made = target.named(name)
    if made.core_name != name:
        warn_of_stand_in(f"no device for target {name!r}: {made.core_name!r} stands in")
    return made
