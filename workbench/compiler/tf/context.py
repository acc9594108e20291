"""The context of a TensorFlow operator's handler: attributes, layouts, ways to emit instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from workbench.compiler.errors import ModelError, RuntimeValueError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import broadcast
from workbench.compiler.tf.graph import described
from workbench.compiler.tf.reader import Message
from workbench.compiler.tf.tensors import argument, element_type

if TYPE_CHECKING:
    from workbench.compiler.tf.importer import Importer

Result: TypeAlias = "Instruction | Sequence[Instruction]"
Handler: TypeAlias = "Callable[[NodeContext, list[Instruction]], Result]"
D = TypeVar("D")

NHWC_TO_NCHW = (0, 3, 1, 2)
NCHW_TO_NHWC = (0, 2, 3, 1)
_LAYOUTS = {"", "NHWC", "NCHW", "NDHWC", "NCDHW"}
_KINDS = {"i": "an integer", "f": "a float", "b": "a bool", "s": "a text", "list": "a list"}


class NodeContext:
    """A node that is being imported into a module. Between handlers, values are in TensorFlow's layout."""

    def __init__(self, importer: Importer, node: Message, module: Module) -> None:
        """Called by the importer, once per node."""
        self.importer = importer
        self.node = node
        self.module = module

    @property
    def op_type(self) -> str:
        """The operator's name."""
        return self.node.op

    @property
    def is_needed(self) -> bool:
        """Whether an output depends on this node, not only assertions."""
        return self.importer.graph.is_needed(self.node.name)

    def fail(self, message: str) -> ModelError:
        """An error that names this node, to be raised."""
        return ModelError(f"{described(self.node)}: {message}")

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the node has this attribute."""
        return name in self.node.attr

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; without a default it is required."""
        return self._attribute(name, default, "i", lambda a: a.i)

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute; without a default it is required."""
        return self._attribute(name, default, "f", lambda a: a.f)

    def flag(self, name: str, default: bool | None = False) -> bool:
        """A bool attribute."""
        return self._attribute(name, default, "b", lambda a: a.b)

    def text(self, name: str, default: str | None = None) -> str:
        """A text attribute; without a default it is required."""
        return self._attribute(name, default, "s", lambda a: a.s.decode("utf-8", "replace"))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers; without a default it is required."""
        found = None if default is None else tuple(default)
        return self._attribute(name, found, "list", lambda a: tuple(a.list.i))

    def element_type(self, name: str, default: DType | None = None) -> DType:
        """An element type; without a default it is required."""
        where = f"{described(self.node)}: attribute {name!r}"
        return self._attribute(name, default, "type", lambda a: element_type(a.type, where))

    def tensor(self, name: str) -> Argument:
        """A required tensor attribute."""
        where = f"{described(self.node)}: attribute {name!r}"
        return self._attribute(name, None, "tensor", lambda a: argument(a.tensor, where))

    def _attribute(self, name: str, default: D | None, kind: str, get: Callable[[Message], D]) -> D:
        if name not in self.node.attr:
            if default is None:
                raise self.fail(f"attribute {name!r} is missing; the operator requires it")
            return default
        attribute = self.node.attr[name]
        found = attribute.WhichOneof("value")
        if found is None and default is not None:
            return default
        if found != kind:
            raise self.fail(
                f"attribute {name!r} is {_KINDS.get(found or '', found or 'empty')}; "
                f"expected {_KINDS.get(kind, kind)}"
            )
        return get(attribute)

    # Inputs

    def expect(self, inputs: Sequence[Instruction], low: int, high: int | None = None) -> None:
        """Refuse the node unless it has ``low`` to ``high`` inputs."""
        high = low if high is None else high
        if not low <= len(inputs) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise self.fail(f"{len(inputs)} inputs; expected {wanted}")

    def rank(self, value: Instruction) -> int:
        """The rank that the value has in TensorFlow, which knows no scalars of one dimension."""
        return self._shape(value).ndim

    def _shape(self, value: Instruction) -> Shape:
        return self.importer.program.shape_rules.plain(value.shape)

    def lens(self, value: Instruction) -> tuple[int, ...]:
        """The lens that the value has in TensorFlow.

        Raises:
            ModelError: One is only known at run time.
        """
        if value.shape.is_dynamic:
            raise self.fail(f"an input {value.shape}; expected fixed lengths")
        return self._shape(value).lens

    def constant(self, value: Instruction) -> Array | None:
        """The elements of a value that is known at import; otherwise None."""
        return self.importer.constants.value(value)

    def required_constant(self, value: Instruction, what: str) -> Array:
        """The elements of a value that must be known at import.

        Raises:
            RuntimeValueError: It is only known at run time.
        """
        found = self.constant(value)
        if found is None:
            message = f"{described(self.node)}: {what} is computed at run time; expected a constant"
            raise RuntimeValueError(message)
        return found

    def constant_ints(self, value: Instruction, what: str) -> tuple[int, ...]:
        """The elements of a constant as integers."""
        found = self.required_constant(value, what)
        if found.dtype.kind not in "iu":
            raise self.fail(f"{what} is of {found.dtype}; expected whole numbers")
        return tuple(int(v) for v in found.reshape(-1))

    def constant_int(self, value: Instruction, what: str) -> int:
        """The only element of a constant as an integer."""
        return self.one(self.constant_ints(value, what), what)

    def one(self, values: Sequence[Any] | Array, what: str) -> Any:
        """The element of a list that must have exactly one."""
        if len(values) != 1:
            raise self.fail(f"{what} has {len(values)} elements; expected one")
        return values[0]

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """``axis`` counted from the front.

        Raises:
            ModelError: The axis is out of range.
        """
        if not -rank <= axis < rank:
            raise self.fail(f"{what} {axis} is out of range; expected -{rank} to {rank - 1}")
        return axis % rank

    # Layout

    @property
    def is_nhwc(self) -> bool:
        """Whether the channels come last for this node: its ``data_format``, or else the graph's."""
        given = self.text("data_format", "")
        if given not in _LAYOUTS:
            raise self.fail(f"data_format={given!r}; expected NHWC or NCHW")
        return given.endswith("C") if given else self.importer.options.is_nhwc

    def to_nchw(self, value: Instruction) -> Instruction:
        """A value of rank 4 with its channels before its spatial axes."""
        return self._permuted(value, NHWC_TO_NCHW)

    def to_nhwc(self, value: Instruction) -> Instruction:
        """The opposite of ``to_nchw``."""
        return self._permuted(value, NCHW_TO_NHWC)

    def _permuted(self, value: Instruction, permutation: tuple[int, ...]) -> Instruction:
        if not self.is_nhwc or value.shape.ndim != 4:
            return value
        return self.transpose(value, *permutation)

    # Emitting

    def add(self, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
        """Append an instruction."""
        return self.module.add(op, *inputs, **attributes)

    def common(self, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
        """Append an operation on inputs that are broadcast to common lens and converted to a common type."""
        return broadcast.common(self.module, op, *inputs, **attributes)

    def common_lens(self, op: str, *inputs: Instruction) -> Instruction:
        """Append an operation on inputs that are broadcast, each in its own type."""
        return self.add(op, *broadcast.broadcasted_alike(self.module, inputs))

    def typed(self, value: Instruction, type: DType) -> Instruction:
        """The value, marked to be converted to this type before another node reads it."""
        if value.shape.type is not type:
            self.importer.types[value] = type
        return value

    def literal(self, value: Argument | Array) -> Instruction:
        """Add a literal."""
        array = value.numpy() if isinstance(value, Argument) else value
        self.importer.constants.count(array, described(self.node))
        return self.module.add_literal(value)

    def scalar(self, type: DType, value: Any) -> Instruction:
        """Add a literal of rank 0."""
        array = np.asarray(value).astype(type.numpy).reshape(())
        return self.module.add_literal(Argument(Shape(type), array))

    def convert(self, value: Instruction, type: DType) -> Instruction:
        """The value with this element type: itself, or a convert of it."""
        return broadcast.converted(self.module, value, type)

    def fit(self, value: Instruction, lens: Sequence[int]) -> Instruction:
        """The value with these lens: itself, or a multibroadcast of it."""
        return broadcast.broadcasted(self.module, value, lens)

    def standard(self, value: Instruction) -> Instruction:
        """The value in row-major order: itself, or a contiguous copy."""
        is_fixed = not value.shape.is_dynamic
        return self.add("contiguous", value) if is_fixed and not value.shape.standard else value

    def transpose(self, value: Instruction, *permutation: int) -> Instruction:
        """Append a transpose."""
        return self.add("transpose", value, permutation=permutation)

    def reshape(self, value: Instruction, *dims: int) -> Instruction:
        """Append a reshape; no dims make a value of rank 0, which a strict program has not."""
        if not dims and self.importer.options.strict:
            return self.squeeze(value, *range(value.shape.ndim))
        return self.add("reshape", value, dims=dims)

    def squeeze(self, value: Instruction, *axes: int) -> Instruction:
        """Append a squeeze."""
        return self.add("squeeze", value, axes=axes)

    def unsqueeze(self, value: Instruction, *axes: int) -> Instruction:
        """Append an unsqueeze."""
        return self.add("unsqueeze", value, axes=axes)
