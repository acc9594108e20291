"""Each macro: the instructions that it stands for, where they go, and what it refuses."""

import numpy as np
import pytest

from workbench.compiler.errors import OperationError, ShapeError, WorkbenchError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.macros import MACROS, expand
from workbench.compiler.run.reference import run

F = "float_type"


def made(name, *shapes, modules=(), **options):
    """A program of one macro on parameters x, y, z…; a shape is lens of floats unless it is a Shape."""
    program = Program()
    inputs = [
        program.main.add_parameter("xyzuvw"[i], s if isinstance(s, Shape) else Shape(F, s))
        for i, s in enumerate(shapes)
    ]
    results = expand(program.main, None, name, inputs, options, modules)
    return program, results


def lines(name, *shapes, **options):
    """The lines that a macro prints, without shapes."""
    program, _ = made(name, *shapes, **options)
    texts = [t.partition(" -> ")[0] for t in str(program).split("\n")[1:]]
    short = [t.replace(",out_dyn_dims={}", "").replace(",steps={}", "") for t in texts if t]
    return [t for t in short if "@param" not in t]


def test_operands_of_elementwise_operations_broadcast():
    assert lines("add", (2, 4), (2, 1)) == [
        "@2 = multibroadcast[out_lens={2, 4}](y)", "@3 = add(x,@2)",
    ]  # fmt: skip
    assert lines("pow", (2, 4), Shape("half_type", (2, 4))) == [
        "@2 = convert[target_type=2](y)", "@3 = pow(x,@2)",
    ]  # fmt: skip


def test_the_shorter_operand_lies_along_an_axis():
    wanted = ["@2 = broadcast[axis=1,out_lens={2, 3, 4, 5}](y)", "@3 = sub(x,@2)"]
    assert lines("sub", (2, 3, 4, 5), (3, 4), broadcasted_axis=1) == wanted
    wanted = ["@2 = broadcast[axis=1,out_lens={2, 3, 4, 5}](x)", "@3 = sub(y,@2)"]
    assert lines("sub", (3, 4), (2, 3, 4, 5), broadcasted_axis=1) == wanted


def test_operands_with_ranges_all_broadcast():
    ranged = Shape.dynamic(DType.FLOAT, [Dim(1, 4), 4])
    program, _ = made("add", ranged, (1, 4))
    assert [str(i.op) for i in program.main][2:] == [
        "multibroadcast[out_lens={},out_dyn_dims={[1..4], 4}]",
        "multibroadcast[out_lens={},out_dyn_dims={[1..4], 4}]",
        "add",
    ]
    [result] = run(program, {"x": np.ones((3, 4), np.float32), "y": np.ones((1, 4), np.float32)})
    assert result.tolist() == [[2.0] * 4] * 3


def test_batchnorm():
    weights = [Shape(F, (3,))] * 4
    assert lines("batchnorm", Shape("half_type", (2, 3, 4)), *weights) == [
        "@0 = @literal{1.00136e-05}",
        "@6 = unsqueeze[axes={1}](y)", "@7 = unsqueeze[axes={1}](z)",
        "@8 = unsqueeze[axes={1}](u)", "@9 = unsqueeze[axes={1}](v)",
        "@10 = convert[target_type=2](x)", "@11 = multibroadcast[out_lens={2, 3, 4}](@8)",
        "@12 = sub(@10,@11)",
        "@13 = multibroadcast[out_lens={3, 1}](@0)", "@14 = convert[target_type=2](@13)",
        "@15 = add(@9,@14)", "@16 = rsqrt(@15)", "@17 = mul(@6,@16)",
        "@18 = multibroadcast[out_lens={2, 3, 4}](@17)", "@19 = mul(@12,@18)",
        "@20 = multibroadcast[out_lens={2, 3, 4}](@7)", "@21 = add(@19,@20)",
    ]  # fmt: skip


def test_bias_uint8_shifts_and_subtracts():
    byte = Shape("uint8_type", (2,))
    program, results = made("bias_uint8", byte, byte, has_bias=True)
    assert [i.name for i in program.main] == [
        "@literal", "@param", "@param", "convert", "multibroadcast", "add", "convert",
        "convert", "multibroadcast", "add", "convert", "sub",
    ]  # fmt: skip
    assert [r.shape.type for r in results] == [DType.INT8, DType.INT8]
    assert results[1] is program.main.last
    _, [x, same] = made("bias_uint8", byte, byte)
    assert x is same
    _, [x, zero] = made("bias_uint8", Shape("int8_type", (2,)), Shape("int8_type", (2,)))
    assert (x.name, zero.name) == ("@param", "@param")


def test_celu():
    assert lines("celu", (3,), alpha=0.5) == [
        "@0 = @literal{0.5}", "@1 = @literal{1}", "@2 = @literal{0}",
        "@4 = multibroadcast[out_lens={3}](@2)", "@5 = multibroadcast[out_lens={3}](@1)",
        "@6 = multibroadcast[out_lens={3}](@0)", "@7 = max(@4,x)", "@8 = div(x,@6)", "@9 = exp(@8)",
        "@10 = sub(@9,@5)", "@11 = mul(@6,@10)", "@12 = min(@4,@11)", "@13 = add(@7,@12)",
    ]  # fmt: skip


def test_clip_has_either_bound():
    assert lines("clip", (2,), (2,), (2,)) == ["@3 = clip(x,y,z)"]
    assert lines("clip", (2,), (2,)) == ["@2 = max(x,y)"]
    assert lines("clip", (2,)) == ["@1 = identity(x)"]
    program = Program()
    x, high = (program.main.add_parameter(n, Shape(F, (2,))) for n in "xy")
    absent = program.main.add("undefined")
    [result] = expand(program.main, None, "clip", [x, absent, high])
    assert str(result.op) == "min"
    assert result.inputs == (x, high)


def test_convolution_fills_in_what_is_not_given():
    assert lines("convolution", (1, 2, 5, 5), (4, 2, 3, 3), (4,)) == [
        "@3 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,y)",
        "@4 = broadcast[axis=1,out_lens={1, 4, 3, 3}](z)", "@5 = add(@3,@4)",
    ]  # fmt: skip
    [text] = lines("convolution", (1, 2, 5), (4, 2, 2), auto_pad="SAME_UPPER", strides=[2])
    assert "padding={0, 1},stride={2},dilation={1}" in text
    [text] = lines("convolution", (1, 2, 6), (4, 2, 4), auto_pad="SAME_LOWER")
    assert "padding={2, 1}" in text
    ranged = Shape.dynamic(DType.FLOAT, [1, 2, Dim(4, 8)])
    [text] = lines("convolution", ranged, (4, 2, 3), auto_pad="SAME_UPPER")
    assert "padding={0},stride={1},dilation={1},group=1,padding_mode=2" in text


def test_convolution_of_bytes_less_their_zero_points():
    x, w = Shape("uint8_type", (1, 1, 3, 3)), Shape("int8_type", (1, 1, 2, 2))
    one = [Shape("uint8_type", (1,)), Shape("int8_type", (1,))]
    program, _ = made("quant_convolution", x, w, *one)
    random = np.random.default_rng(0)
    values = {
        "x": random.integers(0, 255, (1, 1, 3, 3)).astype(np.uint8),
        "y": random.integers(-9, 9, (1, 1, 2, 2)).astype(np.int8),
        "z": np.array([7], np.uint8),
        "u": np.array([3], np.int8),
    }
    [found] = run(program, values)
    a, b = (values[k].astype(int)[0, 0] - int(values[z][0]) for k, z in (("x", "z"), ("y", "u")))
    wanted = [[int((a[i : i + 2, j : j + 2] * b).sum()) for j in range(2)] for i in range(2)]
    assert found[0, 0].tolist() == wanted
    symmetric, _ = made("quant_convolution", x, w)
    names = [i.name for i in symmetric.main]
    assert names.count("quant_convolution") == 1
    assert names.count("@literal") == 3


def test_quantized_values_per_tensor_per_axis_and_per_block():
    byte = "int8_type"
    assert lines("dequantizelinear", Shape(byte, (4, 3)), (1,), Shape(byte, (1,))) == [
        "@3 = multibroadcast[out_lens={4, 3}](y)", "@4 = multibroadcast[out_lens={4, 3}](z)",
        "@5 = dequantizelinear(x,@3,@4)",
    ]  # fmt: skip
    assert lines("dequantizelinear", Shape(byte, (4, 3)), (3,), axis=-1) == [
        "@2 = unsqueeze[axes={0}](y)", "@3 = multibroadcast[out_lens={4, 3}](@2)",
        "@4 = dequantizelinear(x,@3)",
    ]  # fmt: skip
    assert lines("quantizelinear", (4, 5), Shape("half_type", (4, 3)), output_type=5)[:6] == [
        "@2 = unsqueeze[axes={2}](y)", "@3 = multibroadcast[out_lens={4, 3, 2}](@2)",
        "@4 = reshape[dims={4, 6}](@3)", "@5 = slice[axes={1},starts={0},ends={5}](@4)",
        "@6 = convert[target_type=2](@5)", "@7 = quantizelinear[out_type=5](x,@6)",
    ]  # fmt: skip


def test_quantized_to_four_bits():
    assert lines("quantizelinear", (4, 3), (1,), output_type="fp4x2_type") == [
        "@2 = multibroadcast[out_lens={4, 3}](y)", "@3 = quantizelinear[out_type=2](x,@2)",
        "@4 = pad[mode=0,pads={0, 0, 0, 1},value=0](@3)", "@5 = pack_fp4[axis=1](@4)",
        "@6 = unpack_fp4[axis=1](@5)", "@7 = slice[axes={1},starts={0},ends={3}](@6)",
    ]  # fmt: skip


def test_products_broadcast_their_leading_dimensions():
    assert lines("dot", (2, 1, 3, 4), (5, 4, 6)) == [
        "@2 = multibroadcast[out_lens={2, 5, 3, 4}](x)",
        "@3 = multibroadcast[out_lens={2, 5, 4, 6}](y)", "@4 = dot(@2,@3)",
    ]  # fmt: skip
    assert lines("dot", (3, 4), (4, 6)) == ["@2 = dot(x,y)"]
    ranged = Shape.dynamic(DType.FLOAT, [Dim(1, 4), 3, 4])
    assert lines("dot", ranged, (4, 6)) == [
        "@2 = broadcast_for_dot(x,y)", "@3 = broadcast_for_dot(y,x)", "@4 = dot(@2,@3)",
    ]  # fmt: skip
    byte = [Shape("int8_type", (2, 2))] * 4
    assert lines("quant_dot", *byte) == ["@4 = quant_dot(z,u)"]


def test_gemm():
    half = [Shape("half_type", n) for n in ((3, 1), (4, 3), (1, 1))]
    assert lines("gemm", *half, alpha=0.5, beta=2.0, transA=True, transB=True) == [
        "@0 = @literal{2}", "@1 = @literal{0.5}",
        "@5 = multibroadcast[out_lens={3, 1}](@1)", "@6 = convert[target_type=2](x)",
        "@7 = mul(@5,@6)", "@8 = convert[target_type=1](@7)",
        "@9 = transpose[permutation={1, 0}](@8)", "@10 = transpose[permutation={1, 0}](y)",
        "@11 = dot(@9,@10)", "@12 = multibroadcast[out_lens={1, 4}](z)",
        "@13 = convert[target_type=2](@12)", "@14 = multibroadcast[out_lens={1, 4}](@0)",
        "@15 = mul(@13,@14)", "@16 = convert[target_type=1](@15)", "@17 = add(@11,@16)",
    ]  # fmt: skip
    ranged = [Shape.dynamic(DType.FLOAT, [Dim(1, 4), Dim(1, 4)])] * 2
    assert lines("gemm", *ranged, (1, 1)) == [
        "@3 = dot(x,y)", "@4 = multibroadcast[out_lens={}](z,@3)", "@5 = add(@3,@4)",
    ]  # fmt: skip
    assert lines("gemm", (2, 2), (2, 2), (2, 2), beta=0.0) == ["@3 = dot(x,y)"]


def test_gelu():
    assert lines("gelu_quick", (3,), alpha=2.0) == [
        "@0 = @literal{2}", "@2 = multibroadcast[out_lens={3}](@0)", "@3 = mul(@2,x)",
        "@4 = sigmoid(@3)", "@5 = mul(x,@4)",
    ]  # fmt: skip
    assert lines("gelu_erf", (3,))[:3] == [
        "@0 = @literal{1.41421}", "@1 = @literal{1}", "@2 = @literal{0.5}",
    ]  # fmt: skip
    assert lines("gelu_tanh", (3,))[:5] == [
        "@0 = @literal{3}", "@1 = @literal{0.5}", "@2 = @literal{1}", "@3 = @literal{0.797885}",
        "@4 = @literal{0.044715}",
    ]  # fmt: skip
    names = [t.partition("= ")[2].partition("(")[0] for t in lines("gelu_tanh", (3,), fast=True)]
    plain = [n for n in names if "multibroadcast" not in n and "@" not in n]
    assert plain == ["pow", "mul", "mul", "add", "tanh", "add", "mul", "mul"]
    assert lines("gelu_split", (2, 6))[3:5] == [
        "@4 = slice[axes={-1},starts={0},ends={3}](x)",
        "@5 = slice[axes={-1},starts={3},ends={6}](x)",
    ]  # fmt: skip


def test_mean_variance_normalization():
    assert lines("mean_variance_normalization", (2, 2, 2, 2)) == [
        "@0 = @literal{1e-09}", "@2 = reduce_mean[axes={0, 2, 3}](x)", "@3 = mul(@2,@2)",
        "@4 = mul(x,x)", "@5 = reduce_mean[axes={0, 2, 3}](@4)", "@6 = sub(@5,@3)", "@7 = sqrt(@6)",
        "@8 = multibroadcast[out_lens={2, 2, 2, 2}](@2)", "@9 = sub(x,@8)",
        "@10 = multibroadcast[out_lens={1, 2, 1, 1}](@0)", "@11 = add(@7,@10)",
        "@12 = multibroadcast[out_lens={2, 2, 2, 2}](@11)", "@13 = div(@9,@12)",
    ]  # fmt: skip


def test_an_axis_that_is_named_again_is_the_same_one():
    texts = lines("mean_variance_normalization", (2, 2, 2, 2), axes=[2, 2, 2])
    assert texts[1] == "@2 = reduce_mean[axes={2}](x)"


def test_tile():
    assert lines("tile", (2, 2), repeats=[3, 2]) == [
        "@1 = unsqueeze[axes={0, 2}](x)", "@2 = multibroadcast[out_lens={3, 2, 2, 2}](@1)",
        "@3 = reshape[dims={6, 4}](@2)",
    ]  # fmt: skip
    program, _ = made("tile", Shape.dynamic(DType.FLOAT, [1, Dim(2, 9)]), repeats=(3, 2))
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    assert np.array_equal(run(program, {"x": x})[0], np.tile(x, (3, 2)))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_of_what_is_gathered_already(interleaved):
    program, _ = made(
        "rotary_embedding", (1, 1, 1, 4), *[(1, 1, 1, 4)] * 2, interleaved=interleaved
    )
    x, zero, one = (
        np.array(v, np.float32).reshape(1, 1, 1, 4) for v in ([1, 2, 3, 4], [0] * 4, [1] * 4)
    )
    assert np.array_equal(run(program, {"x": x, "y": one, "z": zero})[0], x)
    turned = [-2, 1, -4, 3] if interleaved else [-3, -4, 1, 2]
    assert run(program, {"x": x, "y": zero, "z": one})[0].reshape(-1).tolist() == turned


POSITIONS = {
    (1, 1): [[1], [1]],
    (2,): [[0, 1], [2, 3]],
    (2, 2): [[3, 1], [0, 2]],
}


@pytest.mark.parametrize("lens", [(1,), (2,), (2, 2)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_at_positions(lens, interleaved):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3, 2, 4)).astype(np.float32)
    tables = [random.standard_normal((5, 2)).astype(np.float32) for _ in range(2)]
    given = np.array([3, 1, 0, 2][: int(np.prod(lens))], np.int32).reshape(lens)
    rows = given if lens == (2, 2) else given[:, None] + np.arange(2)
    rows = np.broadcast_to(rows, (2, 2))
    shapes = [Shape(F, x.shape), Shape("int32_type", lens), Shape(F, (5, 2)), Shape(F, (5, 2))]
    program, _ = made("rotary_embedding", *shapes, interleaved=interleaved)
    [found] = run(program, {"x": x, "y": given, "z": tables[0], "u": tables[1]})
    cosine, sine = (t[rows][:, None] for t in tables)
    pick = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, 2), slice(2, 4))
    wanted = np.empty_like(x)
    a, b = (x[..., p] for p in pick)
    wanted[..., pick[0]] = a * cosine - b * sine
    wanted[..., pick[1]] = b * cosine + a * sine
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_any_other_name_is_that_operation():
    assert lines("relu", (2,)) == ["@1 = relu(x)"]
    assert lines("softmax", (2, 3), axis=0) == ["@1 = softmax[axis=0](x)"]
    ranged = Shape.dynamic(DType.FLOAT, [Dim(1, 4), 4, 5])
    assert lines("flatten", ranged) == ["@1 = contiguous(x)", "@2 = flatten[axis=1](@1)"]


def test_a_macro_can_go_before_an_instruction():
    program = Program()
    x = program.main.add_parameter("x", Shape(F, (3,)))
    relu = program.main.add("relu", x)
    program.main.add_return(relu)
    for name in ("gelu_erf", "celu", "tanh", "tile"):
        options = {"repeats": (2,)} if name == "tile" else {}
        [result] = expand(program.main, relu, name, [x], options)
        assert result.order < relu.order
    [last] = expand(program.main, None, "sub", [relu, x])
    assert relu.order < last.order < program.main.last.order


REFUSED = {
    "no option 'gamma'; it has alpha, beta, transA, transB": ("gemm", [(2, 2), (2, 2)], {"gamma": 1}),
    "option 'alpha' is 'big'": ("gemm", [(2, 2), (2, 2)], {"alpha": "big"}),
    "expected a whole number": ("tile", [(2, 2)], {"repeats": (1.5, 1)}),
    "expected a list": ("tile", [(2, 2)], {"repeats": 2}),
    "rank 1 and 3": ("gemm", [(3,), (3, 3, 3)], {}),
    "1 inputs; expected 2 to 3": ("gemm", [(3, 3)], {}),
    "expected 2 numbers": ("tile", [(2, 2)], {"repeats": [2]}),
    "an even last dimension": ("gelu_split", [(3, 3)], {}),
    "expected 0 axes": ("mean_variance_normalization", [(3,)], {}),
    "expected one dimension or more": ("batchnorm", [Shape(F), *[(3,)] * 4], {}),
    "scale is": ("batchnorm", [(2, 3), (3, 2), *[(3,)] * 3], {}),
    "alpha=0": ("celu", [(3,)], {"alpha": 0.0}),
    "expected float_type": ("celu", [Shape("half_type", (3,))], {}),
    "5 scales for axis 1": ("dequantizelinear", [(4, 3), (5,)], {}),
    "axis 8 is out of range": ("dequantizelinear", [(4, 3), (3,)], {"axis": 8}),
    "as many dimensions": ("dequantizelinear", [(3, 4, 6), (4, 3)], {"block_size": 2}),
    "a difference in axis 1 alone": ("dequantizelinear", [(4, 6), (5, 3)], {"block_size": 2}),
    "expected 2 to 2 for 3 scales": ("dequantizelinear", [(4, 6), (4, 3)], {"block_size": 3}),
    "more than one along axis 1": ("dequantizelinear", [(4, 7), (4, 0)], {"block_size": 2}),
    "3 paddings": ("convolution", [(1, 1, 3, 3), (1, 1, 2, 2)], {"paddings": [1, 1, 1]}),
    "strides [2]": ("convolution", [(1, 1, 3, 3), (1, 1, 2, 2)], {"strides": [2]}),
    "auto_pad='SOME'": ("convolution", [(1, 1, 3), (1, 1, 2)], {"auto_pad": "SOME"}),
    "an even last dimension.": ("rotary_embedding", [(1, 1, 1, 3), (1,), (2, 1), (2, 1)], {}),
    "expected 2 columns": ("rotary_embedding", [(1, 1, 1, 4), (1,), (2, 1), (2, 2)], {}),
    "expected (batch, heads, length, size)": ("rotary_embedding", [(1, 4), (1,), (2, 2), (2, 2)], {}),
    "unknown operation 'gelu'": ("gelu", [(3,)], {}),
    "no attribute 'speed'": ("relu", [(3,)], {"speed": 1}),
}  # fmt: skip


@pytest.mark.parametrize("wanted", REFUSED)
def test_refused(wanted):
    name, shapes, options = REFUSED[wanted]
    with pytest.raises(WorkbenchError) as error:
        made(name, *shapes, **options)
    assert wanted.rstrip(".") in str(error.value)


def test_modules_are_refused():
    program = Program()
    body = program.create_module("body")
    x = program.main.add_parameter("x", Shape(F, (3,)))
    for name in ("clip", "abs"):
        with pytest.raises(OperationError, match="module arguments"):
            expand(program.main, None, name, [x], modules=[body])


def test_a_near_name_is_offered():
    program = Program()
    with pytest.raises(OperationError, match="similar macros: gelu_erf"):
        expand(program.main, None, "gelu_erff", [])


def test_lengths_that_do_not_broadcast():
    ranged = Shape.dynamic(DType.FLOAT, [Dim(2, 4)])
    with pytest.raises(OperationError, match="do not broadcast"):
        made("add", ranged, Shape.dynamic(DType.FLOAT, [Dim(6, 8)]))
    with pytest.raises(ShapeError, match="do not broadcast"):
        made("add", (2,), (3,))


def test_every_macro_says_what_it_is():
    assert all(m.law and m.least for m in MACROS.values())
