"""The context of an operator's handler: its options and tensors, and ways to emit instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx import registry as onnx_operators
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.tflite.reader import Operator, Tensor, guarded, schema

if TYPE_CHECKING:
    from workbench.compiler.tflite.importer import Importer

Handler: TypeAlias = Callable[..., Any]
"""Takes a Context and an operator's inputs, and returns its values."""

_OPSET = 22


class Context(NodeContext):
    """An operator of TensorFlow Lite that is being imported; it emits as a node of ONNX does."""

    def __init__(self, importer: Importer, operator: Operator, source: str) -> None:
        """Called by the importer, once per operator."""
        proto = onnx.NodeProto(op_type=operator.name, name=source)
        super().__init__(
            cast("Any", importer), proto, cast("Any", None), importer.module, _OPSET, ""
        )
        self.operator = operator
        self.model = importer.model

    def fail(self, message: str) -> ModelError:
        """An error that names the operator, to be raised."""
        return ModelError(f"{self.operator.name} ({self.node.name}): {message}")

    def options(self, name: str) -> Any:
        """The operator's options, by the name of their table; defaults where they are left out.

        Raises:
            ModelError: They are damaged.
        """
        made = getattr(schema(name), name)()

        def read() -> Any:
            table = self.operator.table.BuiltinOptions()
            if table is None:
                return None
            made.Init(table.Bytes, table.Pos)
            return made

        found = guarded(f"the options of {self.operator.name}", read)
        return _Options(found)

    def result(self, index: int) -> Tensor:
        """A tensor that the operator gives."""
        return self.model.tensors[self.operator.outputs[index]]

    @property
    def out_lens(self) -> tuple[int, ...]:
        """The lens of the first output."""
        return self.result(0).shape.lens

    def emitted(self, name: str, *inputs: Instruction, **attributes: Any) -> list[Instruction]:
        """The values of one of ONNX's operators, by the handler that imports it."""
        handler = onnx_operators.find("", name)
        assert handler is not None, name
        given = {k: v for k, v in attributes.items() if v is not None}
        proto = onnx.helper.make_node(name, [""] * len(inputs), [""], self.node.name, **given)
        node = NodeContext(self.importer, proto, self.scope, self.module, _OPSET, "")
        found = handler(node, list(inputs))
        return [found] if isinstance(found, Instruction) else list(found)

    def typed(self, like: Instruction, value: float) -> Instruction:
        """A number in the type of a value."""
        return self.scalar(like.shape.type, value)

    def activated(self, x: Instruction, code: int) -> Instruction:
        """A value after a fused activation.

        Raises:
            ModelError: The activation is not known.
        """
        if code == 0:
            return x
        if code == 1:
            return self.add("relu", x)
        if code in {2, 3}:
            low, high = (-1.0, 1.0) if code == 2 else (0.0, 6.0)
            return self.common("clip", x, self.typed(x, low), self.typed(x, high))
        if code == 4:
            return self.add("tanh", x)
        raise self.fail(f"the fused activation of number {code}; expected none, a relu or tanh")

    def ints_of(self, value: Instruction, what: str) -> list[int]:
        """The elements of a constant."""
        return list(self.constant_ints(value, what))

    def permuted(self, value: Instruction, *order: int) -> Instruction:
        """A transpose."""
        return self.transpose(value, *order)

    def truth(self, value: Instruction) -> Instruction:
        """A comparison's result as a bool."""
        return self.convert(value, DType.BOOL)


class _Options:
    """The fields of a table of options; 0 where the table is left out, which is the schema's default."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._table is None:
            return lambda *_: 0
        found = getattr(self._table, name)
        return lambda *arguments: guarded("options", lambda: found(*arguments))
