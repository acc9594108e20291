"""The harness itself: a small widget is drawn, clicked, and heard in Python; errors are seen."""

import json
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab

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
