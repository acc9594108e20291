"""Polygraphy, run by a Python of its own: compares all tensors of two runs of onnxruntime.

The first session has its graph optimisations off, the second is as onnxruntime makes it. Prints JSON: seconds
with the sessions at hand, and with loading the model and marking its tensors as outputs.
"""

import json
import sys
from typing import Any

import numpy as np
import onnxruntime
from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
from polygraphy.backend.onnxrt import OnnxrtRunner
from polygraphy.comparator import Comparator, CompareFunc
from polygraphy.constants import MARK_ALL
from polygraphy.logger import G_LOGGER

from tests.bench.measure import processor_times


def _session(data: bytes, optimised: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _runners(path: str) -> list[Any]:
    data = BytesFromOnnx(ModifyOutputs(OnnxFromPath(path), outputs=MARK_ALL))()
    return [
        OnnxrtRunner(_session(data, optimised), name=f"optimised: {optimised}")
        for optimised in (False, True)
    ]


def _compared(runners: list[Any], inputs: dict[str, Any]) -> None:
    results = Comparator.run(runners, data_loader=[inputs])
    Comparator.compare_accuracy(results, compare_func=CompareFunc.simple())


def main(path: str, inputs: str, seconds: str) -> None:
    """Prints the seconds."""
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    with np.load(inputs) as arrays:
        given = dict(arrays)
    runners = _runners(path)
    found = {
        **processor_times(
            {"Polygraphy": lambda: _compared(runners, given)}, seconds=float(seconds)
        ),
        **processor_times(
            {"Polygraphy with loading": lambda: _compared(_runners(path), given)},
            seconds=float(seconds),
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
