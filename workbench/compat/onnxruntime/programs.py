"""The builds of a session: one for all lengths where that is possible, else one for each set of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import RLock
from typing import Any, cast

import numpy as np
import onnx

from workbench.compat.onnx_backend import PreparedModel
from workbench.compat.onnxruntime.profiling import Profile
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import ModelError, RuntimeValueError, WorkbenchError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.onnx.tensors import NARROW
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.runner import DeviceRunner


class Programs(PreparedModel):
    """A model as builds: one that takes every length, and others for the lengths that it cannot take.

    Args:
        model: The model.
        target: The workbench's target.
        options: Options of ``parse_onnx``.
        device: The device, for a target that takes one.
        compiling: Further options of ``compile``.

    Raises:
        ModelError: The model is damaged or not supported.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        target: str,
        options: Mapping[str, Any],
        device: str | None,
        compiling: Mapping[str, Any],
    ) -> None:
        """Compile the model once, if it can be compiled before its inputs are known."""
        self._open_build: Build | None = None
        self._reason: ModelError | None = None
        self._lock = RLock()
        super().__init__(model, target, options, device=device, compiling=compiling)
        if self.is_open:
            self._compile_open()

    def _compile_open(self) -> None:
        """Compile one program for all lengths; lengths that import must know are left to the first run."""
        try:
            program = parse_onnx(self.source, **self.options)
            self._open_build = compile(program, self.target, device=self.device, **self.compiling)
            self.last_build = self._open_build
        except RuntimeValueError as error:
            self._reason = error
        except WorkbenchError as error:
            self._reason = ModelError(str(error))
            self._expect_supported()

    def _expect_supported(self) -> None:
        """Refuse a model of tensors that cannot be imported whatever their lengths are."""
        if not all(v.type.HasField("tensor_type") for v in self.inputs):
            return
        options: dict[str, Any] = {**self.options, "default_dim_value": 1}
        with suppress(RuntimeValueError):
            parse_onnx(self.source, **options)

    @property
    def build(self) -> Build:
        """The build of the last run, or that for all lengths.

        Raises:
            ModelError: There is none before the first run, as import needs lengths or values of inputs.
        """
        if self.last_build is None:
            reason = f": {self._reason}" if self._reason else ""
            raise ModelError(
                f"there is a build after the first run, as it depends on the inputs{reason}"
            )
        return self.last_build

    def _build_for(self, inputs: Mapping[str, Any]) -> Build:
        if self._open_build is not None and _fits(self._open_build, inputs):
            self.last_build = self._open_build
            return self._open_build
        self.last_build = super()._build_for(inputs)
        return self.last_build

    def outputs_of(
        self, inputs: Mapping[str, Any], wanted: Sequence[int], profile: Profile | None
    ) -> list[Any]:
        """The wanted outputs, as arrays that nothing else refers to, or on the device that made them.

        Args:
            inputs: The inputs by name, checked.
            wanted: Positions of outputs.
            profile: Where the times of the run go, if it is profiled.
        """
        with self._lock:
            build = self._build_for(inputs).specialised(inputs)
            given = {n: v for n, v in inputs.items() if n in build.program.parameters}
            run = build.runner.run if profile is None else partial(profile.measured, build)
            values = run(given)
        return [self._own(values[k], k, inputs) for k in wanted]

    def on_device(self, inputs: Mapping[str, Any]) -> list[DeviceArray] | None:
        """All outputs in the memory of the device; None if the target has no device."""
        with self._lock:
            build = self._build_for(inputs).specialised(inputs)
            runner = build.runner
            if not isinstance(runner, DeviceRunner):
                return None
            given = {n: v for n, v in inputs.items() if n in build.program.parameters}
            found = runner.executable().run_async(given)
            runner.here().synchronize(None)
            return found

    def _own(self, value: Any, position: int, inputs: Mapping[str, Any]) -> Any:
        """A result in its declared type; copied if it shares memory with an input or a constant."""
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._own(one, position, inputs) for one in value]  # pyright: ignore[reportUnknownVariableType]
        array: Array = np.asarray(value)
        declared = self.model.graph.output[position].type.tensor_type.elem_type
        if (narrow := NARROW.get(declared)) is not None and array.dtype != narrow:
            array = array.astype(narrow)
        given: list[Array] = [v for v in inputs.values() if isinstance(v, np.ndarray)]
        if not array.flags.writeable or any(np.may_share_memory(array, v) for v in given):
            array = array.copy()
        return np.ascontiguousarray(array)[...] if array.ndim else array


def _fits(build: Build, inputs: Mapping[str, Any]) -> bool:
    """Whether a build takes inputs of these lengths."""
    for name, shape in build.program.parameters.items():
        value = inputs.get(name)
        if shape.kind or shape.subs is not None:
            is_empty = value is None or (isinstance(value, list | tuple) and not value)
            if not is_empty and not _is_known(shape):
                return False
            continue
        is_here = not isinstance(value, DeviceArray)
        lens: tuple[int, ...] = np.shape(cast("Any", value)) if is_here else value.shape.lens
        if shape.dims is None:
            fits = tuple(lens) == tuple(shape.lens)
        else:
            pairs = zip(lens, shape.dims, strict=False)
            fits = len(lens) == len(shape.dims) and all(d.min <= n <= d.max for n, d in pairs)
        if not fits:
            return False
    return True


def _is_known(shape: Shape) -> bool:
    """Whether the elements of a sequence, and of those in it, are known."""
    return not shape.kind or (bool(shape.subs) and all(map(_is_known, shape.subs or ())))
