"""onnxruntime's backend for ``onnx.backend``: ``prepare``, ``run_model``, ``supports_device``."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.compat.onnxruntime.errors import InvalidArgument, fail
from workbench.compat.onnxruntime.options import RunOptions, SessionOptions
from workbench.compat.onnxruntime.providers import get_device
from workbench.compat.onnxruntime.session import Session

_OF_RUN = ("log_severity_level", "log_verbosity_level", "logid")


class OnnxRuntimeBackendRep:
    """A session that takes inputs by position.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        """Wrap a session."""
        self._session = session

    def run(self, inputs: Any, **options: Any) -> list[Any]:
        """The outputs for one array or a list of them.

        Args:
            inputs: An array, or one for each input.
            **options: Fields of ``RunOptions``.
        """
        chosen = RunOptions()
        for name, value in options.items():
            setattr(chosen, name, value)
        values: list[Any] = (
            list(cast("list[Any]", inputs)) if isinstance(inputs, list) else [inputs]
        )
        names = [v.name for v in self._session.get_inputs()]
        if len(values) != len(names):
            fail(
                InvalidArgument, f"{len(values)} inputs; expected {len(names)}: {', '.join(names)}"
            )
        made = [v if hasattr(v, "__array__") else np.asarray(v) for v in values]
        return self._session.run(None, dict(zip(names, made, strict=True)), chosen)


def prepare(model: Any, device: str | None = None, **options: Any) -> OnnxRuntimeBackendRep:
    """A model, ready to run.

    Args:
        model: A path, bytes, a ModelProto, or a session.
        device: ``CPU``, or ``GPU`` where one is available.
        **options: Fields of ``SessionOptions``.

    Raises:
        RuntimeError: The device is not available.
    """
    if isinstance(model, OnnxRuntimeBackendRep):
        return model
    if device is not None and not supports_device(device):
        raise RuntimeError(f"Incompatible device expected '{device}', got '{get_device()}'")
    if isinstance(model, Session):
        return OnnxRuntimeBackendRep(model)
    chosen = SessionOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    return OnnxRuntimeBackendRep(Session(model, chosen))


def run_model(model: Any, inputs: Any, device: str | None = None, **options: Any) -> list[Any]:
    """The outputs of a model that is prepared and run once."""
    made = {k: options.pop(k) for k in list(options) if k not in _OF_RUN}
    return prepare(model, device, **made).run(inputs, **options)


run = run_model


def supports_device(device: str) -> bool:
    """Whether models run on ``CPU`` or ``GPU`` here."""
    return device == "CPU" or (device == "GPU" and get_device() == "GPU")


def is_compatible(model: Any, device: str | None = None, **_: Any) -> bool:  # noqa: ARG001
    """Whether the device is one that models run on; what a model needs is found by ``prepare``."""
    return device is None or supports_device(device)
