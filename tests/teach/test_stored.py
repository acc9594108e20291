"""The stored form of exercises: a page without Python says what Python says, and no answer stands in it."""

import ast
import base64
import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.teach.test_exercises import EXERCISES
from workbench import teach
from workbench.teach.exercise import Feedback
from workbench.teach.lesson_page import live_outputs
from workbench.teach.stored import digest, key_of, mixed, stored
from workbench.widgets.graph_view import GraphView

CHAIN = "x = @param:x -> float_type, {4}\na = relu(x)\nb = exp(a)\nc = neg(b)\n@return(c)"


def told(exercise: teach.Exercise, answer: Any) -> Feedback:
    """The feedback to an answer as the page finds it."""
    values = stored(exercise)["views"][-1]["values"]
    salt, key = values["salt"], key_of(answer, values["digits"])
    sealed = values["sealed"].get(str(digest(salt + key)))
    if sealed is None:
        return Feedback(False, values["otherwise"])
    words = mixed(base64.b64decode(sealed), key + salt).decode()
    return Feedback(words[0] == "1", words[1:])


def picked() -> teach.Pick:
    program = wb.parse(CHAIN)
    ids = {i.name: i.id for i in program.main}
    return teach.Pick(
        "Which one?",
        GraphView(program),
        [ids["exp"]],
        explain=lambda i: f"{i} is not exp.",
        because="It is exp.",
    )


CASES = {
    "number": (lambda: teach.Number("How many?", 7, because="Seven it is."), [7, 6, 8, 0, 1e9]),
    "negative": (lambda: teach.Number("How many?", -2.5), [-2.5, 2.5, -2, 0]),
    "infinite": (lambda: teach.Number("How many?", float("inf")), [float("inf"), 3]),
    "infinite within": (lambda: teach.Number("?", float("-inf"), within=0.1), [float("-inf"), 3]),
    "nothing within": (lambda: teach.Number("?", 0, within=0.1), [0, 1]),
    "choice": (
        lambda: teach.Choice("Which?", {"a B": "Yes, B.", "c": "No: not c."}, "a B"),
        ["a B", "c"],
    ),
    "text": (lambda: teach.Text("Which?", ["relu", "Re Lu 2"]), ["relu", " RELU", "relu2", "exp"]),
    "click": (picked, [i.id for i in wb.parse(CHAIN).main]),
    "culprit": (
        lambda: teach.Culprit("Which?", wb.parse(CHAIN), wb.parse(CHAIN.replace("exp", "sin"))),
        ["@1", "@2", "@3", "@4"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_page_says_what_python_says(name: str):
    make, answers = CASES[name]
    exercise = make()
    found = [told(exercise, answer) for answer in answers]
    assert [bool(f) for f in found] == [bool(exercise.feedback(answer)) for answer in answers]
    values = stored(exercise)["views"][-1]["values"]
    for one, answer in zip(found, answers, strict=True):
        assert one.message in (exercise.feedback(answer).message, values["otherwise"])
    assert any(found)
    assert exercise.attempts == []


@pytest.mark.parametrize("name", CASES)
def test_no_answer_and_no_feedback_stands_in_the_form(name: str):
    make, answers = CASES[name]
    exercise = make()
    values = stored(exercise)["views"][-1]["values"]
    text = json.dumps(values | {"choices": None, "otherwise": ""})
    assert not any(f'"{a}"' in text for a in answers if exercise.feedback(a))
    messages = {exercise.feedback(a).message for a in answers} - {""}
    assert not any(message in text for message in messages)


@given(st.floats(1e-6, 1e9), st.floats(0.02, 0.6), st.floats(-3, 3))
def test_a_number_is_taken_within_the_tolerance_and_refused_beyond_it(truth, within, part):
    exercise = teach.Number("How much?", truth, within=within)
    found = told(exercise, truth * (1 + within * part))
    if abs(part) < 0.7:
        assert found
    if abs(part) > 1.3:
        assert not found


def test_what_only_python_can_check_says_so_and_an_answer_that_is_not_known_yet_too():
    later = teach.Number("How many?", lambda: missing)  # noqa: F821
    for exercise in (EXERCISES["rule"][0](), EXERCISES["goal"][0](), later):
        (form,) = stored(exercise)["views"]
        assert form["values"]["sealed"] == {}
        assert "needs Python" in form["values"]["note"]
        assert exercise.expects in form["values"]["note"]


def test_the_code_on_a_page_has_no_answers_and_still_parses():
    source = (
        "x = 1\nasked = teach.Number(\n    'How many?',\n    7,\n)\nrule = teach.WriteRule(\n    'Wörds',\n"
        "    [],\n    hints=['é', 'two'],\n    because='so', name='kept',\n)\nasked\nrule.answer(x)"
    )
    cells = [nbformat.v4.new_code_cell(text) for text in (source, "%run file", "", "asked")]
    cells.append(nbformat.v4.new_code_cell("teach.Text('Which?', 'this')"))
    live_outputs(nbformat.v4.new_notebook(cells=cells))
    first, *others, last = (cell.source for cell in cells)
    assert "asked" not in first
    assert "'two'" not in first
    assert "name='kept'" in first
    assert ast.parse(first)
    assert others == ["%run file", "", "asked"]
    assert "this" not in last
    assert cells[-1].metadata.tags == ["remove-input"]
    assert [len(cell.outputs) for cell in cells] == [1, 0, 0, 0, 0]
