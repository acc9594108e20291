"""Passes: each one's effect, rest on its own result, and the meaning of programs kept through pipelines."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.compiler.passes.test_rules import differing
from tests.compiler.programs import with_buffers
from tests.compiler.rule_samples import fresh, given, programs, samples
from tests.models.registry import MODELS
from workbench.compiler.arrays.metrics import difference, program_tolerance
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.errors import EvaluationError, GraphError, OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.passes.algebra.simplify_algebra import SimplifyAlgebra
from workbench.compiler.passes.base import Pipeline, RewritePass, all_passes, pass_named, run_pass
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.passes.tidy.eliminate_convert import keeps_values
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import parse

FLOAT = Shape(DType.FLOAT, (2, 3))
CHANGES_TYPES = {"quantize_float", "truncate_float", "quantize_int4"}
DIFFERENTIATES = {"differentiate"}
"""It returns more than the program did; tests/compiler/gradients holds what it computes."""


def names(program: Program, module: str = "main") -> list[str]:
    return [i.name for i in program.modules[module]]


def applied(name: str, program: Program, **options) -> Recording:
    with Recording(program) as recording:
        run_pass(pass_named(name, **options), program)
    validate(program)
    return recording


# What every pass must do


@cache
def computed(number: int) -> tuple[dict[str, Any], list[Any] | None]:
    """Inputs of a sample's program and what it computes; None where it refuses them."""
    program = programs()[number]
    inputs = generated_inputs(program, 1)
    try:
        with np.errstate(all="ignore"):
            return inputs, run(program, inputs)
    except EvaluationError:
        return inputs, None


def keeps_meaning(number: int, program: Program) -> None:
    inputs, before = computed(number)
    if before is None:
        return
    with np.errstate(all="ignore"):
        after = run(program, with_buffers(program, inputs))
    narrow = program_tolerance(program)
    limit = narrow if narrow > 1e-3 else 1e-5
    reasons = [difference(a, b, limit) for a, b in zip(before, after, strict=True)]
    assert not any(reasons), f"{reasons} of {samples()[number]}\n{program}"


@pytest.mark.parametrize(
    "name", [n for n in all_passes() if n not in CHANGES_TYPES | DIFFERENTIATES]
)
def test_a_pass_rests_on_its_own_result_and_keeps_meaning(name):
    for number, sample in enumerate(samples()):
        program = fresh(number)
        version = program.version
        with Recording(program) as first:
            run_pass(pass_named(name), program)
        if program.version != version:
            validate(program)
        if not any(s.edits for s in first.steps):
            continue
        keeps_meaning(number, program)
        if pass_named(name).once:
            continue
        text = str(program)
        second = applied(name, program)
        assert [e.rule for s in second.steps for e in s.edits] == [], f"{name} on {sample}"
        assert str(program) == text, f"{name} on its own result of {sample}"


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_keeps_meaning_and_names_every_edit(name):
    for number in range(len(samples())):
        program = fresh(number)
        version = program.version
        with Recording(program) as recording:
            run_pass(PIPELINES[name], program)
        if program.version != version:
            validate(program)
            keeps_meaning(number, program)
        for edit in (e for s in recording.steps for e in s.edits):
            assert edit.law
            assert edit.file.startswith("workbench/compiler/passes/")


def test_a_program_of_the_same_version_is_the_same():
    """Passes and pipelines ran on these copies, and say that they changed nothing."""
    for number, copy in given().items():
        validate(copy)
        assert str(copy) == str(programs()[number])


@pytest.mark.parametrize("name", all_passes())
def test_a_pass_is_documented(name):
    pass_ = all_passes()[name]
    assert pass_.name == name
    assert pass_().summary.endswith(".")


# Cleanup


def test_normalize_ops_counts_axes_from_the_front():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    program.main.add("reduce_sum", x, axes=(-1,))
    recording = applied("normalize_ops", program)
    assert program.main.outputs[0].op.attributes()["axes"] == (1,)
    assert recording[0].edits[0].law == "op[axis=-1](x) → op[axis=rank-1](x)"


def test_normalize_ops_doubles_paddings():
    program = Program()
    x = program.main.add_parameter("x", Shape(DType.FLOAT, (1, 3, 5, 5)))
    w = program.main.add_parameter("w", Shape(DType.FLOAT, (4, 3, 3, 3)))
    program.main.add("convolution", x, w, padding=(1, 2))
    applied("normalize_ops", program)
    assert program.main.outputs[0].op.attributes()["padding"] == (1, 2, 1, 2)


def test_dead_code_goes_with_what_only_it_used():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    a = program.main.add("neg", x)
    program.main.add("exp", a)
    program.main.add_literal(np.zeros(3, np.float32))
    program.main.add_return(program.main.add("abs", x))
    recording = applied("dead_code_elimination", program)
    assert names(program) == ["@param", "abs", "@return"]
    assert [len(e.removed) for e in recording[0].edits] == [2, 1]


def test_unused_parameters_stay():
    program = Program()
    program.main.add_parameter("x", FLOAT)
    program.main.add_return(program.main.add_literal(np.zeros(3, np.float32)))
    applied("dead_code_elimination", program)
    assert list(program.parameters) == ["x"]


def test_modules_that_nobody_calls_go_with_what_only_they_captured():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    captured = program.main.add("exp", x)
    program.main.add_return(program.main.add("abs", x))
    lost, deeper = program.create_module("lost"), program.create_module("deeper")
    deeper.add_return(deeper.add("neg", captured))
    condition = lost.add_literal(np.array([True]))
    lost.add_return(lost.add("if", condition, modules=(deeper, deeper)))
    applied("dead_code_elimination", program)
    assert list(program.modules) == ["main"]
    assert names(program) == ["@param", "abs", "@return"]


def test_the_last_identity_goes_if_its_input_can_be_last():
    program = parse(
        'module: "main"\nx = @param:x -> float_type, {2}, {1}\na = neg(x)\nr = identity(a)\n'
    )
    applied("eliminate_identity", program)
    assert names(program) == ["@param", "neg"]


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("float", "double", True),
        ("double", "float", False),
        ("half", "float", True),
        ("half", "bf16", False),
        ("bf16", "half", False),
        ("int32", "float", False),
        ("int32", "double", True),
        ("int16", "float", True),
        ("uint8", "int8", False),
        ("int8", "int64", True),
        ("bool", "half", True),
        ("int8", "bool", False),
        ("float", "int64", False),
        ("uint8", "half", True),
        ("int64", "double", False),
    ],
)
def test_which_conversions_lose_nothing(source, target, kept):
    assert keeps_values(DType.of(f"{source}_type"), DType.of(f"{target}_type")) is kept


# Sharing and constants


def test_equal_computations_are_made_once():
    program = Program()
    x, y = (program.main.add_parameter(n, FLOAT) for n in "xy")
    a, b = program.main.add("add", x, y), program.main.add("add", y, x)
    program.main.add_return(
        program.main.add("mul", program.main.add("exp", a), program.main.add("exp", b))
    )
    applied("eliminate_common_subexpression", program)
    assert names(program) == ["@param", "@param", "add", "exp", "mul", "@return"]


def test_equal_computations_on_merged_values_are_made_once():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)

    def chain() -> Instruction:
        a = program.main.add("exp", x)
        b = program.main.add("tanh", program.main.add("neg", a))
        return program.main.add("sub", program.main.add("abs", b), program.main.add("sqrt", b))

    program.main.add_return(chain(), chain(), chain())
    applied("eliminate_common_subexpression", program)
    assert names(program) == ["@param", "exp", "neg", "tanh", "abs", "sqrt", "sub", "@return"]


def test_other_attributes_are_another_computation():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    parts = [program.main.add("reduce_sum", x, axes=(a,)) for a in (0, 1)]
    program.main.add_return(*parts)
    applied("eliminate_common_subexpression", program)
    assert names(program).count("reduce_sum") == 2


def test_literals_of_equal_bytes_are_one():
    program = Program()
    arrays = [np.arange(100, dtype=np.float32) for _ in range(3)]
    arrays[2][50] = -1
    literals = [program.main.add_literal(a) for a in arrays]
    program.main.add_return(*literals)
    applied("eliminate_common_subexpression", program)
    assert names(program).count("@literal") == 2


def test_outermost_constants_become_literals():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    c = program.main.add_literal(np.ones((2, 3), np.float32))
    twice = program.main.add("add", c, c)
    program.main.add_return(program.main.add("mul", x, program.main.add("exp", twice)))
    recording = applied("propagate_constant", program)
    assert names(program) == ["@literal", "@param", "mul", "@return"]
    np.testing.assert_allclose(
        program.main.outputs[0].inputs[1].literal.numpy(), np.exp(2.0), rtol=1e-6
    )
    assert [e.rule for e in recording[0].edits] == ["fold"]


def test_a_broadcast_constant_stays_a_broadcast():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    c = program.main.add("neg", program.main.add_literal(np.ones(3, np.float32)))
    program.main.add("add", x, program.main.add("multibroadcast", c, out_lens=(2, 3)))
    applied("propagate_constant", program)
    assert names(program) == ["@literal", "@param", "multibroadcast", "add"]


def test_a_transposed_weight_becomes_a_literal_without_a_copy():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    weight = np.ones((4, 3), np.float32)
    turned = program.main.add("transpose", program.main.add_literal(weight), permutation=(1, 0))
    program.main.add("dot", x, turned)
    applied("propagate_constant", program)
    literal = program.main.outputs[0].inputs[1].literal
    assert literal.shape.strides == (1, 3)
    assert np.shares_memory(literal.numpy(), weight)


def test_operations_can_be_left_unfolded():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    c = program.main.add("neg", program.main.add_literal(np.ones((2, 3), np.float32)))
    program.main.add("add", x, c)
    applied("propagate_constant", program, skip_ops=("neg",))
    assert "neg" in names(program)


def test_what_a_constant_shares_is_evaluated_once():
    program = Program()
    value = program.main.add_literal(np.full(3, 1e-9, np.float32))
    for _ in range(60):
        value = program.main.add("add", value, value)
    program.main.add_return(value)
    applied("propagate_constant", program)
    assert names(program) == ["@literal", "@return"]


def test_a_constant_that_fails_names_itself():
    program = Program()
    table = program.main.add_literal(np.zeros((2, 3), np.float32))
    index = program.main.add_literal(np.array([7]))
    program.main.add_return(program.main.add("gather", table, index))
    with pytest.raises(EvaluationError, match="gather"):
        applied("propagate_constant", program)


# Pipelines


def test_batch_normalisation_goes_into_the_convolution():
    text = """module: "main"
w = @literal{ ... } -> float_type, {4, 3, 3, 3}, {27, 9, 3, 1}
mean = @literal{0.1, 0.2, 0.3, 0.4} -> float_type, {4}, {1}
variance = @literal{1, 2, 3, 4} -> float_type, {4}, {1}
scale = @literal{0.5, 1.5, 2.5, 3.5} -> float_type, {4}, {1}
bias = @literal{1, -1, 1, -1} -> float_type, {4}, {1}
epsilon = @literal{1e-05} -> float_type, {1}, {0}
x = @param:x -> float_type, {1, 3, 8, 8}, {192, 64, 8, 1}
c = convolution[padding={1, 1, 1, 1}](x,w)
e = multibroadcast[out_lens={4}](epsilon)
v = add(variance,e)
r = rsqrt(v)
m1 = broadcast[axis=1,out_lens={1, 4, 8, 8}](mean)
r1 = broadcast[axis=1,out_lens={1, 4, 8, 8}](r)
s1 = broadcast[axis=1,out_lens={1, 4, 8, 8}](scale)
b1 = broadcast[axis=1,out_lens={1, 4, 8, 8}](bias)
d = sub(c,m1)
f = mul(d,r1)
g = mul(f,s1)
h = add(g,b1)
i = relu(h)
"""
    program = parse(text, fill_seed=0)
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)[0]
    run_pass(PIPELINES["optimize_module"], program)
    validate(program)
    found = names(program)
    assert [n for n in found if n != "@literal"] == [
        "@param",
        "convolution",
        "broadcast",
        "add",
        "relu",
    ]
    assert differing(before, run(program, inputs)[0]) < 1e-6


class AtRest(Listener):
    """Applies the rules of every pass once more, to a copy of what it left."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.passes = 0

    def pass_ended(self, pass_, error):
        if isinstance(pass_, RewritePass) and not pass_.once:
            copy = self.program.clone()
            with Recording(copy) as second:
                pass_.apply(copy)
            assert [e.rule for s in second for e in s.edits] == [], pass_
            self.passes += 1


@pytest.mark.parametrize("pipeline", ["optimize", "gpu"])
@pytest.mark.parametrize("name", ["small_encoder", "small_decoder", "small_cnn"])
def test_rules_come_to_their_end_within_a_pipeline(name, pipeline):
    """One look at the whole program, then at what edits have changed, leaves nothing that applies."""
    model = MODELS[name]
    program = parse_onnx(model.path, map_input_dims={n: v.shape for n, v in model.inputs().items()})
    program.listeners.append(watch := AtRest(program))
    run_pass(PIPELINES[pipeline], program)
    assert watch.passes > 5


def test_a_pipeline_leaves_out_what_is_at_rest():
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    program.main.add("neg", x)
    with Recording(program) as recording:
        run_pass(PIPELINES["optimize_module"], program)
    ran = [s.name for s in recording.steps]
    assert len(ran) == len(set(ran))


def test_a_rule_can_be_left_out():
    program = parse(
        'module: "main"\nx = @param:x -> float_type, {2}, {1}\nc = @literal{1, 1} -> float_type, {2}, {1}\n'
        "a = mul(x,c)\nr = neg(a)\n"
    )
    run_pass(SimplifyAlgebra(without=("find_unit_ops",)), program)
    assert "mul" in names(program)
    with pytest.raises(OperationError, match="no rule 'find_nothing'"):
        run_pass(SimplifyAlgebra(without=("find_nothing",)), program)


def test_pipelines_print():
    assert str(Pipeline("mine", (SimplifyAlgebra(),), 2)) == "mine up to 2 times: simplify_algebra"


@pytest.mark.parametrize("name", ["optimize_module"])
def test_golden(name, golden):
    text = []
    for sample in (s for s in samples() if s.kind == "fires" and s.rule in GOLDEN):
        program = sample.program()
        text += [f"# {sample.rule}", "before", str(program)]
        with Recording(program) as recording:
            run_pass(PIPELINES[name], program)
        text += [
            "after",
            str(program),
            *dict.fromkeys(f"  {e.law}" for s in recording.steps for e in s.edits),
            "",
        ]
    golden(f"passes_{name}", _rounded("\n".join(text)))


def _rounded(text: str) -> str:
    """A text with four digits of each number: processors differ in the last one of those that are folded."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", text)


GOLDEN = {"find_mul_conv", "find_dot_add", "find_inner_broadcast", "find_add_lit_broadcast"}


def test_an_invalid_program_is_named():
    program = Program()
    program.main.add("neg", program.main.add_parameter("x", FLOAT))
    program.create_module("unused")
    with pytest.raises(GraphError, match="'unused' cannot be reached"):
        validate(program)
