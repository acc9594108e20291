"""The tables of a .tflite file, read with the classes of the package ``tflite``; numbers are checked."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.tensors import MAX_TENSOR_BYTES

MAX_BYTES = (1 << 31) - 1
"""The largest file: its offsets have 32 bits."""

MAX_RANK = 32

TYPES = {
    0: DType.FLOAT, 1: DType.HALF, 2: DType.INT32, 3: DType.UINT8, 4: DType.INT64, 6: DType.BOOL,
    7: DType.INT16, 9: DType.INT8, 10: DType.DOUBLE, 12: DType.UINT64, 15: DType.UINT32,
    16: DType.UINT16, 18: DType.BF16,
}  # fmt: skip
"""The element types by the schema's numbers."""

_DAMAGED = (struct.error, ValueError, TypeError, IndexError, OverflowError, UnicodeDecodeError)

T = TypeVar("T")


def schema(name: str = "") -> Any:
    """A module of the package ``tflite``, or the package.

    Raises:
        ModelError: It is not installed.
    """
    try:
        return import_module(f"tflite.{name}" if name else "tflite")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"tflite", "flatbuffers"}:
            raise
        raise ModelError(
            "the package 'tflite' is not installed; install the extra that has it: "
            "pip install 'graph-workbench[tflite]'"
        ) from error


@dataclass(frozen=True)
class Quantization:
    """The numbers that integers of a tensor stand for: ``(q - zero) · scale``, for all or along an axis."""

    scale: Array
    zero: Array
    axis: int


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model; ``data`` are its elements, if they are known."""

    name: str
    shape: Shape
    data: Array | None
    quantization: Quantization | None


@dataclass(frozen=True)
class Operator:
    """An operator of a model: its name, the numbers of its tensors (-1 for one left out), its options."""

    name: str
    number: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    table: Any = field(repr=False, default=None)


class Model:
    """The first graph of a model."""

    def __init__(self, data: bytes) -> None:
        """Read the tables.

        Raises:
            ModelError: The file is damaged.
        """
        self.size = len(data)
        self._data = data
        if data[4:8] != b"TFL3":
            raise ModelError("no model of TensorFlow Lite: expected 'TFL3' in bytes 4 to 7")
        root = guarded("the model", lambda: schema("Model").Model.GetRootAs(data, 0))
        self._root = root
        guarded("the model", self._load)

    @classmethod
    def read(cls, source: str | Path | bytes) -> Model:
        """The model of a file or of its bytes.

        Raises:
            ModelError: The package is missing, or the file cannot be read or is damaged.
        """
        schema()
        if isinstance(source, bytes):
            return cls(source)
        path = Path(source)
        try:
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise ModelError(f"{path.name}: {size:,} bytes; expected at most {MAX_BYTES:,}")
            return cls(path.read_bytes())
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ModelError(f"cannot read {str(path)!r}: {reason}") from error

    def _load(self) -> None:
        if self._count(self._root, "Subgraphs") < 1:
            raise ModelError("a model without a graph")
        graph = self._root.Subgraphs(0)
        self.buffers = self._count(self._root, "Buffers")
        count = self._count(graph, "Tensors")
        self.tensors = [self._tensor(graph.Tensors(k), k) for k in range(count)]
        self.inputs = self._numbers(graph, "Inputs", "an input")
        self.outputs = self._numbers(graph, "Outputs", "an output")
        codes = self._count(self._root, "OperatorCodes")
        self._names = [self._code(self._root.OperatorCodes(k)) for k in range(codes)]
        count = self._count(graph, "Operators")
        self.operators = [self._operator(graph.Operators(k), k) for k in range(count)]

    def _count(self, table: Any, name: str) -> int:
        """The length of a vector of tables, each of which takes 4 bytes at least."""
        count = int(getattr(table, f"{name}Length")())
        if count * 4 > self.size:
            raise ModelError(f"damaged: {count:,} {name.lower()} in a file of {self.size:,} bytes")
        return count

    def ints(self, table: Any, name: str) -> list[int]:
        """A vector of integers; empty if it is left out."""
        self._count(table, name)
        found = getattr(table, f"{name}AsNumpy")()
        return [] if isinstance(found, int) else [int(v) for v in found]

    def _numbers(self, table: Any, name: str, what: str, optional: bool = False) -> list[int]:
        """The numbers of tensors, each of which is there."""
        found = self.ints(table, name)
        low = -1 if optional else 0
        wrong = next((v for v in found if not low <= v < len(self.tensors)), None)
        if wrong is not None:
            raise ModelError(f"{what} is tensor {wrong}; expected {low} to {len(self.tensors) - 1}")
        return found

    def _tensor(self, table: Any, number: int) -> Tensor:
        name = (table.Name() or b"").decode("utf-8", "replace") or f"tensor{number}"
        lens, code = self.ints(table, "Shape"), int(table.Type())
        if code not in TYPES:
            raise ModelError(f"tensor {name[:80]!r}: elements of the schema's type {code}")
        size = TYPES[code].size
        good = len(lens) <= MAX_RANK and min(lens, default=0) >= 0
        if not good or prod(lens) * size > MAX_TENSOR_BYTES:
            raise ModelError(
                f"tensor {name[:80]!r}: lens {lens[:8]}; expected fewer or smaller ones"
            )
        if table.Sparsity() is not None:
            raise ModelError(f"tensor {name[:80]!r} is sparse; expected a dense one")
        shape = Shape(TYPES[code], lens)
        data = self._elements(int(table.Buffer()), shape, name)
        return Tensor(name, shape, data, self._quantization(table, shape, name))

    def _elements(self, number: int, shape: Shape, name: str) -> Array | None:
        if not 0 <= number < self.buffers:
            raise ModelError(f"tensor {name[:80]!r}: buffer {number} of {self.buffers}")
        buffer = self._root.Buffers(number)
        length = int(buffer.DataLength())
        if not length:
            if int(buffer.Offset()) > 1:
                raise ModelError(f"tensor {name[:80]!r}: its data is behind the model's tables")
            return None
        if length != shape.elements * shape.type.size:
            expected = shape.elements * shape.type.size
            raise ModelError(f"tensor {name[:80]!r}: {length:,} bytes; expected {expected:,}")
        raw = buffer.DataAsNumpy()
        return np.frombuffer(raw.tobytes(), shape.type.numpy).reshape(shape.lens)

    def _quantization(self, table: Any, shape: Shape, name: str) -> Quantization | None:
        found = table.Quantization()
        if found is None or not int(found.ScaleLength()) or shape.type.is_float:
            return None
        self._count(found, "Scale")
        scale = np.array(found.ScaleAsNumpy(), np.float32)
        zero = np.zeros(scale.shape, np.int64)
        if int(found.ZeroPointLength()):
            zero = np.array(found.ZeroPointAsNumpy(), np.int64)
        axis = int(found.QuantizedDimension())
        single = scale.size == 1
        if zero.size != scale.size or not (single or self._fits(shape, axis, scale.size)):
            raise ModelError(
                f"tensor {name[:80]!r}: {scale.size} scales and {zero.size} zero points along "
                f"axis {axis} of {shape}"
            )
        return Quantization(scale, zero, axis)

    @staticmethod
    def _fits(shape: Shape, axis: int, count: int) -> bool:
        return 0 <= axis < shape.ndim and shape.lens[axis] == count

    def _code(self, table: Any) -> str:
        code = max(int(table.DeprecatedBuiltinCode()), int(table.BuiltinCode()))
        names = schema("utils").BUILTIN_OPCODE2NAME
        if code == 32:
            custom = (table.CustomCode() or b"").decode("utf-8", "replace")
            return f"CUSTOM:{custom[:80]}"
        return str(names.get(code, f"number {code}"))

    def _operator(self, table: Any, number: int) -> Operator:
        index = int(table.OpcodeIndex())
        if not 0 <= index < len(self._names):
            raise ModelError(f"operator {number}: code {index} of {len(self._names)}")
        name = self._names[index]
        inputs = self._numbers(table, "Inputs", f"an input of operator {number}", optional=True)
        outputs = self._numbers(table, "Outputs", f"an output of operator {number}")
        return Operator(name, number, inputs, outputs, table)


def guarded(what: str, read: Callable[[], T]) -> T:
    """The result of a function that reads tables.

    Raises:
        ModelError: The tables are damaged: an offset leads outside the file.
    """
    try:
        return read()
    except ModelError:
        raise
    except _DAMAGED as error:
        raise ModelError(f"{what} is damaged: {type(error).__name__}: {error}"[:300]) from error
