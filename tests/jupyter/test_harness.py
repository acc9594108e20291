"""The harness itself: a small widget is drawn, clicked, and heard in Python; errors are seen."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Error

from tests.jupyter.lab import Lab, ask, until

pytestmark = pytest.mark.jupyter

WIDGET = '''
import anywidget, traitlets
class Button(anywidget.AnyWidget):
    count = traitlets.Int(0).tag(sync=True)
    _esm = """export default { render({ model, el }) {
      el.innerHTML = '<button class="probe">add</button>';
      el.firstChild.onclick = () => {
        model.set("count", model.get("count") + 1);
        model.save_changes();
      };
    } }"""
button = Button()
button
'''


def notebook(folder: Path, name: str, *codes: str) -> Path:
    empty = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    cells = [empty | {"source": code} for code in codes]
    path = folder / f"{name}.ipynb"
    text = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(text))
    return path


def test_a_click_reaches_python(lab: Lab, tmp_path: Path):
    with lab.open(notebook(tmp_path, "click", "x = 1", WIDGET)) as opened:
        opened.run_all()
        assert opened.errors() == []
        opened.cell(opened.find("anywidget")).locator("button.probe").click()
        opened.page.wait_for_timeout(200)
        assert opened.run("print(button.count)") == "1"
        assert opened.complaints == []


def test_an_error_in_a_cell_is_seen(lab: Lab, tmp_path: Path):
    with lab.open(notebook(tmp_path, "error", "1 / 0")) as opened:
        opened.run_all()
        assert opened.errors() == ["ZeroDivisionError: division by zero"]


def test_an_error_in_the_browser_is_seen(lab: Lab, tmp_path: Path):
    code = WIDGET.replace('model.set("count"', 'missing.set("count"')
    with lab.open(notebook(tmp_path, "console", code)) as opened:
        opened.run_all()
        opened.cell(0).locator("button.probe").click()
        opened.page.wait_for_timeout(200)
        assert any("missing" in complaint for complaint in opened.complaints)


def test_a_promise_is_true_when_its_value_is(lab: Lab):
    counted = "async (most) => (window.counted = (window.counted ?? 0) + 1) > most"
    until(lab.page, counted, 2)
    assert ask(lab.page, "() => window.counted") == 3
    with pytest.raises(Error, match="not true in 300 ms"):
        until(lab.page, "async () => false", milliseconds=300)


def test_a_promise_without_an_answer_is_an_error(lab: Lab):
    with pytest.raises(Error, match="no answer in 200 ms"):
        ask(lab.page, "() => new Promise(() => {})", milliseconds=200)
