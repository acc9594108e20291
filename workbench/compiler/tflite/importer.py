"""The importer: tensors become parameters, literals and values; quantized ones are floats in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.module import Instruction, SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.lengths import Lengths
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.tflite import registry
from workbench.compiler.tflite.context import Context
from workbench.compiler.tflite.reader import Model, Operator, Quantization, Tensor

AS_THEY_ARE = {
    "RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS", "STRIDED_SLICE", "SLICE", "SPLIT", "SPLIT_V", "GATHER",
    "GATHER_ND", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "PACK", "UNPACK", "TILE", "BROADCAST_TO", "REVERSE_V2",
    "SHAPE", "RESIZE_NEAREST_NEIGHBOR", "QUANTIZE", "DEQUANTIZE",
}  # fmt: skip
"""Operators that only move elements, whose integers stay as they are, and those that are about them."""


class Importer:
    """One import of one model."""

    def __init__(self, model: Model, name: str = "") -> None:
        """Nothing is imported yet."""
        self.model = model
        self.program = Program(name)
        self.module = self.program.main
        self.constants = Constants()
        self.lengths = Lengths(self.constants)
        self.options = ParseOptions()
        self.narrow: dict[Instruction, int] = {}
        self.values: dict[int, Instruction] = {}
        self._names: Counter[str] = Counter()

    def run(self) -> Program:
        """Import the model.

        Raises:
            ModelError: It has an unsupported operator or feature.
        """
        self._expect_operators()
        names = [self._unique(self.model.tensors[k].name) for k in self.model.inputs]
        for number, name in zip(self.model.inputs, names, strict=True):
            self.values[number] = self.module.add_parameter(name, self.model.tensors[number].shape)
        for operator in self.model.operators:
            self._import(operator)
        self.module.add_return(*(self.value(k) for k in self.model.outputs))
        outputs = Counter[str]()
        self.program.output_names = tuple(
            _numbered(outputs, self.model.tensors[k].name) for k in self.model.outputs
        )
        self.program.tensors = {self.model.tensors[k].name: v.id for k, v in self.values.items()}
        return self.program

    def _unique(self, name: str) -> str:
        return _numbered(self._names, name)

    def _expect_operators(self) -> None:
        unknown = Counter(o.name for o in self.model.operators if registry.find(o.name) is None)
        if unknown:
            listed = ", ".join(f"{name} ({n}×)" for name, n in sorted(unknown.items()))
            raise ModelError(
                f"unknown operators: {listed}; add handlers with workbench.compiler.tflite.tflite_op"
            )

    def value(self, number: int) -> Instruction:
        """The value of a tensor; a constant's is made where it is first read.

        Raises:
            ModelError: No operator before this one gives it.
        """
        if number not in self.values:
            tensor = self.model.tensors[number]
            if tensor.data is None and tensor.shape.elements:
                raise ModelError(f"tensor {tensor.name[:80]!r} is read before it has a value")
            data = tensor.data
            self.values[number] = self.module.add_literal(
                np.zeros(tensor.shape.lens, tensor.shape.type.numpy) if data is None else data
            )
        return self.values[number]

    def origins(self, value: Instruction) -> tuple[str, ...]:
        """The parameters that a value depends on, by name."""
        found: dict[str, None] = {}
        stack, seen = [value], set[Instruction]()
        while stack:
            current = stack.pop()
            if current not in seen:
                seen.add(current)
                stack += current.inputs
                if current.parameter is not None:
                    found[current.parameter] = None
        return tuple(found)

    # Operators

    def _import(self, operator: Operator) -> None:
        outputs = [self.model.tensors[k] for k in operator.outputs]
        name = self._unique(outputs[0].name if outputs else operator.name)
        made = SourceNode(
            name, operator.name, tuple(name.split("/")[:-1]),
            tuple(self.model.tensors[k].name for k in operator.inputs if k >= 0),
            tuple(t.name for t in outputs), "",
        )  # fmt: skip
        self.program.source_nodes[name] = made
        with self.program.source(name):
            found = self._handled(Context(self, operator, name))
        for number, value in zip(operator.outputs, found, strict=True):
            self.values[number] = value

    def _handled(self, node: Context) -> list[Instruction]:
        operator = node.operator
        handler = registry.find(operator.name)
        assert handler is not None, operator.name  # as _expect_operators has seen
        plain = operator.name in AS_THEY_ARE
        inputs = [None if k < 0 else self._operand(node, k, plain) for k in operator.inputs]
        try:
            found = handler(node, *inputs)
        except ModelError as error:
            text = str(error)
            error.args = (text if operator.name in text else str(node.fail(text)),)
            raise
        except (ValueError, TypeError, IndexError, KeyError) as error:
            shapes = "; ".join(str(i.shape) for i in inputs if i is not None) or "none"
            raise node.fail(f"{error} (inputs: {shapes})") from error
        values: Sequence[Any] = [found] if isinstance(found, Instruction) else list(found)
        if len(values) != len(operator.outputs):
            raise node.fail(f"{len(values)} results; expected {len(operator.outputs)}")
        return self._checked(node, [self._given(node, k, v) for k, v in enumerate(values)])

    def _operand(self, node: Context, number: int, plain: bool) -> Instruction:
        value, quantization = self.value(number), self.model.tensors[number].quantization
        return value if plain or quantization is None else dequantized(node, value, quantization)

    def _given(self, node: Context, index: int, value: Instruction) -> Instruction:
        tensor = node.result(index)
        if tensor.quantization is None or not value.shape.type.is_float:
            return value
        return quantized(node, value, tensor)

    def _checked(self, node: Context, values: list[Instruction]) -> list[Instruction]:
        """The values, if they have the types and lens that the model says.

        Raises:
            ModelError: They differ.
        """
        wanted = [self.model.tensors[k].shape for k in node.operator.outputs]
        for value, shape in zip(values, wanted, strict=True):
            if (value.shape.type, value.shape.lens) != (shape.type, shape.lens):
                raise node.fail(f"the import made {value.shape}; expected {shape}")
        return values


def _numbered(counts: Counter[str], name: str) -> str:
    counts[name] += 1
    return name if counts[name] == 1 else f"{name}_{counts[name]}"


def dequantized(node: Context, value: Instruction, by: Quantization) -> Instruction:
    """The numbers that the integers of a value stand for."""
    zero = by.zero.astype(value.shape.type.numpy)
    operands = [_spread(node, by.scale, by, value)]
    if zero.any():
        operands.append(_spread(node, zero, by, value))
    return node.add("dequantizelinear", value, *operands)


def quantized(node: Context, value: Instruction, tensor: Tensor) -> Instruction:
    """Integers that stand for the numbers of a value."""
    by = tensor.quantization
    assert by is not None  # as the caller checked
    zero = by.zero.astype(tensor.shape.type.numpy)
    scale = by.scale.astype(value.shape.type.numpy)
    return node.add(
        "quantizelinear", value, _spread(node, scale, by, value), _spread(node, zero, by, value)
    )


def _spread(node: Context, numbers: Any, by: Quantization, value: Instruction) -> Instruction:
    """Scales or zero points with the lens of a value."""
    if numbers.size == 1:
        return node.fit(node.module.add_literal(numbers.reshape(())), value.shape.lens)
    return node.broadcast(node.module.add_literal(numbers), by.axis, value.shape.lens)
