"""The version that scripts see, and functions of the process that have no more to do here."""

from __future__ import annotations

from typing import Any

VERSION = "1.31.1"
"""The version of onnxruntime whose interface this is."""


def get_version_string() -> str:
    """The version of onnxruntime whose interface this is."""
    return VERSION


def get_build_info() -> str:
    """A line about this package, in the form of onnxruntime's."""
    from workbench import __version__  # noqa: PLC0415

    return f"ORT Build Info: graph workbench {__version__}, interface of onnxruntime {VERSION}"


def set_seed(seed: int) -> None:
    """Nothing: an operator that draws numbers takes its seed from the model."""


def enable_telemetry_events() -> None:
    """Nothing: nothing is ever sent anywhere."""


def disable_telemetry_events() -> None:
    """Nothing: nothing is ever sent anywhere."""


def has_collective_ops() -> bool:
    """False: sessions here run on one device."""
    return False


def get_ep_devices() -> list[Any]:
    """No plugins of onnxruntime are loaded here."""
    return []


def create_and_register_allocator(memory_info: Any, arena_cfg: Any = None) -> None:
    """Nothing: memory is planned for each program, and freed with it."""


def create_and_register_allocator_v2(
    provider_type: str, memory_info: Any, options: Any, arena_cfg: Any = None
) -> None:
    """Nothing: memory is planned for each program, and freed with it."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None
) -> None:
    """Nothing: libraries of a device are loaded when it is first used."""
