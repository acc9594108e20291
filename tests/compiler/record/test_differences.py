"""Differences of programs: none is missing or told twice, and a step leads to the very program."""

from collections.abc import Callable

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from tests.widgets.networks import HOSTILE, hostile, residual, transformer
from workbench.compiler.errors import ModelError, OperationError
from workbench.compiler.ir.rows import build as rebuilt
from workbench.compiler.ir.rows import rows_of
from workbench.compiler.ir.validate import validate
from workbench.compiler.text.printing import names


def copied(program: wb.Program) -> wb.Program:
    """Another program with the same rows."""
    return rebuilt(rows_of(program))


def small(name: str) -> wb.Program:
    return wb.parse_onnx(MODELS[name].path)


PAIRS: dict[str, Callable[[], tuple[object, object]]] = {
    "the same file twice": lambda: (small("small_cnn"), small("small_cnn")),
    "two models": lambda: (small("small_encoder"), small("small_decoder")),
    "deeper": lambda: (residual(2), residual(3)),
    "without names": lambda: (transformer(1, scoped=False), transformer(2, scoped=False)),
    "a model and its build": lambda: ((p := small("small_encoder")), wb.compile(p, "cpu")),
    "two builds": lambda: (
        wb.compile(p := small("small_encoder"), "cpu"),
        wb.compile(p, "cpu", disable="fuse_pointwise"),
    ),
    "two precisions": lambda: (
        wb.compile(p := residual(2), "cpu"),
        wb.compile(p, "cpu", precision="fp16"),
    ),
    "branches": lambda: (small("small_branches"), wb.compile(small("small_branches"), "cpu")),
    "nothing and something": lambda: (wb.Program(), residual(1)),
    "hostile names": lambda: (hostile(), residual(2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_step_leads_from_one_program_to_the_very_other(name: str):
    a, b = PAIRS[name]()
    found = wb.differences(a, b)
    first, last = (getattr(s, "program", s) for s in (a, b))
    assert str(found.recording.first) == str(first)
    assert str(found.recording.last) == str(last) or not found.recording[0].edits
    validate(found.recording.last)
    assert len(found.table()) == sum(found.counts.values())


@pytest.mark.parametrize("name", PAIRS)
def test_the_other_way_round_added_is_removed(name: str):
    a, b = PAIRS[name]()
    there, back = wb.differences(a, b).counts, wb.differences(b, a).counts
    assert (there["added"], there["removed"]) == (back["removed"], back["added"])


@pytest.mark.parametrize("name", PAIRS)
def test_constants_with_equal_values_are_neither_added_nor_removed(name: str):
    first, last = (wb.differences(*PAIRS[name]()).recording.rows_after(k) for k in (-1, 0))
    gone, come = (
        [r for r in a.instructions.values() if r.literal is not None and not r.module
         and r.id not in b.instructions]
        for a, b in ((first, last), (last, first))
    )  # fmt: skip
    assert not [(r, s) for r in gone for s in come if r.literal == s.literal]


def test_equal_programs_have_none():
    program = small("small_encoder")
    for other in (copied(program), small("small_encoder")):
        found = wb.differences(program, other)
        assert found.table().empty
        assert found.summary.endswith("no difference")


def test_one_changed_attribute_is_one_difference_that_says_so():
    changed = copied(residual(2))
    victim = next(i for i in changed.main if i.name == "reduce_mean")
    other = changed.main.insert(victim, "reduce_max", victim.inputs[0], axes=[2, 3])
    other.sources = victim.sources
    changed.main.replace(victim, other)
    (row,) = wb.differences(residual(2), changed).table().to_dict("records")
    assert (row["kind"], row["what differs"]) == ("changed", "reduce_mean → reduce_max")
    assert row["sources"] == victim.sources[0]


def test_a_changed_weight_is_told_by_its_name():
    changed = copied(residual(2))
    weight = next(i for i in changed.main if i.sources == ("head.weight",))
    weight.literal = wb.Argument.of(weight.literal.numpy() + np.float32(1))
    (row,) = wb.differences(residual(2), changed).table().to_dict("records")
    assert (row["kind"], row["sources"], row["what differs"]) == (
        "changed", "head.weight", "other values",
    )  # fmt: skip


def test_what_differs_inside_a_kernel_is_told_of_the_kernel():
    def program(op: str) -> wb.Build:
        made = wb.Program()
        x = made.main.add_parameter("x", wb.Shape("float", (4,)))
        made.main.add_return(made.main.add("relu", made.main.add(op, x, x)))
        return wb.compile(made, "cpu")

    rows = wb.differences(program("add").program, program("mul").program).table()
    (row,) = rows.to_dict("records")
    assert (row["kind"], row["operation"]) == ("changed", "pointwise")
    assert row["what differs"] == "mul: add → mul"


def test_several_programs_are_steps_in_a_row():
    found = wb.differences(residual(1), residual(2), residual(3), names=["one", "two", "three"])
    assert [step.name for step in found.recording] == ["two", "three"]
    assert str(found.recording[0].after) == str(residual(2))
    assert str(found.recording.last) == str(residual(3))
    view = found.view()
    assert view.sides == ["one", "two", "three"]
    picture = view.row_svg()
    assert picture.count("<svg") == 1 + 3
    first, *others = picture.split("<svg")[2:]
    assert 'class="added"' not in first
    assert all('class="added"' in other for other in others)
    assert [picture.count(f">{name}</text>") for name in view.sides] == [1, 1, 1]


def test_a_difference_is_selected_by_its_edit():
    found = wb.differences(residual(1), residual(2))
    view = found.view()
    edit = found.recording[0].edits[0]
    assert view.steps.said(0, 0) == edit.law
    assert edit.index == 0
    assert view.steps.detail(0)["edits"]["rules"][0][0] == edit.rule


def test_names_of_files_and_builds_tell_them_apart():
    program = residual(1)
    found = wb.differences(wb.compile(program, "cpu"), wb.compile(program, "ref"), program)
    assert found.names == ("residual for cpu", "residual for ref", "residual")
    path = MODELS["small_cnn"].path
    assert wb.differences(path, str(path)).names == ("small_cnn.onnx 1", "small_cnn.onnx 2")


def test_hostile_names_stay_text():
    page = wb.differences(hostile(), residual(1)).view().to_html()
    assert HOSTILE not in page


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(OperationError, match="two programs or more; found 1"):
        wb.differences(residual(1))
    with pytest.raises(OperationError, match="found int"):
        wb.differences(residual(1), 5)
    with pytest.raises(OperationError, match="1 names for 2 programs"):
        wb.differences(residual(1), residual(1), names=["a"])
    with pytest.raises(ModelError, match=r"no\.onnx"):
        wb.differences(residual(1), "no.onnx")


def test_times_and_errors_stand_beside_each_other_by_counterpart():
    program = residual(2)
    a, b = (wb.compile(program, "cpu", disable=off) for off in ((), "fuse_pointwise"))
    found = wb.differences(a, b, names=["fused", "plain"])
    runs = [build.run({}, profile=True) for build in (a, b)]
    table = found.beside(*runs)
    for k, (name, run) in enumerate(zip(found.names, runs, strict=True)):
        shown = table[table[f"{name}: name"] != ""]
        own = {other: mine for mine, other in found.ids[k].items()}
        assert [str(names(run.program)[own[id]]) for id in shown.index] == list(
            shown[f"{name}: name"]
        )
        timings = run.timings()
        assert shown[f"{name}: ms"].sum() == pytest.approx(timings["ms"].sum())
        assert set(shown[f"{name}: kernels"]) - {""} == set(timings["kernel"])
    one_sided = table[table["fused: name"] == ""]
    assert list(one_sided["difference"]) == list(one_sided["plain: ms"])
    sizes = table["difference"].abs()
    assert list(sizes) == sorted(sizes, reverse=True)
    errors = found.beside(*(wb.compare(build, {}) for build in (a, b)))
    assert errors["difference"].isna()[errors["fused: name"] == ""].all()
    overlay = found.view(runs).overlay
    assert overlay["scale"] == "puor"
    assert overlay["values"] == {str(id): ms for id, ms in table["difference"].items()}


def test_numbers_of_three_programs_and_plain_ones_are_listed():
    program = residual(1)
    found = wb.differences(program, copied(program), copied(program), names="abc")
    last = program.main.outputs[0].id
    table = found.beside({last: 1.0}, {last: float("nan")}, {})
    assert list(table.loc[last, ["a: value", "b: value", "c: value"]].isna()) == [False, True, True]
    assert "difference" not in table
    with pytest.raises(OperationError, match="colour two programs"):
        found.view([{last: 1.0}] * 3)


def test_numbers_of_other_programs_are_refused():
    a, b = (wb.compile(residual(1), "cpu") for _ in range(2))
    found = wb.differences(a, b)
    mine, other = (build.run({}, profile=True) for build in (a, b))
    with pytest.raises(OperationError, match="another program"):
        found.beside(other, mine)
    with pytest.raises(OperationError, match="numbers of 2 programs; found 1"):
        found.beside(mine)
    with pytest.raises(OperationError, match="one kind"):
        found.beside(mine, {})
    with pytest.raises(OperationError, match="found int"):
        found.beside(mine, 1)
