"""A model as a folder of Triton's model repository: its configuration, its code and the compiled model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.compat.aitemplate.model import Model
from workbench.compat.aitemplate.signature import Param
from workbench.compiler.builds.build import Build
from workbench.compiler.counts import is_count
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.gpu.run.runner import DeviceRunner

CONFIG, VERSION, CODE, SAVED = "config.pbtxt", "1", "model.py", "model"
"""Names in the folder."""
RUNTIMES, DEVICE = "runtimes", "device"
"""Parameters of the configuration that the backend reads."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_TYPES = {
    DType.BOOL: "TYPE_BOOL", DType.HALF: "TYPE_FP16", DType.FLOAT: "TYPE_FP32",
    DType.DOUBLE: "TYPE_FP64", DType.UINT8: "TYPE_UINT8", DType.INT8: "TYPE_INT8",
    DType.UINT16: "TYPE_UINT16", DType.INT16: "TYPE_INT16", DType.INT32: "TYPE_INT32",
    DType.INT64: "TYPE_INT64", DType.UINT32: "TYPE_UINT32", DType.UINT64: "TYPE_UINT64",
}  # fmt: skip
_TEXT = '''"""Serves the model in the folder beside this file; needs graph-workbench, and no compiler."""

from pathlib import Path

import triton_python_backend_utils as pb_utils

from workbench.compat.triton.backend import Backend


class TritonPythonModel:
    """The class that the Python backend looks for."""

    def initialize(self, args):
        self.backend = Backend(pb_utils, Path(__file__).parent / "model", args)

    def execute(self, requests):
        return self.backend.execute(requests)

    def finalize(self):
        self.backend.close()
'''


def write_repository(
    model: Model | Build, folder: str | Path, name: str | None = None, runtimes: int = 4
) -> Path:
    """Write a model for Triton's Python backend: ``config.pbtxt``, ``1/model.py`` and the compiled kernels.

    The server needs this package in the Python that runs the backend. It does not batch requests, as kernels
    would be compiled for each length of a batch.

    Args:
        model: A build or a model; one with unbound constants cannot be served.
        folder: The model repository; the model becomes a folder in it.
        name: The model's name; by default its program's.
        runtimes: Requests of one instance that may run at once.

    Returns:
        The model's folder.

    Raises:
        OperationError: Triton has no such name or type, or a constant is unbound.
        OSError: It cannot be written.
    """
    own = Model.of_build(model) if isinstance(model, Build) else model
    try:
        name = _checked_name(name or Path(own.build.program.name or "model").stem)
        _expect_constants(own)
        if not is_count(runtimes):
            raise OperationError(f"runtimes: expected at least 1, found {runtimes!r}")
        text = config_text(name, own, runtimes)
        target = Path(folder) / name
        (target / VERSION).mkdir(parents=True, exist_ok=True)
        own.save(target / VERSION / SAVED)
        (target / VERSION / CODE).write_text(_TEXT, encoding="utf-8")
        (target / CONFIG).write_text(text, encoding="utf-8")
    finally:
        if own is not model:
            own.close()
    return target


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise OperationError(
            f"the model's name {name!r} cannot be a folder of Triton's; expected letters, digits, '_', '-' "
            "and '.', not at the beginning"
        )
    return name


def _expect_constants(model: Model) -> None:
    if unbound := model.get_constant_names():
        raise OperationError(
            f"constant {unbound[0]!r} is unbound: its memory is the caller's, and a server has none; bind it"
        )


# The configuration, in protobuf's text form


def config_text(name: str, model: Model, runtimes: int) -> str:
    """The model's ``config.pbtxt``."""
    runner = model.build.runner
    kind = runner.here().kind if isinstance(runner, DeviceRunner) else ""
    parts = [f"name: {_quoted(name)}", 'backend: "python"', "max_batch_size: 0"]
    parts += _tensors("input", model.inputs) + _tensors("output", model.outputs)
    place = "KIND_GPU" if kind in ("cuda", "hip") else "KIND_CPU"
    parts.append(f"instance_group [ {{ count: 1 kind: {place} }} ]")
    for key, value in ((RUNTIMES, str(runtimes)), (DEVICE, kind)):
        parts.append(
            f"parameters {{ key: {_quoted(key)} value: {{ string_value: {_quoted(value)} }} }}"
        )
    return "\n".join(parts) + "\n"


def _tensors(field: str, params: Sequence[Param]) -> list[str]:
    return [
        f"{field} [ {{ name: {_quoted(p.name)} data_type: {_type(p)} dims: [ {', '.join(_dims(p))} ] }} ]"
        for p in params
    ]


def _type(param: Param) -> str:
    if param.shape.type not in _TYPES:
        raise OperationError(
            f"{param.name}: Triton's Python backend has no arrays of {param.shape.type.type_name}; convert "
            "it in the model, to float for example"
        )
    return _TYPES[param.shape.type]


def _dims(param: Param) -> Iterator[str]:
    """The lengths: -1 for a range and for 0, which Triton cannot say; a scalar has one element."""
    if not param.ranges:
        yield "1"
    for low, high in param.ranges:
        yield str(low) if low == high and low else "-1"


def _quoted(text: str) -> str:
    """A string of protobuf's text form: bytes that are not plain ASCII as octal numbers."""

    def escaped(byte: int) -> str:
        plain = 32 <= byte < 127 and chr(byte) not in '"\\'
        return chr(byte) if plain else f"\\{byte:03o}"

    return f'"{"".join(map(escaped, text.encode()))}"'


def parameter(config: Any, name: str) -> str:
    """A parameter of a configuration that was parsed from Triton's JSON; empty if it is not there."""
    return str(config.get("parameters", {}).get(name, {}).get("string_value", ""))
