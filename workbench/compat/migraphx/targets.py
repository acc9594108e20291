"""Targets by name. Where no device is, ``gpu`` means the ``cpu`` target, and says so."""

from __future__ import annotations

import warnings

from workbench.compat.migraphx.errors import Error, bound
from workbench.compiler.builds.targets import Target, target_named

_NAMES = ("ref", "cpu", "gpu")


class StandInWarning(UserWarning):
    """No device is there for what was asked: the host does it."""


def warn_of_stand_in(what: str) -> None:
    """Say that the host does what a device was asked for; of one place in a program, once."""
    warnings.warn(f"{what}; results are the same, timings are not", StandInWarning, stacklevel=4)


_here: set[str] = set()
"""Targets whose device was found."""


def is_stood_in_for(name: str) -> bool:
    """Whether there is no device for a target."""
    if name not in _here and target_named(name).available:
        _here.add(name)
    return name not in _here


def warn_of_no_effect(what: str) -> None:
    """Say that an option does nothing; of one place in a program, once."""
    warnings.warn(f"{what} has no effect: kernels are not tuned yet", UserWarning, stacklevel=4)


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
        """The name that was asked for."""
        return self._name

    @property
    def core_name(self) -> str:
        """The name of the core's target that stands for it."""
        return "cpu" if is_stood_in_for(self._name) else self._name

    @property
    def core(self) -> Target:
        """The core's target that stands for it."""
        return target_named(self.core_name)

    def __repr__(self) -> str:
        """The name, and what stands for it."""
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
