"""The code in the documentation runs as it stands there."""

import re
from pathlib import Path

import pytest

from workbench.compiler.arrays.metrics import Metric, type_tolerance
from workbench.compiler.builds.targets import unregister
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import OPERATIONS
from workbench.compiler.macros import MACROS

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [
        "aitemplate.md",
        "compare.md",
        "extending.md",
        "from_onnxruntime.md",
        "gradients.md",
        "measure.md",
        "migraphx.md",
        "numbers.md",
        "onnx.md",
        "popart.md",
        "precision.md",
        "programs.md",
        "teach.md",
        "why_not.md",
    ],
)
def test_the_code_of_a_page_runs(page: str):
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    try:
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})
    finally:
        for name in (
            "cube",
            "cubed",
            "scaled_cube",
            "softsign_of",
        ):  # the own operations and macro of pages
            OPERATIONS.pop(name, None)
        MACROS.pop("hypotenuse", None)
        unregister("careful")


def test_the_page_of_numbers_has_every_metric_and_the_tolerance_of_every_float():
    page = (DOCS / "numbers.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z ]+)` \| .*\| (?:lower|higher) \|", page, re.MULTILINE) == [
        m.value for m in Metric
    ]
    rows = re.findall(r"^\| (`.*?) \| \d+ \| (\S+) \|", page, re.MULTILINE)
    found = {name: limit for names, limit in rows for name in re.findall(r"`(\w+)`", names)}
    assert {DType.of(n) for n in found} >= {t for t in DType if t.is_float}
    assert found == {n: f"{type_tolerance(DType.of(n)):.1e}" for n in found}
