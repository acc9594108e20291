"""Graphs: names, order, lengths, constants, lineage, and every documented error."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.compat.aitemplate.frontend.graphs import given, output, run
from workbench.compat.aitemplate import AITData
from workbench.compat.aitemplate.frontend import (
    REFERENCE,
    AITDebugSettings,
    IntImm,
    IntVar,
    Tensor,
    compile_model,
    compiling,
    detect_target,
    lower,
    ops,
)
from workbench.compat.aitemplate.frontend.data import (
    HostConstantTensorData,
    NumpyConstantTensorData,
    TorchConstantTensorData,
)
from workbench.compat.aitemplate.frontend.ops import FuncEnum
from workbench.compat.aitemplate.frontend.tensor import create_host_zero_tensor

MUL, ADD = FuncEnum.MUL, FuncEnum.ADD
X = np.arange(6, dtype=np.float16).reshape(2, 3)


def x(name: str | None = "x", **attributes: Any) -> Tensor:
    """An input of shape (2, 3)."""
    return Tensor([2, 3], name, is_input=True, **attributes)


def bounds(tensor: Tensor) -> list[Any]:
    """The lengths; those that are ranges by their bounds."""
    return [n.dim.min if n.is_fixed else (n.lower_bound(), n.upper_bound()) for n in tensor.shape()]


def test_a_tensor_has_the_attributes_that_it_was_made_with():
    t = Tensor([2, IntImm(3), IntVar([1, 4], "n")], "t", dtype="float", is_input=True)
    assert (t.dtype(), t.is_input, t.is_output, t.name) == ("float32", True, False, "t")
    assert [n.symbolic_value() for n in t.shape()] == [2, 3, "n"]
    assert t.size_bytes() == 4 * 2 * 3 * 4
    assert t._attrs["shape"][2]._attrs["values"] == [1, 4]
    assert t.size_bytes(alignment=64) == 128
    y = ops.elementwise(ADD)(t, 1)
    assert t.dst_ops() == y.src_ops()
    assert [o._attrs["op"] for o in y.src_ops()] == ["elementwise"]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Tensor([1], dtype="float64"), ValueError, "Unsupported dtype 'float64'"),
        (lambda: Tensor(["a"]), TypeError, "an int or an IntVar"),  # pyright: ignore[reportArgumentType]
        (lambda: IntVar([]), ValueError, "one or more numbers"),
        (lambda: IntVar([-1, 2]), ValueError, "none negative"),
        (lambda: IntImm(1.5), TypeError, "only takes an int"),  # pyright: ignore[reportArgumentType]
        (lambda: ops.elementwise("ADD")(x(), 1), ValueError, "not a FuncEnum"),
        (lambda: ops.elementwise(ADD)(x()), ValueError, "ADD of 1 operands; expected 2"),
        (lambda: ops.elementwise(ADD)(1, 2), ValueError, "no operand is a Tensor"),
        (lambda: ops.elementwise(ADD)(x(), "1"), ValueError, "operand 1 is '1'"),
        (lambda: ops.elementwise(ADD)(x(), x(dtype="int64")), ValueError, "expected one dtype"),
        (lambda: ops.elementwise(ADD)(x(), Tensor([4])), ValueError, "do not broadcast"),
        (lambda: ops.clamp()(x()), ValueError, "expected one of them"),
        (lambda: ops.where()(x(), 1, 2), ValueError, "expected bool"),
        (lambda: ops.cast()(x(), "int8"), ValueError, "Unsupported dtype"),
        (lambda: ops.gemm_rcr()(x(), Tensor([5, 4])), ValueError, r"gemm_rcr: of .* \(line"),
        (
            lambda: ops.gemm_rcr()(x(), Tensor([5, 3], dtype="float32")),
            ValueError,
            "expected float16",
        ),
        (lambda: ops.gemm_rcr_bias()(x(), Tensor([5, 3])), ValueError, "2 operands; expected 3"),
        (lambda: ops.gemm_rcr()(x(), Tensor([3])), ValueError, "expected rank 2"),
        (lambda: ops.bmm_rrr()(Tensor([3]), Tensor([2, 3, 1])), ValueError, "expected rank 2 or 3"),
        (lambda: ops.conv2d(1, 0)(x(), Tensor([1, 1, 1, 1])), ValueError, "expected rank 4"),
        (lambda: ops.max_pool2d(1, 1, 0)(x()), ValueError, "expected rank 4"),
        (
            lambda: ops.layernorm()(x(), normalized_shape=[2]),
            ValueError,
            "lengths of its last axes",
        ),
        (lambda: ops.group_norm(2, 3), ValueError, "divisible by num_groups"),
        (lambda: ops.group_norm(1, 2)(x()), ValueError, "expected 2 channels"),
        (lambda: ops.reduce_sum(2)(x()), ValueError, "expected different axes"),
        (lambda: ops.reduce_sum([0, 0])(x()), ValueError, "expected different axes"),
        (lambda: ops.vector_norm(1, 0), ValueError, "unsupported ord_kind"),
        (lambda: ops.topk(4)(x()), ValueError, "topk: of"),
        (lambda: ops.concatenate()([]), ValueError, "no inputs"),
        (lambda: ops.concatenate()([x(), Tensor([2])]), ValueError, "expected one rank"),
        (lambda: ops.concatenate()([x(), Tensor([3, 3])], 1), ValueError, "concatenate: of"),
        (lambda: ops.split()(x(), [1, 1], 1), ValueError, "add up to 3"),
        (lambda: ops.split()(Tensor([IntVar([1, 2])]), 1), ValueError, "fixed length"),
        (lambda: ops.split()(x(), 0), ValueError, "expected 1 or more"),
        (lambda: ops.dynamic_slice()(x(), [0], [1]), ValueError, "expected 2 of each"),
        (lambda: ops.index_select(0)(x(), x()), ValueError, "expected int32 or int64"),
        (lambda: ops.reshape()(x(), [-1, -1]), ValueError, "-1 more than once"),
        (lambda: ops.reshape()(x(), [4]), ValueError, "reshape: of"),
        (lambda: ops.permute()(x(), [0, 0]), ValueError, "each of its 2 axes once"),
        (lambda: ops.permute021()(x()), ValueError, "expected rank 3"),
        (lambda: ops.flatten(1, 0)(x()), ValueError, "axes 1 to 0"),
        (lambda: ops.squeeze(2)(x()), ValueError, "dim 2"),
        (lambda: ops.unsqueeze(3)(x()), ValueError, "dim 3"),
        (lambda: ops.expand()(x(), [3]), ValueError, "a length for each axis"),
        (lambda: ops.mem_eff_attention(True, 0.1), ValueError, "dropout"),
        (lambda: ops.flash_attention(1, 0, 1, True)(x(), x()), ValueError, "positions, 3"),
        (lambda: ops.gemm_rcr_permute, AttributeError, "no operation 'gemm_rcr_permute'"),
    ],
)
def test_bad_graphs_are_refused_when_they_are_written(make: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        make()


def test_an_operation_is_called_once():
    op = ops.identity()
    op(x())
    with pytest.raises(ValueError, match="called before"):
        op(x())


def test_lengths_of_results_are_those_of_inputs_or_follow_from_them():
    b, s = IntVar([1, 4], "b"), IntVar([2, 8], "s")
    t = Tensor([b, s, 6], "t", is_input=True)
    flat = ops.reshape()(t, [-1, 6])
    assert bounds(flat) == [(2, 32), 6]
    doubled = ops.elementwise(ADD)(flat, ops.reshape()(t, [-1, 6]))
    assert bounds(doubled) == [(2, 32), 6]
    back = ops.reshape()(doubled, [b, s, 2, 3])
    assert back.shape()[:2] == [b, s]
    assert back.shape()[0] is b
    assert bounds(ops.permute()(back, [1, 0, 3, 2])) == [(2, 8), (1, 4), 3, 2]
    assert bounds(ops.concatenate()([t, t], 1)) == [(1, 4), (4, 16), 6]
    assert bounds(ops.dynamic_slice()(t, [0, 1, 0], [None, 3, 1])) == [(1, 4), (1, 2), 1]


@pytest.mark.parametrize("lens", [(1, 2), (3, 5), (4, 8)])
def test_computed_lengths_serve_every_run_in_range(lens: tuple[int, int]):
    b, s = IntVar([1, 4], "b"), IntVar([2, 8], "s")
    data = np.random.default_rng(3).normal(size=(*lens, 6)).astype(np.float32)
    t = given(data, "t", {0: b, 1: s})
    flat = ops.softmax()(ops.reshape()(t, [-1, 6]))
    back = output(ops.permute0213()(ops.reshape()(flat, [b, s, 2, 3])))
    ones = output(ops.expand()(ops.full()([1], 1.0, "float32"), [s, b]), "ones")
    found, filled = run([back, ones], {"t": data})
    e = np.exp(data)
    expected = (e / e.sum(-1, keepdims=True)).reshape(*lens, 2, 3).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(filled, np.ones(lens[::-1]))


def test_parameters_keep_the_bounds_and_the_names_of_lengths():
    y = output(ops.elementwise(MUL)(given(X, "a", {0: IntVar([1, 9], "n")}), 2.0))
    shape = lower(y).program.parameters["a"]
    assert [(d.min, d.max, d.name) for d in shape.dims or ()] == [(1, 9, "n"), (3, 3, "")]


def test_inputs_come_in_the_order_of_the_graph_and_outputs_in_that_of_the_list():
    a, b, c = x("a"), x("b"), Tensor([2, 3], "c")
    first = output(ops.elementwise(MUL)(a, c), "first")
    second = output(ops.elementwise(ADD)(first, b), "second")
    made = lower([second, first])
    assert list(made.program.parameters) == ["a", "b", "c"]
    assert made.outputs == ["second", "first"]
    assert made.unbound == ["c"]
    assert [t.name for t in made.graph] == ["a", "c", "first", "b", "second"]


def test_tensors_without_names_get_ones_that_are_free():
    a, b, c = x("input_0"), x(None), Tensor([2, 3])
    inner = ops.elementwise(MUL)(a, b)
    made = lower(output(ops.elementwise(ADD)(inner, c)))
    assert list(made.program.parameters) == ["input_0", "input_1", "constant_0"]
    assert inner.name == "elementwise_0_0"
    assert inner.source is not None
    assert inner.source._attrs["name"] == "elementwise_0"


def test_an_output_can_be_an_input_a_constant_or_a_view_of_another_output():
    np.testing.assert_array_equal(run(x("i", is_output=True), {"i": X})[0], X)
    constant = Tensor([2, 3], "c", is_output=True)
    np.testing.assert_array_equal(run(constant, {}, {"c": X})[0], X)
    once = output(ops.elementwise(MUL)(x(), x("z")), "once")
    view = output(ops.reshape()(once, [6]), "view")
    last = output(ops.elementwise(MUL)(view, view), "last")
    squared = X * X
    for found, expected in zip(
        run([once, view, last], {"x": X, "z": X}),
        (squared, squared.ravel(), squared.ravel() ** 2),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "data",
    [
        TorchConstantTensorData(X), NumpyConstantTensorData(X), HostConstantTensorData(X.tobytes()),
    ],
)  # fmt: skip
def test_constants_are_bound_by_data_or_when_compiled(data: Any):
    bound, late = Tensor([2, 3], "bound"), Tensor([2, 3], "late")
    bound._bind_data(data)
    zeros = create_host_zero_tensor([2, 3])
    free = Tensor([2, 3], "free")
    total = ops.elementwise(ADD)(ops.elementwise(ADD)(bound, late), zeros)
    y = output(ops.elementwise(ADD)(ops.elementwise(ADD)(total, x()), free))
    made = lower(y, {"late": X + 1, "absent": X})
    assert sorted(made.bound) == ["bound", "late"]
    assert "constant_0" not in made.program.parameters  # its data never changes
    assert made.internal == ["constant_0"]
    assert made.unbound == ["free"]
    np.testing.assert_array_equal(made.bound["bound"], X)
    np.testing.assert_array_equal(made.bound["late"], X + 1)


def test_data_of_another_type_or_size_is_refused():
    for data in (
        TorchConstantTensorData(np.zeros((2, 3), np.float32)),
        NumpyConstantTensorData(np.zeros((2, 3))),
        HostConstantTensorData("\0" * 24, "float32"),
    ):
        with pytest.raises(ValueError, match="dtype did not match: expected float16"):
            Tensor([2, 3])._bind_data(data)
    with pytest.raises(ValueError, match="at least 12 bytes"):
        Tensor([2, 3])._bind_data(HostConstantTensorData(b"\0" * 10))


@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_a_null_output_has_room_for_nothing(target: str):
    rows = Tensor([IntVar([0, 4], "rows"), 3], "rows", dtype="float32", is_input=True)
    y = output(ops.elementwise(ADD)(rows, rows))
    null = AITData(0, [4, 3], "float32")
    with compile_model(y, target, "", "null") as model:
        found = model.run([AITData(0, [0, 3], "float32")], [null])
        assert found == {"y": AITData(0, [0, 3], "float32")}
        with pytest.raises(RuntimeError, match=r"output 0 is given as \[0\], and its value has"):
            model.run([model.numpy_to_ait_data(np.ones((2, 3), np.float32))], [null])


def test_a_range_from_zero_runs_without_elements():
    dims = {0: IntVar([0, 2], "a"), 1: IntVar([0, 3], "b")}
    for lens in ((0, 0), (0, 3), (2, 1)):
        data = np.ones(lens, np.float16)
        t = given(data, "t", dims)
        t._attrs["is_output"] = True
        same, squared = run([t, output(ops.elementwise(MUL)(t, t))], {"t": data})
        assert same.shape == squared.shape == lens
    assert bounds(ops.concatenate()([t, t])) == [(0, 4), (0, 3)]
    one = Tensor([IntVar([0, 1])], is_input=True)
    assert bounds(ops.concatenate()([one, one])) == [(0, 2)]


def test_a_graph_can_be_lowered_again_with_its_outputs_in_another_order():
    first = output(ops.elementwise(MUL)(x(), 2.0), "first")
    second = output(ops.elementwise(ADD)(first, 1.0), "second")
    assert lower((first, second)).outputs == ["first", "second"]
    assert lower((second, first)).outputs == ["second", "first"]


def test_constants_that_cannot_be_bound_are_named():
    c = Tensor([2, 3], "c")
    product = ops.elementwise(MUL)(x(), c)
    product._attrs["name"] = "product"
    y = output(ops.elementwise(ADD)(product, 1.0))
    for name, text in (
        ("x", "Cannot bind input tensor x"),
        ("product", "Cannot bind non-constant tensor product"),
    ):
        with pytest.raises(ValueError, match=text):
            lower(y, {name: X})
    with pytest.raises(ValueError, match="dtype did not match: expected float16, got float32"):
        lower(y, {"c": X.astype(np.float32)})
    with pytest.raises(
        ValueError, match=r"not equal to len\(data\)! Got len\(data\)=6, but expected at least 12"
    ):
        lower(y, {"c": X[:1]})
    with pytest.raises(TypeError, match="exports neither"):
        lower(y, {"c": object()})
    lower(y, {"c": X})
    with pytest.raises(ValueError, match="Tensor c is already bound!"):
        lower(y, {"c": X})
    with pytest.raises(ValueError, match="Cannot bind tensor product"):
        product._bind_data(NumpyConstantTensorData(X))


def test_outputs_that_are_not_those_of_the_graph_are_named():
    first = output(ops.elementwise(MUL)(x(), 2.0), "first")
    hidden = ops.elementwise(ADD)(first, 1.0)
    hidden._attrs["name"] = "hidden"
    second = output(ops.elementwise(ADD)(hidden, 1.0), "second")
    for outputs, text in (
        ([first, second, hidden], "Got non-output tensor in output_tensors list: hidden"),
        ([first, second, second], "Got duplicate name second in output_tensors list."),
        (second, "Output first was not passed into output_tensors"),
    ):
        with pytest.raises(ValueError, match=text):
            lower(outputs)
    hidden._attrs["name"] = "second"
    with pytest.raises(
        ValueError, match="Output second appears in the graph twice after optimizations"
    ):
        lower([first, second])
    hidden._attrs["name"] = "x"
    with pytest.raises(ValueError, match="Two tensors have the name x"):
        lower([first, second])


def test_compile_model_checks_the_runtimes_and_the_target_first():
    y = output(ops.elementwise(ADD)(x(), 1.0))
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"num_runtimes must be positive, but got {count}"):
            compile_model(y, detect_target(), "", "test", num_runtimes=count)
    with pytest.raises(TypeError, match="expected a Target"):
        compile_model(y, 3, "", "test")
    with REFERENCE() as target:
        assert target.workbench == "ref"


class Recorded:
    """A model that keeps what it is made of."""

    allocator_kind: Any = None
    debug_sorted_graph: Any = None

    def __init__(self, program: Any, **given: Any) -> None:
        self.program, self.given = program, given

    of = classmethod(lambda cls, program, **given: cls(program, **given))


def test_compile_model_hands_the_program_and_its_constants_to_a_model(monkeypatch: Any):
    monkeypatch.setattr(compiling, "Model", Recorded)
    b, c = Tensor([2, 3], "b"), Tensor([3], "c")
    y = output(ops.elementwise(ADD)(ops.elementwise(MUL)(x(), b), c))
    model = compile_model(
        y, detect_target(), "", "a,b", num_runtimes=3, constants={"b": X}, allocator_kind="kind"
    )
    assert list(model.program.parameters) == ["x", "b", "c"]
    assert (model.program.name, model.program.output_names) == ("a_b", ("y",))
    np.testing.assert_array_equal(model.given.pop("bound").pop("b"), X)
    assert model.given == {"outputs": ["y"], "unbound": ["c"], "num_runtimes": 3, "target": "gpu"}
    assert model.allocator_kind == "kind"
    assert model.debug_sorted_graph[-1] is y
    assert [t.name for t in model.debug_sorted_graph if t._attrs["is_param"]] == ["b", "c"]


@pytest.mark.parametrize("target", ["ref", "gpu"])
def test_a_compiled_model_runs_on_lengths_of_its_range(target: str):
    random = np.random.default_rng(0)
    w, b = (random.standard_normal(s).astype(np.float32) for s in ((3, 4), (3,)))
    rows = Tensor([IntVar([1, 8], "rows"), 4], "x", dtype="float32", is_input=True)
    given_w, given_b = (Tensor(list(v.shape), n, dtype="float32") for n, v in (("w", w), ("b", b)))
    y = ops.gemm_rcr_bias_relu()(rows, given_w, given_b)
    y._attrs.update(name="y", is_output=True)
    with compile_model(y, target, "", "test", constants={"w": w, "b": b}) as model:
        for n in (1, 5, 8):
            given = random.standard_normal((n, 4)).astype(np.float32)
            out = np.empty((8, 3), np.float32)
            found = model.run_with_tensors({"x": given}, {"y": out})["y"]
            np.testing.assert_allclose(found, np.maximum(given @ w.T + b, 0), rtol=1e-5)


def test_checks_during_runs_are_refused_by_name():
    y = output(ops.elementwise(ADD)(x(check_outputs=True), 1.0))
    with pytest.raises(
        NotImplementedError, match="check_outputs of tensor x: not in this front end"
    ):
        compile_model(y, "ref", "", "test")
    settings = AITDebugSettings(check_all_nan_and_inf=True)
    with pytest.raises(NotImplementedError, match=r"debug_settings\.check_all_nan_and_inf, check"):
        compile_model(y, "ref", "", "test", debug_settings=settings)


def test_each_instruction_comes_from_the_line_that_wrote_its_operation():
    y = output(ops.gemm_rcr()(x(), Tensor([4, 3], "w")))  # this line
    program = lower(y).program
    names = {s for i in program.main if i.name == "dot" for s in i.sources}
    assert len(names) == 1
    assert "y = output(ops.gemm_rcr()" in next(iter(names))
    assert names <= set(program.source_nodes)


SCRIPT = """
from aitemplate.compiler import compile_model, ops
from aitemplate.compiler.base import IntImm, IntVar, Tensor as Same, _TorchConstantTensorData
from aitemplate.compiler.ops.common.epilogue import FuncEnum
from aitemplate.frontend import IntVar, Tensor
from aitemplate.testing import detect_target
import aitemplate
assert Same is Tensor and aitemplate.compiler.ops is ops
x = Tensor([IntVar([1, 4], "n"), 3], "x", is_input=True)
print(ops.elementwise(FuncEnum.RELU)(x), detect_target().name())
"""


def test_a_script_that_imports_aitemplate_runs_unchanged(tmp_path: Any):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "workbench.compat.aitemplate", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "Tensor(None, [n, 3], float16) cuda\n", done.stderr
    refused = subprocess.run(
        [*command[:-1], "absent.py"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stderr) == (2, "absent.py: no such script\n")
