"""Exercises: right answers are taken, wrong ones are told why, and nothing raises for the student."""

from typing import Any, ClassVar

import ipywidgets
import numpy as np
import pytest

import workbench as wb
from workbench import teach
from workbench.compiler.errors import OperationError
from workbench.compiler.rewrite import op, var
from workbench.knobs import knobs
from workbench.teach.exercise import amount
from workbench.widgets.graph_view import GraphView
from workbench.widgets.saved import MIME

VIEW = "application/vnd.jupyter.widget-view+json"
NEGATED = "x = @param:x -> float_type, {2, 3}\na = neg(x)\nb = neg(a)\n@return(b)"
PLAIN = "x = @param:x -> float_type, {2, 3}\n@return(x)"
ONCE = "x = @param:x -> float_type, {2, 3}\na = neg(x)\n@return(a)"
CHAIN = "x = @param:x -> float_type, {4}\na = relu(x)\nb = exp(a)\nc = neg(b)\n@return(c)"
FAULTY = CHAIN.replace("exp", "sin")
ONES = np.ones((3, 1), np.float32)
UNFUSED = wb.trace(lambda x: x.exp() / (x.exp() @ ONES), x=(2, 3))


@wb.rule(op("neg", op("neg", var("x"))))
def cancelled(b: Any, x: Any) -> Any:  # noqa: ARG001
    """neg(neg(x)) → x"""
    return x


@wb.rule(op("neg", op("neg", var("x"))))
def halved(b: Any, x: Any) -> Any:
    """neg(neg(x)) → neg(x)"""
    return b("neg", x)


@wb.rule(op("neg", var("x")))
def doubled(b: Any, x: Any) -> Any:
    """neg(x) → mul(-1, x)"""
    return b("sub", b("sub", x, x), x)


@wb.rule(op("abs", op("abs", var("x"))))
def elsewhere(b: Any, x: Any) -> Any:
    """abs(abs(x)) → abs(x)"""
    return b("abs", x)


def view() -> Any:
    return GraphView(wb.parse(CHAIN))


def selected(exercise: teach.Pick, id: int) -> int:
    """Click a node."""
    exercise.view.selected = id
    return id


EXERCISES: dict[str, tuple[Any, Any, list[tuple[Any, str]]]] = {
    "number": (
        lambda: teach.Number("How many?", lambda: 12, unit="kernels", because="Yes, twelve."),
        12,
        [(13, "too high"), ("eleven", "Expected a number"), (float("nan"), "NaN"), (None, "Expected")],
    ),
    "number within": (
        lambda: teach.Number("How much?", 100.0, within=0.1),
        "95",
        [(89, "too low"), (111, "too high"), ([], "Expected a number")],
    ),
    "choice": (
        lambda: teach.Choice("Which?", {"a": "No: a is a view.", "b": "It computes."}, lambda: "b"),
        "b",
        [("a", "is a view"), ("c", "one of: a, b"), (None, "one of")],
    ),
    "text": (
        lambda: teach.Text("Which shape?", ["{2, 3}", "2x3"]),
        " {2,3} ",
        [("{3, 2}", "not '{3, 2}'"), ("", "empty"), (2, "Expected a text")],
    ),
    "pick": (
        lambda: teach.Pick("Click it", view(), lambda: {1}, explain=lambda i: f"#{i} is not it."),
        1,
        [(2, "#2 is not it"), ("neg", "Expected an instruction"), (None, "Nothing is selected")],
    ),
    "rule": (
        lambda: teach.WriteRule("Write it", [(NEGATED, PLAIN)], leaves=[ONCE]),
        cancelled,
        [(halved, "does not hold"), (doubled, "infinities"), (elsewhere, "not apply"), (len, "found")],
    ),
    "goal": (
        lambda: teach.Goal("Fewer", len, 2, unit="passes"),
        [1, 2],
        [([1, 2, 3], "3 passes; the goal is 2"), (None, "TypeError"), (3, "TypeError")],
    ),
    "improve": (
        lambda: teach.Improve("Fewer", UNFUSED, lambda b: teach.cost(b).kernels, 1, unit="kernels"),
        lambda x: x.exp() / x.exp().sum(axis=1, keepdims=True),
        [
            (UNFUSED, "3 kernels; the goal is 1"),
            (lambda x: x.exp(), "The results differ: relative RMS"),
            (lambda x: (x.exp(), x), "2 results, but were 1"),
            (lambda y: y, "TypeError"),
            (PLAIN.replace("2, 3", "3, 2"), "the parameters are"),
            ("@ret", "line 1"),
            (None, "expected a function"),
        ],
    ),
    "culprit": (
        lambda: teach.Culprit("Who?", wb.parse(CHAIN), wb.parse(FAULTY)),
        "@2",
        [("@1", "Look further down"), ("@3", "Look further up"), ("@99", "nothing is called '@99'")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_the_right_answer_is_taken_and_wrong_ones_are_told_why(name: str):
    make, right, wrong = EXERCISES[name]
    exercise = make()
    for given, says in wrong:
        found = exercise.answer(given)
        assert not found
        assert not exercise.solved
        with pytest.raises(AssertionError, match=r"Which|How|Click|Write|Fewer|Who"):
            exercise.expect_solved()
        assert any(part in found.message for part in says.split("|")), found.message
    found = exercise.answer(right)
    assert found, found.message
    exercise.expect_solved()
    assert len(exercise.attempts) == len(wrong) + 1


@pytest.mark.parametrize("by_click", [False, True])
@pytest.mark.parametrize("name", EXERCISES)
def test_a_form_asks_checks_and_hints(name: str, by_click: bool):
    """The browser may keep the last change of a field back; the click then has it."""
    make, right, _ = EXERCISES[name]
    exercise = make()
    exercise.hints = ("Look.", "Look <there>.")
    exercise.question += " <img onerror=alert(1)>"
    from workbench.teach.form import form

    box = form(exercise)
    asked, *rest = box.children
    assert "<img" not in asked.value
    [row] = [w for w in rest if isinstance(w, ipywidgets.HBox)]
    hint = row.children[-1]
    status = next(w for w in rest if isinstance(w, ipywidgets.HTML))
    for _ in range(3):
        hint.click()
    assert "Look &lt;there&gt;." in status.value
    assert exercise.hints_shown == 2
    field = exercise.field()
    if field is None:
        assert len(row.children) == 1
        return
    field, check = rest[0], row.children[0]
    held = {"value": str(right), "selected": right}
    if check.holds == "index":
        held["index"] = field.options.index(right)
    given = {check.holds: held[check.holds]}
    if not by_click:
        field.set_state(given)
    check._handle_custom_msg(given if by_click else {}, [])
    assert exercise.solved
    assert "Right" in status.value


def test_a_counterexample_is_shown_before_and_after():
    exercise = teach.WriteRule("Write it", [(NEGATED, PLAIN)])
    found = exercise.answer(halved)
    assert found.shown.counts["removed"] >= 1
    assert found.shown.names == ("before", "after")


def test_a_right_pick_is_marked_in_the_graph():
    exercise = teach.Pick("Click it", view(), {1, 2})
    assert not exercise.answer()
    exercise.view.selected = 2
    assert exercise.answer()
    assert exercise.view.query == "#1 or #2"
    assert sorted(exercise.view.find(exercise.view.query)) == [1, 2]


def test_a_goal_remembers_the_best():
    exercise = teach.Goal("Fewer", len, 1)
    for given in ([1, 2, 3], [1, 2], [1, 2, 3, 4]):
        exercise.answer(given)
    assert exercise.best == 2
    assert "the best so far 2" in exercise.attempts[-1].message
    assert not exercise.answer(None)
    assert not teach.Goal("NaN", lambda _: np.nan, 1).answer(0)


def test_a_long_choice_keeps_its_line():
    field = teach.Choice("Which?", ["a" * 80, "b"], "b").field()
    assert field.layout.width == "max-content"


def test_an_improvement_with_other_results_is_shown_beside_the_program():
    exercise = teach.Improve("Fewer", UNFUSED, lambda b: teach.cost(b).kernels, 1)
    found = exercise.answer(lambda x: x.exp())
    assert found.shown.names == ("before", "after")
    assert exercise.best is None


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (14_155_776, "14,155,776 bytes"),
        (1, "1 byte"),
        (-0.5, "-0.5 bytes"),
        (1e300, "1e+300 bytes"),
        (float("inf"), "inf bytes"),
        (float("nan"), "nan bytes"),
    ],
)
def test_an_amount_is_read_at_a_glance(number: float, shown: str):
    assert amount(number, "bytes") == shown


@pytest.mark.parametrize("within", [0.0, 0.1])
def test_an_infinite_truth_is_itself_only(within: float):
    exercise = teach.Number("How much?", float("inf"), within=within)
    answers = [float("inf"), float("-inf"), 1e300, float("nan")]
    assert [bool(exercise.answer(a)) for a in answers] == [True, False, False, False]


def test_a_unit_agrees_with_its_number():
    assert "1 kernel is too low" in teach.Number("How many?", 2, unit="kernels").answer(1).message
    assert "1 kernel; the goal" in teach.Goal("Fewer", len, 1, unit="kernels").answer([0]).message


@pytest.mark.parametrize(
    "program",
    [
        UNFUSED,
        wb.trace(lambda x: (x.relu().T.reshape(6), (x + 1).softmax(axis=1)), x=(2, 3)),
        wb.trace(lambda x: (x.exp(), x.relu() @ np.ones((3, 2), np.float32)), x=(2, 3)),
        wb.trace(lambda x: x.T, x=(2, 3)),
        wb.trace(lambda x: x.sum(), x=wb.Shape("half", ())),
    ],
)
def test_costs_are_those_of_the_kernels_that_a_run_times(program: wb.Program):
    build = wb.compile(program, "cpu", passes="gpu")
    cost = teach.cost(build)
    timed = [t for t in build.run().measured.rows if t.bytes or t.flops]
    assert [(r.id, r.parts, r.bytes, r.flops) for r in cost.rows] == [
        (t.id, t.kernel, t.bytes, t.flops) for t in timed
    ]
    assert repr(cost) == repr(teach.cost(build.program))
    assert len(cost.table()) == cost.kernels
    assert f"{cost.bytes:,} bytes" in cost._repr_mimebundle_()["text/html"]


def test_a_culprit_is_named_by_its_node_of_the_model():
    b = wb.Builder()
    x = b.input("x", (4,))
    y = x.relu()
    right = b.program(y.exp())
    wrong = wb.parse(str(right).replace("exp", "sin"))
    exercise = teach.Culprit("Who?", right, wrong)
    assert exercise.answer(wrong.main.outputs[0])
    with pytest.raises(OperationError, match="does not differ"):
        teach.Culprit("Who?", right, right)


def test_progress_lists_each_exercise_once():
    kept = [
        teach.Number("a", 1, name="one", points=3),
        teach.Number("b", 2, name="two", hints=["h"]),
    ]
    replaced = teach.Number("b", 2, name="two", hints=["h"])
    kept[0].answer(1)
    replaced.hint()
    replaced.answer(7)
    table = teach.progress().loc[["one", "two"]]
    assert table.to_dict("list") == {
        "solved": [True, False], "answers": [1, 1], "hints": [0, 1], "points": [3, 0], "of": [3, 1],
    }  # fmt: skip


def test_an_exercise_that_cannot_know_says_so():
    broken = teach.Number("How many?", lambda: 1 // 0)
    with pytest.raises(OperationError, match="cannot compute its own answer"):
        broken.answer(1)
    with pytest.raises(OperationError, match="not among the choices"):
        teach.Choice("Which?", ["a"], "b")


def test_the_output_of_an_exercise_asks_without_a_kernel_too():
    exercise = teach.Number('What is 6 < "7"?', 42)
    data, _ = exercise._repr_mimebundle_()
    assert "What is 6 &lt; &quot;7&quot;?" in data["text/html"]
    assert data[MIME]["views"] == []
    assert VIEW in data
    with knobs.scope(static=True):
        still, _ = exercise._repr_mimebundle_()
    assert set(still) == {"text/plain", "text/html"}


def test_an_exercise_that_nbconvert_runs_opens_no_channel(monkeypatch):
    class Shell:
        parent_header: ClassVar = {"content": {"allow_stdin": False}}

    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    made: list[ipywidgets.Widget] = []
    ipywidgets.Widget.on_widget_constructed(made.append)
    try:
        data, _ = teach.Number("How many?", 42)._repr_mimebundle_()
    finally:
        ipywidgets.Widget.on_widget_constructed(None)
    assert made == []
    assert VIEW not in data
    assert "How many?" in data["text/html"]


def test_a_page_without_a_kernel_shows_the_graph_that_is_asked_about(monkeypatch):
    class Shell:
        parent_header: ClassVar = {"content": {"allow_stdin": False}}
        execution_count = 1

    exercise = teach.Pick("Click it", view(), {1})
    shown: list[Any] = []
    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    data, _ = exercise._repr_mimebundle_()
    assert "Click it" in shown[0]["text/html"]
    assert ">exp<" in data["image/svg+xml"]
    assert VIEW not in data
