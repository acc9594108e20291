"""The workbench as a backend of ``onnx.backend``, for onnx's own test suite and other callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import InputError, OperationError, RuntimeValueError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.onnx.tensors import NARROW

Key: TypeAlias = "tuple[tuple[object, ...], ...]"

MAX_BUILDS = 16
"""Most programs that are kept for one model; the oldest is dropped first."""

DEVICES = {"CPU"}


class WorkbenchBackend(Backend):
    """Runs ONNX models with the reference, or with another of the workbench's targets that use the CPU."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", target: str = "ref", **options: Any
    ) -> PreparedModel:
        """A model, ready to run.

        Args:
            model: The model.
            device: ``CPU``.
            target: The workbench's target.
            **options: Options of ``parse_onnx``.

        Raises:
            ModelError: The model is damaged or uses something that is not supported.
            OperationError: The device is not supported.
        """
        if not cls.supports_device(device):
            raise OperationError(f"device {device!r}; expected {' or '.join(sorted(DEVICES))}")
        return PreparedModel(model, target, options)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model that is prepared and run once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """The outputs of a single node, given an array for each of its inputs."""
        return cls.run_model(model_of_node(node, inputs, outputs_info), inputs, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can be run on this device."""
        return device in DEVICES


class PreparedModel(BackendRep):
    """A model that runs on arrays.

    A model whose inputs are declared with all lengths is compiled once. If lengths are open, or import
    depends on an input's value (say the axes of a reduction), a program is made for the inputs of the first
    run, and kept for later ones.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        target: str,
        options: Mapping[str, Any],
        source: str | Path | bytes | None = None,
        device: str | None = None,
        compiling: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.source = model if source is None else source
        """The source of imports: the model, or the file or bytes that also hold its tensors."""
        self.target = target
        self.device = device
        """The device, if the target uses one; by default the best."""
        self.options = dict(options)
        self.compiling: dict[str, Any] = {"record": False, **(compiling or {})}
        """Further options of ``compile``."""
        given = {t.name for t in model.graph.initializer}
        self.inputs = [v for v in model.graph.input if v.name not in given]
        self.fixed: set[str] = set()
        """The inputs whose values programs depend on."""
        self.is_open = any(map(_is_open, self.inputs))
        """Whether programs depend on lengths of inputs that the model does not declare."""
        self.last_build: Build | None = None
        """The last program; None until the inputs that it depends on are known."""
        self._builds: dict[Key, Build] = {}
        if not self.is_open:
            try:
                self._builds[()] = self._compiled({})
            except RuntimeValueError as error:
                self._fix(error)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order, or by name.

        Raises:
            InputError: There are too many or too few, or one does not fit.
            EvaluationError: An instruction failed.
        """
        named = self._named(inputs)
        build = self._build_for(named)
        wanted = build.program.parameters
        if missing := [name for name in wanted if name not in named]:
            raise InputError(f"no input for parameter {missing[0]!r} of {wanted[missing[0]]}")
        result = build.run({n: v for n, v in named.items() if n in wanted})
        outputs = self.model.graph.output
        return tuple(_declared(result[i], outputs[i]) for i in range(len(outputs)))

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return {str(name): value for name, value in inputs.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        values: list[Any] = list(inputs) if isinstance(inputs, list | tuple) else [inputs]  # pyright: ignore[reportUnknownArgumentType]
        if len(values) > len(self.inputs):
            names = [v.name for v in self.inputs]
            raise InputError(f"{len(values)} inputs; expected {len(names)}: {', '.join(names)}")
        return {v.name: value for v, value in zip(self.inputs, values, strict=False)}

    def _build_for(self, inputs: Mapping[str, Any]) -> Build:
        self._expect_fixed(inputs)
        while True:
            key = self._key(inputs)
            if key in self._builds:
                return self._builds[key]
            try:
                made = self._compiled(inputs)
            except RuntimeValueError as error:
                self._fix(error)
                self._expect_fixed(inputs)
                continue
            if len(self._builds) >= MAX_BUILDS:
                del self._builds[next(iter(self._builds))]
            self._builds[key] = made
            return made

    def _fix(self, error: RuntimeValueError) -> None:
        """Make programs depend on the values of these inputs; raise the error if they do already."""
        fresh = set(error.inputs) - self.fixed
        if not fresh:
            raise error
        self.fixed |= fresh

    def _expect_fixed(self, inputs: Mapping[str, Any]) -> None:
        if missing := sorted(self.fixed - set(inputs)):
            raise InputError(f"no input {missing[0]!r}, which the program depends on")

    def _key(self, inputs: Mapping[str, Any]) -> Key:
        key: list[tuple[object, ...]] = []
        if self.is_open:
            key += [(name, *_form(value)) for name, value in inputs.items()]
        for name in sorted(self.fixed & set(inputs)):
            value = np.asarray(inputs[name])
            key.append((name, *_form(value), value.tobytes()))
        return tuple(key)

    def _compiled(self, inputs: Mapping[str, Any]) -> Build:
        options = dict(self.options)
        if self.is_open:
            known = {n: dims for n, v in inputs.items() if (dims := _dims(v)) is not None}
            options["map_dyn_input_dims"] = known | dict(options.get("map_dyn_input_dims") or {})
        fixed = {name: inputs[name] for name in self.fixed if name in inputs}
        program = parse_onnx(self.source, constant_inputs=fixed, **options)
        self.last_build = compile(program, self.target, device=self.device, **self.compiling)
        return self.last_build


def model_of_node(
    node: onnx.NodeProto,
    inputs: Any,
    outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
) -> onnx.ModelProto:
    """A model of a single node."""
    values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    names = [name for name in node.input if name]
    arrays: list[Array] = [np.asarray(v) for v in values]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    made = [_value(name, a.dtype, a.shape) for name, a in zip(names, arrays, strict=True)]
    if outputs_info is None:
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    else:
        outputs = [_value(n, t, s) for n, (t, s) in zip(node.output, outputs_info, strict=True)]
    graph = onnx.helper.make_graph([node], node.op_type, made, outputs)
    return onnx.helper.make_model(graph)


def _value(name: str, dtype: Any, lens: Sequence[int]) -> onnx.ValueInfoProto:
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, code, lens)


def _dims(value: Any) -> list[Dim | int] | None:
    """The lens of an array, or the ranges that cover a sequence's elements."""
    if not isinstance(value, list | tuple):
        return None if value is None else list(np.shape(value))
    found = [d for v in value if (d := _dims(v)) is not None]  # pyright: ignore[reportUnknownVariableType]
    if not found or len({len(dims) for dims in found}) != 1:
        return None
    return [_union(axis) for axis in zip(*found, strict=True)]


def _union(lengths: Sequence[Dim | int]) -> Dim | int:
    low = min(d if isinstance(d, int) else d.min for d in lengths)
    high = max(d if isinstance(d, int) else d.max for d in lengths)
    return low if low == high else Dim(low, high)


def _is_open(value: onnx.ValueInfoProto) -> bool:
    if value.type.WhichOneof("value") != "tensor_type":
        return True
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or not all(
        d.HasField("dim_value") for d in tensor.shape.dim
    )


def _form(value: Any) -> tuple[object, ...]:
    """The key of a program: type and lens of an array, or of each element of a sequence."""
    if value is None:
        return (None,)
    if isinstance(value, list | tuple):
        return tuple(_form(v) for v in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    array = np.asarray(value)
    return (str(array.dtype), array.shape)


def _declared(value: Any, declared: onnx.ValueInfoProto) -> Any:
    """An output in its declared type, which programs may hold in a wider one."""
    if value is None or isinstance(value, list | tuple):
        return value  # pyright: ignore[reportUnknownVariableType]
    array: Array = np.asarray(value)
    narrow = NARROW.get(declared.type.tensor_type.elem_type)
    return array if narrow is None or array.dtype == narrow else array.astype(narrow)


prepare = WorkbenchBackend.prepare
run_model = WorkbenchBackend.run_model
run_node = WorkbenchBackend.run_node
supports_device = WorkbenchBackend.supports_device
