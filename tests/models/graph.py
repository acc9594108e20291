"""A few lines that make ONNX graphs readable to write: operators are called, values are names."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

SEED = 20


class Graph:
    """A graph being written: `g.add("Relu", x)` adds a node and names what it computes.

    Attributes:
        scope: a prefix of the names of nodes and values, as "/encoder/layer.0"; a subgraph needs
            one of its own, as no value may have the name of one around it.
    """

    def __init__(self, name: str, scope: str = "") -> None:
        self.name = name
        self.scope = scope
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._random = np.random.default_rng(SEED)

    def add(self, op: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any):
        """Adds a node; inputs are names, arrays or numbers. Returns what it computes, by name."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        label = f"{self.scope}/{op}_{len(self.nodes)}"
        results = [f"{label}_output_{k}" for k in range(outputs)]
        node = helper.make_node(op, names, results, name=label, domain=domain, **attributes)
        self.nodes.append(node)
        return results[0] if outputs == 1 else results

    def constant(self, value: Any, name: str = "") -> str:
        """Adds an initialiser: Python ints are int64, floats are float32."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = name or f"{self.scope}/constant_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *lens: int, scale: float = 0.0) -> str:
        """Adds seeded normal weights; by default their scale is He's, for lens (out, in, ...)."""
        scale = scale or math.sqrt(2 / max(1, math.prod(lens[1:])))
        values = self._random.standard_normal(lens, dtype=np.float32) * np.float32(scale)
        return self.constant(values, name)

    def vector(self, name: str, length: int, about: float = 0.0) -> str:
        """Adds a seeded vector spread by 0.1 about a value: a bias about 0, a scale about 1."""
        values = about + 0.1 * self._random.standard_normal(length)
        return self.constant(values.astype(np.float32), name)

    def input(self, name: str, lens: Sequence[int | str] | None, dtype: Any = np.float32) -> str:
        """Declares a graph input."""
        self.inputs.append(_value(name, lens, dtype))
        return name

    def output(self, value: str, name: str, lens: Any = None, dtype: Any = np.float32) -> None:
        """Declares that a value is a graph output, under a name of its own."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"/{name}"))
        self.outputs.append(_value(name, lens, dtype))

    def proto(self) -> onnx.GraphProto:
        """The graph written so far."""
        return helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.tensors)

    def model(self, opset: int, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
        """A checked model of this graph."""
        domains = {"": opset} | {f.domain: 1 for f in functions}
        imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        model = helper.make_model(
            self.proto(), opset_imports=imports, functions=list(functions), ir_version=10
        )
        model.producer_name = "graph-workbench tests"
        onnx.checker.check_model(model, full_check=True)
        return model


def _value(name: str, lens: Any, dtype: Any) -> onnx.ValueInfoProto:
    """A declared value of a dtype and shape (None: not said)."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, lens)
