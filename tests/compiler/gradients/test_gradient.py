"""The interface of gradients: what is returned, in which order and type; seeds; lineage; refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.compiler.gradients.differences import check_gradient
from workbench.compiler.errors import DifferentiationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ops import custom
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import parse, to_text

X = np.linspace(-1, 2, 6).reshape(2, 3)
W = np.linspace(2, -1, 12).reshape(3, 4)


def product() -> Program:
    """``tanh(x @ w)``, its sum, and the place of its largest element; ``n`` is an integer."""
    b = wb.Builder()
    x, w = b.input("x", (2, 3), "double"), b.input("w", (3, 4), "double")
    b.input("n", (1,), "int64")
    y = (x @ w).tanh()
    return b.program(y, y.sum().reshape(1), y.reshape(8).argmax(axis=0))


INPUTS: dict[str, Any] = {"x": X, "w": W, "n": np.array([1])}


def test_outputs_come_first_then_gradients_in_the_order_asked_for():
    made = wb.gradient(product(), wrt=["w", "x"], of=1)
    assert made.output_names == ("output0", "output1", "output2", "grad_w", "grad_x")
    assert set(made.parameters) == {"x", "w", "n"}
    y, _, _, w, x = Interpreter(made).run(INPUTS)
    slope = 1 - y**2
    np.testing.assert_allclose(w, X.T @ slope)
    np.testing.assert_allclose(x, slope @ W.T)


def test_what_is_larger_than_one_element_is_seeded_by_a_parameter():
    made = check_gradient(product(), INPUTS)
    assert set(made.parameters) == {"x", "w", "n", "grad_output0"}
    assert made.parameters["grad_output0"] == made.outputs[0].shape.as_standard()


def test_all_floats_are_differentiated_by_default():
    made = wb.gradient(product())
    assert made.output_names[3:] == ("grad_x", "grad_w")


def test_values_inside_are_named_by_id_or_given():
    program = product()
    inner = next(i for i in program.main if i.name == "tanh")
    before = next(i for i in program.main if i.name == "dot")
    for wrt in ([inner, before], [f"#{inner.id}", f"#{before.id}"]):
        made = wb.gradient(program, wrt=wrt, of=1)
        y, *_, of_y, of_dot = Interpreter(made).run(INPUTS)
        np.testing.assert_allclose(of_y, np.ones((2, 4)))
        np.testing.assert_allclose(of_dot, 1 - y**2)
    assert made.gradients[inner.id] in {i.id for i in made.main}


def test_the_program_is_not_changed_and_ids_stay():
    program = product()
    before = to_text(program)
    made = wb.gradient(program, of=1)
    assert to_text(program) == before
    ids = {i.id: i.name for i in made.main}
    assert all(ids[i.id] == i.name for i in program.main if i.name != "@return")


def test_the_text_parses_back():
    made = wb.gradient(product())
    assert to_text(parse(to_text(made))) == to_text(made)


def test_a_file_and_a_build_keep_which_value_has_which_gradient(tmp_path: Path):
    made = wb.gradient(product())
    assert made.gradients
    wb.save(made, tmp_path / "made.wb")
    again = wb.load(tmp_path / "made.wb")
    assert again.gradients == made.gradients
    assert wb.compile(made, target="ref").program.gradients == made.gradients


def test_each_instruction_is_one_edit():
    made = wb.gradient(product(), of=1)
    laws = [e.law for e in made.recording[0].edits if e.law]
    assert laws
    assert laws.count("∂L/∂xᵢ += ∂L/∂y · ∂y/∂xᵢ for y = op(x…)") > len(laws) / 2
    assert made.recording[0].name == "differentiate(of=(1,))"


def test_what_no_output_depends_on_has_gradient_0():
    b = wb.Builder()
    x, y = b.input("x", (2,)), b.input("y", (3,))
    made = wb.gradient(b.program(x * 2.0))
    del y
    found = Interpreter(made).run({"x": X[0, :2].astype("f"), "y": X[0].astype("f"),
                                   "grad_output0": np.ones(2, "f")})  # fmt: skip
    np.testing.assert_array_equal(found[1], [2, 2])
    np.testing.assert_array_equal(found[2], [0, 0, 0])


def test_a_value_used_several_times_sums_what_it_gets():
    b = wb.Builder()
    x = b.input("x", (3,), "double")
    y = x * x + x.exp() * x
    check_gradient(b.program(y, y.sum().reshape(1), x), {"x": X[1]})


def test_second_derivatives():
    b = wb.Builder()
    x = b.input("x", (1,), "double")
    first = wb.gradient(b.program(x * x * x), of=0)
    second = wb.gradient(first, wrt="x", of=1)
    assert Interpreter(second).run({"x": np.array([5.0])})[2] == pytest.approx(30)


def test_half_is_differentiated_in_half():
    b = wb.Builder()
    made = wb.gradient(b.program(b.input("x", (1,), "half").exp()))
    assert made.outputs[1].shape.type.type_name == "half_type"


# Operations of one's own


@pytest.fixture
def cube():
    """Declares ``power`` with a given gradient, and takes it away again."""

    def declare(gradient: Any) -> Program:
        wb.operation(
            name="power_of",
            attributes={"n": 3},
            compute_shape=lambda shapes, _: shapes[0],
            compute=lambda _, arrays, attributes: arrays[0] ** attributes["n"],
            gradient=gradient,
        )
        b = wb.Builder()
        return b.program(b.input("x", (4,), "double").apply("power_of", n=2).exp())

    yield declare
    custom.forget("power_of")


def test_an_operation_of_ones_own_has_the_gradient_that_it_declares(cube: Any):
    slope = lambda g, _, operands, attributes: [g * operands[0] * float(attributes["n"])]  # noqa: E731
    check_gradient(cube(slope), {"x": X.reshape(-1)[:4]})


def test_an_operation_of_ones_own_without_gradient_is_refused(cube: Any):
    with pytest.raises(DifferentiationError, match=r"power_of, from .*declared without gradient"):
        wb.gradient(cube(None))
    with pytest.raises(DifferentiationError, match="gradient returned 2 values; expected 1"):
        wb.gradient(cube(lambda g, _result, _operands: [g, g]))


# Refusals


def parsed(body: str) -> Program:
    return parse(f'module: "main"\n{body}\n')


NO_FLOATS = (
    "x = @param:x -> int64_type, {2}, {1}\n@1 = add(x,x) -> int64_type, {2}, {1}\n@2 = @return(@1)"
)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"wrt": "n"}, r"wrt 'n': it is int64_type, .*; expected a floating-point tensor"),
        (
            {"wrt": "xx"},
            r"wrt 'xx': the program has no such parameter, tensor or instruction; did you mean x",
        ),
        ({"wrt": "#99"}, r"wrt '#99': the program has no such"),
        ({"of": 3}, r"of=3; the program has 3 outputs, 0 to 2"),
        ({"of": "y"}, r"of 'y'; the program has the outputs output0, output1, output2"),
        ({"of": 2}, r"output 2 is int64_type, .*; expected a floating-point tensor"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(asked: dict[str, Any], message: str):
    with pytest.raises(DifferentiationError, match=message):
        wb.gradient(product(), **asked)


def test_a_program_without_floats_is_refused():
    with pytest.raises(DifferentiationError, match="no parameter of a floating-point type"):
        wb.gradient(parsed(NO_FLOATS))
    b = wb.Builder()
    program = b.program(b.input("x", (4,)).argmax(axis=0))
    with pytest.raises(DifferentiationError, match="no output of a floating-point type"):
        wb.gradient(program)


def test_lengths_that_only_a_run_knows_are_refused():
    b = wb.Builder()
    x = b.input("x", (Dim(1, 4), 3))
    ranged = b.program(x.exp())
    b = wb.Builder()
    x = b.input("x", (Dim(1, 4), 3))
    program = b.program(x.exp().sum(0).sum().reshape(1))
    with pytest.raises(
        DifferentiationError, match=r"#\d+ reduce_sum, from .* only a run knows; fix them first"
    ):
        wb.gradient(program)
    with pytest.raises(DifferentiationError, match=r"output 0 is .*expected .* of fixed lengths"):
        wb.gradient(ranged)


def test_a_compiled_program_is_refused_by_its_fused_kernels():
    program = product()
    wb.pipelines()["gpu"].run(program)
    with pytest.raises(DifferentiationError, match=r"before it is compiled"):
        wb.gradient(program, wrt="x")


def test_a_parameter_of_the_name_of_a_seed_is_refused():
    b = wb.Builder()
    program = b.program(b.input("grad_output0", (2,)) * 2.0)
    with pytest.raises(DifferentiationError, match="has a parameter 'grad_output0' already"):
        wb.gradient(program)


def test_an_operation_without_gradient_is_named_with_its_node():
    b = wb.Builder()
    x, y = b.input("x", (2, 1)), b.input("y", (2, 1))
    program = b.program((x * y).couple_pairs(classes=2))
    with pytest.raises(DifferentiationError, match=r"#\d+ couple_pairs, from .*rounds depends"):
        wb.gradient(program)
    b = wb.Builder()  # what nothing asks for may be without gradient
    x, y = b.input("x", (2, 1)), b.input("y", (2, 1))
    wb.gradient(b.program(x * y.couple_pairs(classes=2).sum().reshape(1)), wrt="x")
