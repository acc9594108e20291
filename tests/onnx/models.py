"""Small models for the tests, and what onnxruntime makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

OPSET = 20
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """A node and its inputs; those named in ``fixed`` are initialisers."""

    op: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = OPSET
    fixed: Sequence[int] = ()
    domain: str = ""
    expected: Sequence[Any] | None = None
    used: Sequence[int] | None = None
    tolerance: float = 1e-4
    compared: int | None = None

    def __str__(self):
        shown = [f"{k}={v}" for k, v in self.attributes.items() if len(str(v)) < 30]
        return "-".join([self.op, *shown, *([f"opset{self.opset}"] if self.opset != OPSET else [])])

    def arrays(self):
        """The inputs by name; None stands for one left out."""
        return {f"x{i}": np.asarray(x) for i, x in enumerate(self.inputs) if x is not None}

    def model(self):
        """The model of this one node."""
        arrays = self.arrays()
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        used = range(self.outputs) if self.used is None else self.used
        outputs = [f"y{i}" if i in used else "" for i in range(self.outputs)]
        node = helper.make_node(
            self.op, names, outputs, name="the node", domain=self.domain, **self.attributes
        )
        fixed = {f"x{i}" for i in self.fixed}
        inputs = [declared(n, a) for n, a in arrays.items() if n not in fixed]
        weights = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in fixed]
        return model([node], inputs, [o for o in outputs if o], weights, self.opset)

    def check(self):
        """Compare what is imported and run with the expected, or with a peer's result."""
        made = self.model()
        program = parse_onnx(made)
        given = {k: v for k, v in self.arrays().items() if k in program.parameters}
        wanted = self.expected if self.expected is not None else peer(made, given)
        found = reference.run(program, given)
        assert len(found) == len(wanted)
        for have, want in list(zip(found, wanted, strict=True))[: self.compared]:
            same(have, want, self.tolerance)


def declared(name, array):
    """The declaration of an input like ``array``."""
    type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, type, array.shape)


def model(nodes, inputs, outputs, weights=(), opset=OPSET, functions=(), **more):
    """A model of these nodes; outputs are given by name."""
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph(nodes, "the graph", inputs, results, list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIB, 1)]
    opsets += [helper.make_opsetid(f.domain, 1) for f in functions]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=10, functions=list(functions), **more
    )


def floats(name, *lens):
    """The declaration of a float input."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, lens)


def peer(made: onnx.ModelProto, given):
    """The outputs of onnxruntime, or of ONNX's reference where onnxruntime has no kernel."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    except Exception:  # there is no kernel for it
        return ReferenceEvaluator(made).run(None, given)
    return session.run(None, given)


def same(have, want, tolerance=1e-4):
    """Equal lens, types and nearly equal elements."""
    have, want = np.asarray(have), np.asarray(want)
    assert have.dtype == want.dtype
    assert have.shape == want.shape
    wide = have.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


def imported(made, **options):
    """The text of an imported model."""
    return str(parse_onnx(made, **options))
