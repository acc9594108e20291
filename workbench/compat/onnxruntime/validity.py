"""Checks of a model before it is imported, in the words and types of errors that onnxruntime has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from workbench.compat.onnxruntime.errors import Fail, InvalidArgument, InvalidGraph, fail
from workbench.compiler.onnx import operators

_LARGE = 1024
"""Elements of an initializer from which on inference needs its type and lengths only."""
_OWN = {"", "ai.onnx"}
_PLACE = re.compile(r"\(op_type:(\w+)(?:, node name: ([^)]*))?\): (.*)", re.DOTALL)
"""The node and the reason in a message of ONNX's inference."""


def check(model: onnx.ModelProto) -> onnx.ModelProto:
    """Check a model's names, operators, attributes and types.

    Args:
        model: The model.

    Returns:
        The model with inferred types and lengths, and without its large tensors.

    Raises:
        InvalidArgument: It has no graph, or a node reads a name that nothing defines.
        InvalidGraph: An operator or an attribute does not exist, or a type does not fit.
        Fail: A name is defined twice, an output does not exist, or lengths do not fit.
    """
    if not model.HasField("graph"):
        fail(InvalidArgument, "No graph was found in the protobuf.")
    if not model.opset_import and model.ir_version >= 3:
        fail(Fail, "Missing opset in the model. All ModelProtos MUST have at least one entry that "
             "specifies which version of the ONNX OperatorSet is being imported.")  # fmt: skip
    _Names(model).check(model.graph, set())
    return _inferred(model)


class _Names:
    """The operators that a model may use."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = {o.domain: o.version for o in model.opset_import}
        self._functions = {(f.domain, f.name) for f in model.functions}
        self._ours = set(operators())

    def check(self, graph: onnx.GraphProto, outer: set[str]) -> None:
        known = outer | {v.name for v in graph.input} | set(_tensors(graph))
        for node in graph.node:
            for name in node.input:
                if name and name not in known:
                    fail(InvalidArgument, f"Invalid model. Node input {name!r} is not a graph input, "
                         "initializer, or output of a previous node.")  # fmt: skip
            self._check_node(node)
            for inner in _graphs(node):
                self.check(inner, known)
            for name in filter(None, node.output):
                if name in known and name not in outer:
                    fail(
                        Fail,
                        f"This is an invalid model. Error: Duplicate definition of name ({name}).",
                    )
                known.add(name)
        for output in graph.output:
            if output.name not in known:
                fail(
                    Fail,
                    f"This is an invalid model. Graph output ({output.name}) does not exist in the graph.",
                )

    def _check_node(self, node: onnx.NodeProto) -> None:
        domain = "" if node.domain in _OWN else node.domain
        if (node.domain, node.op_type) in self._functions or node.op_type in self._ours:
            return
        version = self._opsets.get(node.domain, self._opsets.get(domain or "ai.onnx"))
        if version is None and domain:
            fail(InvalidGraph, _in_node(node, f"No opset import for domain '{domain}'"))
        if not onnx.defs.has(node.op_type, version or 1, domain):
            error = f"No Op registered for {node.op_type} with domain_version of {version}"
            fail(InvalidGraph, _in_node(node, error))


def _in_node(node: onnx.NodeProto, error: str) -> str:
    place = f'("{node.name}", {node.op_type}, "{node.domain}", -1)'
    lists = [", ".join(f'"{name}"' for name in names) for names in (node.input, node.output)]
    return (
        f"This is an invalid model. In Node, {place} : ({lists[0]}) -> ({lists[1]}) , Error {error}"
    )


def _tensors(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (t.name for t in graph.initializer)
    yield from (t.values.name for t in graph.sparse_initializer)


def _graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def check_attributes(model: onnx.ModelProto) -> None:
    """Check that the main graph's standard nodes have only attributes that their operators have.

    Raises:
        InvalidGraph: One has another.
    """
    opsets = {o.domain: o.version for o in model.opset_import}
    for node in model.graph.node:
        version = opsets.get(node.domain, opsets.get("ai.onnx", 1))
        domain = "" if node.domain in _OWN else node.domain
        if not onnx.defs.has(node.op_type, version, domain):
            continue
        known = onnx.defs.get_schema(node.op_type, version, domain).attributes
        for attribute in node.attribute:
            if attribute.name not in known:
                error = f"Unrecognized attribute: {attribute.name} for operator {node.op_type}"
                fail(InvalidGraph, _in_node(node, error))


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inferred shapes; as it is where inference itself cannot read it."""
    light = without_tensors(model)
    try:
        return onnx.shape_inference.infer_shapes(
            light, check_type=True, strict_mode=True, data_prop=True
        )
    except Exception as error:  # the library raises its own types, and others for damaged models
        _raise_inference(str(error))
        return light


def _raise_inference(text: str) -> None:
    """Raise an error of inference that onnxruntime raises, too."""
    if "existing shape" in text or "Inferred shape" in text:
        return  # a declared shape that is only inaccurate
    found = _PLACE.search(text)
    if found is None:
        return
    op, name, reason = found.groups()
    if "typestr" in reason or "[TypeInferenceError]" in reason:
        fail(
            InvalidGraph,
            f"This is an invalid model. Type Error: node ({name}), operator ({op}): {reason}",
        )
    fail(Fail, f"Node ({name}) Op ({op}) {reason.strip()}")


def without_tensors(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model with the types and lengths of its large tensors, but not their elements."""
    made = onnx.ModelProto()
    for known, value in model.ListFields():
        if known.name != "graph":
            _put(made, known.name, value)
    for known, value in model.graph.ListFields():
        if known.name != "initializer":
            _put(made.graph, known.name, value)
    for tensor in model.graph.initializer:
        made.graph.initializer.append(_light(tensor))
    return made


def _put(message: Any, field: str, value: Any) -> None:
    if isinstance(value, str | bytes | int):
        setattr(message, field, value)
    elif hasattr(value, "ListFields"):
        getattr(message, field).CopyFrom(value)
    else:
        getattr(message, field).extend(value)


def _light(tensor: onnx.TensorProto) -> onnx.TensorProto:
    count = 1
    for length in tensor.dims:
        count *= length
    if count < _LARGE and tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    return onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
