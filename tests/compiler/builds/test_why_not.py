"""build.why_not: each reason on a program where it is the reason, and true."""

import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.builds.build import Build
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.module import Instruction

HEAD = 'module: "main"\n'
X = "x = @param:x -> float_type, {4, 6}, {6, 1}\ny = @param:y -> float_type, {4, 6}, {6, 1}\n"
W = "w = @param:w -> float_type, {6, 6}, {6, 1}\n"


def built(text: str, **options) -> Build:
    return wb.compile(wb.parse(HEAD + text), target="cpu", **({"passes": "gpu"} | options))


def named(build: Build, name: str, number: int = 0) -> Instruction:
    return [i for i in build.source.main if i.name == name][number]


def why(text: str, a: str, b: str, **options) -> str:
    build = built(text, **options)
    return build.why_not(named(build, a), named(build, b))


def test_what_is_fused_says_so():
    assert why(X + "a = exp(x)\nb = neg(a)\nr = @return(b)\n", "exp", "neg").startswith(
        "they are one kernel: pointwise @"
    )


def test_a_second_user():
    text = X + W + "a = dot(x,w)\nb = exp(a)\nc = reduce_sum[axes={0}](a)\nr = @return(b,c)\n"
    assert "has other users: fused_reduce @" in why(text, "dot", "exp")


def test_axes():
    text = X + "a = reduce_sum[axes={1}](x)\nb = reduce_max[axes={0}](a)\nr = @return(b)\n"
    found = why(text, "reduce_sum", "reduce_max")
    assert "reduces axes [1]; its user reduces [0]" in found


def test_a_view_that_two_kernels_share_makes_them_no_single_one():
    build = wb.compile(
        wb.trace(lambda x: x / x.sum(axis=0) / x.max(axis=1), x=(8, 8)), "cpu", passes="gpu"
    )
    found = build.why_not(named(build, "reduce_sum"), named(build, "reduce_max"))
    assert "reduces axes" in found
    assert "one kernel" not in found


def test_what_became_a_view_of_a_kernel_is_in_that_kernel():
    program = wb.trace(lambda x: x.relu().sum(axis=0).exp() / 3, x=(8, 8))
    build = wb.compile(program, "cpu", passes="gpu")
    relu, exp, div = (named(build, name) for name in ("relu", "exp", "div"))
    assert build.why_not(relu, exp).startswith("they are one kernel: fused_reduce @")
    assert "the numbers of elements differ" in build.why_not(exp, div)
    text = X + "a = transpose[permutation={1, 0}](x)\nb = neg(a)\nc = mul(b,b)\nr = @return(c,a)\n"
    assert "only says how memory is read" in why(text, "transpose", "neg")


def test_a_shape_between():
    text = (
        X + "a = exp(x)\nt = slice[axes={1},starts={1},ends={3}](a)\nb = neg(t)\nr = @return(a,b)\n"
    )
    found = why(text, "exp", "neg")
    assert "lens [4, 6]" in found or "other users" in found


def test_what_lies_between():
    text = X + W + "a = exp(x)\nb = dot(a,w)\nc = softmax[axis=1](b)\nr = @return(c,a)\n"
    found = why(text, "exp", "softmax")
    assert "between them lies" in found
    assert "dot" in found


def test_nothing_in_common():
    text = X + "a = exp(x)\nb = neg(y)\nr = @return(a,b)\n"
    assert why(text, "exp", "neg") == (
        "neither needs what the other computes, and they read nothing in common"
    )


def test_a_shared_input():
    text = X + "a = reduce_sum[axes={1}](x)\nb = reduce_max[axes={0}](x)\nr = @return(a,b)\n"
    assert "both read @param" in why(text, "reduce_sum", "reduce_max")


def test_an_operation_that_stands_alone():
    text = (
        X
        + "i = @param:i -> int64_type, {2}, {1}\na = exp(x)\nb = gather[axis=0](a,i)\nr = @return(b)\n"
    )
    assert "gather @" in why(text, "exp", "gather")
    assert "stands alone" in why(text, "exp", "gather")


def test_an_input_is_no_kernel():
    build = built(X + "a = exp(x)\nr = @return(a)\n")
    x = build.source.main.parameters["x"]
    assert "is given, not computed" in build.why_not(x, named(build, "exp"))


def test_a_pass_that_did_not_run():
    text = X + "a = exp(x)\nb = neg(a)\nr = @return(b)\n"
    found = why(text, "exp", "neg", passes="optimize_module")
    assert "the pipeline did not run fuse_pointwise" in found
    text = X + W + "a = dot(x,w)\nb = exp(a)\nr = @return(b)\n"
    assert "did not run fuse_gemm_epilogue" in why(text, "dot", "exp", passes="optimize")


def test_what_is_gone():
    text = X + "a = neg(x)\nb = neg(y)\nc = mul(b,b)\nr = @return(a)\n"
    found = why(text, "neg", "mul", passes=["dead_code_elimination", "fuse_pointwise"])
    assert "is gone: remove_unused of dead_code_elimination" in found
    text = (
        X + "a = @literal{1, 2} -> float_type, {2}, {1}\nb = exp(a)\nc = neg(x)\nr = @return(b,c)\n"
    )
    assert "is computed before a run: it became @literal @" in why(text, "neg", "exp")


def test_two_products():
    text = X + W + "a = dot(x,w)\nb = exp(a)\nc = dot(b,w)\nd = neg(c)\nr = @return(d)\n"
    assert "each hold a product" in why(text, "dot", "neg")


def test_a_product_that_reads_a_turned_operand():
    text = (
        X
        + W
        + (
            "q = @param:q -> float_type, {2, 3, 4}, {12, 4, 1}\n"
            "t = transpose[permutation={2, 0, 1}](q)\n"
            "s = reshape[dims={4, 6}](t)\n"
            "a = dot(s,w)\nb = exp(a)\nc = neg(a)\nr = @return(b,c)\n"
        )
    )
    assert "has several results" in why(text, "dot", "exp")


def test_work_after_attention():
    x = "float_type, {1, 2, 4, 4}, {32, 16, 4, 1}\n"
    text = (
        f"q = @param:q -> {x}k = @param:k -> {x}v = @param:v -> {x}"
        "a = dot(q,k)\nb = softmax[axis=3](a)\nc = dot(b,v)\nd = exp(c)\nr = @return(d)\n"
    )
    assert "is attention, which takes no work" in why(text, "dot", "exp")


def test_nodes_by_name_and_by_id():
    program = wb.parse_onnx(MODELS["small_encoder"].path)
    build = wb.compile(program, target="cpu", passes="gpu")
    dots = [i for i in program.main if i.name == "dot"]
    assert build.why_not(dots[0].sources[0], dots[-1].id)
    with pytest.raises(GraphError, match="no instruction comes from a node 'nothing'"):
        build.why_not("nothing", dots[0])
    with pytest.raises(GraphError, match="no instruction #123456"):
        build.why_not(123456, dots[0])


def test_every_pair_of_kernels_has_an_answer_and_neighbours_are_named():
    program = wb.parse_onnx(MODELS["small_encoder"].path)
    build = wb.compile(program, target="cpu", passes="gpu")
    kernels = [i for i in build.program.main if i.inputs and not i.name.startswith("@")]
    for a in kernels:
        for b in kernels:
            found = build.why_not(a, b)
            assert found
            if a is not b:
                assert "would fuse" not in found, found
