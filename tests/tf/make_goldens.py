"""Makes goldens.npz: small graphs, inputs, and what TensorFlow computes of them.

Run it where TensorFlow is, which the workbench itself never needs: `python tests/tf/make_goldens.py`.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

TARGET = Path(__file__).parent / "goldens.npz"
raw, v1 = tf.raw_ops, tf.compat.v1
CASES: dict[str, Callable[[], list[tf.Tensor]]] = {}


def case(make: Callable[[], list[tf.Tensor]]) -> Callable[[], list[tf.Tensor]]:
    """Register a graph: a function that makes placeholders and returns the outputs."""
    CASES[make.__name__] = make
    return make


def given(name: str, *lens: int | None, type: tf.DType = tf.float32) -> tf.Tensor:
    """An input."""
    return v1.placeholder(type, shape=lens, name=name)


def const(*lens: int, seed: int = 7, low: float = -1.0, high: float = 1.0) -> tf.Tensor:
    """Random floats that are part of the graph."""
    values = np.random.default_rng(seed).uniform(low, high, lens)
    return tf.constant(values.astype(np.float32))


@case
def unary() -> list[tf.Tensor]:
    x = given("x", 1, 3, 4, 2)
    ops = [tf.nn.relu, tf.sigmoid, tf.tanh, tf.nn.relu6, tf.identity, tf.stop_gradient, tf.exp]
    ops += [tf.abs, tf.sin, tf.cos, tf.floor, tf.math.ceil, tf.sign, tf.negative, tf.math.erf]
    ops += [tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.math.square, tf.math.expm1]
    ops += [lambda t: tf.nn.leaky_relu(t, 0.3), tf.round, tf.math.atan]
    return [op(x * 4.0) for op in [*ops, tf.math.erfc]] + tf.identity_n([x, x + 1.0])


@case
def unary_positive() -> list[tf.Tensor]:
    x = tf.abs(given("x", 2, 5)) + 0.5
    return [
        op(x) for op in (tf.math.rsqrt, tf.sqrt, tf.math.log, tf.math.reciprocal, tf.math.log1p)
    ]


@case
def binary() -> list[tf.Tensor]:
    x, y = given("x", 1, 3, 4, 2), given("y", 1, 3, 4, 2)
    found = [tf.add(x, y), raw.AddV2(x=x, y=y), raw.Add(x=x, y=y), x * y, x - y]
    found += [tf.math.squared_difference(x, y), tf.pow(tf.abs(x), y), x / (tf.abs(y) + 1.0)]
    return [*found, tf.maximum(x, y), tf.minimum(x, y)]


@case
def angles() -> list[tf.Tensor]:
    edges = tf.constant([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], shape=(1, 1, 1, 7))
    x, y = given("x", 1, 3, 4, 2), given("y", 1, 3, 4, 2)
    all_pairs = tf.math.atan2(tf.reshape(edges, [7, 1]), edges[0, 0])
    return [tf.math.atan2(x, y), tf.where(tf.math.is_nan(all_pairs), 9.0, all_pairs)]


@case
def branches() -> list[tf.Tensor]:
    """A dropout as Keras wrote it before TensorFlow 2, and two more kinds of conditions."""
    v1.disable_control_flow_v2()
    x = given("x", 1, 3, 4, 2)
    phase = v1.placeholder_with_default(False, shape=(), name="keras_learning_phase")
    dropped = v1.cond(phase, lambda: tf.nn.dropout(x * 1.0, 0.5), lambda: tf.identity(x))
    either = [v1.cond(p, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0]))
              for p in (tf.constant(True), tf.less(tf.rank(x), 3))]  # fmt: skip
    inner = v1.cond(phase, lambda: x, lambda: v1.cond(phase, lambda: x - 1.0, lambda: x + 1.0))
    data, number = raw.Merge(inputs=[*raw.Switch(data=x, pred=phase)])
    return [dropped * 2.0, *either, inner, data, number]


@case
def defaults() -> list[tf.Tensor]:
    x = given("x", 2, 3)
    return [x + v1.placeholder_with_default(const(3), shape=[None], name="shift")]


@case
def binary_of_ranks() -> list[tf.Tensor]:
    x, row, one = given("x", 2, 3, 4, 3), given("row", 3), given("one")
    plane = given("plane", 4, 3)
    found = [x + row, row - x, x * const(3), x * const(1, 1, 1, 3), x + 2.0, one * x, plane + x]
    return [*found, x + const(2, 3, 4, 3), x * const(4, 1), one + 1.0, tf.reshape(one, [1]) * row]


@case
def binary_of_rank_five() -> list[tf.Tensor]:
    x, y = given("x", 2, 2, 3, 4, 3), given("y", 2, 3, 4, 3)
    return [x + y, x * const(3)]


@case
def add_n() -> list[tf.Tensor]:
    x, y = given("x", 1, 2, 3, 4), given("y", 1, 2, 3, 4)
    return [tf.add_n([x, y, x]), tf.add_n([x, y, x, y, y, x]), tf.add_n([x], name="alone")]


@case
def bias() -> list[tf.Tensor]:
    x, flat, deep = given("x", 1, 3, 4, 5), given("flat", 2, 5), given("deep", 2, 3, 5)
    return [tf.nn.bias_add(v, const(5)) for v in (x, flat, deep)]


@case
def convolution() -> list[tf.Tensor]:
    x = given("x", 1, 9, 8, 3)
    found = [tf.nn.conv2d(x, const(3, 3, 3, 4), s, p) for s in (1, 2) for p in ("SAME", "VALID")]
    found.append(tf.nn.conv2d(x, const(2, 3, 3, 4), 1, "SAME", dilations=2))
    found.append(tf.nn.conv2d(x, const(3, 2, 3, 4), 2, [[0, 0], [1, 0], [2, 1], [0, 0]]))
    found.append(tf.nn.conv2d(x, tf.identity(const(1, 1, 3, 2)), 1, "VALID"))
    return [*found, tf.nn.conv2d(x, tf.abs(const(3, 3, 3, 2)), 1, "SAME")]


@case
def convolution_of_given_kernel() -> list[tf.Tensor]:
    return [tf.nn.conv2d(given("x", 1, 6, 5, 2), given("w", 3, 2, 2, 4), 1, "SAME")]


@case
def depthwise() -> list[tf.Tensor]:
    x = given("x", 1, 8, 7, 3)
    found = [
        tf.nn.depthwise_conv2d(x, const(3, 3, 3, 1), [1, s, s, 1], p)
        for s in (1, 2)
        for p in ("SAME", "VALID")
    ]
    return [*found, tf.nn.depthwise_conv2d(x, const(3, 2, 3, 2), [1, 1, 1, 1], "SAME")]


@case
def transposed_convolution() -> list[tf.Tensor]:
    x = given("x", 1, 4, 5, 3)
    found = [
        tf.nn.conv2d_transpose(x, const(3, 3, 2, 3), [1, 8, 10, 2], 2, "SAME"),
        tf.nn.conv2d_transpose(x, const(3, 3, 2, 3), [1, 9, 11, 2], 2, "VALID"),
    ]
    return [*found, tf.nn.conv2d_transpose(x, const(2, 2, 2, 3), [1, 4, 5, 2], 1, "SAME")]


@case
def pooling() -> list[tf.Tensor]:
    x = given("x", 1, 7, 8, 3)
    pools = (tf.nn.avg_pool2d, tf.nn.max_pool2d)
    return [p(x, k, s, m) for p in pools for k, s in ((2, 2), (3, 1)) for m in ("SAME", "VALID")]


@case
def volumes() -> list[tf.Tensor]:
    x, more = given("x", 1, 5, 6, 4, 3), (("SAME", 1), ("VALID", 2), ("SAME", 2))
    found = [raw.Conv3D(input=x, filter=const(3, 2, 3, 3, 4), strides=[1, s, s, s, 1], padding=p)
             for p, s in more]  # fmt: skip
    found.append(tf.nn.relu(tf.nn.bias_add(found[0], const(4))))
    window = {"ksize": [1, 2, 3, 2, 1], "input": x}
    for p, s in more:
        found += [op(strides=[1, s, s, s, 1], padding=p, **window)
                  for op in (raw.MaxPool3D, raw.AvgPool3D)]  # fmt: skip
    norms = {"scale": const(3), "offset": const(3, seed=1), "mean": const(3, seed=2)}
    norms |= {"variance": const(3, low=0.5, high=2.0), "is_training": False}
    found.append(raw.FusedBatchNormV3(x=x, data_format="NDHWC", **norms)[0])
    back = [tf.nn.conv3d_transpose(x, const(3, 3, 2, 2, 3), [1, *lens, 2], s, p)
            for p, s, lens in (("SAME", 2, (10, 12, 8)), ("VALID", 1, (7, 8, 5)))]  # fmt: skip
    return [*found, *back]


@case
def batch_norm() -> list[tf.Tensor]:
    x = given("x", 2, 3, 4, 5)
    more = {"scale": const(5), "offset": const(5, seed=1), "mean": const(5, seed=2)}
    more |= {"variance": const(5, low=0.5, high=2.0), "is_training": False}
    return [raw.FusedBatchNormV3(x=x, epsilon=1e-3, **more)[0], raw.FusedBatchNorm(x=x, **more)[0]]


@case
def batch_norm_of_halves() -> list[tf.Tensor]:
    x = given("x", 1, 3, 4, 2, type=tf.float16)
    more = {"scale": const(2), "offset": const(2, seed=1), "mean": const(2, seed=2)}
    more |= {"variance": const(2, low=0.5, high=2.0), "is_training": False}
    return [tf.nn.relu6(raw.FusedBatchNormV3(x=x, **more)[0]) * x]


@case
def matmul() -> list[tf.Tensor]:
    a, b, c = given("a", 3, 4), given("b", 4, 5), given("c", 4, 3)
    return [
        tf.matmul(a, b), tf.matmul(c, b, transpose_a=True), tf.matmul(a, c, transpose_b=False),
        tf.matmul(c, c, transpose_b=True), tf.matmul(a, const(4, 2)),
    ]  # fmt: skip


@case
def batch_matmul() -> list[tf.Tensor]:
    a, b = given("a", 2, 3, 4, 5), given("b", 2, 3, 5, 6)
    found = [tf.matmul(a, b), tf.matmul(a, a, transpose_b=True), tf.matmul(b, b, adjoint_a=True)]
    return [*found, tf.matmul(a, given("m", 1, 5, 2)), tf.matmul(a, const(5, 3))]


@case
def sums_of_products() -> list[tf.Tensor]:
    a, b = given("a", 2, 3, 4), given("b", 4, 5, 2)
    found = [tf.einsum(e, a, b) for e in ("abc,cde->abde", "abc,cda->bd", "abc,cda->")]
    return [*found, tf.einsum("abc->cab", a), tf.einsum("abc,abc->ac", a, a)]


@case
def blocks_as_batches() -> list[tf.Tensor]:
    x, y = given("x", 2, 4, 6, 3), given("y", 8, 3, 2, 1)
    found = [tf.space_to_batch(x, [2, 3], [[0, 0], [2, 1]]), tf.space_to_batch(x, [2], [[1, 1]])]
    found += [tf.batch_to_space(y, [2, 2], [[0, 1], [1, 0]]), tf.batch_to_space(y, [4], [[0, 0]])]
    return [*found, tf.nn.atrous_conv2d(x, const(3, 3, 3, 2), 2, "SAME")]


@case
def reductions() -> list[tf.Tensor]:
    x = given("x", 2, 3, 4, 5)
    found = [tf.reduce_mean(x, a, k) for a in ((1, 2), [-1], 0) for k in (True, False)]
    found += [
        tf.reduce_sum(x, [3]),
        tf.reduce_max(x, [1]),
        tf.reduce_min(x, [2, 3]),
        tf.reduce_mean(x),
    ]
    return [*found, tf.reduce_prod(x, [0, 1]), tf.reduce_mean(x) * x]


@case
def logic() -> list[tf.Tensor]:
    x, y = given("x", 1, 2, 3, 4), given("y", 1, 2, 3, 4)
    flags = [x <= y, x < y, x > y, x >= y, tf.equal(x, x), tf.not_equal(x, y)]
    found = [tf.cast(f, tf.float32) for f in flags]
    found += [tf.reduce_all(x <= y, [1, 3]), tf.reduce_any(x > y, [2]), tf.reduce_all(x <= 9.0)]
    return [*found, tf.where(x > y, x, y), tf.logical_and(x > 0.0, ~(y > 0.0)), x > 0.0]


@case
def arguments() -> list[tf.Tensor]:
    x = given("x", 3, 4, 5, 2)
    found = [tf.argmax(x, a) for a in (0, 2, -1)] + [tf.argmin(x, 1, output_type=tf.int32)]
    return [
        *found,
        *tf.math.top_k(x, 2),
        tf.cumsum(x, 1),
        tf.cumsum(x, 2, exclusive=True, reverse=True),
    ]


@case
def softmaxes() -> list[tf.Tensor]:
    x, y = given("x", 1, 3, 4, 5), given("y", 2, 6)
    return [tf.nn.softmax(x), tf.nn.softmax(y), tf.nn.log_softmax(y), tf.nn.softmax(x, axis=1)]


@case
def casts() -> list[tf.Tensor]:
    x = given("x", 1, 2, 3, 4)
    types = (tf.int32, tf.int64, tf.float16, tf.float64, tf.int8, tf.uint8, tf.bool, tf.bfloat16)
    return [tf.cast(tf.cast(tf.abs(x) * 3.0, t), tf.float32) for t in types]


@case
def reshapes() -> list[tf.Tensor]:
    x = given("x", 2, 3, 4, 5)
    found = [tf.reshape(x, s) for s in ([2, 60], [-1, 5], [4, 5, 6, 1], [1, 2, 3, 4, 5])]
    found += [tf.expand_dims(x, a) for a in (0, -1, 2)]
    found += [tf.squeeze(given("s", 1, 3, 1, 4)), tf.squeeze(given("t", 1, 3, 1, 1), [0, -1])]
    return [*found, tf.reshape(given("one", 1, 1), []) + 1.0, tf.transpose(x, [3, 1, 0, 2])]


@case
def joins() -> list[tf.Tensor]:
    x, y, z = given("x", 2, 3, 4, 5), given("y", 2, 3, 4, 5), given("z", 2, 3, 4)
    found = [tf.concat([x, y], a) for a in (0, 1, 3, -1)] + [tf.stack([x, y], a) for a in (0, -1)]
    found += [tf.stack([z, z + 1.0, z], a) for a in (0, 1, 3, -1)] + [
        tf.concat([x, const(2, 3, 4, 1)], 3)
    ]
    return [*found, *tf.unstack(x, axis=2), tf.stack([const(2, 3, 4, 5), x], 1)]


@case
def splits() -> list[tf.Tensor]:
    x = given("x", 2, 3, 4, 6)
    found = [*tf.split(x, 3, 3), *tf.split(x, [1, 3, 2], -1), *tf.split(x, [1, -1], 1)]
    return [*found, tf.split(x, 1, 1)[0], tf.split(x, 2, 2)[1]]


@case
def slices() -> list[tf.Tensor]:
    x, v = given("x", 2, 5, 6, 3), given("v", 7)
    found = [tf.slice(x, [0, 1, 2, 0], [2, 3, -1, 2]), x[:, 1:4], x[0], x[..., 1], x[:, ::2, 1:5:3]]
    found += [
        x[1, :, tf.newaxis, 2:],
        x[:, ::-1],
        x[:, 4:0:-2, :, -1],
        x[-1:, ..., ::-1],
        v[3],
        v[-2:],
    ]
    return [*found, v[2][tf.newaxis], x[:, -1, -2], v[::3], x[0, 0, 0, 0] * v]


@case
def gathers() -> list[tf.Tensor]:
    x, i = given("x", 4, 5, 6), given("i", type=tf.int32)
    found = [tf.gather(x, [2, 0, 1], axis=a) for a in (0, 1, 2)] + [
        tf.gather(x, 3),
        tf.gather(x, [1]),
    ]
    found += [
        tf.gather(x, [[0, 1], [3, 2]]),
        tf.gather(x, i, axis=1),
        tf.gather_nd(x, [[0, 1], [2, 3]]),
    ]
    return [*found, tf.gather(x[:, 0, 0], i), tf.gather(x[:, 0, 0], [2])]


@case
def pads() -> list[tf.Tensor]:
    x, y = given("x", 1, 3, 4, 2), given("y", 2, 4)
    found = [tf.pad(x, [[0, 0], [1, 2], [3, 0], [0, 1]]), tf.pad(y, [[1, 1], [2, 2]])]
    return [*found, tf.pad(y, [[0, 1], [1, 0]], constant_values=-2.5)]


@case
def one_hots() -> list[tf.Tensor]:
    i, j = given("i", 5, type=tf.int32), given("j", 2, 3, type=tf.int32)
    found = [tf.one_hot(i, 4), tf.one_hot(j, 3, 5.0, -1.0), tf.one_hot(j, 4, axis=1)]
    return [*found, tf.one_hot(i, 3, on_value=2, off_value=-1, dtype=tf.int32), tf.one_hot(i[0], 4)]


@case
def lengths() -> list[tf.Tensor]:
    x = given("x", None, 3, 4, 2)
    s = tf.shape(x)
    flat = tf.reshape(x, tf.stack([s[0], s[1] * s[2] * s[3]]))
    found = [flat, tf.shape(x, out_type=tf.int64), tf.size(x), tf.rank(x), s[1:3], tf.zeros_like(x)]
    found += [tf.range(s[1]), tf.fill([s[3], 2], 1.5), tf.tile(x, [1, 2, 1, 3])]
    return [*found, tf.broadcast_to(x[:, :1], [2, 5, 4, 2]), tf.ones_like(x)]


@case
def images() -> list[tf.Tensor]:
    x = given("x", 1, 4, 5, 4)
    found = [
        raw.ResizeNearestNeighbor(images=x, size=s, align_corners=a, half_pixel_centers=h)
        for s in ([8, 10], [3, 7])
        for a, h in ((False, False), (True, False), (False, True))
    ]
    found += [
        raw.ResizeBilinear(images=x, size=[7, 9], align_corners=a, half_pixel_centers=h)
        for a, h in ((False, False), (True, False), (False, True))
    ]
    return [*found, tf.nn.depth_to_space(x, 2), tf.nn.space_to_depth(x[:, :, :4], 2)]


@case
def boxes() -> list[tf.Tensor]:
    corner = given("corner", 12, 2)
    found = tf.concat([corner, corner + 1.0], 1)
    return [raw.NonMaxSuppressionV3(
        boxes=found, scores=given("scores", 12), max_output_size=5, iou_threshold=0.3,
        score_threshold=-0.5,
    )]  # fmt: skip


@case
def whole_numbers() -> list[tf.Tensor]:
    a, b = given("a", 2, 5, type=tf.int32), given("b", 2, 5, type=tf.int32)
    b = b * 2 + 1
    return [a // b, a % b, a + b, tf.maximum(a, b), raw.TruncateDiv(x=a, y=b), tf.abs(a - b)]


@case
def constants() -> list[tf.Tensor]:
    x = given("x", 2, 3)
    same = tf.constant(3.0, shape=(2, 3))
    types = (tf.int32, tf.int64, tf.float16, tf.uint16)
    kinds = [tf.constant([[1, 2, 3]] * 2, t) for t in types] + [
        tf.constant([[True, False, True]] * 2)
    ]
    found = [x + tf.cast(k, tf.float32) for k in kinds]
    return [
        *found,
        x + same,
        x + tf.constant([1.0]),
        x * tf.cast(tf.constant(2.0, tf.float64), tf.float32),
    ]


@case
def network() -> list[tf.Tensor]:
    """A little image classifier, all its layers as Keras writes them."""
    x = given("image", None, 12, 12, 3)
    y = tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]])
    y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(y, const(3, 3, 3, 8), 2, "VALID"), const(8)))
    more = {"scale": const(8), "offset": const(8, seed=1), "mean": const(8, seed=2)}
    more |= {"variance": const(8, low=0.5, high=2.0), "is_training": False}
    z = tf.nn.depthwise_conv2d(y, const(3, 3, 8, 1), [1, 1, 1, 1], "SAME")
    z = tf.nn.relu(raw.FusedBatchNormV3(x=z, epsilon=1e-3, **more)[0])
    z = tf.nn.max_pool2d(tf.concat([y, z + y * const(8)], 3), 2, 2, "SAME")
    flat = tf.reshape(z, tf.stack([tf.shape(z)[0], -1]))
    return [
        tf.nn.softmax(tf.matmul(flat, const(3 * 3 * 16, 10)) + const(10)),
        tf.reduce_mean(z, [1, 2]),
    ]


def fed(placeholder: tf.Operation, generator: np.random.Generator) -> np.ndarray:
    """A value for an input."""
    tensor = placeholder.outputs[0]
    lens = [n or 1 for n in tensor.shape.as_list()]
    if tensor.dtype.is_integer:
        return np.asarray(generator.integers(0, 3, lens), tensor.dtype.as_numpy_dtype)
    return np.asarray(generator.uniform(-1, 1, lens), tensor.dtype.as_numpy_dtype)


def run(make: Callable[[], list[tf.Tensor]]) -> dict[str, np.ndarray]:
    """The graph's bytes, the names of its outputs, its inputs, and its outputs."""
    graph = tf.Graph()
    with graph.as_default():
        outputs = [tf.identity(value, f"output{i}") for i, value in enumerate(make())]
    generator = np.random.default_rng(3)
    inputs = [o for o in graph.get_operations() if o.type == "Placeholder"]
    values = {o.name: fed(o, generator) for o in inputs}
    with v1.Session(graph=graph) as session:
        results = session.run(outputs, {f"{name}:0": value for name, value in values.items()})
    found = {"graph": np.frombuffer(graph.as_graph_def().SerializeToString(), np.uint8)}
    found |= {f"in:{name}": value for name, value in values.items()}
    return found | {f"out:{o.op.name}": v for o, v in zip(outputs, results, strict=True)}


def main(target: Path) -> None:
    """Write the file."""
    arrays = {f"{n}/{k}": a for n, make in CASES.items() for k, a in run(make).items()}
    np.savez_compressed(target, **arrays)
    print(f"{target}: {len(CASES)} graphs, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
