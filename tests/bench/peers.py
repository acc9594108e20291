"""The peers: onnxruntime, onnxscript's optimizer, onnx's reference evaluator."""

import os
from pathlib import Path
from typing import Any

from tests.bench.measure import Contender


def cores() -> int:
    """The cores that this process may use: every contender gets all of them."""
    return len(os.sched_getaffinity(0))


def session(model: Path | bytes) -> Any:
    """An optimised onnxruntime session of a file or its bytes, on all cores, else by default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def ort_session(path: Path) -> Contender:
    """Creating that session from the file."""
    return Contender(lambda _: session(path))


def ort_session_from_bytes(path: Path) -> Contender:
    """Creating that session from the file's bytes, already in memory."""
    return Contender(session, path.read_bytes)


def ort_run(path: Path, inputs: dict[str, Any]) -> Contender:
    """Running that session."""
    opened = session(path)
    return Contender(lambda _: opened.run(None, inputs))


def onnxscript_optimizer(path: Path) -> Contender:
    """onnxscript's optimizer on its own IR, made anew before each repetition."""
    import onnx
    import onnx_ir
    import onnxscript.optimizer

    proto = onnx.load(path)
    return Contender(onnxscript.optimizer.optimize, lambda: onnx_ir.from_proto(proto))


def reference_evaluator(path: Path, inputs: dict[str, Any]) -> Contender:
    """onnx's own NumPy evaluator, with two operators that it gets wrong put right."""
    import onnx.reference

    evaluator = onnx.reference.ReferenceEvaluator(str(path), new_ops=_corrected())
    return Contender(lambda _: evaluator.run(None, inputs), at_most=3)


def _corrected() -> list[type]:
    """GatherElements fails on more than 32 rows, GlobalMaxPool drops an axis of what is not 4-D."""
    import numpy as np
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):
        op_domain = ""

        def _run(self, data: Any, indices: Any, axis: int) -> tuple[Any]:
            return (np.take_along_axis(data, indices, axis),)

    class GlobalMaxPool(OpRun):
        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    return [GatherElements, GlobalMaxPool]
