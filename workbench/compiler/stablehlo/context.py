"""The context of an operation's handler: its attributes and types, and ways to emit instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.stablehlo.installed import dialect
from workbench.compiler.stablehlo.provenance import described
from workbench.compiler.stablehlo.tensors import shape_of

if TYPE_CHECKING:
    from workbench.compiler.stablehlo.importer import Frame, ModuleImporter

Handler: TypeAlias = Callable[..., Any]
"""Takes a Context and an operation's operands, and returns its values."""

_WORD = re.compile(r"(\w+)>?$")
_OPSET = 22


class Context(NodeContext):
    """An operation of StableHLO that is being imported; it emits as a node of ONNX does."""

    def __init__(self, importer: ModuleImporter, op: Any, frame: Frame, given: Any = None) -> None:
        """Called by the importer, once per operation; ``given`` has a composite's own attributes."""
        proto = onnx.NodeProto(op_type=op.name)
        super().__init__(cast("Any", importer), proto, cast("Any", None), frame.module, _OPSET, "")
        self.owner = importer
        self.op = op
        self.frame = frame
        self._given = op.attributes if given is None else given

    def fail(self, message: str) -> ModelError:
        """An error that names the operation and its place, to be raised."""
        return ModelError(f"{described(self.op)}: {message}")

    # Attributes and types

    def attribute(self, name: str) -> Any:
        """An attribute, or None."""
        return self._given[name] if name in self._given else None  # noqa: SIM401 # MLIR's has no get

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute that lists integers; ``default`` if it is left out."""
        found = self.attribute(name)
        if found is None:
            return tuple(default)
        return tuple(int(v) for v in np.array(found).reshape(-1))

    def whole(self, name: str, default: int = 0) -> int:
        """An attribute that is an integer."""
        found = self.attribute(name)
        return default if found is None else int(found.value)

    def flags(self, name: str, count: int) -> tuple[bool, ...]:
        """An attribute that lists bools; all false if it is left out."""
        found = self.attribute(name)
        return (False,) * count if found is None else tuple(bool(v) for v in np.array(found))

    def word(self, name: str) -> str:
        """The word of an enumeration, such as ``LT``; empty if it is left out."""
        found = _WORD.search(str(self.attribute(name) or "").rstrip(">"))
        return found[1] if found else ""

    def numbers_of(self, name: str, kind: str) -> Any:
        """An attribute with numbers of dimensions, by the name of its class in the bindings."""
        return getattr(dialect(), kind)(self.attribute(name))

    def type(self, index: int = 0) -> DType:
        """The element type of a result."""
        return shape_of(self.op.results[index].type, "a result").type

    def out_lens(self, index: int = 0) -> tuple[int, ...]:
        """The lens of a result."""
        return shape_of(self.op.results[index].type, "a result").lens

    # Emitting

    def apply(self, op: str, *values: Instruction | float, **attributes: Any) -> Instruction:
        """An operation on values and numbers; numbers take the type and the lens of the first value."""
        like = next(v for v in values if isinstance(v, Instruction))
        operands = [v if isinstance(v, Instruction) else self.like(like, v) for v in values]
        return self.add(op, *operands, **attributes)

    def like(self, value: Instruction, number: float) -> Instruction:
        """A number in the type and the lens of a value."""
        return self.fit(self.scalar(value.shape.type, number), value.shape.lens)

    def test(self, op: str, *values: Instruction | float) -> Instruction:
        """A comparison, as a bool."""
        return self.convert(self.apply(op, *values), DType.BOOL)

    def choose(
        self, condition: Instruction, a: Instruction | float, b: Instruction | float
    ) -> Instruction:
        """``a`` where a condition holds, else ``b``, of the condition's lens."""
        like = a if isinstance(a, Instruction) else b
        assert isinstance(like, Instruction)
        a, b = (v if isinstance(v, Instruction) else self.like(like, v) for v in (a, b))
        return self.add("where", condition, a, b)

    def shaped(self, value: Instruction, lens: Sequence[int]) -> Instruction:
        """The value with these lens and as many elements: itself, or a reshape of it."""
        return value if value.shape.lens == tuple(lens) else self.reshape(value, *lens)

    def permuted(self, value: Instruction, permutation: Sequence[int]) -> Instruction:
        """The value with its axes in this order: itself, or a transpose of it."""
        in_order = tuple(permutation) == tuple(range(len(permutation)))
        return value if in_order else self.transpose(value, *permutation)

    def cut(
        self, value: Instruction, axis: int, start: int, end: int, step: int = 1
    ) -> Instruction:
        """The elements of an axis from ``start`` to ``end``, every ``step``-th of them."""
        if (start, end) != (0, value.shape.lens[axis]):
            value = self.add("slice", value, axes=(axis,), starts=(start,), ends=(end,))
        return value if step == 1 else self.add("step", value, axes=(axis,), steps=(step,))

    # Regions

    def region(self, index: int, operands: Sequence[Instruction]) -> list[Instruction]:
        """The results of a region, imported where the operation stands, for these operands."""
        return self.owner.inlined(self.op.regions[index].blocks[0], self.frame, operands)

    def program_module(self, name: str) -> Module:
        """An empty module of the program."""
        return self.owner.new_module(name)

    def within(self, module: Module) -> Context:
        """The same operation, whose instructions go to a module that sees the values of this one."""
        frame = self.owner.nested(self.frame, module)
        return Context(self.owner, self.op, frame, self._given)

    def branch(self, index: int, name: str) -> Module:
        """A region without arguments as a module of its own."""
        module = self.program_module(name)
        module.add_return(*standardised(module, self.within(module).region(index, [])))
        return module


def standardised(module: Module, values: Sequence[Instruction]) -> list[Instruction]:
    """Values in row-major order, as branches and iterations hand them on."""
    return [v if v.shape.standard else module.add("contiguous", v) for v in values]
