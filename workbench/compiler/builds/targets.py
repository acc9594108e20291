"""Targets: where programs can run, which pipeline prepares them, and why a target is unavailable.

A target is a value made in its own folder. It is found because the workbench's root declares it,
because an installed package has an entry point for it in the group ``graph_workbench.targets``, or
because it was registered by a call.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import TYPE_CHECKING, Any

from workbench.compiler.builds.declared import PLACES
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.passes import pipelines
from workbench.compiler.passes.base import Pipeline

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.builds.build import Build
    from workbench.compiler.builds.runner import Runner

GROUP = "graph_workbench.targets"
"""The group of entry points through which other packages provide targets."""


@dataclass(frozen=True)
class Target(ABC):
    """A way to run programs: its pipeline and its runner.

    Args:
        name: Its name in ``compile``.
        summary: Its summary, one line.
        passes: Makes its pipeline; parameters are the pipeline's options.
    """

    name: str
    summary: str
    passes: Callable[..., Pipeline]

    takes_device = False
    """Whether programs run on a device with its own memory, chosen by ``compile(device=...)``."""

    @property
    def device(self) -> str:
        """The device that runs programs: the best one here."""
        return "NumPy"

    @property
    def missing(self) -> str:
        """The reason why it is unavailable; "" if it is available."""
        return ""

    @property
    def available(self) -> bool:
        """Whether programs can be compiled for it and run on it here."""
        return not self.missing

    @property
    def preference(self) -> int:
        """Its priority for ``auto``: the highest is chosen; 0 means never."""
        return 0

    def numbered(self, number: int) -> str | None:
        """The device with a number among those of the best one's kind; None if it takes no device."""
        return None

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its pipeline's options."""
        return tuple(signature(self.passes).parameters)

    def pipeline(self, **options: Any) -> Pipeline:
        """Its passes.

        Raises:
            OperationError: The pipeline has no such option.
        """
        if unknown := [name for name in options if name not in self.options]:
            has = ", ".join(self.options) or "none"
            raise OperationError(
                f"target {self.name!r}: no option {unknown[0]!r} of its passes; it has {has}"
            )
        return self.passes(**options)

    def pipeline_for(self, device: str | None, **options: Any) -> Pipeline:
        """Its passes, with some options, for a device; by default for the best one present."""
        del device
        return self.pipeline(**options)

    @abstractmethod
    def prepare(
        self,
        program: Program,
        *,
        device: str | None = None,
        source: Program | None = None,
        compile: Callable[[Program], Build] | None = None,
    ) -> Runner:
        """Make the runner of a program that the passes have compiled.

        Args:
            program: The compiled program.
            device: The device, for a target that takes one; by default the best one here.
            source: The program from which it was compiled.
            compile: Compiles a variant of the source in the same way, for a target whose code is made for
                one set of lengths.

        Raises:
            DeviceError: There is no such device.
        """


@dataclass(frozen=True)
class Broken(Target):
    """A target that could not be loaded; it is listed with the reason."""

    reason: str = ""

    @property
    def device(self) -> str:
        """No device."""
        return "none"

    @property
    def missing(self) -> str:
        """The reason why it could not be loaded."""
        return self.reason

    def prepare(self, program: Program, **_: Any) -> Runner:
        """Raise the reason.

        Raises:
            OperationError: Always, with the reason.
        """
        raise OperationError(f"target {self.name!r} cannot be used: {self.reason}")


_registered: dict[str, Target] = {}


def register(target: Target) -> Target:
    """List a target.

    Raises:
        OperationError: There is already one with that name.
    """
    if target.name in ("auto", *all_targets()):
        raise OperationError(f"target {target.name!r} is registered twice")
    _registered[target.name] = target
    return target


def unregister(name: str) -> None:
    """Remove a registered target from the list."""
    _registered.pop(name, None)


def all_targets() -> dict[str, Target]:
    """Every target by name: the built-in ones, those of other packages, and the registered ones."""
    own = {name: _loaded(name, place) for name, place in PLACES.items()}
    # A target registered by a call takes precedence over an installed one.
    return own | _installed(tuple(sys.path)) | _registered | own


@cache
def _loaded(name: str, place: str) -> Target:
    """The target at ``module:attribute``; a broken one if it cannot be loaded."""
    module, _, attribute = place.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # a foreign module may raise anything; the list shows it
        return _broken(name, f"{place}: {type(error).__name__}: {error}")
    if isinstance(found, Target) and found.name == name:
        return found
    return _broken(name, f"{place} is {found!r}; expected a Target named {name!r}")


@cache
def _installed(path: tuple[str, ...]) -> dict[str, Target]:  # noqa: ARG001  # the cache's key
    """The targets provided by the packages on a path."""
    found: dict[str, Target] = {}
    for point in entry_points(group=GROUP):
        if point.name in PLACES:
            reason = f"the workbench has a target {point.name!r} of its own"
            found[point.value] = _broken(point.value, reason)
        else:
            found[point.name] = _loaded(point.name, point.value)
    return found


def _broken(name: str, reason: str) -> Target:
    return Broken(name, "could not be loaded", pipelines.ref, reason)


def target_named(name: str) -> Target:
    """The target of that name; for ``auto``, the preferred one on this machine.

    Raises:
        OperationError: There is no such target.
    """
    is_name = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if is_name and name in PLACES:  # built-in: no need to search the installed packages
        return _loaded(name, PLACES[name])
    known = all_targets()
    if name == "auto":
        return max(known.values(), key=_preference)
    if not is_name or name not in known:
        raise OperationError(f"unknown target {name!r}; targets are auto, {', '.join(known)}")
    return known[name]


def _preference(target: Target) -> int:
    """The preference of a target; 0 if asking it raises an error."""
    try:
        return target.preference
    except Exception:  # of another package
        return -1


def with_devices() -> str:
    """The arguments of ``compile`` that choose a target with devices."""
    found = [f"target={t.name!r}" for t in all_targets().values() if t.takes_device]
    return " or ".join(found) or "a target of a package that brings one"


def targets() -> DataFrame:
    """A row per target: its summary, whether it can be used here, and what is missing otherwise."""
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame([_row(t) for t in all_targets().values()]).set_index("target")


def _row(target: Target) -> dict[str, Any]:
    try:
        device, missing = target.device, target.missing
    except Exception as error:  # a target of another package may raise anything
        device, missing = "none", f"{type(error).__name__}: {error}"
    return {
        "target": target.name,
        "available": not missing,
        "device": device,
        "what": target.summary,
        "missing": missing,
    }
