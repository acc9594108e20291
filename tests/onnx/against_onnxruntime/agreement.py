"""Runs an example on both sides and compares what comes out."""

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.against_onnxruntime.kernels import NEW, session
from tests.onnx.against_onnxruntime.pick import Example, Pick
from workbench.compat.onnx_backend import WorkbenchBackend

TOLERANCE: dict[Any, float] = {
    np.dtype(np.float64): 1e-6,
    np.dtype(np.float32): 2e-5,
    np.dtype(np.float16): 4e-3,
    np.dtype(ml_dtypes.bfloat16): 2e-2,
}
"""By the narrowest type among inputs and outputs; integers have to be equal."""

WIDE = {
    TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ, TensorProto.INT4, TensorProto.UINT4,
}  # fmt: skip
"""Types that onnxruntime hands over to NumPy as bytes or not at all: results are cast to float."""

NATIVE = {np.dtype(c) for c in "?bhilqBHILQefd"}


class Unsupported(Exception):  # noqa: N818  # no error of either side
    """onnxruntime has no kernel for these element types."""


def model_of(pick: Pick, example: Example) -> onnx.ModelProto:
    """The model of one node, and of casts of the results that NumPy does not have."""
    arrays = named(example)
    names = example.names or [
        f"x{i}" if x is not None else "" for i, x in enumerate(example.inputs)
    ]
    used = range(example.outputs) if example.used is None else example.used
    outputs = [f"y{i}" if i in used else "" for i in range(example.outputs)]
    node = helper.make_node(
        pick.op, names, outputs, name="node", domain=pick.domain, **example.attributes
    )
    fixed = {f"x{i}" for i in example.fixed}
    fixed |= {n for n, a in arrays.items() if a.dtype not in NATIVE}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
        if n not in fixed
    ]
    weights = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in fixed]
    nodes, outputs = [*example.before, node], [o for o in outputs if o]
    made = _model(pick, nodes, inputs, weights, outputs)
    inferred = onnx.shape_inference.infer_shapes(made).graph.output
    wide = {o.name for o in inferred if o.type.tensor_type.elem_type in WIDE}
    if not wide:
        return made
    nodes += [helper.make_node("Cast", [o], [f"{o}_wide"], to=TensorProto.FLOAT) for o in wide]
    outputs = [f"{o}_wide" if o in wide else o for o in outputs]
    return _model(pick, nodes, inputs, weights, outputs)


def _model(pick: Pick, nodes: Any, inputs: Any, weights: Any, outputs: Sequence[str]) -> Any:
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph(nodes, "example", inputs, results, weights)
    domains = {"": NEW} | {pick.domain: pick.version}
    opsets = [helper.make_opsetid(d, v) for d, v in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def named(example: Example) -> dict[str, Any]:
    """The inputs that are not left out, by name."""
    return {f"x{i}": np.asarray(x) for i, x in enumerate(example.inputs) if x is not None}


def peer(made: onnx.ModelProto, given: Mapping[str, Any]) -> list[Any]:
    """The outputs of onnxruntime.

    Raises:
        Unsupported: It has no kernel for these element types.
    """
    try:
        runs = session(made)
    except Exception as error:
        if type(error).__name__ == "NotImplemented":
            raise Unsupported from error
        raise
    return runs.run(None, dict(given))


def check(pick: Pick, example: Example, target: str) -> None:
    """Compare what both sides compute.

    Raises:
        Unsupported: onnxruntime has no kernel for these element types.
    """
    made = model_of(pick, example)
    names = {v.name for v in made.graph.input}
    given = {n: a for n, a in named(example).items() if n in names}
    wanted = peer(made, given)
    found = WorkbenchBackend.prepare(made, target=target).run(given)
    assert len(found) == len(wanted)
    for index, (have, want) in enumerate(zip(found, wanted, strict=True)):
        same(have, want, f"output {index}", example)


def same(have: Any, want: Any, what: str, example: Example) -> None:
    """Equal lens (a scalar may have one element), types and nearly equal elements."""
    if isinstance(want, list):
        assert len(have) == len(want), f"{what}: {len(have)} elements; expected {len(want)}"
        for index, (h, w) in enumerate(zip(have, want, strict=True)):
            same(h, w, f"{what}[{index}]", example)
        return
    have, want = np.asarray(have), np.asarray(want)
    assert have.dtype == want.dtype, f"{what}: {have.dtype}; expected {want.dtype}"
    assert have.shape == want.shape or (have.shape, want.shape) == ((1,), ()), (
        f"{what}: lens {have.shape}; expected {want.shape}"
    )
    have = have.reshape(want.shape)
    if want.dtype.kind != "f":
        off = np.abs(have.astype(np.float64) - want.astype(np.float64)) if example.steps else 0
        np.testing.assert_array_equal(np.where(off <= example.steps, want, have), want, what)
        return
    relative, absolute = tolerances(example, want)
    have, want = have.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(have, want, relative, absolute, err_msg=what)


def tolerances(example: Example, want: Any) -> tuple[float, float]:
    """The relative and absolute difference that is allowed."""
    types = {np.asarray(x).dtype for x in example.inputs if x is not None} | {want.dtype}
    tolerance = example.slack * max(TOLERANCE.get(t, 0.0) for t in types)
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    largest = float(finite.max()) if example.summed and finite.size else 0.0
    return tolerance, tolerance * max(largest, 0.1)
