"""Makes goldens.npz: small models of TensorFlow Lite, inputs, and what its interpreter computes of them.

Run it where TensorFlow is: `python tests/tflite/make_goldens.py tests/tflite/goldens.npz`.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

RANDOM = np.random.default_rng(0)
RESOLVER = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def noise(*lens: int) -> np.ndarray:
    return RANDOM.standard_normal(lens).astype(np.float32)


IMAGE = noise(2, 9, 8, 3)
KERNEL, DEEP = tf.constant(noise(3, 3, 3, 6) * 0.3), tf.constant(noise(3, 3, 3, 2) * 0.3)
BIAS, HEAD, TAIL = (
    tf.constant(noise(6)),
    tf.constant(noise(120, 10) * 0.1),
    tf.constant(noise(12, 4)),
)
ONES, POINTS = (
    tf.constant(np.full((3, 3, 6, 1), 0.1, np.float32)),
    tf.constant(noise(1, 1, 6, 6) * 0.3),
)
BACK, BACK_2 = tf.constant(noise(3, 3, 5, 3)), tf.constant(noise(3, 2, 5, 3))


def mobile(t: Any) -> Any:
    t = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(t, KERNEL, [1, 2, 2, 1], "SAME"), BIAS))
    t = tf.nn.relu(tf.nn.depthwise_conv2d(t, ONES, [1, 1, 1, 1], "SAME"))
    return tf.nn.softmax(tf.reshape(t, [2, -1]) @ HEAD)


def residual(t: Any) -> Any:
    y = tf.nn.relu(tf.nn.conv2d(t, KERNEL, 1, "SAME") + BIAS)
    s = tf.concat([y + tf.nn.conv2d(y, POINTS, 1, "VALID"), tf.nn.avg_pool2d(y, 3, 1, "SAME")], -1)
    return tf.nn.sigmoid(tf.reduce_mean(s, [1, 2]) @ TAIL)


CASES: dict[str, tuple[Any, ...]] = {
    "mobile": (mobile, IMAGE),
    "residual": (residual, IMAGE),
    "conv": (
        lambda t: (
            tf.nn.conv2d(t, KERNEL, [1, 1, 1, 1], "VALID"),
            tf.nn.conv2d(t, KERNEL, [1, 1, 1, 1], "SAME", dilations=2),
            tf.nn.depthwise_conv2d(t, DEEP, [1, 2, 2, 1], "SAME"),
        ),
        IMAGE,
    ),
    "transpose_conv": (
        lambda t: (
            tf.nn.conv2d_transpose(t, BACK, [2, 18, 16, 5], 2, "SAME"),
            tf.nn.conv2d_transpose(t, BACK_2, [2, 19, 16, 5], 2, "VALID"),
        ),
        IMAGE,
    ),
    "pools": (
        lambda t: (
            tf.nn.max_pool2d(t, 3, 2, "SAME"),
            tf.nn.avg_pool2d(t, 3, 2, "SAME"),
            tf.nn.max_pool2d(t, 2, 2, "VALID"),
        ),
        IMAGE,
    ),
    "elementwise": (
        lambda a, c: (
            a + c,
            tf.nn.relu(a - c),
            a * c,
            a / (tf.abs(c) + 1),
            tf.maximum(a, c),
            tf.minimum(a, c),
            tf.abs(a),
            tf.exp(a),
            tf.sqrt(tf.abs(a)),
            tf.math.rsqrt(tf.abs(a) + 0.1),
            tf.sin(a),
            tf.cos(a),
            tf.floor(a),
            tf.math.ceil(a),
            tf.round(a * 3),
            tf.square(a),
            tf.math.squared_difference(a, c),
            tf.math.log(tf.abs(a) + 0.1),
            tf.sign(a),
            -a,
        ),
        noise(3, 4),
        noise(3, 4),
    ),
    "activations": (
        lambda a: (
            tf.nn.relu(a),
            tf.nn.relu6(a * 4),
            tf.nn.elu(a),
            tf.nn.leaky_relu(a, 0.3),
            tf.tanh(a),
            tf.sigmoid(a),
            tf.nn.softmax(a),
            tf.nn.log_softmax(a),
            tf.nn.gelu(a),
            a * tf.nn.relu6(a + 3) / 6,
            tf.nn.l2_normalize(a, -1),
        ),
        noise(3, 4),
    ),
    "compare": (
        lambda a, c: (
            a < c,
            a <= c,
            a > c,
            a >= c,
            tf.equal(a, c),
            tf.not_equal(a, c),
            tf.where(a > c, a, c),
            tf.logical_and(a > 0, c > 0),
            tf.logical_not(a > 0),
            tf.cast(a * 3, tf.int32),
            tf.cast(a > 0, tf.float32),
        ),
        noise(3, 4),
        noise(3, 4),
    ),
    "broadcast": (
        lambda a, c: (
            a + c,
            a * c[:1],
            tf.pow(tf.abs(a), 2.0),
            tf.broadcast_to(c[:1], [3, 4]),
            tf.math.floordiv(a, c),
            tf.math.floormod(a, c),
        ),
        noise(2, 3, 4),
        noise(3, 4),
    ),
    "moves": (
        lambda a: (
            tf.reshape(a, [4, 6]),
            tf.transpose(a, [2, 0, 1]),
            tf.expand_dims(a, 1),
            a[0],
            a[:, 1:3, ::2],
            a[:, ::-1],
            a[-1, :, 1],
            tf.split(a, 2, 2),
            tf.split(a, [1, 2], 1),
            tf.stack([a, a], 1),
            tf.unstack(a, axis=1),
            tf.tile(a, [1, 2, 1]),
            tf.reverse(a, [1]),
            tf.pad(a, [[0, 1], [2, 0], [1, 1]]),
            tf.pad(a, [[0, 0], [1, 1], [1, 2]], "REFLECT"),
            tf.slice(a, [0, 1, 0], [2, -1, 2]),
            tf.squeeze(a[:1], 0),
            tf.pad(a, [[0, 0], [1, 0], [0, 0]], constant_values=2.0),
        ),
        noise(2, 3, 4),
    ),
    "reductions": (
        lambda a: (
            tf.reduce_mean(a, [1]),
            tf.reduce_sum(a, [0, 2], keepdims=True),
            tf.reduce_max(a, -1),
            tf.reduce_min(a, 1),
            tf.reduce_prod(a, 2),
            tf.argmax(a, 1),
            tf.argmin(a, -1, output_type=tf.int32),
            tf.math.top_k(a, 2),
            tf.cumsum(a, 1),
            tf.cumsum(a, 2, exclusive=True, reverse=True),
            tf.reduce_any(a > 1, 1),
            tf.reduce_all(a > -1, [0]),
        ),
        noise(2, 3, 4),
    ),
    "gather": (
        lambda a, i: (
            tf.gather(a, i),
            tf.gather(a, i % 3, axis=1),
            tf.gather_nd(a, tf.stack([i % 2, i % 3], -1)),
        ),
        noise(5, 3, 4),
        np.array([0, 4, 2, 1], np.int32),
    ),
    "matmul": (
        lambda a, c: (
            tf.matmul(a, c),
            tf.matmul(a, a, transpose_b=True),
            tf.matmul(a, tf.constant(noise(4, 5))),
        ),
        noise(2, 3, 4),
        noise(2, 4, 5),
    ),
    "resize": (
        lambda t: (
            tf.image.resize(t, [18, 12]),
            tf.image.resize(t, [4, 5], "nearest"),
            tf.compat.v1.image.resize_bilinear(t, [18, 16], align_corners=True),
            tf.compat.v1.image.resize_nearest_neighbor(t, [5, 16]),
            tf.compat.v1.image.resize_bilinear(t, [5, 16]),
        ),
        IMAGE,
    ),
    "blocks": (
        lambda t: (
            tf.nn.space_to_depth(t[:, :8], 2),
            tf.nn.depth_to_space(tf.concat([t] * 4, -1), 2),
        ),
        IMAGE,
    ),
}
WAYS = {
    "int8": "integers, the input and the output too",
    "float_io": "integers in between",
    "dynamic": "integer weights",
    "half": "weights of 16 bits",
}


def converted(function: Callable[..., Any], arguments: list[np.ndarray], way: str = "") -> bytes:
    """The model of a function; quantized in one of the ways."""
    given = [tf.TensorSpec(a.shape, a.dtype) for a in arguments]
    traced = tf.function(function).get_concrete_function(*given)
    made = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    if way:
        made.optimizations = [tf.lite.Optimize.DEFAULT]
    if way == "half":
        made.target_spec.supported_types = [tf.float16]
    if way in {"int8", "float_io"}:
        made.representative_dataset = lambda: (
            [noise(*a.shape) for a in arguments] for _ in range(20)
        )
        made.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    if way == "int8":
        made.inference_input_type = made.inference_output_type = tf.int8
    return made.convert()


def recorded(
    name: str, model: bytes, arguments: list[np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """The model, its inputs and outputs, by name."""
    yield f"{name}/model", np.frombuffer(model, np.uint8)
    runner = tf.lite.Interpreter(model_content=model, experimental_op_resolver_type=RESOLVER)
    runner.allocate_tensors()
    for k, (detail, value) in enumerate(zip(runner.get_input_details(), arguments, strict=True)):
        given = value
        if detail["dtype"] == np.int8:
            scale, zero = detail["quantization"]
            given = np.clip(np.round(value / scale) + zero, -128, 127).astype(np.int8)
        runner.set_tensor(detail["index"], given)
        yield f"{name}/in{k}", given
    runner.invoke()
    for k, detail in enumerate(runner.get_output_details()):
        yield f"{name}/out{k}", runner.get_tensor(detail["index"])


def goldens() -> Iterator[tuple[str, np.ndarray]]:
    for name, (function, *arguments) in CASES.items():
        yield from recorded(name, converted(function, arguments), arguments)
    for name in ("mobile", "residual"):
        function, *arguments = CASES[name]
        for way in WAYS:
            yield from recorded(f"{name}_{way}", converted(function, arguments, way), arguments)


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **dict(goldens()))
