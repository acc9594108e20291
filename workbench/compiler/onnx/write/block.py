"""The nodes of one graph or function while it is being written, and the values that they may read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx

from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.dtypes import FP8, Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.onnx.write import protos, registry
from workbench.compiler.onnx.write.call import Call, refusal
from workbench.compiler.onnx.write.registry import Named

DOMAIN = "workbench"
"""The domain of the functions that fused modules are written as."""


class Names:
    """Names that are used once in a model."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Names apart from those that are taken."""
        self._taken = {"", *taken}
        self._counts: dict[str, count[int]] = {}

    def unique(self, base: str) -> str:
        """A name that is not taken yet: the given one, or the given one with a number."""
        name = base
        while name in self._taken:
            name = f"{base}_{next(self._counts.setdefault(base, count(1)))}"
        self._taken.add(name)
        return name


@dataclass
class Shared:
    """The names, functions and operator sets of a whole model."""

    program: Program
    tensors: Names
    nodes: Names = field(default_factory=Names)
    called: Names = field(default_factory=Names)
    functions: dict[tuple[str, bool], onnx.FunctionProto] = field(
        default_factory=dict[tuple[str, bool], onnx.FunctionProto]
    )
    opset: int = protos.OPSET
    preferred: dict[int, str] = field(default_factory=dict[int, str])
    """The model's own names of values, by the id of the instruction."""
    last: dict[str, int] = field(default_factory=dict[str, int])
    """The last instruction of each source node, which has the node's name."""

    def need(self, version: int) -> None:
        """Let the model be of this operator set or of a later one."""
        self.opset = max(self.opset, version)


class Block:
    """The nodes of one graph or function, in order."""

    def __init__(
        self, shared: Shared, *, function: bool = False, elementwise: bool = False
    ) -> None:
        """An empty one.

        Args:
            shared: What all blocks of the model have in common.
            function: Whether it is a function's, which has no initialisers.
            elementwise: Whether its values are elements of values, whose shapes it does not know.
        """
        self.shared = shared
        self.elementwise = elementwise
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.last_states: dict[Instruction, list[str]] = {}
        """The names of the last states of recurrent networks."""
        self.narrow: dict[Instruction, tuple[str, tuple[int, ...]]] = {}
        """The values that broadcasts repeat, with their lens: elementwise operators repeat them anyway."""
        self._function = function
        self._values: dict[Instruction, Named] = {}
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], str] = {}

    def inner(self) -> Block:
        """A block of a graph inside this one, which sees this one's values."""
        made = Block(self.shared, elementwise=self.elementwise)
        made._values, made.last_states = dict(self._values), dict(self.last_states)
        made.narrow = dict(self.narrow)
        return made

    # Values

    def bind(self, instruction: Instruction, value: Named) -> None:
        """Let a name stand for the value of an instruction."""
        self._values[instruction] = value

    def value(self, instruction: Instruction) -> Named:
        """The name of an instruction's value; a literal's is made when it is first read."""
        if instruction not in self._values and instruction.literal is not None:
            self._values[instruction] = self._literal(instruction)
        return self._values[instruction]

    def _literal(self, instruction: Instruction) -> str:
        assert instruction.literal is not None  # as the caller checked
        if instruction.shape.type not in CODES:
            found = instruction.shape.type.type_name
            raise refusal(instruction, f"ONNX has no tensors of {found}")
        array = instruction.literal.numpy()
        if self.elementwise and array.size == 1:  # so that it never adds a dimension
            array = array.reshape(())
        if array.size > 1 and not any(array.strides):
            one = self.constant(array.reshape(-1)[:1].reshape(()))
            self.narrow[instruction] = one, ()
            return self.node("Expand", "", [one, self.constant(np.array(array.shape))], 1, {})[0]
        name = self.shared.preferred.get(instruction.id) or _source(instruction) or "constant"
        return self._stored(name, array)

    def constant(self, array: Array) -> str:
        """The name of a constant; equal small ones are one."""
        key = array.tobytes(), str(array.dtype), array.shape
        if key not in self._constants:
            self._constants[key] = self._stored("constant", array)
        return self._constants[key]

    def _stored(self, base: str, array: Array) -> str:
        name = self.shared.tensors.unique(base)
        made = protos.tensor(name, array)
        if self._function:
            made.name = ""
            node = onnx.NodeProto(op_type="Constant", output=[name])
            node.attribute.append(protos.attribute("value", made))
            self.nodes.append(node)
        else:
            self.initializers.append(made)
        return name

    def node(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any],
    ) -> tuple[str, ...]:
        """Add a node; gives the names of its outputs."""
        names = tuple(self.shared.tensors.unique(op_type) for _ in range(outputs))
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = onnx.NodeProto(op_type=op_type, domain=domain, input=given, output=names)
        made.attribute.extend(protos.attribute(k, v) for k, v in attributes.items())
        if not domain:
            self.shared.need(protos.schema(op_type).since_version)
        self.nodes.append(made)
        return names

    # Instructions

    def write(self, module: Module) -> list[Named]:
        """Add the nodes of a module's instructions; gives the names of its results."""
        for instruction in module:
            if not isinstance(instruction.op, Param | Literal | Return):
                self._instruction(instruction)
        return [self.value(o) for o in module.outputs]

    def _instruction(self, instruction: Instruction) -> None:
        start = len(self.nodes)
        made = write_call(Call(self, instruction, instruction.op, instruction.inputs))
        self._values[instruction] = self._named(instruction, made, self.nodes[start:])

    def _named(self, instruction: Instruction, made: Named, nodes: list[onnx.NodeProto]) -> Named:
        """Give nodes the names of the source node, and the result the name that the model has for it."""
        nodes = [n for n in nodes if n.op_type != "Constant"]
        source = _source(instruction)
        for node in nodes:
            is_last = node is nodes[-1] and self.shared.last.get(source) == instruction.id
            own = source if source and is_last else f"{source or instruction.name}/{node.op_type}"
            node.name = self.shared.nodes.unique(own)
            if len(instruction.sources) > 1:
                node.metadata_props.add(
                    key="workbench.sources", value="\n".join(instruction.sources)
                )
        wanted = self.shared.preferred.get(instruction.id)
        if not wanted or not nodes or not isinstance(made, str) or made not in nodes[-1].output:
            return made
        name = self.shared.tensors.unique(wanted)
        nodes[-1].output[list(nodes[-1].output).index(made)] = name
        return name


def _source(instruction: Instruction) -> str:
    """The name of the model's node that an instruction comes from; the last of several."""
    return instruction.sources[-1] if instruction.sources else ""


def write_call(call: Call) -> Named:
    """Add the nodes of an operation; gives the name of its result.

    Floats of 8 bits, which most operators that move elements do not take, move as floats.

    Raises:
        ModelError: ONNX has no meaning for it.
    """
    writer = registry.find(call.op.name)
    if writer is None:
        known = registry.refused().get(call.op.name)
        raise call.refuse(known or f"no writer is known for the operation {call.op.name}")
    if call.op.family not in _MOVING or not call.shape.is_tensor or call.shape.type not in FP8:
        return writer(call)
    plain = list(call.values)
    call.widen(call.shape.type)
    made = writer(call)
    if made in call.values:
        return plain[call.values.index(made)]
    return call.cast(str(made), DType.FLOAT, call.shape.type)


_MOVING = {Family.MOVEMENT, Family.VIEW}
