"""The code in the documentation runs as it stands there."""

import re
from pathlib import Path

import pytest

from workbench.compiler.ir.operation import OPERATIONS
from workbench.compiler.macros import MACROS

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["extending.md", "migraphx.md"])
def test_the_code_of_a_page_runs(page: str):
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    try:
        exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})
    finally:
        for name in ("cube", "scaled_cube", "softsign_of"):  # the own operations and macro of pages
            OPERATIONS.pop(name, None)
        MACROS.pop("hypotenuse", None)
