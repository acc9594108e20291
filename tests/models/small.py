"""Small networks written node by node, so that they need no torch: all that `make test` must meet.

The transformers are spelled as the two exporters of torch spell them, the others hold what
trained models rarely show together: control flow, functions, external data.
"""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.models.graph import Graph

WIDTH, HEADS, SEQUENCE, VOCABULARY = 32, 4, 12, 64


def _linear(g: Graph, x: str, name: str, source: int, target: int) -> str:
    """x · W + b with W stored (in, out), as MatMul and Add."""
    weight = g.weight(f"{name}.weight", source, target, scale=1.5 / math.sqrt(source))
    return g.add("Add", g.add("MatMul", x, weight), g.vector(f"{name}.bias", target))


def _split_heads(g: Graph, x: str, perm: list[int]) -> str:
    lens = np.array([0, -1, HEADS, WIDTH // HEADS])
    return g.add("Transpose", g.add("Reshape", x, lens), perm=perm)


def _merge_heads(g: Graph, x: str) -> str:
    return g.add("Reshape", g.add("Transpose", x, perm=[0, 2, 1, 3]), np.array([0, -1, WIDTH]))


def _norm(g: Graph, x: str, name: str) -> str:
    """Layer normalisation in the primitives of opset 13."""
    centred = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1]))
    variance = g.add("ReduceMean", g.add("Pow", centred, 2.0), axes=[-1])
    scaled = g.add("Div", centred, g.add("Sqrt", g.add("Add", variance, 1e-5)))
    scaled = g.add("Mul", scaled, g.vector(f"{name}.weight", WIDTH, about=1))
    return g.add("Add", scaled, g.vector(f"{name}.bias", WIDTH))


def _norm_fused(g: Graph, x: str, name: str) -> str:
    scale, bias = g.vector(f"{name}.weight", WIDTH, about=1), g.vector(f"{name}.bias", WIDTH)
    return g.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5, stash_type=1)


def _gelu(g: Graph, x: str) -> str:
    """x / 2 · (1 + erf(x / √2)) in primitives."""
    error = g.add("Erf", g.add("Div", x, math.sqrt(2)))
    return g.add("Mul", g.add("Mul", x, g.add("Add", error, 1.0)), 0.5)


def _attention(g: Graph, x: str, mask: str, name: str) -> str:
    """Self-attention as the TorchScript exporter spells it: the scores are divided."""
    query, key, value = (_linear(g, x, f"{name}.{part}", WIDTH, WIDTH) for part in "qkv")
    query, value = (_split_heads(g, t, [0, 2, 1, 3]) for t in (query, value))
    scores = g.add("MatMul", query, _split_heads(g, key, [0, 2, 3, 1]))
    scores = g.add("Add", g.add("Div", scores, math.sqrt(WIDTH // HEADS)), mask)
    context = _merge_heads(g, g.add("MatMul", g.add("Softmax", scores, axis=-1), value))
    return _linear(g, context, f"{name}.out", WIDTH, WIDTH)


def encoder(layers: int = 2) -> onnx.ModelProto:
    """BERT layers in primitives, opset 13, with the mask arithmetic of BERT."""
    g = Graph("encoder")
    ids = g.input("input_ids", [1, SEQUENCE], np.int64)
    given = g.input("attention_mask", [1, SEQUENCE], np.int64)
    wide = g.add("Cast", g.add("Unsqueeze", given, np.array([1, 2])), to=onnx.TensorProto.FLOAT)
    mask = g.add("Mul", g.add("Sub", 1.0, wide), -10000.0)
    g.scope = "/embeddings"
    x = g.add("Gather", g.weight("embeddings.word", VOCABULARY, WIDTH, scale=1), ids, axis=0)
    x = g.add("Add", x, g.weight("embeddings.position", 1, SEQUENCE, WIDTH, scale=1))
    x = _norm(g, x, "embeddings.norm")
    for layer in range(layers):
        name = f"layer.{layer}"
        g.scope = f"/encoder/{name}/attention"
        x = _norm(g, g.add("Add", _attention(g, x, mask, f"{name}.attention"), x), f"{name}.norm1")
        g.scope = f"/encoder/{name}/feed_forward"
        hidden = _gelu(g, _linear(g, x, f"{name}.up", WIDTH, 4 * WIDTH))
        out = _linear(g, hidden, f"{name}.down", 4 * WIDTH, WIDTH)
        x = _norm(g, g.add("Add", out, x), f"{name}.norm2")
    g.scope = "/pooler"
    first = g.add("Gather", x, 0, axis=1)  # an index of rank 0 drops the dimension
    pooled = g.add("Tanh", _linear(g, first, "pooler", WIDTH, WIDTH))
    g.output(x, "last_hidden_state", [1, SEQUENCE, WIDTH])
    g.output(pooled, "pooler_output", [1, WIDTH])
    return g.model(13)


def _causal_mask(g: Graph, ids: str, given: str) -> str:
    """The causal mask as dynamo exports it: ranges compared, the given mask gathered."""
    batch, sequence = (g.add("Squeeze", g.add("Shape", ids, start=k, end=k + 1)) for k in (0, 1))
    row = g.add("Unsqueeze", g.add("Range", 0, sequence, 1), np.array([0, 1]))
    item = g.add("Unsqueeze", g.add("Range", 0, batch, 1), np.array([1, 2]))
    column = g.add("Unsqueeze", row, np.array([3]))
    row, item = g.add("Unsqueeze", row, np.array([2])), g.add("Unsqueeze", item, np.array([3]))
    causal = g.add("LessOrEqual", row, column)
    lens = g.add("Shape", g.add("Max", item, row))
    index = [g.add("Unsqueeze", g.add("Expand", v, lens), np.array([-1])) for v in (item, row)]
    seen = g.add("Cast", given, to=onnx.TensorProto.BOOL)
    shown = g.add("GatherND", seen, g.add("Concat", *index, axis=-1), batch_dims=0)
    return g.add("Where", g.add("And", causal, shown), 0.0, np.finfo(np.float32).min)


def _attention_fused(g: Graph, x: str, mask: str, name: str) -> str:
    """Self-attention as dynamo spells it: one product split in three, NaNs guarded."""
    flat = g.add("Reshape", x, np.array([-1, WIDTH]), allowzero=1)
    weight = g.weight(f"{name}.qkv.weight", WIDTH, 3 * WIDTH, scale=1.5 / math.sqrt(WIDTH))
    joined = g.add("Gemm", flat, weight, g.vector(f"{name}.qkv.bias", 3 * WIDTH))
    lens = g.add("Concat", g.add("Shape", x, start=0, end=2), np.array([3 * WIDTH]), axis=0)
    parts = g.add("Split", g.add("Reshape", joined, lens), outputs=3, axis=2, num_outputs=3)
    query, key, value = (_split_heads(g, t, [0, 2, 1, 3]) for t in parts)
    query, key = (g.add("Mul", t, (WIDTH // HEADS) ** -0.25) for t in (query, key))
    scores = g.add("MatMul", query, g.add("Transpose", key, perm=[0, 1, 3, 2]))
    weights = g.add("Softmax", g.add("Add", scores, mask), axis=-1)
    weights = g.add("Where", g.add("IsNaN", weights), 0.0, weights)
    context = _merge_heads(g, g.add("MatMul", weights, value))
    return _linear(g, context, f"{name}.out", WIDTH, WIDTH)


def decoder() -> onnx.ModelProto:
    """Two GPT-2 layers as dynamo writes them, opset 20, batch and sequence symbolic."""
    g = Graph("decoder")
    ids = g.input("input_ids", ["batch", "sequence"], np.int64)
    mask = _causal_mask(g, ids, g.input("attention_mask", ["batch", "sequence"], np.int64))
    table = g.weight("wte", VOCABULARY, WIDTH, scale=0.5)
    positions = g.add("Range", 0, g.add("Squeeze", g.add("Shape", ids, start=1, end=2)), 1)
    places = g.add("Gather", g.weight("wpe", 2 * SEQUENCE, WIDTH, scale=0.5), positions)
    x = g.add("Add", g.add("Gather", table, ids), places)
    for layer in range(2):
        name = g.scope = f"/h.{layer}"
        x = g.add("Add", x, _attention_fused(g, _norm_fused(g, x, f"{name}.ln_1"), mask, name))
        hidden = _linear(g, _norm_fused(g, x, f"{name}.ln_2"), f"{name}.up", WIDTH, 4 * WIDTH)
        hidden = g.add("Gelu", hidden, approximate="tanh" if layer else "none")
        x = g.add("Add", x, _linear(g, hidden, f"{name}.down", 4 * WIDTH, WIDTH))
    g.scope = ""
    x = _norm_fused(g, x, "ln_f")
    logits = g.add("MatMul", x, g.add("Transpose", table, perm=[1, 0]))
    g.output(logits, "logits", ["batch", "sequence", VOCABULARY])
    return g.model(20)


def _conv(g: Graph, x: str, name: str, lens: tuple[int, int, int], stride: int = 1) -> str:
    """A convolution without a bias and its batch norm."""
    source, target, size = lens
    pad = [size // 2] * 4
    weight = g.weight(f"{name}.weight", target, source, size, size)
    x = g.add("Conv", x, weight, kernel_shape=[size] * 2, strides=[stride] * 2, pads=pad)
    scale, mean = g.vector(f"{name}.scale", target, 1), g.vector(f"{name}.mean", target)
    shift, variance = g.vector(f"{name}.shift", target), g.vector(f"{name}.variance", target, 1.5)
    return g.add("BatchNormalization", x, scale, shift, mean, variance, epsilon=1e-5)


def cnn() -> onnx.ModelProto:
    """A residual network of three blocks on 32 x 32 images, batch norms unfolded, opset 17."""
    g = Graph("cnn")
    x = g.input("image", ["batch", 3, 32, 32])
    x = g.add("Relu", _conv(g, x, "stem", (3, 16, 3)))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for block, (source, target) in enumerate(((16, 16), (16, 32), (32, 32))):
        name, stride = f"block{block}", target // source
        g.scope = f"/{name}"
        inner = g.add("Relu", _conv(g, x, f"{name}.conv1", (source, target, 3), stride))
        inner = _conv(g, inner, f"{name}.conv2", (target, target, 3))
        x = x if source == target else _conv(g, x, f"{name}.shortcut", (source, target, 1), stride)
        x = g.add("Relu", g.add("Add", inner, x))
    g.scope = ""
    x = g.add("Flatten", g.add("GlobalAveragePool", x), axis=1)
    weight, bias = g.weight("head.weight", 10, 32), g.vector("head.bias", 10)
    g.output(g.add("Gemm", x, weight, bias, transB=1), "logits", ["batch", 10])
    return g.model(17)


def branches() -> onnx.ModelProto:
    """An If whose branches read values of the graph around them, one of them with an If inside."""
    g = Graph("branches")
    x = g.input("x", [2, 3])
    total = g.add("ReduceSum", x, keepdims=0)
    warm, hot = Graph("warm", "/warm"), Graph("hot", "/warm/hot")
    hot.output(hot.add("Exp", hot.add("Neg", x)), "hot_y", [2, 3])
    mild = Graph("mild", "/warm/mild")
    mild.output(mild.add("Mul", x, 2.0), "mild_y", [2, 3])
    very = warm.add("Greater", total, 100.0)
    inner = warm.add("If", very, then_branch=hot.proto(), else_branch=mild.proto())
    warm.output(inner, "warm_y", [2, 3])
    cold = Graph("cold", "/cold")
    cold.output(cold.add("Sub", x, total), "cold_y", [2, 3])
    positive = g.add("Greater", total, 0.0)
    y = g.add("If", positive, then_branch=warm.proto(), else_branch=cold.proto())
    g.output(g.add("Add", y, 1.0), "y", [2, 3])
    return g.model(17)


def _loop(name: str, bound: float) -> tuple[Graph, str, str]:
    """A Loop of at most 8 steps that adds x to itself until it passes a bound; what it computes."""
    g, body = Graph(name), Graph("body", "/body")
    x = g.input("x", [4])
    step = body.input("step", [], np.int64)
    body.input("go", [], np.bool_)
    grown = body.add("Add", body.input("carried", [4]), x)
    reached = body.add("ReduceMax", body.add("Abs", grown), keepdims=0)
    body.output(body.add("Less", reached, bound), "go_on", [], np.bool_)
    body.output(grown, "grown", [4])
    number = body.add("Cast", step, to=onnx.TensorProto.FLOAT)
    body.output(body.add("Mul", grown, number), "collected", [4])
    last, rows = g.add("Loop", 8, np.array(True), x, outputs=2, body=body.proto())
    return g, last, rows


def loop() -> onnx.ModelProto:
    """A Loop that carries a value, collects another, reads x from around it and runs 8 times."""
    g, last, rows = _loop("loop", bound=1e6)
    g.output(last, "last", [4])
    g.output(rows, "rows", [8, 4])
    return g.model(17)


def loop_stops() -> onnx.ModelProto:
    """A Loop that stops before its trip count, when the value that it carries grows too large."""
    g, last, _ = _loop("loop_stops", bound=6.0)
    g.output(last, "last", [4])
    return g.model(17)


def scan() -> onnx.ModelProto:
    """A Scan over the rows of a matrix: a running sum as state, a product of it as output."""
    g = Graph("scan")
    start, rows = g.input("start", [3]), g.input("rows", [5, 3])
    body = Graph("body", "/body")
    state, row = body.input("state", [3]), body.input("row", [3])
    total = body.add("Add", state, row)
    body.output(total, "total", [3])
    body.output(body.add("Mul", total, 0.5), "half", [3])
    last, halves = g.add("Scan", start, rows, outputs=2, body=body.proto(), num_scan_inputs=1)
    g.output(last, "last", [3])
    g.output(halves, "halves", [5, 3])
    return g.model(17)


def function() -> onnx.ModelProto:
    """Two calls of a local function, which calls another that has an attribute."""
    node = helper.make_node
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    leaky = node("LeakyRelu", ["a"], ["b"], name="leaky")
    alpha = helper.make_attribute_ref("alpha", onnx.AttributeProto.FLOAT)
    alpha.ref_attr_name = "slope"
    leaky.attribute.append(alpha)
    bend = helper.make_function("local", "Bend", ["a"], ["b"], [leaky], opset, ["slope"])
    inside = [
        node("MatMul", ["a", "w"], ["m"], name="product"),
        node("Bend", ["m"], ["bent"], domain="local", name="bend", slope=0.3),
        node("Add", ["bent", "a"], ["b"], name="residual"),
    ]
    block = helper.make_function("local", "Block", ["a", "w"], ["b"], inside, opset)
    g = Graph("function")
    x = g.input("x", [2, 8])
    for k in range(2):
        x = g.add("Block", x, g.weight(f"w{k}", 8, 8, scale=0.5), domain="local")
    g.output(x, "y", [2, 8])
    return g.model(17, functions=[bend, block])


def external() -> onnx.ModelProto:
    """A perceptron whose weights `create` puts into a file beside the model."""
    g = Graph("external")
    x = g.input("x", [2, 64])
    x = g.add("Relu", _linear(g, x, "up", 64, 96))
    g.output(_linear(g, x, "down", 96, 16), "y", [2, 16])
    return g.model(17)


SMALL: dict[str, Callable[[], onnx.ModelProto]] = {
    f.__name__: f
    for f in (encoder, decoder, cnn, branches, loop, loop_stops, scan, function, external)
}


def create(name: str, path: Path) -> None:
    """Writes the named small model to `path`, replacing what was there.

    Each is written anew, being quicker to write than to check for staleness. The weights of
    `external` go into a file beside it, named as the model with the suffix .data.
    """
    model = SMALL[name]()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh, data = Path(folder) / path.name, path.with_suffix(".data").name
        apart = {"save_as_external_data": True, "location": data, "size_threshold": 256}
        onnx.save(model, fresh, **(apart if name == "external" else {}))
        for written in sorted(Path(folder).iterdir()):
            written.replace(path.parent / written.name)
