"""Targets by AITemplate's names, each with the workbench's target that it stands for."""

from __future__ import annotations

from typing import Any


class Target:
    """A device to compile for; a context, as AITemplate's is."""

    def __init__(self, name: str, workbench: str) -> None:
        """A target.

        Args:
            name: AITemplate's name, such as ``cuda``.
            workbench: The workbench's name of it.
        """
        self._name, self.workbench = name, workbench

    def name(self) -> str:
        """AITemplate's name."""
        return self._name

    def __enter__(self) -> Target:
        """The target."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept."""

    def __repr__(self) -> str:
        """Both names."""
        return f"Target({self._name!r}, workbench={self.workbench!r})"


def CUDA(**_: Any) -> Target:  # noqa: N802 - AITemplate's name
    """An NVIDIA device."""
    return Target("cuda", "gpu")


def ROCM(**_: Any) -> Target:  # noqa: N802 - AITemplate's name
    """An AMD device."""
    return Target("rocm", "gpu")


def REFERENCE() -> Target:  # noqa: N802 - beside the others
    """The reference interpreter, which needs no device."""
    return Target("reference", "ref")


def detect_target(**_: Any) -> Target:
    """The device that the workbench finds; its ``gpu`` target takes the best one there is."""
    return CUDA()


def workbench_name(target: Any) -> str:
    """The workbench's name of a target, which may be such a name itself.

    Raises:
        TypeError: It is neither a target nor a name.
    """
    if isinstance(target, Target):
        return target.workbench
    if isinstance(target, str):
        return {"cuda": "gpu", "rocm": "gpu"}.get(target, target)
    raise TypeError(f"target {target!r}; expected a Target, as detect_target() returns, or a name")
