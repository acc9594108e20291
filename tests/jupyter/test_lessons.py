"""A lesson in a real JupyterLab, done by clicks and keys: wrong, a hint, then right."""

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.jupyter.lab import Lab, Notebook

pytestmark = pytest.mark.jupyter
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def lesson(lab: Lab) -> Generator[Notebook]:
    """The lesson on the IR after all its cells have run."""
    with lab.open(NOTEBOOKS / "02-the-ir.ipynb") as notebook:
        notebook.run_all()
        yield notebook


def asked(lesson: Notebook, code: str) -> tuple[Locator, Locator]:
    """The output of the cell of an exercise, and where it is told what is right."""
    cell = lesson.cell(lesson.find(code))
    form = cell.locator(".jp-OutputArea-output").last
    return form, form.locator("[role=status]:not(.wb-live)")


def test_every_cell_runs(lesson: Notebook):
    assert lesson.errors() == []


def test_a_number_is_predicted_by_keys(lesson: Notebook, pictures: Path):
    form, status = asked(lesson, "computing instructions")
    form.locator("input").click()
    press = lesson.page.keyboard.press
    for key in ("3", "Tab", "Enter"):
        press(key)
    expect(status).to_contain_text("3 is too low")
    for key in ("Tab", "Enter"):
        press(key)
    expect(status).to_contain_text("Count the lines")
    form.locator("input").fill("4")
    for key in ("Tab", "Enter"):
        press(key)
    expect(status).to_contain_text("Right. The product")
    form.screenshot(path=pictures / "lesson-number.png")
    assert lesson.run("print(lines.solved, len(lines.attempts), lines.hints_shown)") == "True 2 1"


TYPE_AND_CHECK = """(form) => {
  const field = form.querySelector("input");
  for (const value of ["3", "5", "4"]) {
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  form.querySelector("button").click();
}"""


def test_the_last_of_what_was_typed_counts(lesson: Notebook):
    """The browser sends the first change; the others wait until it has arrived, but a click does not."""
    form, status = asked(lesson, "computing instructions")
    form.locator("input").fill("9")
    form.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("9 is too high")
    form.evaluate(TYPE_AND_CHECK)
    expect(status).to_contain_text("Right. The product")


def test_a_choice_is_made(lesson: Notebook, pictures: Path):
    form, status = asked(lesson, "removing an instruction")
    form.get_by_text("no later line").click()
    form.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("Not yet")
    form.get_by_text("no instruction uses").click()
    form.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("Right")
    form.screenshot(path=pictures / "lesson-choice.png")


def test_a_node_is_clicked(lesson: Notebook, pictures: Path):
    form, status = asked(lesson, "the last one")
    form.locator(".wb-canvas").first.wait_for(state="visible")
    lesson.run("graph.selected = next(i.id for i in diamond.main if i.name == 'add')")
    form, status = asked(lesson, "the last one")
    form.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("does not need all three")
    lesson.run("graph.selected = next(i.id for i in diamond.main if i.name == 'mul')")
    form, status = asked(lesson, "the last one")
    form.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("Right")
    lesson.settle()
    form.screenshot(path=pictures / "lesson-pick.png")
    assert lesson.run(
        "print(graph.query, teach.progress().loc['the last one', 'solved'])"
    ).endswith("True")
