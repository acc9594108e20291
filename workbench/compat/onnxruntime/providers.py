"""Execution providers: onnxruntime's names for where a model runs, as targets and devices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from workbench.gpu.devices.registry import available

CPU = "CPUExecutionProvider"
OWN = "WorkbenchExecutionProvider"
_KINDS = {
    "CUDAExecutionProvider": "cuda",
    "ROCMExecutionProvider": "hip",
    "MIGraphXExecutionProvider": "hip",
}
"""The kind of device of each provider that is one of ours."""
_FOREIGN = (
    "NvTensorRTRTXExecutionProvider", "TensorrtExecutionProvider", "OpenVINOExecutionProvider",
    "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider", "NnapiExecutionProvider",
    "VSINPUExecutionProvider", "JsExecutionProvider", "CoreMLExecutionProvider", "ACLExecutionProvider",
    "DmlExecutionProvider", "RknpuExecutionProvider", "WebNNExecutionProvider", "WebGpuExecutionProvider",
    "XnnpackExecutionProvider", "CANNExecutionProvider", "AzureExecutionProvider",
)  # fmt: skip
"""Providers of onnxruntime that no target here stands for."""
OWN_OPTIONS = ("target", "device", "precision")


@dataclass(frozen=True)
class Place:
    """The place where a session runs: the options of `workbench.compile`."""

    target: str = "cpu"
    device: str | None = None
    precision: str | None = None
    providers: tuple[str, ...] = (CPU,)
    options: Mapping[str, dict[str, str]] = field(default_factory=lambda: {CPU: {}})


def get_all_providers() -> list[str]:
    """Every provider that onnxruntime knows, and ours, from the highest priority to the lowest."""
    return [OWN, *_KINDS, *_FOREIGN, CPU]


def get_available_providers() -> list[str]:
    """The providers that work here: those of devices that are present, ours, and the CPU's."""
    kinds = {found.kind for found in available() if not found.missing}
    return [*(name for name, kind in _KINDS.items() if kind in kinds), OWN, CPU]


def get_device() -> str:
    """``GPU`` if one is available, else ``CPU``."""
    return "GPU" if len(get_available_providers()) > 2 else "CPU"


def check_and_normalize_provider_args(
    providers: Any, provider_options: Any, available_provider_names: Sequence[str]
) -> tuple[list[str], list[dict[str, str]]]:
    """Providers as a list of names and one of options, as onnxruntime reads both forms.

    Args:
        providers: Names, or pairs of a name and options.
        provider_options: Options for each name, if ``providers`` has names only.
        available_provider_names: The names that are available; others are warned of.

    Raises:
        ValueError: An argument is not of these forms.
    """
    if providers is None:
        return [], []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    named = [_pair(one) for one in providers]  # pyright: ignore[reportUnknownVariableType]
    if provider_options is not None:
        given = _listed(provider_options, len(named))
        if any(options for _, options in named):
            raise ValueError("options are in 'providers' or in 'provider_options', not in both")
        named = [(name, dict(o)) for (name, _), o in zip(named, given, strict=True)]
    found: dict[str, dict[str, str]] = {}
    for name, options in named:
        _warn_unless_new(name, found, available_provider_names)
        found.setdefault(name, {str(k): str(v) for k, v in options.items()})
    return list(found), list(found.values())


def _pair(one: Any) -> tuple[str, dict[Any, Any]]:
    if isinstance(one, str):
        return one, {}
    if (
        isinstance(one, tuple)
        and len(cast("tuple[Any, ...]", one)) == 2
        and isinstance(one[0], str)
        and isinstance(one[1], dict)
    ):
        return one  # pyright: ignore[reportUnknownVariableType]
    raise ValueError("'providers' values must be either strings or (string, dict) tuples.")


def _listed(options: Any, count: int) -> Sequence[dict[Any, Any]]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise ValueError("'provider_options' should be a sequence.")
    if not all(isinstance(o, dict) for o in options):  # pyright: ignore[reportUnknownVariableType]
        raise ValueError("'provider_options' values must be dicts.")
    if len(options) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(
            "'providers' and 'provider_options' should be the same length if both are given."
        )
    return options  # pyright: ignore[reportUnknownVariableType]


def _warn_unless_new(name: str, found: Mapping[str, Any], known: Sequence[str]) -> None:
    if name not in known:
        warnings.warn(
            f"Specified provider {name!r} is not in available provider names. "
            f"Available providers: {', '.join(known)!r}",
            stacklevel=6,
        )
    if name in found:
        warnings.warn(f"Duplicate provider {name!r} encountered, ignoring.", stacklevel=6)


def place_of(names: Sequence[str], options: Sequence[dict[str, str]]) -> Place:
    """The place of a session that was given these providers: the first that is available.

    Raises:
        RuntimeError: A provider is unknown, or an option of ours, or a device is not here.
    """
    if unknown := [name for name in names if name not in get_all_providers()]:
        raise RuntimeError(f"Unknown Provider Type: {unknown[0]}")
    here = get_available_providers()
    chosen = {n: o for n, o in zip(names, options, strict=True) if n in here}
    listed = tuple(dict.fromkeys([*chosen, CPU]))
    kept = {name: chosen.get(name, {}) for name in listed}
    first = listed[0]
    if first == CPU:
        return Place(providers=listed, options=kept)
    if first == OWN:
        return Place(**{"target": "auto", **_own(chosen[OWN])}, providers=listed, options=kept)  # pyright: ignore[reportArgumentType]
    return Place("gpu", _device(first, chosen[first]), None, listed, kept)


def _own(options: Mapping[str, str]) -> dict[str, str]:
    if unknown := [name for name in options if name not in OWN_OPTIONS]:
        raise RuntimeError(
            f"{OWN}: unknown option {unknown[0]!r}; expected {', '.join(OWN_OPTIONS)}"
        )
    return dict(options)


def _device(name: str, options: Mapping[str, str]) -> str:
    kind, number = _KINDS[name], options.get("device_id", "0")
    here = [found.device for found in available() if found.kind == kind and not found.missing]
    wanted = f"{kind}:{number}"
    if not number.isdigit() or wanted not in here:
        raise RuntimeError(
            f"{name}: no device {number!r} is here; expected one of {', '.join(here)}"
        )
    return wanted
