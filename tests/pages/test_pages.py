"""The pages of operators say what the declarations say, and every operation is on one."""

import re

import pytest

from tests.pages import passes
from tests.pages.examples import example
from tests.pages.imports import table
from tests.pages.write import FOLDER, MADE, PICTURE, drawn, meaning, pages
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.passes.base import RewritePass, all_passes

OPERATIONS = all_operations()

# What an unknown operator or a note computes is not known, so there is nothing to show.
WITHOUT_EXAMPLE = {"unknown:", "@outline", "outline"}
OURS = sorted(n for n, op in OPERATIONS.items() if op.__module__.startswith("workbench."))


def test_the_pages_are_up_to_date(request: pytest.FixtureRequest):
    made = pages()
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(exist_ok=True)
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    written = {p.name: p.read_text(encoding="utf-8") for p in FOLDER.glob("*.md")}
    assert sorted(written) == sorted(made), "`python -m tests.pages` writes them anew"
    old = [name for name in made if written[name] != made[name]]
    assert not old, "`python -m tests.pages` writes them anew"


def test_the_page_of_passes_is_up_to_date(request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        passes.PAGE.write_text(passes.page(), encoding="utf-8")
    written = passes.PAGE.read_text(encoding="utf-8")
    assert written == passes.page(), "`python -m tests.pages` writes it anew"
    for name, kind in all_passes().items():
        assert f"\n## {name}\n" in written
        for rule in kind.rules if issubclass(kind, RewritePass) else ():
            assert f"| `{rule.name}` |" in written


def test_every_operation_has_a_section_with_an_example():
    text = "\n".join(pages().values())
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for name in OURS:
        assert meaning(name).splitlines()[0] in sections[name].replace("\\<", "<")
    assert {n for n in OURS if example(n) is None} == WITHOUT_EXAMPLE


def test_operators_of_onnx_lead_to_the_operations_that_they_become():
    found = table()
    assert found["", "Add"].operations >= {"add", "multibroadcast"}
    assert found["", "If"].operations == {"if", "get_tuple_elem"}
    assert found["", "HardSwish"].operations >= {"mul"}
    assert found["ai.onnx.preview.training", "Adagrad"].is_refused


def test_an_operation_without_a_docstring_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OPERATIONS["add"], "__doc__", None)
    with pytest.raises(ValueError, match="'add' has no docstring"):
        meaning("add")


def test_a_built_page_has_the_pictures():
    page = f"{MADE}## add\n\n<!-- picture: add -->\n"
    assert PICTURE.search(page)
    built = drawn(page)
    assert "<svg" in built
    assert ">add</text>" in built
    assert "\n\n" not in built.partition("<figure>")[2].strip()
