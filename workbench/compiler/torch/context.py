"""The context of an operator's handler: what the node's values are, and ways to emit instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx import registry as onnx_operators
from workbench.compiler.onnx.broadcast import broadcasted_alike
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.sizes import Length, Size
from workbench.compiler.torch.installed import torch
from workbench.compiler.torch.provenance import described
from workbench.compiler.torch.tensors import type_of

if TYPE_CHECKING:
    from workbench.compiler.torch.importer import GraphImporter

Handler: TypeAlias = Callable[..., Any]
"""Takes a Context and an operator's arguments, and returns its values."""

Operand: TypeAlias = "Instruction | Length | float | bool"
"""A tensor or a number."""

OPSET = 22
"""The version of ONNX's operators that some handlers are made of."""


class Context(NodeContext):
    """A node of a ``torch.fx`` graph that is being imported; it emits as a node of ONNX does."""

    def __init__(self, importer: GraphImporter, node: Any) -> None:
        """Called by the importer, once per node."""
        proto = onnx.NodeProto(op_type=str(node.target), name=node.name)
        super().__init__(
            cast("Any", importer), proto, cast("Any", None), importer.module, OPSET, ""
        )
        self.graph_importer = importer
        self.fx = node
        self._builder = ModuleBuilder(importer.module)

    def fail(self, message: str) -> ModelError:
        """An error that names the operator, the module and the user's line, to be raised."""
        return ModelError(f"{described(self.fx)}: {message}")

    # The node's values as PyTorch knows them

    def result(self, index: int | None = None) -> Any:
        """PyTorch's description of the result, or of one of several: shape, type and strides."""
        value = self.fx.meta["val"]
        return value if index is None else value[index]

    def dtype(self, index: int | None = None) -> DType:
        """The element type of a result; that of its parts if it is complex."""
        return type_of(_real(self.result(index).dtype))

    @property
    def arguments(self) -> list[Any]:
        """The arguments in the order of the operator's schema, as nodes and numbers of the graph."""
        return self.graph_importer.arguments(self.fx)

    def out_lens(self, index: int | None = None) -> tuple[Length, ...]:
        """The lengths of a result."""
        return self.graph_importer.symbols.lens(self.result(index).shape)

    def given(self, position: int) -> Any:
        """PyTorch's description of an argument: a tensor, or the number itself."""
        argument = self.fx.args[position]
        return argument.meta["val"] if hasattr(argument, "meta") else argument

    def promoted(self, *positions: int) -> DType:
        """The type that PyTorch brings one or two arguments to before it computes."""
        result_type = torch().result_type
        a, b = _plain(self.given(positions[0])), _plain(self.given(positions[-1]))
        return type_of(_real(result_type(a, b)))

    # Emitting

    def operand(self, value: Operand, type: DType) -> Instruction:
        """A tensor or a number in an element type."""
        if isinstance(value, Instruction):
            return self.convert(value, type)
        if isinstance(value, Size):
            return self.convert(self.number_of(value), type)
        return self.scalar(type, value)

    def apply(self, op: str, *values: Operand, type: DType, **attributes: Any) -> Instruction:
        """An operation on operands in one element type, broadcast to common lens."""
        operands = [self.operand(v, type) for v in values]
        return self.add(op, *broadcasted_alike(self.module, operands), **attributes)

    def test(self, op: str, *values: Operand, type: DType) -> Instruction:
        """A comparison, as a bool."""
        return self.convert(self.apply(op, *values, type=type), DType.BOOL)

    def choose(self, condition: Instruction, a: Operand, b: Operand, type: DType) -> Instruction:
        """``a`` where a condition holds, else ``b``; all are broadcast."""
        operands = [
            self.convert(condition, DType.BOOL),
            self.operand(a, type),
            self.operand(b, type),
        ]
        return self.add("where", *broadcasted_alike(self.module, operands))

    def reduce(
        self, op: str, value: Instruction, axes: Sequence[int], keepdim: bool = False
    ) -> Instruction:
        """A reduction along axes; a value of rank 0 has nothing to reduce."""
        if not axes:
            return value
        found = self.add(op, value, axes=tuple(axes))
        return found if keepdim else self.squeeze(found, *axes)

    def axes(self, given: Any, rank: int) -> tuple[int, ...]:
        """Axes counted from the front: the given ones, or all if there are none."""
        listed = [given] if isinstance(given, int) else list(given or ())
        return tuple(sorted({a % rank for a in listed})) if listed and rank else tuple(range(rank))

    def operator(self, name: str, *inputs: Instruction, **attributes: Any) -> list[Instruction]:
        """The values of one of ONNX's operators, by the handler that imports it.

        Args:
            name: The operator.
            *inputs: Its inputs.
            **attributes: Its attributes; None leaves one out.
        """
        handler = onnx_operators.find("", name)
        assert handler is not None, name
        given = {k: v for k, v in attributes.items() if v is not None}
        proto = onnx.helper.make_node(name, [""] * len(inputs), [""], self.fx.name, **given)
        node = NodeContext(self.importer, proto, self.scope, self.module, OPSET, "")
        found = handler(node, list(inputs))
        return [found] if isinstance(found, Instruction) else list(found)

    def value(self, instruction: Instruction) -> Value:
        """The value of an instruction, with NumPy's operators."""
        return self._builder.of(instruction)

    def whole(self, value: Any, what: str) -> int:
        """An integer that must be known at import.

        Raises:
            ModelError: It is known only at run time.
        """
        if isinstance(value, Size):
            raise self.fail(f"{what} is known only at run time; expected a fixed integer")
        return int(value)

    def ints(self, values: Sequence[Any], what: str) -> tuple[int, ...]:
        """Integers that must be known at import."""
        return tuple(self.whole(v, what) for v in values)


def _plain(value: Any) -> Any:
    """An argument for PyTorch's rules of types: symbolic integers are numbers."""
    return 1 if type(value).__name__ == "SymInt" else value


def _real(dtype: Any) -> Any:
    """The type of the parts of complex numbers; another type is itself."""
    return dtype.to_real() if dtype.is_complex else dtype
