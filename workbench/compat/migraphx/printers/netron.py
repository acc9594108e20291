"""A program as an ONNX model for Netron, with operations under the IR's names.

The model has no data and cannot be run: its operators are the IR's, and an edge is named after both of
its ends (``main:add:@3->main:relu:@4``).
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from workbench.compiler.files.mxr.json_form import write_json
from workbench.compiler.files.mxr.writing import FILE_VERSION, MIGRAPHX_VERSION
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import attribute_text
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

_NO_DATA = b64encode(b"NULL").decode()


def netron_json(program: Program) -> str:
    """The model as the JSON form of ONNX, which Netron opens.

    It is what MIGraphX writes for the main module; the modules of an instruction are its attributes.
    """
    return write_json(model(program))


def model(program: Program) -> dict[str, Any]:
    """The model as plain values, in the JSON form of ``onnx.ModelProto``."""
    return {
        "irVersion": str(FILE_VERSION),
        "producerName": "AMDMIGraphX",
        "producerVersion": MIGRAPHX_VERSION,
        "graph": _Graph(program).of(program.main),
    }


class _Graph:
    """Makes the graphs of modules, with the names of all instructions."""

    def __init__(self, program: Program) -> None:
        """Name all instructions by module, operation and position."""
        self.names = {
            instruction.id: f"{module.name}:{instruction.name}:@{position}"
            for module in program.modules.values()
            for position, instruction in enumerate(module)
        }

    def of(self, module: Module) -> dict[str, Any]:
        """The graph of a module."""
        graph: dict[str, Any] = {"name": module.name} | {
            key: [] for key in ("node", "initializer", "input", "output", "valueInfo")
        }
        for instruction in module:
            if instruction.literal is not None:
                graph["initializer"].append(self._literal(instruction))
            elif instruction.parameter is not None:
                graph["input"].append(_value(self._name(instruction), instruction.shape))
            elif instruction.name == "@return":
                graph["output"] += [
                    _value(self._edge(i, instruction), i.shape) for i in instruction.inputs
                ]
            else:
                graph["node"].append(self._node(instruction))
                graph["valueInfo"] += self._edges(instruction)
        return graph

    def _name(self, instruction: Instruction) -> str:
        return self.names[instruction.id]

    def _edge(self, start: Instruction, end: Instruction) -> str:
        """The name of a value between two instructions; parameters and the only result keep their own."""
        if start.literal is not None or start.parameter is not None:
            return self._name(start)
        if end.name == "@return" and len(end.inputs) == 1:
            return self._name(end)
        return f"{self._name(start)}->{self._name(end)}"

    def _edges(self, instruction: Instruction) -> list[dict[str, Any]]:
        users = [u for u in instruction.users if u.name != "@return"]
        return [_value(self._edge(instruction, u), instruction.shape) for u in users]

    def _literal(self, instruction: Instruction) -> dict[str, Any]:
        shape = instruction.shape
        return {
            "dims": list(shape.lens),
            "dataType": shape.type.format.onnx,
            "name": self._name(instruction),
            "rawData": _NO_DATA,
        }

    def _node(self, instruction: Instruction) -> dict[str, Any]:
        attributes = instruction.op.attributes()
        return {
            "input": [self._edge(i, instruction) for i in instruction.inputs],
            "output": [self._edge(instruction, u) for u in instruction.users],
            "name": self._name(instruction),
            "opType": instruction.name,
            "attribute": [_attribute(k, v) for k, v in attributes.items()]
            + [{"name": m.name, "g": self.of(m), "type": "GRAPH"} for m in instruction.modules],
        }


def _attribute(name: str, value: object) -> dict[str, str]:
    text = b64encode(attribute_text(value).encode()).decode()
    return {"name": name, "s": text, "type": "STRING"}


def _value(name: str, shape: Shape) -> dict[str, Any]:
    dims = [{"dimValue": str(n)} for n in shape.lens]
    if shape.dims is not None:
        fixed = ({"dimValue": str(d.min)} if d.is_fixed else None for d in shape.dims)
        dims = [f or {"dimParam": str(d)} for f, d in zip(fixed, shape.dims, strict=True)]
    tensor = {"elemType": shape.type.format.onnx, "shape": {"dim": dims}}
    return {"name": name, "type": {"tensorType": tensor}}
