"""Convolutions, poolings, products and the like give what onnxruntime gives."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.pool import PoolingMode
from workbench.compiler.ops.windows import PaddingMode, Window

SILENT = onnxruntime.SessionOptions()
SILENT.log_severity_level = 4
SILENT.intra_op_num_threads = 1


def onnx_outputs(
    op_type: str, *inputs: np.ndarray | None, count: int = 1, **attributes: Any
) -> Any:
    """The outputs of one node in onnxruntime; an input that is None is left out."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(count)]
    node = helper.make_node(op_type, names, [y.name for y in outputs], **attributes)
    graph = helper.make_graph([node], "g", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), SILENT, providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)


def onnx_run(op_type: str, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray:
    """The first output of one node."""
    return onnx_outputs(op_type, *inputs, **attributes)[0]


def checked(op: Operation, *inputs: np.ndarray) -> np.ndarray:
    """The value; it must have the lens and type that the shape rule says, normalised or not."""
    shapes = [Argument.of(x).shape for x in inputs]
    shape, value = op.compute_shape(shapes), op.compute(*inputs)
    again = op.normalized(shapes)
    assert again.compute_shape(shapes) == shape
    np.testing.assert_array_equal(again.compute(*inputs), value)
    assert value.dtype == shape.type.numpy
    assert shape.dims is not None or value.shape == shape.lens
    return value


def noise(*lens: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens, np.float32)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


small = st.integers(1, 3)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    each = lambda s: tuple(draw(st.lists(s, min_size=rank, max_size=rank)))  # noqa: E731
    return {
        "lens": each(st.integers(3, 9)),
        "size": each(small),
        "stride": each(small),
        "dilation": each(st.integers(1, 2)),
        "begin": each(st.integers(0, 2)),
        "end": each(st.integers(0, 2)),
    }


@given(
    windows(),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([(1, 1), (2, 2), (3, 1), (1, 4)]),
)
def test_convolution(w: dict[str, Any], batch: int, channels: int, groups: tuple[int, int]):
    group, each = groups
    spans = [(k - 1) * d + 1 for k, d in zip(w["size"], w["dilation"], strict=True)]
    sides = zip(w["lens"], w["begin"], w["end"], spans, strict=True)
    assume(all(n + b + e >= k for n, b, e, k in sides))
    x = noise(batch, group * channels, *w["lens"])
    weights = noise(group * each, channels, *w["size"], seed=1)
    padding = w["begin"] + w["end"]
    op = make(
        "convolution", padding=padding, stride=w["stride"], dilation=w["dilation"], group=group
    )
    found = checked(op, x, weights)
    wanted = onnx_run(
        "Conv", x, weights,
        pads=padding, strides=w["stride"], dilations=w["dilation"], group=group,
    )  # fmt: skip
    same(found, wanted)
    np.testing.assert_allclose(op.compute(np.asfortranarray(x), weights), found, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("mode", "auto"),
    [(PaddingMode.SAME_UPPER, "SAME_UPPER"), (PaddingMode.SAME_LOWER, "SAME_LOWER")],
)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding(mode: PaddingMode, auto: str, stride: int):
    x, w, strides = noise(1, 2, 8, 7), noise(3, 2, 3, 2), (stride, stride)
    op = make("convolution", padding_mode=mode, stride=strides)
    same(checked(op, x, w), onnx_run("Conv", x, w, auto_pad=auto, strides=strides))
    op = make("pooling", mode=PoolingMode.MAX, lengths=(3, 2), padding_mode=mode, stride=strides)
    wanted = onnx_run("MaxPool", x, auto_pad=auto, strides=strides, kernel_shape=(3, 2))
    same(checked(op, x), wanted)


def test_large_columns_are_made_a_few_rows_at_a_time():
    x, w = noise(2, 32, 70, 90), noise(8, 16, 3, 3)
    op = make("convolution", padding=(1, 1), group=2)
    same(checked(op, x, w), onnx_run("Conv", x, w, pads=(1, 1, 1, 1), group=2))


@pytest.mark.parametrize("type", [np.float16, np.int8, np.int32, np.float64])
def test_convolution_of_other_types_rounds_once(type: Any):
    x, w = (np.round(v * 9).astype(type) for v in (noise(1, 4, 6, 6), noise(2, 4, 3, 3)))
    wide = make("convolution").compute(x.astype(np.float64), w.astype(np.float64))
    found = checked(make("convolution"), x, w)
    np.testing.assert_array_equal(
        found, wide.astype(np.int64).astype(type) if type == np.int8 else wide
    )


def test_quantised_products_are_exact():
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-128, 128, (2, 5, 4000), np.int8),
        rng.integers(-128, 128, (2, 4000, 3), np.int8),
    )
    found = checked(make("quant_dot"), a, b)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))
    x, w = (
        rng.integers(-128, 128, (1, 6, 7, 7), np.int8),
        rng.integers(-128, 128, (4, 6, 3, 3), np.int8),
    )
    wanted = make("convolution").compute(x.astype(np.int64), w.astype(np.int64))
    np.testing.assert_array_equal(checked(make("quant_convolution"), x, w), wanted)
    huge = np.full((1, 3), 1 << 62)
    np.testing.assert_array_equal(make("dot").compute(huge, huge.T), [[0]])


@given(windows(), st.integers(1, 2), st.integers(1, 2))
def test_convolution_backwards(w: dict[str, Any], group: int, channels: int):
    lens = [min(n, 5) for n in w["lens"]]
    padding = tuple(min(b, e) for b, e in zip(w["begin"], w["end"], strict=True))
    parts = zip(lens, w["stride"], w["size"], w["dilation"], padding, strict=True)
    assume(all((n - 1) * s + (k - 1) * d + 1 - 2 * p >= 1 for n, s, k, d, p in parts))
    x = noise(2, group * channels, *lens)
    weights = noise(group * channels, 3, *w["size"], seed=1)
    attributes = {"stride": w["stride"], "dilation": w["dilation"], "group": group}
    found = checked(make("convolution_backwards", padding=padding, **attributes), x, weights)
    wanted = onnx_run(
        "ConvTranspose", x, weights,
        pads=padding * 2, strides=w["stride"], dilations=w["dilation"], group=group,
    )  # fmt: skip
    same(found, wanted)


KINDS = {
    "AveragePool": PoolingMode.AVERAGE,
    "MaxPool": PoolingMode.MAX,
    "LpPool": PoolingMode.LPNORM,
}


@given(windows(), st.sampled_from(sorted(KINDS)), st.booleans(), st.booleans())
def test_pooling(w: dict[str, Any], kind: str, ceil: bool, count: bool):
    begin = tuple(min(b, k - 1) for b, k in zip(w["begin"], w["size"], strict=True))
    end = tuple(min(e, k - 1) for e, k in zip(w["end"], w["size"], strict=True))
    full = Window(w["lens"], w["size"], w["stride"], w["dilation"], begin, end, ceil)
    assume(min(Window(*vars_of(full), False).output) > 0)
    # onnxruntime drops windows that begin in the padding behind the input; the importer does too.
    sides = zip(full.output, full.stride, full.input, begin, strict=True)
    assume(all((o - 1) * s < n + b for o, s, n, b in sides))
    x = noise(2, 3, *w["lens"])
    attributes: dict[str, Any] = {"count_include_pad": int(count)} if kind == "AveragePool" else {}
    op = make(
        "pooling", mode=KINDS[kind], padding=begin + end, stride=w["stride"], lengths=w["size"],
        dilations=w["dilation"], ceil_mode=ceil, count_include_pad=count,
    )  # fmt: skip
    wanted = onnx_run(
        kind, x, kernel_shape=w["size"], pads=begin + end, strides=w["stride"],
        dilations=w["dilation"], ceil_mode=int(ceil), **attributes,
    )  # fmt: skip
    same(checked(op, x), wanted)


def vars_of(window: Window) -> list[Any]:
    return [getattr(window, k) for k in ("input", "size", "stride", "dilation", "begin", "end")]


def test_pooling_over_everything():
    x = noise(2, 3, 5, 4)
    whole = make("pooling", mode=PoolingMode.MAX, dyn_global=True)
    same(checked(whole, x), onnx_run("GlobalMaxPool", x))
    same(checked(make("pooling", dyn_global=True), x), onnx_run("GlobalAveragePool", x))
    same(checked(make("pooling", lengths=(5, 4)), x), onnx_run("GlobalAveragePool", x))


def test_maximum_of_minus_infinity_and_of_padding():
    x = np.full((1, 1, 2, 2), -np.inf, np.float32)
    op = make("pooling", mode=PoolingMode.MAX, lengths=(2, 2), padding=(1, 1))
    assert np.isneginf(op.compute(x)).all()


@given(
    st.lists(small, max_size=2),
    st.lists(small, max_size=2),
    small,
    small,
    st.integers(1, 40),
    st.booleans(),
)
def test_dot_takes_any_strides(
    outer: list[int], inner: list[int], m: int, n: int, k: int, repeated: bool
):
    lens = outer + inner
    a = noise(k, m, *lens).transpose(*range(2, len(lens) + 2), 1, 0)
    b = noise(k, n, seed=2)[:, ::-1] if repeated else noise(*lens, n, k, seed=3).swapaxes(-1, -2)
    b = np.broadcast_to(b, (*lens, k, n))
    found = checked(make("dot"), a, b)
    np.testing.assert_allclose(found, np.einsum("...mk,...kn->...mn", a, b), 1e-4, 1e-4)
    half = checked(make("dot"), a.astype(np.float16), b.astype(np.float16))
    wide = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(half, wide, 1e-3, 2e-3)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [((2, 3), (4, 2), "inner"), ((2, 3, 4), (3, 4, 5), "outer"), ((2, 3), (1, 3, 2), "dimensions")],
)
def test_dot_refuses(a: tuple[int, ...], b: tuple[int, ...], said: str):
    with pytest.raises(ShapeError, match=said):
        make("dot").compute_shape([Shape("float", a), Shape("float", b)])


def test_shapes_of_ranges():
    def dims(name: str, *inputs: Shape, **attributes: Any) -> str:
        return str(make(name, **attributes).compute_shape(inputs))

    x = Shape.dynamic("float", [1, 5, Dim(5, 20), Dim(5, 20)])
    w = Shape.dynamic("float", [1, 5, Dim(2, 4), Dim(2, 4)])
    assert dims("convolution", x, w) == "dynamic, float_type, {1, 1, [2..19], [2..19]}"
    y = Shape.dynamic("float", [1, 3, Dim(4, 12, (8,)), 4])
    op = make("pooling", lengths=(3, 3), stride=(3, 3))
    assert op.compute_shape([y]).dims == (Dim(1, 1), Dim(3, 3), Dim(1, 4, (2,)), Dim(1, 1))
    a, b = Shape.dynamic("float", [Dim(1, 20), 4, 5]), Shape("float", (1, 5, 6))
    assert dims("dot", a, b) == "float_type, {1, 4, 6}, {24, 6, 1}"
    r = Shape.dynamic("float", [Dim(1, 4), 24, Dim(2, 8), Dim(2, 8)])
    assert (
        dims("reshape", r, dims=(0, 12, 0, -1))
        == "dynamic, float_type, {[1..4], 12, [2..8], [4..16]}"
    )


@pytest.mark.parametrize(
    ("lens", "strides", "dims", "wanted"),
    [
        ((4, 24), (1, 4), (4, 4, 6), (1, 24, 4)),
        ((4, 16), (1, 4), (64,), (1,)),
        ((2, 3, 4), (12, 4, 1), (6, 4), (4, 1)),
        ((3, 4), (0, 1), (12,), (1,)),
    ],
)
def test_reshape_keeps_the_order_of_axes(lens: Any, strides: Any, dims: Any, wanted: Any):
    found = make("reshape", dims=dims).compute_shape([Shape("float", lens, strides)])
    assert (found.lens, found.strides) == (dims, wanted)


def test_a_lazy_reshape_refuses_to_move_elements():
    with pytest.raises(ShapeError, match="without a copy"):
        make("reshape_lazy", dims=(24,)).compute_shape([Shape("float", (4, 6), (1, 4))])


def test_channels_last_stays_channels_last():
    x = Shape("float", (1, 8, 5, 5), (200, 1, 40, 8))
    for op, more in (
        ("convolution", [Shape("float", (4, 8, 3, 3))]),
        ("pooling", []),
        ("softmax", []),
    ):
        assert make(op).compute_shape([x, *more]).permutation == (0, 2, 3, 1)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gathers_and_scatters(axis: int):
    x, index = noise(4, 5, 6), np.array([[0, -1], [2, 1]])
    same(checked(make("gather", axis=axis), x, index), onnx_run("Gather", x, index, axis=axis))
    spots = np.random.default_rng(0).integers(-4, 4, (3, 4, 5))
    for mode in ("none", "add", "mul", "min", "max"):
        updates = noise(3, 4, 5, seed=4)
        found = checked(make(f"scatter_{mode}", axis=axis), x, spots, updates)
        if mode != "none":
            wanted = onnx_run("ScatterElements", x, spots, updates, axis=axis, reduction=mode)
            same(found, wanted)
    with pytest.raises(EvaluationError, match="out of range"):
        make("gather", axis=axis).compute(x, np.array([9]))
    with pytest.raises(EvaluationError, match="out of range"):
        make("scatter_add", axis=axis).compute(x, np.full((1, 1, 1), 9), noise(1, 1, 1))


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_gathernd(batch: int):
    x = noise(2, 3, 4, 5)
    index = np.random.default_rng(0).integers(-2, 2, (2, 3, 2, 2))
    found = checked(make("gathernd", batch_dims=batch), x, index)
    same(found, onnx_run("GatherND", x, index, batch_dims=batch))


def test_a_scalar_index_takes_the_axis_away():
    data, op = Shape("float", (3, 4)), make("gather", axis=1)
    assert op.compute_shape([data, Argument.of(np.array(2)).shape]) == Shape("float", (3,))
    assert op.compute_shape([data, Shape("int64", (1,))]) == Shape("float", (3, 1))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "where", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
def test_resize(mode: str, where: str):
    x = noise(1, 2, 5, 4)
    for sizes in ((1, 2, 8, 7), (1, 2, 3, 1)):
        op = make("resize", sizes=sizes, mode=mode, coordinate_transformation_mode=where)
        wanted = onnx_run(
            "Resize", x, None, None, np.array(sizes),
            mode=mode, coordinate_transformation_mode=where, nearest_mode="floor",
        )  # fmt: skip
        same(checked(op, x), wanted)


def test_lrn_topk_and_prefix_sums():
    x = noise(2, 7, 3, 4)
    for size in (1, 3, 5):
        op = make("lrn", size=size, alpha=0.3, beta=0.6, bias=2.0)
        same(checked(op, x), onnx_run("LRN", x, size=size, alpha=0.3, beta=0.6, bias=2.0))
    for largest in (0, 1):
        found = make("topk", k=3, axis=1, largest=bool(largest)).compute(np.round(x))
        wanted = onnx_outputs("TopK", np.round(x), np.array([3]), count=2, axis=1, largest=largest)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            op = make("prefix_scan_sum", axis=1, exclusive=bool(exclusive), reverse=bool(reverse))
            wanted = onnx_run("CumSum", x, np.array(1), exclusive=exclusive, reverse=reverse)
            same(checked(op, x), wanted)


def test_roialign_of_a_region_that_runs_backwards():
    op = make(
        "roialign", output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.9,
        mode=PoolingMode.AVERAGE,
    )  # fmt: skip
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 4, 3)
    region = np.array([[0.1, 1.73, 0.8, 1.13]], np.float32)
    found = op.compute(x, region, np.array([0]))
    expected = [[2.9009998, 2.9716249], [2.3609998, 2.4316247], [1.8209997, 1.8916247]]
    assert np.allclose(found[0, 0], expected, rtol=1e-5)  # as onnxruntime has it


def test_roialign_and_suppression():
    x, rois = (
        noise(2, 3, 9, 8),
        np.array([[0, 0, 5, 4], [1.5, 2, 7, 8.5], [3, 3, 3.4, 3.2]], np.float32),
    )
    batch = np.array([0, 1, 1])
    for where in ("half_pixel", "output_half_pixel"):
        for ratio in (0, 2):
            op = make(
                "roialign", coordinate_transformation_mode=where, output_height=2, output_width=3,
                sampling_ratio=ratio, spatial_scale=0.9,
            )  # fmt: skip
            wanted = onnx_run(
                "RoiAlign", x, rois, batch, coordinate_transformation_mode=where, mode="avg",
                output_height=2, output_width=3, sampling_ratio=ratio, spatial_scale=0.9,
            )  # fmt: skip
            same(checked(op, x, rois, batch), wanted)
    rng = np.random.default_rng(0)
    boxes, scores = rng.random((2, 9, 4), np.float32), rng.random((2, 3, 9), np.float32)
    limits = [np.array([4]), np.array([0.3], np.float32), np.array([0.25], np.float32)]
    for center in (0, 1):
        op = make("nonmaxsuppression", use_dyn_output=True, center_point_box=bool(center))
        wanted = onnx_run("NonMaxSuppression", boxes, scores, *limits, center_point_box=center)
        np.testing.assert_array_equal(op.compute(boxes, scores, *limits), wanted)
