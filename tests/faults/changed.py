"""Changes of an ONNX model in one place: a weight, an attribute, an input, new nodes."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models.graph import Graph
from tests.models.registry import MODELS

Edit = Callable[[onnx.ModelProto], None]
"""Changes a model in place."""


@cache
def _bytes(name: str) -> bytes:
    return MODELS[name].path.read_bytes()


def changed(name: str, *edits: Edit) -> onnx.ModelProto:
    """The named model after edits."""
    model = onnx.ModelProto.FromString(_bytes(name))
    for edit in edits:
        edit(model)
    return model


@contextmanager
def files(**models: onnx.ModelProto) -> Iterator[dict[str, Path]]:
    """The files of models, by name, which go with the context."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.onnx" for name in models}
        for name, model in models.items():
            onnx.save(model, paths[name])
        yield paths


# Finding


def node_of(graph: onnx.GraphProto, name: str) -> onnx.NodeProto:
    """The node of that name, of the graph or of one inside it."""
    for node in graph.node:
        if node.name == name:
            return node
        inner = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        for body in inner:
            try:
                return node_of(body, name)
            except KeyError:
                continue
    raise KeyError(name)


def _tensor(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(t for t in model.graph.initializer if t.name == name)


# Edits


def weight(name: str, change: Callable[[Any], Any]) -> Edit:
    """Change the value of an initializer by a function of a copy."""

    def edit(model: onnx.ModelProto) -> None:
        tensor = _tensor(model, name)
        old = numpy_helper.to_array(tensor)
        new = np.asarray(change(old.copy()), old.dtype)
        assert not np.array_equal(old, new), f"{name} is unchanged"
        tensor.CopyFrom(numpy_helper.from_array(new, name))

    return edit


def attribute(node: str, **attributes: Any) -> Edit:
    """Set attributes of a node."""

    def edit(model: onnx.ModelProto) -> None:
        found = node_of(model.graph, node)
        kept = [a for a in found.attribute if a.name not in attributes]
        made = [helper.make_attribute(k, v) for k, v in attributes.items()]
        assert not any(a in found.attribute for a in made), f"{node} has these attributes already"
        del found.attribute[:]
        found.attribute.extend([*kept, *made])

    return edit


def without_attribute(node: str, name: str) -> Edit:
    """Remove an attribute of a node."""

    def edit(model: onnx.ModelProto) -> None:
        found = node_of(model.graph, node)
        kept = [a for a in found.attribute if a.name != name]
        assert len(kept) < len(found.attribute), f"{node} has no {name}"
        del found.attribute[:]
        found.attribute.extend(kept)

    return edit


def operator(node: str, op: str, *constants: float, **attributes: Any) -> Edit:
    """Make a node another operator, with constants after its first input."""

    def edit(model: onnx.ModelProto) -> None:
        found = node_of(model.graph, node)
        found.op_type = op
        names = [f"{node}_constant_{k}" for k in range(len(constants))]
        for name, value in zip(names, constants, strict=True):
            tensor = numpy_helper.from_array(np.array(value, np.float32), name)
            model.graph.initializer.append(tensor)
        if constants:
            first = found.input[0]
            del found.input[:]
            found.input.extend([first, *names])
        found.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())

    return edit


def swapped(node: str) -> Edit:
    """Swap the first two inputs of a node."""

    def edit(model: onnx.ModelProto) -> None:
        found = node_of(model.graph, node)
        found.input[0], found.input[1] = found.input[1], found.input[0]

    return edit


def dropped_input(node: str, index: int) -> Edit:
    """Remove the last input of a node, which has this index."""

    def edit(model: onnx.ModelProto) -> None:
        found = node_of(model.graph, node)
        assert len(found.input) == index + 1
        del found.input[index]

    return edit


def inserted(after: str, build: Callable[[Graph, str], str]) -> Edit:
    """Insert nodes behind a node: what read its first result reads theirs.

    Args:
        after: the name of the node.
        build: adds the nodes to a graph in the scope `/planted`, given the name of the result.
    """

    def edit(model: onnx.ModelProto) -> None:
        graph, written = model.graph, Graph("planted", "/planted")
        at = next(k for k, n in enumerate(graph.node) if n.name == after)
        value = graph.node[at].output[0]
        made = build(written, value)
        for node in graph.node[at + 1 :]:
            for k, name in enumerate(node.input):
                if name == value:
                    node.input[k] = made
        rest = list(graph.node)[at + 1 :]
        del graph.node[at + 1 :]
        graph.node.extend([*written.nodes, *rest])
        graph.initializer.extend(written.tensors)

    return edit
