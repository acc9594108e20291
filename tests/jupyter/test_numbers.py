"""The notebooks on half precision and int8 in a real JupyterLab: what is wrong is found and repaired."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.jupyter.lab import Lab, Notebook

pytestmark = pytest.mark.jupyter

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def half(lab: Lab) -> Generator[Notebook]:
    """The fifth notebook after all its cells have run."""
    with lab.open(NOTEBOOKS / "11-which-operation-broke-my-half-precision-model.ipynb") as notebook:
        notebook.run_all()
        yield notebook


@pytest.fixture(scope="module")
def int8(lab: Lab) -> Generator[Notebook]:
    """The sixth notebook after all its cells have run."""
    with lab.open(NOTEBOOKS / "12-quantise-and-see-where-it-hurts.ipynb") as notebook:
        notebook.run_all()
        yield notebook


def pictured(notebook: Notebook, code: str, path: Path) -> bool:
    """Whether the cell with this code shows a plot; takes a picture of it."""
    cell = notebook.find(code)
    notebook.cell(cell).screenshot(path=path)
    return any("image/png" in output.get("data", {}) for output in notebook.outputs(cell))


def test_the_sum_that_overflows_half_is_named_and_repaired(half: Notebook):
    assert half.errors() == []
    assert half.text("pd.DataFrame({").count("javascript") == 5
    said = half.text("culprit = report.culprits()[0]")
    assert "LayerNorm_1/Sum_1: reduce_sum inside it: it overflows half" in said
    assert "LayerNorm_1/truediv_1" in half.text("moved = ")
    assert half.text("second = wb.compile(").startswith("['python ")
    assert "in half: 99.9995%" in half.text("wb.search_precision(")


def test_another_tools_values_name_the_same_culprit(half: Notebook):
    values = half.run('print(other.table().set_index("reference")["wrong"].to_string())')
    wrong = dict(row.rsplit(maxsplit=1) for row in values.splitlines()[1:])
    assert wrong["target_label"] == "True"
    assert next(at for name, at in wrong.items() if "Conv_0" in name) == "False"
    assert "LayerNorm_1/Sum_1" in half.text("dump = ")


def test_int8_loses_blurred_images_and_depthwise_layers_in_float_save_them(int8: Notebook):
    assert int8.errors() == []
    assert "from Conv.5, BatchNormalization.5: rounding" in int8.text("culprits = ")
    rows = re.findall(r"^(\w.*?) +(\d+) +(\d+)$", int8.text("depthwise = ["), re.MULTILINE)
    blurred = {kind: int(right) for kind, _, right in rows}
    assert blurred["int8"] < blurred["float"] <= blurred["int8, depthwise in float"]
    assert [sharp for _, sharp, _ in rows] == ["12"] * 4


@pytest.mark.parametrize("code", ["report.plot()", "wb.sensitivity("])
def test_half_is_plotted(half: Notebook, pictures: Path, code: str):
    assert pictured(half, code, pictures / f"notebook-05-{half.find(code)}.png")


@pytest.mark.parametrize("code", ["ax.imshow(", "report.plot()", "ratio[", "calibration.plot("])
def test_int8_is_plotted(int8: Notebook, pictures: Path, code: str):
    assert pictured(int8, code, pictures / f"notebook-06-{int8.find(code)}.png")
