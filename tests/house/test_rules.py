"""The house keeps its rules, and each rule catches a planted breach."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.house import rules

ROOT = Path(__file__).parents[2]
Rule = Callable[[Path], Iterator[str]]
LONG = "def f() -> None:\n" + "    print()\n" * 60
HEAD = '"""A module."""\n'


def notebook(output: list[object], kind: str = "markdown", count: int = 1) -> str:
    cell = {"cell_type": kind, "source": [], "outputs": output, "execution_count": None}
    return json.dumps({"cells": [cell] * count})


PLANTED: list[tuple[Rule, str, str]] = [
    (rules.import_direction, "workbench/compiler/ir.py", "from workbench.widgets import graph"),
    (rules.import_direction, "workbench/compiler/ir.py", "import onnx"),
    (rules.import_direction, "workbench/compiler/ir.py", "import pandas"),
    (rules.import_direction, "workbench/compiler/ir.py", "def f():\n    import IPython"),
    (rules.import_direction, "workbench/compiler/ir.py", "from . import text"),
    (rules.import_direction, "workbench/compiler/ir.py", "from workbench.widgets.display import f"),
    (rules.import_direction, "workbench/compiler/onnx/load.py", "import scipy"),
    (rules.import_direction, "workbench/gpu/hip.py", "import workbench.widgets.graph"),
    (rules.import_direction, "workbench/gpu/hip.py", "import pyopencl"),
    (
        rules.import_direction,
        "workbench/compiler/builds/build.py",
        "from workbench.gpu.run.runner import R",
    ),
    (
        rules.import_direction,
        "workbench/compiler/run/steps.py",
        "def f():\n    import workbench.gpu.run.runner",
    ),
    (
        rules.import_direction,
        "workbench/compiler/ir/shape.py",
        "from workbench.compiler.ops import view",
    ),
    (
        rules.import_direction,
        "workbench/compiler/ir/program.py",
        "def f():\n    from workbench.compiler.text.printing import to_text",
    ),
    (
        rules.import_direction,
        "workbench/compiler/errors.py",
        "if TYPE_CHECKING:\n    from workbench.compiler.record.edits import Edit",
    ),
    (
        rules.import_direction,
        "workbench/compiler/record/edits.py",
        "import workbench.compiler.passes.base",
    ),
    (
        rules.import_direction,
        "workbench/compiler/ir/shape.py",
        "def f():\n    import_module('workbench.widgets.display')",
    ),
    (rules.import_direction, "workbench/compiler/run/steps.py", "from workbench import compiler"),
    (rules.import_direction, "workbench/compiler/new/a.py", "import workbench.compiler.errors"),
    (rules.import_direction, "workbench/numerics/a.py", "import workbench.gpu.run.runner"),
    (
        rules.import_direction,
        "workbench/numerics/metrics/a.py",
        "import workbench.numerics.compare.report",
    ),
    (rules.import_direction, "workbench/gpu/a.py", "import workbench.numerics.compare.report"),
    (rules.import_direction, "workbench/compat/a.py", "import workbench.widgets.graph_view"),
    (rules.import_direction, "workbench/widgets/graph.py", "from workbench import gpu"),
    (
        rules.import_direction,
        "workbench/numerics/compare/compare.py",
        "from workbench.widgets import x",
    ),
    (rules.edits_through_modules, "workbench/compiler/passes/a.py", "new.sources = old.sources"),
    (rules.edits_through_modules, "workbench/gpu/a.py", "a.op, b.shape = op, shape"),
    (rules.edits_through_modules, "workbench/numerics/a.py", "b.root.sources += ('x',)"),
    (rules.edits_through_modules, "workbench/compat/a.py", "setattr(x, 'literal', None)"),
    (rules.operations_are_asked, "workbench/compiler/passes/tidy/a.py", "i.op.name == 'dot'"),
    (rules.operations_are_asked, "workbench/gpu/emit/a.py", "while i.name in ('a', 'b'): pass"),
    (rules.operations_are_asked, "workbench/gpu/kernels/a.py", "x = i.op.name not in _VIEWS"),
    (rules.operations_are_asked, "workbench/compiler/passes/tidy/a.py", "op.compute_shape(s)"),
    (rules.budgets, "workbench/a.py", "\n" * 501),
    (rules.budgets, "workbench/a.js", "\n" * 501),
    (rules.budgets, "workbench/a.js", "x" * 60_001),
    (rules.budgets, "workbench/a.py", LONG),
    (rules.budgets, "tests/a.py", LONG),
    (rules.budgets, "workbench/a.py", "def f() -> None:\n" + "    print()\n" * 9),
    (rules.documented, "workbench/a.py", "x = 1"),
    (rules.documented, "workbench/a.py", HEAD + "def f(): ..."),
    (rules.documented, "workbench/a.py", HEAD + "class C: ..."),
    (rules.documented, "workbench/a.py", HEAD + "class C:\n    'A.'\n    def f(self): ..."),
    (rules.docstrings_say, "workbench/a.py", '"""What is here."""'),
    (rules.docstrings_say, "tests/a.py", HEAD + "def f():\n    'How it is done.'"),
    (rules.options_in_one_place, "workbench/a.py", "import os\nos.environ['DISPLAY']"),
    (rules.options_in_one_place, "workbench/a.py", "import os\nos.getenv('DISPLAY')"),
    (rules.options_in_one_place, "workbench/knobs.py", "x = 'WORK\u0042ENCH_SECRET'"),
    (rules.offline, "workbench/a.js", "import d3 from 'https://cdn.example.org/d3.js'"),
    (rules.offline, "workbench/a.css", "@import '//fonts.example.org/x.css'"),
    (rules.no_machine_paths, "workbench/a.py", "x = '/h\u006fme/ada/model.onnx'"),
    (rules.no_machine_paths, "notebooks/a.ipynb", '"/tm\u0070/model.onnx"'),
    (rules.no_leftovers, "workbench/a.py", "# TOD\u004f: later"),
    (rules.clean_notebooks, "notebooks/a.ipynb", notebook([{"text": "1"}])),
    (rules.clean_notebooks, "notebooks/a.ipynb", notebook([], kind="code")),
    (rules.clean_notebooks, "notebooks/a.ipynb", notebook([], count=26)),
    (rules.locked, "requirements.lock", "numpy>=2"),
    (rules.locked, "requirements.lock", "numpy @ https://example.org/numpy.whl"),
    (rules.locked, "requirements.lock", "torch==2.13.0"),
    (rules.locked, "requirements.lock", "jaxlib==0.10.2"),
    (rules.locked, "tests/js/package-lock.json", '{"resolved": "https://example.org/a.tgz"}'),
]

KEPT: list[tuple[Rule, str, str]] = [
    (rules.import_direction, "workbench/compiler/ir.py", "import ast\nimport numpy.linalg"),
    (rules.import_direction, "workbench/compiler/ir.py", "def f():\n    import pandas"),
    (rules.import_direction, "workbench/compiler/ir.py", "if TYPE_CHECKING:\n    import pandas"),
    (
        rules.import_direction,
        "workbench/compiler/passes/base.py",
        "import workbench.compiler.record.recording, workbench.compiler.passes.pipelines",
    ),
    (rules.import_direction, "workbench/compiler/onnx/load.py", "from onnx import TensorProto"),
    (rules.import_direction, "workbench/widgets/graph.py", "from workbench.compiler import ir"),
    (
        rules.edits_through_modules,
        "workbench/compiler/passes/a.py",
        "self.op = op\nx.module.set_op(x, op)\nif x.op == op: x.label = 1",
    ),
    (rules.edits_through_modules, "workbench/compiler/ir/a.py", "made.shape = shape"),
    (
        rules.operations_are_asked,
        "workbench/compiler/passes/tidy/a.py",
        "i.name in self.skip_ops\nisinstance(i.op, _VIEWS)\ni.op.name.startswith('@')",
    ),
    (rules.operations_are_asked, "workbench/compiler/passes/base.py", "x.name in PASSES"),
    (rules.budgets, "workbench/a.py", "def f() -> None:\n" + '    """A.\n' + "\n" * 60 + '    """'),
    (rules.documented, "workbench/a.py", HEAD + "def _f(): ...\nclass _C: ..."),
    (rules.docstrings_say, "workbench/a.py", '"""Whether it holds."""'),
    (rules.offline, "workbench/a.js", "const NS = 'http://www.w3.org/2000/svg'; // a comment"),
    (rules.no_machine_paths, "workbench/a.py", "x = '/layer1/conv'; y = 'a/b/c'"),
    (rules.clean_notebooks, "notebooks/a.ipynb", notebook([])),
    (rules.locked, "requirements.lock", "numpy==2.4.6"),
    (rules.locked, "tests/js/package-lock.json", '{"version": "1.0.0", "integrity": "sha512"}'),
]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule: Rule):
    assert list(rule(ROOT)) == []


def name(value: object) -> str:
    return getattr(value, "__name__", "-")


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED, ids=name)
def test_a_planted_breach_is_caught(rule: Rule, path: str, text: str, tmp_path: Path):
    plant(tmp_path, path, text)
    assert list(rule(tmp_path))


@pytest.mark.parametrize(("rule", "path", "text"), KEPT, ids=name)
def test_what_keeps_the_rule_passes(rule: Rule, path: str, text: str, tmp_path: Path):
    plant(tmp_path, path, text)
    assert list(rule(tmp_path)) == []


def test_every_rule_is_planted():
    assert {rule for rule, _, _ in PLANTED} == set(rules.RULES)


def plant(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
