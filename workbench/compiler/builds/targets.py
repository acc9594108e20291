"""Targets: where programs can run, which pipeline prepares them, and why the rest cannot be used here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.errors import OperationError

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.gpu.devices.registry import Availability


@dataclass(frozen=True)
class Target:
    """A place to run: its pipeline's name, and what runs the programs."""

    name: str
    summary: str
    pipeline: str

    @property
    def device(self) -> str:
        """What programs run on; of the devices that are here, the best one."""
        return (
            next((d.name for d in _devices() if not d.missing), "none") if self.kernels else "NumPy"
        )

    @property
    def kernels(self) -> bool:
        """Whether programs become kernels for a device."""
        return self.name == "gpu"

    @property
    def missing(self) -> str:
        """What is missing if it cannot be used; "" if it can."""
        lacking = [d for d in _devices() if d.missing] if self.kernels else []
        if not self.kernels or len(lacking) < len(_devices()):
            return ""
        return "; ".join(f"{d.kind}: {d.missing}" for d in lacking)

    @property
    def available(self) -> bool:
        """Whether programs can be compiled for it and run on it here."""
        return not self.missing


TARGETS = {
    t.name: t
    for t in (
        Target("ref", "minimal pipeline, plain NumPy: the definition", "ref"),
        Target("cpu", "optimising pipeline, fused modules run by NumPy", "optimize"),
        Target("gpu", "all passes, then kernels on a device", "gpu"),
    )
}


def _devices() -> list[Availability]:
    from workbench.gpu.devices.registry import available  # noqa: PLC0415

    return available()


def target_named(name: str) -> Target:
    """The target of that name.

    ``auto`` is ``gpu`` where there is a GPU, and ``cpu`` elsewhere: kernels run on a CPU, too, through
    OpenCL, but products and convolutions are faster in NumPy's libraries.

    Raises:
        OperationError: There is no such target.
    """
    if name == "auto":
        here = any(d.processor == "GPU" for d in _devices() if not d.missing)
        return TARGETS["gpu" if here else "cpu"]
    if name not in TARGETS:
        raise OperationError(f"unknown target {name!r}; targets are auto, {', '.join(TARGETS)}")
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
