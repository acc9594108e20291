"""The onnx package's light_*.onnx with seeded random weights in place of their constant ones.

As they come, every weight is filled with one value by a ConstantOfShape node and every output
is one number, so a wrong layout or a wrong weight goes unnoticed. Here each weight becomes an
initialiser drawn by the part that it plays (He for convolutions), and the last layer is scaled
until the logits spread as a trained network's do.
"""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models import samples

SEED = 20
SPREAD = 2.0  # standard deviation of the logits
NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def source(name: str) -> Path:
    """The place of light_`name`.onnx in the onnx package."""
    return Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx"


def _normal(name: str, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Seeded normal values, their seed that of the name, so that the order does not matter."""
    generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    return generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def _weight(role: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A weight of that shape for `role`: operator type and input position, as "Conv.1"."""
    if role in ("Conv.1", "Gemm.1"):
        return _normal(name, shape, (2 / np.prod(shape[1:])) ** 0.5)
    if role == "BatchNormalization.4":
        return np.exp(_normal(name, shape, 0.3))
    if role in ("BatchNormalization.1", "Mul.1"):
        return 1 + _normal(name, shape, 0.2)
    return _normal(name, shape, 0.1)


def _aliases(nodes: Iterable[onnx.NodeProto]) -> dict[str, str]:
    """For each value that is only given another shape, the value that comes out."""
    reshaping = ("Unsqueeze", "Reshape")
    return {n.input[0]: n.output[0] for n in nodes if n.op_type in reshaping}


def _roles(nodes: Iterable[onnx.NodeProto], aliases: dict[str, str]) -> dict[str, str]:
    """For each value, the operator type and input position of its first use."""
    roles: dict[str, str] = {}
    for node in nodes:
        for position, name in enumerate(node.input):
            roles.setdefault(name, f"{node.op_type}.{position}")
    return roles | {old: roles[new] for old, new in aliases.items() if new in roles}


def randomise(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a light model with random float weights, which are no longer graph inputs."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph, held = model.graph, {t.name: t for t in model.graph.initializer}
    filled = [n for n in graph.node if n.op_type == "ConstantOfShape"]
    shapes = {n.output[0]: tuple(numpy_helper.to_array(held[n.input[0]])) for n in filled}
    floats = [t for t in held.values() if t.data_type == onnx.TensorProto.FLOAT]
    shapes |= {t.name: tuple(t.dims) for t in floats}
    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    roles = _roles(nodes, _aliases(nodes))
    dropped = {n.input[0] for n in filled} | shapes.keys()
    kept = [t for t in graph.initializer if t.name not in dropped]
    fresh = [_tensor(_weight(roles[n], n, s), n) for n, s in shapes.items() if n in roles]
    inputs = [v for v in graph.input if v.name not in held]
    _refill(graph.node, nodes)
    _refill(graph.initializer, kept + fresh)
    _refill(graph.input, inputs)
    model.ir_version = 8
    return model


def _tensor(array: np.ndarray, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name)


def _refill(field: Any, messages: list[Any]) -> None:
    """Replaces what a repeated field holds."""
    del field[:]
    field.extend(messages)


def rescale(model: onnx.ModelProto) -> None:
    """Scales the last layer so that its output on a seeded input has standard deviation SPREAD."""
    import onnxruntime

    graph = model.graph
    layer = [n for n in graph.node if n.op_type in ("Conv", "Gemm")][-1]
    probe = onnx.ModelProto.FromString(model.SerializeToString())
    probe.graph.output.append(
        helper.make_tensor_value_info(layer.output[0], onnx.TensorProto.FLOAT, None)
    )
    session = onnxruntime.InferenceSession(probe.SerializeToString())
    given = {session.get_inputs()[0].name: samples.image()}
    factor = SPREAD / session.run([layer.output[0]], given)[0].std()
    aliases = _aliases(graph.node)
    for tensor in graph.initializer:
        if aliases.get(tensor.name, tensor.name) in layer.input[1:]:
            scaled = numpy_helper.to_array(tensor) * np.float32(factor)
            tensor.CopyFrom(_tensor(scaled, tensor.name))


def create(name: str, path: Path) -> None:
    """Writes light_`name` with random weights to `path`."""
    model = randomise(onnx.load(source(name)))
    rescale(model)
    onnx.checker.check_model(model)
    onnx.save(model, path)
