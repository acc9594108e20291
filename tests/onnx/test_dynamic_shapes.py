"""Models imported with ranges of dimensions: one program for every length in them."""

import fnmatch
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx import cases, cases_heavy, cases_recurrent, dynamic
from tests.onnx.models import Case, floats, model
from workbench.compiler.builds.build import compile
from workbench.compiler.errors import EvaluationError, InputError, ModelError
from workbench.compiler.files.archive import load, save
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ir.validate import validate
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference
from workbench.compiler.text.parsing import parse

PARTS = 8

# Node cases of onnx's suite that do not run with ranges, and why.
NOT_YET = {
    "test_affine_grid_*": "the sizes of the grid follow from values, and have to fit the matrices'",
    "test_bernoulli*": "random, whatever the dimensions",
    "test_*deform_conv_*": "taps are laid out by the length of the kernel and of the image",
    "test_training_dropout*": "numbers are drawn once, for fixed lengths",
    "test_quantizelinear_blocked_*": "how many blocks there are decides which scale is whose",
    "test_dequantizelinear_blocked": "how many blocks there are decides which scale is whose",
    "test_quantizelinear_float4e2m1": "pairs are packed along an axis of fixed length",
    "test_resize_tf_crop_*": "crops of all axes are worked out from fixed lengths",
    "test_resize_downsample_sizes_*_antialias": "sizes of all axes need fixed lengths",
    "test_maxunpool_export_with_output_shape": "margins are worked out from fixed lengths",
    "test_tfidfvectorizer_*": "the windows of words are counted for fixed lengths",
    "test_ada*": "an operator for training",
    "test_*momentum*": "an operator for training",
}


@cache
def every_case():
    return list(dynamic.cases())


@pytest.mark.parametrize("part", range(PARTS))
def test_node_cases_run_with_ranges(part: int):
    """Wherever a case fails that is not listed, its name and the error are shown."""
    failed: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for case in every_case()[part::PARTS]:
        known = any(fnmatch.fnmatch(case.name, pattern) for pattern in NOT_YET)
        try:
            with np.errstate(all="ignore"):
                counts[dynamic.check(case).level] += 1
        except Exception as error:  # whatever it fails with is reported
            if not known or not isinstance(error, ModelError | AssertionError):
                failed[case.name] = f"{type(error).__name__}: {error}"
    assert not failed
    assert counts["every"] > 0.8 * counts.total()  # every dimension is a range in most of them


TABLES = [
    table
    for module in (cases, cases_heavy, cases_recurrent)
    for name, table in vars(module).items()
    if name.isupper() and name[0] != "_" and isinstance(table, list)
]


@pytest.mark.parametrize("case", [c for table in TABLES for c in table], ids=str)
def test_ranges_change_no_result(case: Case):
    """An import with ranges computes the same as an import with lengths, or says what it needs."""
    made, arrays = case.model(), case.arrays()
    given = {k: v for k, v in arrays.items() if int(k[1:]) not in case.fixed}
    wanted = reference.run(parse_onnx(made), given)
    refused, program = "", None
    try:
        program = dynamic.imported(made, given)
    except ModelError as error:
        refused = str(error)
    if program is None:
        assert "the node" in refused
        assert not any(word in refused for word in ("IndexError", "KeyError", "AttributeError"))
        return
    found = dynamic.run(program, given)
    for have, want in zip(found, wanted, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(
            have.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-6
        )


# One program for many lengths


def declared(name: str, *dims: str | int, type: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, dims)


def heads() -> Program:
    """Tokens split into heads and joined again, by lengths that are computed in the graph."""
    nodes = [
        helper.make_node("Shape", ["x"], ["lens"]),
        helper.make_node("Slice", ["lens", "zero", "two"], ["front"]),
        helper.make_node("Concat", ["front", "tail"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["h"]),
        helper.make_node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Softmax", ["t"], ["s"], axis=-1),
        helper.make_node("Transpose", ["s"], ["u"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["front", "rest"], ["join"], axis=0),
        helper.make_node("Reshape", ["u", "join"], ["v"]),
        helper.make_node("Mul", ["v", "x"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
    ]
    weights = [
        helper.make_tensor(n, TensorProto.INT64, [len(v)], v)
        for n, v in {"zero": [0], "two": [2], "tail": [4, 2], "rest": [-1]}.items()
    ]
    weights.append(helper.make_tensor("bias", TensorProto.FLOAT, [8], range(8)))
    made = model(nodes, [declared("x", "batch", "length", 8)], ["y"], weights)
    return parse_onnx(made, dim_params={"batch": Dim(1, 4), "length": Dim(1, 16)})


def expected(x: np.ndarray) -> np.ndarray:
    split = np.exp(x.reshape(*x.shape[:2], 4, 2).astype(np.float64))
    soft = split / split.sum(-1, keepdims=True)
    return soft.reshape(x.shape) * x + np.arange(8)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_one_program_runs_at_every_size(target: str):
    build = compile(heads(), target=target)
    for batch, length in ((1, 1), (4, 16), (3, 5)):
        x = np.random.default_rng(batch).standard_normal((batch, length, 8)).astype(np.float32)
        np.testing.assert_allclose(build.run({"x": x})["y"], expected(x), rtol=1e-5)


def test_lengths_keep_their_names_through_a_graph():
    (result,) = heads().outputs
    assert [d.name for d in result.shape.dims or ()] == ["batch", "length", ""]
    assert "reshape_with_dims" not in str(heads())  # 0 and −1 say it all


def test_elementwise_work_is_fused():
    program = compile(heads(), target="cpu").program
    names = [i.op.name for i in program.main]
    assert names.count("pointwise") == 1
    assert not {"add", "mul"} & set(names)
    validate(program)


def test_text_and_files_keep_dynamic_programs(tmp_path: Path):
    program = heads()
    assert str(parse(str(program))) == str(program)
    save(program, tmp_path / "p.wb")
    loaded = load(tmp_path / "p.wb")
    assert isinstance(loaded, Program)
    assert str(loaded) == str(program)
    assert [d.name for d in loaded.parameters["x"].dims or ()] == ["batch", "length", ""]


def test_a_length_outside_of_its_range_is_refused():
    with pytest.raises(InputError, match=r"expected shape dynamic, float_type, \{\[1..4\]"):
        reference.run(heads(), {"x": np.zeros((5, 1, 8), np.float32)})


def test_lengths_of_one_name_have_to_be_equal():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    made = model(nodes, [declared("a", "n"), declared("b", "n")], ["y"])
    program = parse_onnx(made, dim_params={"n": Dim(1, 9)})
    assert "multibroadcast" not in str(program)
    with pytest.raises(InputError, match="'b': axis 0 has length 3; expected 2"):
        reference.run(program, {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})


def test_ranges_that_allow_1_broadcast():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    made = model(nodes, [floats("a", 2), floats("b", 2)], ["y"])
    program = parse_onnx(made, map_dyn_input_dims={"a": [Dim(1, 3)], "b": [Dim(1, 8)]})
    one, many = np.ones(1, np.float32), np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(reference.run(program, {"a": one, "b": many})[0], many + 1)
    with pytest.raises(EvaluationError, match="multibroadcast"):
        reference.run(program, {"a": np.ones(2, np.float32), "b": many})


def test_what_needs_a_fixed_length_says_so():
    nodes = [helper.make_node("GridSample", ["x", "g"], ["y"], name="sampler")]
    made = model(nodes, [floats("x", 1, 1, 4, 4), floats("g", 1, 2, 2, 2)], ["y"])
    with pytest.raises(ModelError, match=r"sampler.*spatial axes.*expected fixed"):
        parse_onnx(made, map_dyn_input_dims={"x": [1, 1, Dim(1, 4), 4], "g": [1, 2, 2, 2]})


def test_computed_sizes_of_a_split_have_to_add_up():
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> agraph (float[6] x, int64[2] s) => '
        "(float[a] p, float[b] q) { p, q = Split <axis = 0> (x, s) }"
    )
    program = parse_onnx(made)
    x = np.arange(6, dtype=np.float32)
    for count in (0, 2, 6):
        parts = reference.run(program, {"x": x, "s": np.array([count, 6 - count])})
        assert [len(p) for p in parts] == [count, 6 - count]
    for sizes in ([2, 3], [5, 2]):
        with pytest.raises(EvaluationError, match="Split_0"):
            reference.run(program, {"x": x, "s": np.array(sizes)})
