"""Functions, of a model or of ONNX's own operator definitions, expanded in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.context import is_absent
from workbench.compiler.onnx.order import described
from workbench.compiler.onnx.provenance import scope_of
from workbench.compiler.onnx.tensors import CODES

if TYPE_CHECKING:
    from workbench.compiler.onnx.importer import Importer, Scope

_MAX_DEPTH = 50


def has_body(node: onnx.NodeProto) -> bool:
    """Whether ONNX defines the operator as a function of other operators."""
    schema = _schema(node, onnx.defs.onnx_opset_version())
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _schema(node: onnx.NodeProto, version: int) -> Any:
    """The schema of an operator, or None; onnx's stubs lack some of its attributes."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def body_of(
    node: onnx.NodeProto,
    version: int,
    inputs: list[Instruction],
    narrow: Mapping[Instruction, int],
) -> onnx.FunctionProto | None:
    """The function that defines the operator of a node in ONNX, or None."""
    schema = _schema(node, version)
    if schema is None:
        return None
    if schema.has_function:
        return _with_defaults(schema, schema.function_body)
    if not schema.has_context_dependent_function:
        return None
    types = [_type(i, narrow.get(i)).SerializeToString() for i in inputs]
    text = schema.get_context_dependent_function(node.SerializeToString(), types)
    if not text:
        return None
    return _with_defaults(schema, onnx.FunctionProto.FromString(text))


def _with_defaults(schema: Any, body: onnx.FunctionProto) -> onnx.FunctionProto:
    """The function with the defaults of the operator's attributes."""
    made = onnx.FunctionProto()
    made.CopyFrom(body)
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name:
            made.attribute_proto.add().CopyFrom(attribute.default_value)
            made.attribute_proto[-1].name = name
    return made


def _type(value: Instruction, narrow: int | None) -> onnx.TypeProto:
    if is_absent(value):
        return onnx.TypeProto()
    return _type_of(value.shape, narrow)


def _type_of(shape: Shape, narrow: int | None = None) -> onnx.TypeProto:
    if shape.kind:
        element = _type_of(shape.subs[0]) if shape.subs else onnx.TypeProto()
        wrap = {"sequence": onnx.helper.make_sequence_type_proto}
        return wrap.get(shape.kind, onnx.helper.make_optional_type_proto)(element)
    lens = [d.max if d.is_fixed else None for d in shape.dims] if shape.dims else list(shape.lens)
    return onnx.helper.make_tensor_type_proto(narrow or CODES[shape.type], lens)


def expand(
    importer: Importer,
    node: onnx.NodeProto,
    function: onnx.FunctionProto,
    source: str,
    inputs: list[Instruction],
    module: Module,
    scope: Scope,
) -> list[Instruction]:
    """Import the body of a function in place of a node that calls it."""
    from workbench.compiler.onnx.importer import Scope  # noqa: PLC0415

    key = f"{function.domain}.{function.name}"
    if key in scope.calls or len(scope.calls) >= _MAX_DEPTH:
        raise ModelError(f"{described(node)}: function {function.name!r} calls itself")
    if len(inputs) > len(function.input):
        raise ModelError(
            f"{described(node)}: {len(inputs)} inputs; expected at most {len(function.input)}, "
            f"as function {function.name!r} takes"
        )
    opsets = {o.domain: o.version for o in function.opset_import} or dict(scope.opsets)
    path = (*scope.path, *scope_of(node), node.name or function.name)
    inner = Scope(None, opsets, f"{source}/", path, (*scope.calls, key))
    inner.values.update(zip(function.input, inputs, strict=False))
    for name in function.input[len(inputs) :]:
        inner.values[name] = _undefined(inner, module)
    attributes = {a.name: a for a in function.attribute_proto}
    attributes |= {a.name: a for a in node.attribute}
    nodes = [_bound(n, attributes) for n in function.node]
    where = f"{described(node)}: function {function.name!r}"
    importer.nodes(nodes, module, inner, where)
    results: list[Instruction] = []
    for given, name in zip(node.output, function.output, strict=False):
        found = inner.find(name)
        if found is None and given:
            raise ModelError(f"{where}: no node of its body computes output {name!r}")
        results.append(_undefined(inner, module) if found is None else found)
    return results


def _undefined(scope: Scope, module: Module) -> Instruction:
    if "" not in scope.values:
        scope.values[""] = module.add("undefined")
    return scope.values[""]


def _bound(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A copy of a node of a function with the attributes of the call filled in."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    _bind(made, attributes)
    return made


def _bind(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    kept: list[onnx.AttributeProto] = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            given = attributes.get(attribute.ref_attr_name)
            if given is not None:
                bound = onnx.AttributeProto()
                bound.CopyFrom(given)
                bound.name = attribute.name
                kept.append(bound)
            continue
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _bind(inner, attributes)
        kept.append(attribute)
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
