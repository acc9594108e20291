"""Targets: where programs can run, which pipeline prepares them, and why the rest cannot be used here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.errors import OperationError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Target:
    """A place to run: its pipeline's name, the device, and what is missing if it cannot be used."""

    name: str
    summary: str
    pipeline: str
    device: str
    missing: str = ""

    @property
    def available(self) -> bool:
        """Whether programs can be compiled for it and run on it here."""
        return not self.missing


TARGETS = {
    t.name: t
    for t in (
        Target("ref", "minimal pipeline, plain NumPy: the definition", "ref", "NumPy"),
        Target("cpu", "optimising pipeline, fused modules run by NumPy", "optimize", "NumPy"),
        Target(
            "gpu",
            "optimising pipeline, lowered to kernels on a device",
            "optimize",
            "none",
            "this version has no device layer yet; use target='cpu'",
        ),
    )
}

_AUTO = ("gpu", "cpu", "ref")


def target_named(name: str) -> Target:
    """The target of that name; ``auto`` is the best one that can be used here.

    Raises:
        OperationError: There is no such target, or it cannot be used here; the message says why.
    """
    if name == "auto":
        return next(TARGETS[n] for n in _AUTO if TARGETS[n].available)
    if name not in TARGETS:
        raise OperationError(f"unknown target {name!r}; targets are auto, {', '.join(TARGETS)}")
    if not TARGETS[name].available:
        raise OperationError(f"target {name!r} cannot be used: {TARGETS[name].missing}")
    return TARGETS[name]


def targets() -> DataFrame:
    """A row a target: what it is, whether it can be used here, and what is missing if not."""
    import pandas as pd  # noqa: PLC0415

    rows = [
        {
            "target": t.name,
            "available": t.available,
            "device": t.device,
            "what": t.summary,
            "missing": t.missing,
        }
        for t in TARGETS.values()
    ]
    return pd.DataFrame(rows).set_index("target")
