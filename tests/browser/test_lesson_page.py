"""A lesson as a page without a kernel: its views work, and its exercises are solved by clicks and keys."""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Locator, Page, expect

pytestmark = pytest.mark.browser
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@dataclass
class Lesson:
    """The page, its text, and what went wrong on it."""

    page: Page
    text: str
    complaints: list[str] = field(default_factory=list)

    def exercise(self, words: str) -> tuple[Locator, Locator]:
        """An exercise, and where it is told what is right."""
        form = self.page.locator(".wb-exercise", has_text=words)
        return form, form.locator("[role=status]")


@pytest.fixture(scope="module")
def lesson(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Generator[Lesson]:
    """The lesson on the IR, as nbconvert exports it, without a network."""
    book = nbformat.read(NOTEBOOKS / "02-the-ir.ipynb", as_version=4)
    NotebookClient(book, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    exporter = HTMLExporter(preprocessors=["workbench.teach.lesson_page.LiveViews"])
    text = exporter.from_notebook_node(book)[0]
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    path.write_text(text, encoding="utf-8")
    context = chromium.new_context(reduced_motion="reduce")
    context.route("http*://**", lambda route: route.abort())
    found = Lesson(context.new_page(), text)
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.goto(path.as_uri())
    for one in found.page.locator(".wb-saved").all():  # each is drawn when it comes into view
        one.scroll_into_view_if_needed()
        one.locator(".wb-root").first.wait_for()
    yield found
    context.close()
    assert found.complaints == []


def test_a_number_is_predicted_by_keys(lesson: Lesson):
    form, status = lesson.exercise("compute something")
    form.locator("input").click()
    press = lesson.page.keyboard.press
    for key in ("3", "Enter"):
        press(key)
    expect(status).to_have_text("✗ Not yet. 3 is too low.")
    for key in ("Tab", "Tab", "Enter"):
        press(key)
    expect(status).to_contain_text("Count the lines")
    press("Enter")
    expect(status).to_contain_text("The number 1 is spread")
    form.locator("input").fill(" 4.0 ")
    press("Enter")
    expect(status).to_contain_text("✓ Right. The product")
    form.locator("input").fill("four")
    press("Enter")
    expect(status).to_contain_text("Not yet. That is not a number")


def test_a_choice_is_made(lesson: Lesson):
    form, status = lesson.exercise("must it check first")
    check = form.get_by_role("button", name="Check")
    check.click()
    expect(status).to_have_text("There is no answer yet.")
    form.get_by_label("no later line").check()
    check.click()
    expect(status).to_have_text("✗ Not yet. No line can: every value is made exactly once.")
    form.get_by_label("no instruction uses").check()
    check.click()
    expect(status).to_have_text("✓ Right. The users of a value are known.")


def test_a_node_is_clicked(lesson: Lesson):
    form, status = lesson.exercise("cannot run before")
    assert lesson.page.get_by_text("cannot run before").count() == 1
    canvas = lesson.page.locator(".wb-saved", has=form).locator(".wb-canvas").first
    nodes = {n["title"]: n for n in canvas.evaluate("c => c.__wb.nodes()")}
    for title, says in (("add", "does not need all three"), ("mul", "✓ Right.")):
        n = nodes[title]
        canvas.click(position={"x": n["x"] + n["w"] / 2, "y": n["y"] + n["h"] / 2})
        form.get_by_role("button", name="Check").click()
        expect(status).to_contain_text(says)


def test_a_text_is_taken_without_spaces_and_case(lesson: Lesson):
    form, status = lesson.exercise("last one inside the fused kernel")
    for given, says in (("add", "✗ Not yet."), (" ReLU ", "✓ Right.")):
        form.locator("input").fill(given)
        form.get_by_role("button", name="Check").click()
        expect(status).to_contain_text(says)


def test_what_needs_python_says_so_below_the_code_to_run(lesson: Lesson):
    cell = lesson.page.locator(".jp-CodeCell", has_text="written.answer(text)")
    expect(cell).to_contain_text("Change the text, run the cell again")
    expect(cell).to_contain_text("This exercise needs Python")


def test_the_source_of_the_page_does_not_tell_the_answers(lesson: Lesson):
    hints = ("Count the lines", "One line more")
    for words in ("The product, the broadcast", "The users of a value", "lambda: sum", *hints):
        assert words not in lesson.text
    assert lesson.page.get_by_text("product = next").count() == 1, "other code is there"
