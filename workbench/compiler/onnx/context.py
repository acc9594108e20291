"""The context of an ONNX operator's handler: the node's attributes, and ways to emit instructions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import onnx

from workbench.compiler.errors import ModelError, RuntimeValueError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens
from workbench.compiler.onnx import broadcast, dynamic, sizes
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.lengths import Span
from workbench.compiler.onnx.order import described
from workbench.compiler.onnx.sizes import Length
from workbench.compiler.onnx.tensors import CODES, MAX_FILLED_BYTES, element_type

if TYPE_CHECKING:
    from workbench.compiler.onnx.importer import Importer, Scope

_A = onnx.AttributeProto
D = TypeVar("D")

Result: TypeAlias = "Instruction | Sequence[Instruction]"
Handler: TypeAlias = "Callable[[NodeContext, list[Instruction]], Result]"


class NodeContext:
    """A node that is being imported into a module."""

    def __init__(
        self,
        importer: Importer,
        node: onnx.NodeProto,
        scope: Scope,
        module: Module,
        version: int,
        source: str,
    ) -> None:
        """Called by the importer, once per node."""
        self.importer = importer
        self.node = node
        self.scope = scope
        self.module = module
        self.version = version
        """The version of the node's operator set."""
        self.source = source
        """The node's unique name."""
        self._attributes = {a.name: a for a in node.attribute}

    @property
    def op_type(self) -> str:
        """The operator's name."""
        return self.node.op_type

    @property
    def output_count(self) -> int:
        """The number of the node's outputs, including those without a name."""
        return len(self.node.output)

    def uses_output(self, index: int) -> bool:
        """Whether the node names its output of this index."""
        return index < len(self.node.output) and bool(self.node.output[index])

    @property
    def strict(self) -> bool:
        """Whether the import is strict: it emits what MIGraphX's importer emits."""
        return self.importer.options.strict

    def fail(self, message: str) -> ModelError:
        """An error that names this node, to be raised."""
        return ModelError(f"{described(self.node)}: {message}")

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the node has this attribute."""
        return name in self._attributes

    def lists(self, name: str) -> bool:
        """Whether the node has this attribute as a list of numbers."""
        return self.has(name) and self._attributes[name].type in {_A.INTS, _A.FLOATS}

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; without a default it is required."""
        given = self._attributes.get(name)
        if self.strict and given is not None and given.type == _A.INTS and len(given.ints) == 1:
            return given.ints[0]
        return self._attribute(name, default, _A.INT, lambda a: a.i)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that is true or false."""
        return self.integer(name, int(default)) != 0

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute; without a default it is required."""
        return self._attribute(name, default, _A.FLOAT, lambda a: a.f)

    def text(self, name: str, default: str | None = None) -> str:
        """A text attribute; without a default it is required."""
        return self._attribute(name, default, _A.STRING, lambda a: a.s.decode("utf-8", "replace"))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers; without a default it is required."""
        found = tuple(default) if default is not None else None
        return self._attribute(name, found, _A.INTS, lambda a: tuple(a.ints))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A list of floats; without a default it is required."""
        found = tuple(default) if default is not None else None
        return self._attribute(name, found, _A.FLOATS, lambda a: tuple(a.floats))

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of texts; without a default it is required."""
        found = tuple(default) if default is not None else None
        return self._attribute(
            name,
            found,
            _A.STRINGS,
            lambda a: tuple(s.decode("utf-8", "replace") for s in a.strings),
        )

    def graph(self, name: str) -> onnx.GraphProto:
        """A required graph attribute."""
        return self._attribute(name, None, _A.GRAPH, lambda a: a.g)

    def tensor(self, name: str) -> Argument:
        """A required tensor attribute."""
        proto = self._attribute(name, None, _A.TENSOR, lambda a: a.t)
        return self.importer.argument(proto, f"{described(self.node)}: attribute {name!r}")

    def tensor_code(self, name: str) -> int:
        """ONNX's code of the element type of a required tensor attribute."""
        return self._attribute(name, None, _A.TENSOR, lambda a: a.t.data_type)

    def sparse_tensor(self, name: str) -> Array:
        """A required sparse tensor attribute, with all of its elements."""
        proto = self._attribute(name, None, _A.SPARSE_TENSOR, lambda a: a.sparse_tensor)
        return self.importer.dense(proto, f"{described(self.node)}: attribute {name!r}")

    def element_type(self, name: str, default: DType | None = None) -> DType:
        """An element type, given as ONNX's code; without a default it is required."""
        if default is not None and not self.has(name):
            return default
        return element_type(self.integer(name), f"{described(self.node)}: attribute {name!r}")

    def code(self, value: Instruction) -> int:
        """ONNX's code of the element type that a value has in the model."""
        if value.shape.type not in CODES:
            raise self.fail(f"a value of {value.shape}; expected a tensor")
        return self.importer.narrow.get(value) or CODES[value.shape.type]

    def declared(self, value: Instruction, code: int) -> Instruction:
        """The value, recorded as having the element type of this code in the model."""
        return self.importer.declared(value, code)

    def _attribute(
        self, name: str, default: D | None, type: int, read: Callable[[onnx.AttributeProto], D]
    ) -> D:
        attribute = self._attributes.get(name)
        if attribute is None:
            if default is None:
                raise self.fail(f"attribute {name!r} is missing; the operator requires it")
            return default
        if attribute.type == type:
            return read(attribute)
        empty_list = type in {_A.INTS, _A.FLOATS, _A.STRINGS} and not attribute.type
        if empty_list:  # old exporters omit the type of an empty list
            return read(attribute)
        want, found = (_A.AttributeType.Name(t) for t in (type, attribute.type))
        raise self.fail(f"attribute {name!r} is of type {found}; expected {want}")

    # Inputs

    def expect(self, inputs: Sequence[Instruction], low: int, high: int | None = None) -> None:
        """Refuse the node unless it has ``low`` to ``high`` inputs, and the first ``low`` are not omitted."""
        high = low if high is None else high
        if not low <= len(inputs) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise self.fail(f"{len(inputs)} inputs; expected {wanted}")
        for index in range(low):
            if is_absent(inputs[index]):
                raise self.fail(f"input {index} is omitted; the operator requires it")

    def optional(self, inputs: Sequence[Instruction], index: int) -> Instruction | None:
        """The input of this index, or None if it is omitted."""
        if index >= len(inputs) or is_absent(inputs[index]):
            return None
        return inputs[index]

    def constant(self, value: Instruction) -> Array | None:
        """The elements of a value that is known at import; otherwise None."""
        found = self.importer.constants.value(value)
        return self.importer.lengths.exact(value) if found is None else found

    def required_constant(self, value: Instruction, what: str) -> Array:
        """The elements of a value that must be known at import.

        Raises:
            RuntimeValueError: It is only known at run time.
        """
        found = self.constant(value)
        if found is None:
            message = f"{described(self.node)}: {what} is computed at run time; expected a constant"
            raise RuntimeValueError(message, self.importer.origins(value))
        return found

    def element(self, known: Array, what: str) -> Any:
        """The element of a constant that must have exactly one."""
        if known.size != 1:
            raise self.fail(f"{what} has {known.size} elements; expected one")
        return known.reshape(-1)[0]

    def constant_ints(self, value: Instruction, what: str) -> tuple[int, ...]:
        """The elements of a constant as integers."""
        found = self.required_constant(value, what)
        if not np.isfinite(found).all():
            raise self.fail(f"{what} has elements that are not finite; expected whole numbers")
        return tuple(int(v) for v in found.reshape(-1))

    # Emitting

    def add(
        self, op: str, *inputs: Instruction, modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        """Append an instruction."""
        return self.module.add(op, *inputs, modules=modules, **attributes)

    def common(self, op: str, *inputs: Instruction, **attributes: Any) -> Instruction:
        """Append an operation on inputs that are broadcast to common lens and converted to a common type."""
        return broadcast.common(self.module, op, *inputs, **attributes)

    def literal(self, value: Argument | Array) -> Instruction:
        """Add a literal."""
        array = value.numpy() if isinstance(value, Argument) else value
        self.importer.constants.count(array, self.op_type)
        return self.module.add_literal(value)

    def scalar(self, type: DType, value: Any) -> Instruction:
        """Add a literal of rank 0."""
        array = np.asarray(value).astype(type.numpy).reshape(())
        return self.module.add_literal(Argument(Shape(type), array))

    def nothing(self, type: DType) -> Instruction:
        """Add a vector without elements; MIGraphX's has no dimension either."""
        shape = Shape.absent(type) if self.strict else Shape(type, (0,))
        return self.module.add_literal(Argument(shape, np.zeros(0, type.numpy)))

    def vector(self, type: DType, values: Any) -> Instruction:
        """Add a literal with one dimension."""
        if isinstance(values, range):
            values = self.counting(values)
        return self.module.add_literal(np.asarray(values).astype(type.numpy).reshape(-1))

    def counting(self, numbers: range) -> Array:
        """A range of integers as an array, if its size is within the limit."""
        check_size(Shape(DType.INT64, (len(numbers),)), described(self.node))
        return np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)

    def filled(self, type: DType, lens: Sequence[Length], value: Any) -> Instruction:
        """Add a literal whose elements are all equal, without memory for each."""
        fixed = sizes.known(lens)
        if fixed is None:
            return dynamic.spread(self.module, self.scalar(type, value), lens)
        shape = Shape(type, fixed)
        check_size(shape, described(self.node), MAX_FILLED_BYTES)
        one = np.asarray(value).astype(type.numpy)
        return self.module.add_literal(
            Argument(shape, np.broadcast_to(one.reshape(()), shape.lens))
        )

    def rank(self, value: Instruction) -> int:
        """The number of dimensions that a value has in the model, which has no scalars of one."""
        return self.importer.program.shape_rules.plain(value.shape).ndim

    def lens(self, value: Instruction) -> tuple[Length, ...]:
        """The lens of a value; a Size stands for a length that is known only at run time."""
        return sizes.lengths(self.module, value)

    def fixed(self, lens: Sequence[Length], what: str) -> tuple[int, ...]:
        """Lens that must be known at import.

        Raises:
            ModelError: One is only known at run time.
        """
        found = sizes.known(lens)
        if found is None:
            shown = ", ".join(str(sizes.dim_of(n)) for n in lens)
            raise self.fail(f"{what} {{{shown}}}; expected fixed lengths")
        return found

    def count(self, value: Instruction) -> Length:
        """The number of elements of a value."""
        return math.prod(self.lens(value))

    def is_empty(self, value: Instruction) -> bool:
        """Whether a value is known to have no elements."""
        return value.shape.is_absent or any(d.max == 0 for d in dims_of(value.shape))

    def spans(self, value: Instruction) -> Sequence[Span] | None:
        """The known range of each element of a small integer tensor; None if it is something else."""
        return self.importer.lengths.of(value)

    def lengths_in(self, value: Instruction, what: str) -> tuple[Length, ...]:
        """The elements of a vector that holds lengths, which are not negative."""
        spans = self.spans(value)
        if spans is None:
            raise self.fail(f"{what} {value.shape}; expected a list of known length")
        return tuple(
            sizes.element(self.module, value, i, span.dim) if span.exact is None else span.low
            for i, span in enumerate(spans)
        )

    def expected(self, value: Instruction, dims: Sequence[Dim]) -> Instruction:
        """The value with tighter dimensions than its shape has; they are checked at run time."""
        return dynamic.expected(self.module, value, dims)

    def single(self, value: Instruction) -> Instruction:
        """A value that must have one element; checked at run time if the shape does not say so."""
        return self.expected(value, [Dim(1, 1)] * value.shape.ndim)

    def number_of(self, length: Length) -> Instruction:
        """A length as an int64 of rank 0."""
        if isinstance(length, int):
            return self.scalar(DType.INT64, length)
        return self.squeeze(length.value, 0)

    def vector_of(self, lens: Sequence[Length]) -> Instruction:
        """Lens as a vector of int64."""
        return sizes.vector(self.module, lens)

    def counted(self, type: DType, count: Length) -> Instruction:
        """The vector 0, 1, 2… of ``count`` elements."""
        if isinstance(count, sizes.Size):
            return dynamic.counted(self.module, type, count)
        return self.vector(type, range(count))

    def multibroadcast(self, value: Instruction, lens: Sequence[Length]) -> Instruction:
        """Append a multibroadcast, even to the same lens."""
        fixed = sizes.known(lens)
        if fixed is None or value.shape.is_dynamic:
            return dynamic.spread(self.module, value, lens)
        return self.add("multibroadcast", value, out_lens=fixed)

    def broadcast(self, value: Instruction, axis: int, lens: Sequence[Length]) -> Instruction:
        """Append a broadcast that places the value's axes at ``axis``."""
        fixed = sizes.known(lens)
        if fixed is not None and not value.shape.is_dynamic:
            return self.add("broadcast", value, axis=axis, out_lens=fixed)
        source, rank = sizes.source_of(lens), value.shape.ndim
        if source is not None and rank == 1 and dims_of(value.shape)[0].is_fixed:
            return self.add("broadcast", value, source, axis=axis)
        behind = range(rank, len(lens) - axis)
        return self.multibroadcast(self.unsqueeze(value, *behind) if behind else value, lens)

    def fit(self, value: Instruction, lens: Sequence[Length]) -> Instruction:
        """The value with these lens: itself, or a multibroadcast of it."""
        fixed = sizes.known(lens)
        if fixed is None or value.shape.is_dynamic:
            return dynamic.spread(self.module, value, lens)
        return broadcast.broadcasted(self.module, value, fixed)

    def fit_like(self, value: Instruction, like: Instruction) -> Instruction:
        """The value with the lens of another one: itself, or a multibroadcast of it."""
        return self.fit(value, self.lens(like))

    def spread_like(self, value: Instruction, like: Instruction) -> Instruction:
        """A multibroadcast of the value to the lens of another one, even where they are equal."""
        return self.multibroadcast(value, self.lens(like))

    def common_lens(self, *lens: Sequence[Length]) -> tuple[Length, ...]:
        """The lens that several broadcast to."""
        fixed = [f for f in map(sizes.known, lens) if f is not None]
        if len(fixed) == len(lens):
            return broadcast_lens(*fixed)
        return sizes.common(self.module, lens)

    def convert(self, value: Instruction, type: DType) -> Instruction:
        """The value with this element type: itself, or a convert of it."""
        return broadcast.converted(self.module, value, type)

    def standard(self, value: Instruction) -> Instruction:
        """The value in row-major order: itself, or a contiguous copy; dynamic values are not copied."""
        fixed = value.shape.is_tensor and not value.shape.is_dynamic
        return self.add("contiguous", value) if fixed and not value.shape.standard else value

    def transpose(self, value: Instruction, *permutation: int) -> Instruction:
        """Append a transpose."""
        return self.add("transpose", value, permutation=permutation)

    def reshape(self, value: Instruction, *dims: Length) -> Instruction:
        """Append a reshape."""
        fixed = sizes.known(dims)
        # In the attribute of a reshape, 0 means the input's own length.
        if fixed is None or (0 in fixed and value.shape.is_dynamic):
            return dynamic.reshaped(self.module, value, dims)
        if 0 in fixed and -1 not in fixed and not value.shape.elements:
            return self.filled(value.shape.type, fixed, 0)
        return self.add("reshape", value, dims=fixed)

    def squeeze(self, value: Instruction, *axes: int) -> Instruction:
        """Append a squeeze."""
        return self.add("squeeze", value, axes=axes)

    def unsqueeze(self, value: Instruction, *axes: int) -> Instruction:
        """Append an unsqueeze."""
        return self.add("unsqueeze", value, axes=axes)

    def slice(
        self,
        value: Instruction,
        axes: Sequence[int],
        starts: Sequence[Length],
        ends: Sequence[Length],
    ) -> Instruction:
        """Append a slice."""
        return dynamic.sliced(self.module, value, axes, starts, ends)

    def elements(self, value: Instruction, count: int) -> list[Instruction]:
        """Append instructions that take the elements of a tuple."""
        return [self.add("get_tuple_elem", value, index=i) for i in range(count)]

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front.

        Raises:
            ModelError: The axis is out of range.
        """
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} is out of range; expected -{rank} to {rank - 1}")
        return axis % rank if rank else 0


def is_absent(value: Instruction) -> bool:
    """Whether a value stands for an omitted optional input."""
    return value.op.name == "undefined"
