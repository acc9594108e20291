"""Strict import of operators from D to L: MIGraphX's instructions, in its order."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

T = TensorProto
GOLDEN = Path(__file__).parent / "parse" / "d_to_l.txt"
CONTRIB = {"domain": "com.microsoft"}


def value(name, lens, type=T.FLOAT):
    """An input."""
    return helper.make_tensor_value_info(name, type, lens)


def one(op, inputs, outputs="y", fixed=(), **attributes):
    """A model of one node; inputs in order, then what is fixed."""
    names = [*[i.name for i in inputs], *[f.name for f in fixed]]
    node = helper.make_node(op, names, outputs.split(), **attributes)
    return several([node], inputs, outputs.split(), fixed)


def several(nodes, inputs, outputs, fixed=()):
    """A model of some nodes."""
    made = [helper.make_empty_tensor_value_info(o) for o in outputs if o]
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", inputs, made, list(fixed))
    return helper.make_model(graph, opset_imports=sets)


def branch(name, nodes, output, lens):
    """A graph without inputs."""
    return helper.make_graph(nodes, name, [], [value(output, lens)])


def choice(then, other):
    """An If whose condition is an input."""
    node = helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=other)
    inputs = [value("c", [1], T.BOOL), value("a", [2, 3]), value("b", [3, 2])]
    return several([node], inputs, ["r"])


def counting():
    """A loop without a trip count, whose scan collects scalars."""
    nodes = [
        helper.make_node("Add", ["s", "a"], ["t"]),
        helper.make_node("Less", ["t", "a"], ["go"]),
    ]
    inputs = [value("i", [], T.INT64), value("c", [], T.BOOL), value("s", [])]
    outputs = [value("go", [], T.BOOL), value("t", []), value("s", [])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    node = helper.make_node("Loop", ["", "", "b"], ["last", "all"], body=body)
    return several([node], [value("a", []), value("b", [])], ["last", "all"])


def four_bits():
    """A zero point of four bits: no result is clipped to these."""
    zero = helper.make_tensor("z", T.INT4, [4], [0] * 4)
    scale = numpy_helper.from_array(np.ones(4, np.float32), "s")
    return one("QuantizeLinear", [value("x", [2, 4])], fixed=(scale, zero))


def group_query(steps, heads, groups, **attributes):
    """Attention to a cache of 8 places."""
    size, half = heads + 2 * groups, T.FLOAT16
    cache = [value(n, [1, groups, 8, 4], half) for n in ("past_k", "past_v")]
    inputs = [value("x", [1, steps, size * 4], half), value("k", [1]), value("v", [1]), *cache]
    numbers = {"lens": np.int32([2]), "total": np.int32([3])}
    tables = {n: np.ones((8, 2), np.float16) for n in ("cos", "sin")}
    fixed = [numpy_helper.from_array(v, n) for n, v in (numbers | tables).items()]
    options = {"num_heads": heads, "kv_num_heads": groups, **attributes, **CONTRIB}
    return one("GroupQueryAttention", inputs, "y pk pv", fixed, **options)


def lstm():
    """Batches first, without initial states."""
    inputs = [value("x", [2, 3, 4]), value("w", [1, 20, 4]), value("r", [1, 20, 5])]
    return one("LSTM", inputs, "h last cell", hidden_size=5, layout=1, input_forget=1)


IMAGE, GRID = value("x", [1, 2, 3, 4]), value("g", [1, 1, 2, 2])
RANGES = {"default_dyn_dim_value": Dim(2, 6)}
CASES = {
    "depth to space, DCR": (
        one("DepthToSpace", [value("x", [1, 8, None, 3])], blocksize=2, mode="DCR"),
        RANGES,
    ),
    "depth to space, CRD": (
        one("DepthToSpace", [value("x", [1, 8, None, 3])], blocksize=2, mode="CRD"),
        RANGES,
    ),
    "dynamic quantization": (one("DynamicQuantizeLinear", [value("x", [2, 3])], "y s z"), {}),
    "dropout": (one("Dropout", [value("x", [3])]), {}),
    "greater or equal": (one("GreaterOrEqual", [value("a", [3]), value("b", [3])]), {}),
    "expand by lens of a run": (
        one("Expand", [value("x", [3, 1]), value("n", [2], T.INT64)]),
        {},
    ),
    "einsum, trace": (one("Einsum", [value("x", [2, 2])], equation="ii->"), {}),
    "gather elements": (
        one("GatherElements", [value("x", [2, 3]), value("i", [2, 2], T.INT32)], axis=1),
        {},
    ),
    "fast gelu with a bias": (
        one("FastGelu", [value("x", [2, 3]), value("b", [3])], **CONTRIB),
        {},
    ),
    "gemm with a bias": (
        one("Gemm", [value("a", [None, 3]), value("b", [3, 4]), value("c", [1, 4])], beta=2.0),
        RANGES,
    ),
    "grid, linear": (one("GridSample", [IMAGE, GRID], mode="linear"), {}),
    "grid, nearest": (
        one("GridSample", [IMAGE, GRID], mode="nearest", padding_mode="reflection"),
        {},
    ),
    "group norm, channels last": (
        one(
            "GroupNorm",
            [value("x", [1, 3, 4], T.FLOAT16), value("g", [4]), value("b", [4])],
            groups=2, activation=1, **CONTRIB,
        ),
        {},
    ),
    "group query attention": (group_query(1, 2, 2, scale=0.5), {}),
    "group query attention, several steps": (
        group_query(3, 4, 2, do_rotary=1, local_window_size=2),
        {},
    ),
    "if with other strides": (
        choice(
            branch("t", [helper.make_node("Transpose", ["a"], ["p"], perm=[1, 0])], "p", [3, 2]),
            branch("e", [helper.make_node("Add", ["b", "b"], ["q"])], "q", [3, 2]),
        ),
        {},
    ),
    "instance norm of halves": (
        one("InstanceNormalization", [value("x", [None, 2, 3], T.FLOAT16),
                                      value("s", [2], T.FLOAT16), value("b", [2], T.FLOAT16)]),
        RANGES,
    ),
    "infinities, flags as lists": (
        one("IsInf", [value("x", [2])], detect_negative=[1], detect_positive=[0]),
        {},
    ),
    "layer norm of halves": (
        one("LayerNormalization", [value("x", [2, 4], T.FLOAT16), value("s", [4], T.FLOAT16)]),
        {},
    ),
    "loop, scalars collected": (counting(), {"use_dyn_output": False}),
    "Lp normalization": (one("LpNormalization", [value("x", [2, 3])], p=1), {}),
    "LSTM, batches first": (lstm(), {}),
    "quantization to four bits": (four_bits(), {}),
}  # fmt: skip


def recorded():
    """The golden texts by name."""
    parts = GOLDEN.read_text(encoding="utf-8").split("## ")[1:]
    return {name: text.strip() for name, _, text in (p.partition("\n") for p in parts)}


@pytest.mark.parametrize("name", CASES)
def test_a_strict_import_writes_migraphx_s_instructions(name):
    made, options = CASES[name]
    assert str(parse_onnx(made, strict=True, **options)).strip() == recorded()[name]


def test_there_is_a_text_for_each_case():
    assert list(recorded()) == list(CASES)


REFUSED = {
    "a diagonal outside": one("EyeLike", [value("x", [2, 4])], k=-2),
    "a bias of another type": one(
        "BiasGelu", [value("x", [3]), value("b", [3], T.INT32)], **CONTRIB
    ),
    "a fast gelu of doubles": one("FastGelu", [value("x", [3], T.DOUBLE)], **CONTRIB),
    "one dimension": one("LayerNormalization", [value("x", [3]), value("s", [3])], axis=0),
    "types that differ": one(
        "InstanceNormalization",
        [value("x", [1, 2, 3]), value("s", [2], T.FLOAT16), value("b", [2], T.FLOAT16)],
    ),
    "two diagonals": one("Einsum", [value("x", [3, 3, 3, 3])], equation="iijj->ij"),
    "an output without the ellipsis": one("Einsum", [value("x", [3, 3])], equation="...i->i"),
    "a volume": one("GridSample", [value("x", [1, 1, 2, 2, 2]), value("g", [1, 1, 1, 1, 3])]),
    "a softcap": group_query(1, 2, 2, softcap=1.0),
    "branches of other lens": choice(
        branch("t", [helper.make_node("Add", ["a", "a"], ["p"])], "p", [2, 3]),
        branch("e", [helper.make_node("Add", ["b", "b"], ["q"])], "q", [3, 2]),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_strict_import_refuses_what_migraphx_refuses(name):
    with pytest.raises(ModelError):
        parse_onnx(REFUSED[name], strict=True)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_both_expansions_of_a_grid_sample_alike(mode, border, align):
    inputs = [value("x", [2, 3, 4, 5]), value("g", [2, 3, 2, 2])]
    made = one("GridSample", inputs, mode=mode, padding_mode=border, align_corners=align)
    noise = np.random.default_rng(0)
    image = noise.standard_normal((2, 3, 4, 5)).astype(np.float32)
    grid = noise.uniform(-1.5, 1.5, (2, 3, 2, 2)).astype(np.float32)
    found = [
        reference.run(parse_onnx(made, strict=strict), {"x": image, "g": grid})[0]
        for strict in (True, False)
    ]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_instance_norm_of_halves_runs_with_ranges():
    made, options = CASES["instance norm of halves"]
    x = np.arange(12, dtype=np.float16).reshape(2, 2, 3)
    ones, zeros = np.ones(2, np.float16), np.zeros(2, np.float16)
    (found,) = reference.run(parse_onnx(made, **options), {"x": x, "s": ones, "b": zeros})
    row = np.float32([-1.2247, 0, 1.2247])
    np.testing.assert_allclose(found, np.broadcast_to(row, (2, 2, 3)), atol=2e-3)
