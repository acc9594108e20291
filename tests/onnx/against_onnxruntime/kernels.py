"""The operators and versions that both sides have, found in their registries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from workbench.compiler.onnx import operators

CONTRIB, LEARNING = "com.microsoft", "ai.onnx.ml"
DOMAINS = {"", CONTRIB, LEARNING}
OLDEST = 7
"""The oldest operator set that onnxruntime promises to run."""
NEW = 21
"""The operator set of ONNX for nodes of other domains."""
FOREVER = 2**31 - 1
WITHOUT_KERNEL = {"Constant"}
"""What onnxruntime makes an initialiser of when it loads a model."""


@cache
def newest() -> int:
    """The newest operator set that onnxruntime takes."""
    version = onnx.defs.onnx_opset_version()
    while not _loads(version):
        version -= 1
    return version


def _loads(version: int) -> bool:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([], "empty", [value], [value])
    opset = onnx.helper.make_opsetid("", version)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    try:
        session(made)
    except Exception:  # too new
        return False
    return True


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A session that rewrites nothing, with one thread and no log."""
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@cache
def kernels() -> dict[tuple[str, str], list[Any]]:
    """onnxruntime's kernels for the CPU by domain and operator."""
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found[kernel.domain, kernel.op_name].append(kernel)
    return found


def _schema(name: str, opset: int) -> Any:
    domain, _, op = name.rpartition(".")
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _has_body(schema: Any) -> bool:
    return schema.has_function or schema.has_context_dependent_function


def _matching(schema: Any) -> list[Any]:
    since = schema.since_version
    found = kernels().get((schema.domain, schema.name), [])
    return [k for k in found if _takes(*k.version_range, since)]


def _takes(first: int, last: int, since: int) -> bool:
    """Whether a kernel is for an operator of this version: one without an end is for its first."""
    return since == first or (first < since <= last < FOREVER)


@cache
def versions(name: str) -> Sequence[int]:
    """The versions of its domain, one for each meaning of the operator, in which onnxruntime can run it."""
    domain, _, op = name.rpartition(".")
    found: dict[int, int] = {}
    for opset in range(1, newest() + 1) if domain else range(OLDEST, newest() + 1):
        schema = _schema(name, opset)
        if schema is None or schema.deprecated:
            continue
        if _matching(schema) or _has_body(schema) or op in WITHOUT_KERNEL:
            found.setdefault(schema.since_version, opset)
    is_own = not found and op in own_schemas(domain) and (domain, op) in kernels()
    return (1 if domain else OLDEST,) if is_own else tuple(found.values())


@cache
def own_schemas(domain: str) -> frozenset[str]:
    """The operators of a domain that onnxruntime knows, its own among them."""
    return frozenset(s.name for s in state.get_all_operator_schema() if s.domain == domain)


@cache
def kernel_types(name: str, opset: int) -> Sequence[Mapping[str, Sequence[str]]]:
    """For each kernel, the element types that it takes for each type constraint.

    onnxruntime computes float16 in float32 where it has no kernel for it.
    """
    domain, _, op = name.rpartition(".")
    schema = _schema(name, opset)
    if schema is None:
        return [_constraints(k.type_constraints) for k in kernels()[domain, op]]
    allowed = _constraints({c.type_param_str: c.allowed_type_strs for c in schema.type_constraints})
    own = [_constraints(k.type_constraints) for k in _matching(schema)] or [allowed]
    return [{c: _allowed(k.get(c, ()), allowed[c]) for c in allowed} for k in own]


def _constraints(given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {c: sorted(_element(t) for t in types) for c, types in given.items()}


def _allowed(kernel: Sequence[str], allowed: Sequence[str]) -> Sequence[str]:
    """The types a kernel takes that the operator set allows; all of them if the kernel does not say."""
    found = set(kernel) or set(allowed)
    return sorted((found | ({"float16"} if "float" in found else set())) & set(allowed))


def _element(type: str) -> str:
    return type.removeprefix("tensor(").removesuffix(")")


@cache
def in_both() -> frozenset[str]:
    """Every operator that can be imported and that onnxruntime runs on the CPU."""
    ours = set(operators())
    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas()} | set(kernels())
    names = [f"{d}.{op}" if d else op for d, op in known if d in DOMAINS and op in ours]
    names += [op for d, op in known if not d and _expands(op)]
    return frozenset(n for n in names if versions(n))


def _expands(op: str) -> bool:
    schema = _schema(op, newest())
    return schema is not None and _has_body(schema)
