"""Dumps of onnxruntime, tensors by their names in the model, as the reference of a build."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import onnxruntime

import workbench as wb
from tests.faults.changed import attribute, changed, files, weight
from tests.faults.fault import Fault, Planted, Wanted
from tests.models.registry import MODELS, Inputs

KIND = "dump"
FEED = "/encoder/layer.0/feed_forward"
CHANGED_NORM = attribute("/block1/BatchNormalization_15", epsilon=0.1)
CHANGED_WEIGHT = weight("layer.0.down.weight", lambda value: value * 1.05)


def dump(model: onnx.ModelProto, inputs: Inputs) -> dict[str, np.ndarray]:
    """The value of every node's results, by name, as onnxruntime computes it without optimisations."""
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    names = [name for node in whole.graph.node for name in node.output if name]
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    made = onnxruntime.InferenceSession(whole.SerializeToString(), options)
    return dict(zip(names, made.run(names, inputs), strict=True))


@contextmanager
def _of_the_original() -> Iterator[Planted]:
    with files(original=changed("small_cnn"), changed=changed("small_cnn", CHANGED_NORM)) as paths:
        original, other = (wb.parse_onnx(paths[k]) for k in ("original", "changed"))
    inputs = MODELS["small_cnn"].inputs()
    clean, suspect = (wb.compile(p, target="cpu") for p in (original, other))
    yield Planted(suspect, inputs, dump(changed("small_cnn"), inputs), clean)


@contextmanager
def _with_a_wrong_name() -> Iterator[Planted]:
    model = changed("small_encoder", CHANGED_WEIGHT)
    with files(original=changed("small_encoder"), changed=model) as paths:
        original, other = (wb.parse_onnx(paths[k]) for k in ("original", "changed"))
    inputs = MODELS["small_encoder"].inputs()
    clean, suspect = (wb.compile(p, target="cpu") for p in (original, other))
    found = dump(changed("small_encoder"), inputs)
    found["no_such_tensor"] = found.pop("/embeddings/Add_14_output_0")
    yield Planted(suspect, inputs, found, clean)


@contextmanager
def _with_a_wrong_shape() -> Iterator[Planted]:
    inputs = MODELS["small_cnn"].inputs()
    found = dump(changed("small_cnn"), inputs)
    name = "/block1/Relu_13_output_0"
    right = found[name]
    found[name] = right.transpose(0, 2, 3, 1)
    assert found[name].shape != right.shape
    suspect = wb.compile(wb.parse_onnx(MODELS["small_cnn"].path), target="cpu")
    yield Planted(suspect, inputs, found)


FAULTS = [
    Fault(
        "dump_of_the_original", KIND, "small_cnn", _of_the_original,
        Wanted(("/block1/BatchNormalization_15",), ("model",)),
    ),
    Fault(
        "dump_with_an_unknown_name", KIND, "small_encoder", _with_a_wrong_name,
        Wanted((f"{FEED}/MatMul_53", "layer.0.down.weight"), ("model",)),
    ),
    Fault(
        "dump_with_channels_last", KIND, "small_cnn", _with_a_wrong_shape,
        Wanted(("/block1/Relu_13",), ("model",)),
    ),
]  # fmt: skip
