"""MIGraphX's backend for ONNX models: one device for all models, and the text of the last program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx.backend.base import Backend
from onnx.checker import check_model  # pyright: ignore[reportUnknownVariableType]

from workbench.compat import migraphx
from workbench.compat.migraphx.errors import translated
from workbench.compat.onnx_backend import PreparedModel, model_of_node
from workbench.compat.onnx_migraphx.backend_rep import MIGraphXBackendRep
from workbench.compiler.builds.build import Build
from workbench.compiler.onnx.reader import read
from workbench.compiler.text.printing import to_text
from workbench.gpu.devices.registry import available

_KINDS = {"CUDA": "cuda", "ROCM": "hip"}
"""The device names of ONNX's backends, with the kinds of device; ``GPU`` is the best one."""


def get_device() -> tuple[str, ...]:
    """The devices that models can be prepared for."""
    here = {row.kind for row in available() if not row.missing}
    return ("CPU", "GPU", *(name for name, kind in _KINDS.items() if kind in here))


class MIGraphXBackend(Backend):
    """Runs ONNX models on one device for all models: ``GPU`` unless ``set_device`` sets another."""

    _device: ClassVar[str] = "GPU"
    _input_names: ClassVar[list[str]] = []
    _last: ClassVar[PreparedModel | None] = None

    @classmethod
    def set_device(cls, device: str) -> None:
        """Set the device of models that are prepared from now on.

        Raises:
            Error: The device is unknown.
        """
        cls._check_device(device)
        cls._device = device

    @classmethod
    def get_program(cls) -> str:
        """The text of the program of the last prepared model, before and after compilation."""
        build = None if cls._last is None else cls._last.last_build
        return "" if build is None else _texts(build)

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **_: Any) -> bool:  # noqa: ARG003
        """Whether a model can be prepared, i.e. the device is available."""
        return cls.supports_device(cls._device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can be prepared for a device."""
        return device in get_device()

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> MIGraphXBackendRep:
        """A model, ready to run.

        Args:
            model: A ModelProto, its bytes, the path of a file, a compiled program, or a prepared model.
            device: One of the devices; it is only checked: the one of ``set_device`` is used.
            **kwargs: Options of ``workbench.parse_onnx``, such as ``map_input_dims``.

        Raises:
            Error: The device is unknown, or the model is damaged or not supported.
        """
        if isinstance(model, MIGraphXBackendRep):
            return model
        if isinstance(model, migraphx.program):
            return MIGraphXBackendRep(model)
        if device is not None:
            cls._check_device(device)
        if isinstance(model, str | Path | bytes):
            with translated():
                return cls._prepared(read(model).model, kwargs, model)
        check_model(model)
        return cls._prepared(model, kwargs)

    @classmethod
    def _prepared(
        cls,
        model: onnx.ModelProto,
        options: dict[str, Any],
        source: str | Path | bytes | None = None,
    ) -> MIGraphXBackendRep:
        with translated():
            name = "gpu" if cls._device in _KINDS else cls._device.lower()
            target = migraphx.get_target(name).core_name
            prepared = PreparedModel(model, target, options, source, _KINDS.get(cls._device))
        cls._last = prepared
        cls._input_names = [v.name for v in prepared.inputs]
        return MIGraphXBackendRep(prepared, cls._input_names)

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            raise migraphx.Error(
                f"Incompatible device {device!r}; expected {' or '.join(get_device())}"
            )

    @classmethod
    def run_model(  # pyright: ignore[reportIncompatibleMethodOverride]  # a list, as MIGraphX's
        cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any
    ) -> list[Any]:
        """The outputs of a model that is prepared and run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | None = None,
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """The outputs of a single node, given an array for each of its inputs; MIGraphX lacks this."""
        if device is not None:
            cls._check_device(device)
        return cls._prepared(model_of_node(node, inputs, outputs_info), kwargs).run(inputs)


def _texts(build: Build) -> str:
    return f"\nProgram =\n{to_text(build.source)}\nCompiled program =\n{to_text(build.program)}"


is_compatible = MIGraphXBackend.is_compatible
prepare = MIGraphXBackend.prepare
run = MIGraphXBackend.run_model
supports_device = MIGraphXBackend.supports_device
