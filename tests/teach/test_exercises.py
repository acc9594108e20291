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
from workbench.widgets.graph_view import GraphView
from workbench.widgets.saved import MIME

VIEW = "application/vnd.jupyter.widget-view+json"
NEGATED = "x = @param:x -> float_type, {2, 3}\na = neg(x)\nb = neg(a)\n@return(b)"
PLAIN = "x = @param:x -> float_type, {2, 3}\n@return(x)"
ONCE = "x = @param:x -> float_type, {2, 3}\na = neg(x)\n@return(a)"
CHAIN = "x = @param:x -> float_type, {4}\na = relu(x)\nb = exp(a)\nc = neg(b)\n@return(c)"
FAULTY = CHAIN.replace("exp", "sin")


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


@pytest.mark.parametrize("name", EXERCISES)
def test_a_form_asks_checks_and_hints(name: str):
    make, right, _ = EXERCISES[name]
    exercise = make()
    exercise.hints = ("Look.", "Look <there>.")
    exercise.question += " <img onerror=alert(1)>"
    from workbench.teach.form import form

    box = form(exercise)
    asked, *rest = box.children
    assert "<img" not in asked.value
    buttons = {b.description: b for w in rest if isinstance(w, ipywidgets.HBox) for b in w.children}
    status = next(w for w in rest if isinstance(w, ipywidgets.HTML))
    buttons["Hint"].click()
    buttons["Hint"].click()
    buttons["Hint"].click()
    assert "Look &lt;there&gt;." in status.value
    assert exercise.hints_shown == 2
    field = exercise.field()
    if field is None:
        assert "Check" not in buttons
        return
    field = rest[0]
    if isinstance(exercise, teach.Pick):
        field.selected = right
    else:
        field.value = str(right)
    buttons["Check"].click()
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
