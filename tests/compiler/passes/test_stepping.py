"""Passes edit by edit: run up to one, take back, make again, list what could be done."""

import numpy as np
import pytest

import workbench as wb
from tests.compiler.rule_samples import fresh, programs, samples
from tests.models.registry import MODELS
from workbench.compiler.errors import GraphError, OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.algebra.simplify_algebra import find_unit_ops
from workbench.compiler.passes.base import Pipeline, RewritePass, all_passes, pass_named
from workbench.compiler.passes.pipelines import PIPELINES
from workbench.compiler.passes.stepping import changes


@pytest.fixture
def program() -> Program:
    return wb.parse(
        'module: "main"\n'
        "x = @param:x -> float_type, {2, 3}, {3, 1}\n"
        "one = @literal{1} -> float_type, {1}, {0}\n"
        "ones = multibroadcast[out_lens={2, 3}](one)\n"
        "a = mul(x,ones)\n"
        "b = exp(a)\n"
        "c = log(b)\n"
        "d = div(c,ones)\n"
        "r = @return(d)\n"
    )


def edits(recording: wb.Recording) -> int:
    return sum(len(step.edits) for step in recording)


def test_a_pass_stops_after_some_edits(program: Program):
    whole = edits(pass_named("simplify_algebra").run(program.clone()))
    assert whole > 1
    for count in range(whole + 1):
        work = program.clone()
        recording = pass_named("simplify_algebra").run(work, edits=count)
        validate(work)
        assert edits(recording) == count
        assert not work.listeners
    with pytest.raises(OperationError, match="-1 edits"):
        pass_named("simplify_algebra").run(program, edits=-1)


def test_stopping_is_the_same_as_replaying(program: Program):
    recording = pass_named("simplify_algebra").run(program.clone())
    for count in range(1, edits(recording)):
        work = program.clone()
        pass_named("simplify_algebra").run(work, edits=count)
        assert str(work) == str(recording[0].after_edit(count - 1))


@pytest.mark.parametrize("name", ["small_encoder", "small_branches", "small_cnn"])
def test_a_whole_pipeline_is_taken_back_and_made_again(name: str):
    work = wb.parse_onnx(MODELS[name].path)
    before = str(work)
    recording = PIPELINES["optimize"].run(work)
    after, count = str(work), edits(recording)
    assert after != before
    recording.undo(count // 2)
    validate(work)
    recording.undo(count - count // 2)
    assert str(work) == before
    assert edits(recording) == 0
    recording.redo(count)
    assert str(work) == after
    validate(work)


def test_ids_survive_taking_back(program: Program):
    ids = {i.id for i in program.instructions}
    recording = pass_named("simplify_algebra").run(program)
    recording.undo(edits(recording))
    assert {i.id for i in program.instructions} == ids
    assert program.main.add("neg", program.main.outputs[0]).id not in ids


def test_what_cannot_be_taken_back(program: Program):
    recording = pass_named("simplify_algebra").run(program)
    with pytest.raises(GraphError, match="cannot undo 100 edits"):
        recording.undo(100)
    with pytest.raises(GraphError, match="0 were undone"):
        recording.redo()
    program.main.add_literal(np.zeros(3, np.float32))
    with pytest.raises(GraphError, match="changed since"):
        recording.undo()
    with wb.Recording(program) as going_on:
        program.main.add_literal(np.ones(3, np.float32))
        with pytest.raises(GraphError, match="still running"):
            going_on.undo()


def test_new_edits_forget_what_was_taken_back(program: Program):
    with wb.Recording(program) as recording:
        program.main.add_literal(np.ones(3, np.float32))
    recording.undo()
    with recording:
        program.main.add_literal(np.ones(4, np.float32))
    recording.digest()
    with pytest.raises(GraphError, match="0 were undone"):
        recording.redo()


def test_what_a_pass_would_change(program: Program):
    text = str(program)
    table = pass_named("simplify_algebra").would_change(program)
    assert {"find_unit_ops", "find_log_exp"} <= set(table["rule"])
    assert str(program) == text
    unit = table[table["rule"] == "find_unit_ops"]
    assert set(unit["text"].str.split(" ").str[2].str.split("(").str[0]) == {"mul", "div"}
    for id in unit["instruction"]:
        assert isinstance(
            find_unit_ops.apply_at(program.clone().instruction(int(id))), wb.Instruction
        )


def test_what_passes_without_rules_and_pipelines_would_change(program: Program):
    program.main.insert(program.main.outputs[0], "neg", program.main.parameters["x"])
    table = pass_named("dead_code_elimination").would_change(program)
    assert list(table["rule"]) == ["remove_unused"]
    table = PIPELINES["optimize_module"].would_change(program)
    assert {"simplify_algebra", "dead_code_elimination"} <= set(table["pass"])
    assert pass_named("rewrite_gelu").would_change(program).empty


def test_a_rule_by_hand_at_one_place(program: Program):
    (mul,) = [i for i in program.main if i.name == "mul"]
    with wb.Recording(program) as recording:
        find_unit_ops.apply_at(mul)
    assert [e.rule for e in recording[0].edits] == ["find_unit_ops"]
    assert "div" in str(program)
    assert "mul" not in str(program).replace("multibroadcast", "")


# Pipelines as values


def test_pipelines_are_edited_by_name():
    mine = PIPELINES["optimize"].without("rewrite_gelu", "optimize_module")
    assert "rewrite_gelu" not in mine.names()
    assert "simplify_algebra" not in mine.names()
    fewer = PIPELINES["optimize"].without("simplify_algebra.find_mul_conv")
    assert "find_mul_conv" in str(fewer)
    assert str(PIPELINES["optimize"]) != str(fewer)
    more = mine.after("normalize_ops", "eliminate_convert").before(
        "eliminate_convert", "fuse_pointwise"
    )
    assert more.names()[1:4] == ["normalize_ops", "fuse_pointwise", "eliminate_convert"]
    other = more.replaced("fuse_pointwise", ("rewrite_gelu"))
    assert other.names()[2] == "rewrite_gelu"


def test_what_a_pipeline_does_not_have():
    pipeline = PIPELINES["optimize"]
    with pytest.raises(OperationError, match="'fuse_all' cannot be left out: optimize runs"):
        pipeline.without("fuse_all")
    with pytest.raises(OperationError, match="no rule 'find_all'"):
        pipeline.without("simplify_algebra.find_all")
    with pytest.raises(OperationError, match="has no rules"):
        pipeline.without("normalize_ops.find_all")
    with pytest.raises(OperationError, match="unknown pass"):
        pipeline.after("normalize_ops", "nothing")


def test_pipelines_side_by_side():
    one = Pipeline("one", (pass_named("normalize_ops"), pass_named("rewrite_gelu")))
    other = Pipeline("other", (pass_named("rewrite_gelu"), pass_named("eliminate_convert")))
    table = one.compare(other)
    assert [tuple(r) for r in table.to_numpy()] == [
        ("-", "normalize_ops", ""),
        ("=", "rewrite_gelu", "rewrite_gelu"),
        ("+", "", "eliminate_convert"),
    ]
    assert next(iter(PIPELINES["optimize_module"].table()["within"])).endswith("simplify ×4")
    assert PIPELINES["optimize_module"].tree().splitlines()[1] == "  simplify ×4"


def test_pipelines_by_name_and_with_options(program: Program):
    build = wb.compile(program, target="cpu", passes="optimize_module")
    assert len(build.program.main) == 2
    wb.compile(program, target="cpu", passes=["normalize_ops", "optimize_module"])
    wb.compile(program, target="cpu", passes=PIPELINES["ref"])
    with pytest.raises(OperationError, match="its options are"):
        wb.compile(program, target="cpu", passes=[("optimize_module", {"nothing": 1})])


def test_one_rule_of_a_compilation_is_switched_off(program: Program):
    whole = wb.compile(program, target="cpu")
    part = wb.compile(program, target="cpu", disable=["simplify_algebra.find_log_exp"])
    rules = [{e.rule for s in b.recording for e in s.edits} for b in (whole, part)]
    assert "find_log_exp" in rules[0]
    assert "find_log_exp" not in rules[1]


@pytest.mark.parametrize("name", [n for n in all_passes() if n != "differentiate"])  # it refuses
def test_what_would_change_is_what_does(name: str):
    pass_ = pass_named(name)
    for number, program in enumerate(programs()):
        made = edits(pass_.run(fresh(number)))
        found = changes(pass_, program)
        assert bool(made) == bool(len(found)), f"{made} edits of {name}; listed\n{found}\n{program}"


@pytest.mark.parametrize(
    "name", [n for n, p in all_passes().items() if issubclass(p, RewritePass) and p.rules]
)
def test_a_rule_that_is_left_out_is_not_applied(name: str):
    kind = all_passes()[name]
    for rule in kind.rules:
        pass_ = pass_named(name, without=(rule.name,))
        own = [s.program() for s in samples() if s.rule == rule.name]
        used = {e.rule for p in own for s in pass_.run(p) for e in s.edits}
        assert rule.name not in used
