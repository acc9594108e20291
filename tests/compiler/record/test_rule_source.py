"""The source of a rule is the definition around its line, wherever the file is; what is not found is none."""

import linecache
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.widgets.networks import recorded, residual
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.record.rule_source import rule_source


def test_every_edit_of_a_pipeline_has_the_source_of_its_rule():
    for step in recorded(residual(2)):
        for edit in step.edits:
            found = rule_source(edit.file, edit.line, step.pass_)
            assert found is not None
            lines = found.text.splitlines()
            text = Path(edit.file).read_text(encoding="utf-8").splitlines()
            assert lines[edit.line - found.first] == text[edit.line - 1]
            assert len(found.text) <= 8000
            assert "def " in found.text


def test_a_file_is_found_by_its_name_beside_the_pass_or_where_it_was_run():
    linecache.cache["cells/77.py"] = (
        20,
        None,
        ["x = 1\n", "def f():\n", "    return 2\n"],
        "",
    )
    assert rule_source("77.py", 3) == (2, "def f():\n    return 2\n")
    own = rule_source("dead_code_elimination.py", 1, DeadCodeElimination())
    assert own is not None


def test_what_is_not_there_is_none():
    for file, line in (
        ("", 0),
        ("workbench/nothing.py", 3),
        ("nothing.py", 1),
        ("workbench/cli.py", 10**6),
    ):
        assert rule_source(file, line) is None


def test_a_pass_of_a_notebook_has_no_file_of_its_own(monkeypatch: pytest.MonkeyPatch):
    class Mine:
        """A class as a notebook has it, whose module has no file."""

    Mine.__module__ = "__main__"
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    assert rule_source("nowhere.py", 1, Mine()) is None
