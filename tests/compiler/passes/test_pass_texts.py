"""The effect of each pass on small programs: `passes/<pass>.txt` has both, the laws, each edit in words.

A case is written as a title, options if any, and the program before; `--update-golden` adds the rest.
"""

import ast
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compiler.passes.test_rules import differing
from tests.compiler.programs import with_buffers
from tests.compiler.rule_samples import written_out
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import all_passes, pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import parse

FOLDER = Path(__file__).parent
ROUNDING = {
    "simplify_qdq": 5e-2,
    "quantize_float": 2e-2,
    "truncate_float": 2e-2,
    "quantize_8bits": 5e-2,
    "quantize_int4": 2e-1,
}
"""Passes that round values, or no longer do, and by how much."""
APPENDS = {"differentiate"}
"""Passes that return more than the program did."""
_CASE = re.compile(r"^# ", re.MULTILINE)
_PART = re.compile(r"^(options|before|after|laws|edits):[ \n]", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One program and what the pass made of it, as the file has it."""

    pass_name: str
    number: int
    title: str
    options: str
    before: str
    rest: str

    def __str__(self) -> str:
        return f"{self.pass_name}-{self.number}"

    def program(self) -> Program:
        """The program before."""
        return parse(written_out(self.before), fill_seed=0)

    def written(self) -> str:
        """The whole case as the file should have it."""
        program = self.program()
        with Recording(program) as recording:
            run_pass(pass_named(self.pass_name, **_options(self.pass_name, self.options)), program)
        validate(program)
        laws = dict.fromkeys(e.law for s in recording.steps for e in s.edits)
        missed = dict.fromkeys(m.reason for s in recording for m in s.recorded_misses)
        lines = [f"# {self.title}"]
        lines += [f"options: {self.options}"] if self.options else []
        lines += ["before:", self.before.strip("\n"), "after:", str(program).strip("\n"), "laws:"]
        lines += [f"  {text}" for text in laws] or ["  none applies"]
        lines += [f"  declined: {re.sub('#[0-9]+', '#…', text)}" for text in missed if not laws]
        said = dict.fromkeys(text for s in recording for text in s.sentences)
        lines += ["edits:", *(f"  {text}" for text in said)] if said else []
        return "\n".join(lines) + "\n"


def _options(name: str, text: str) -> dict[str, object]:
    """Options as they are written in a call; a model is made by the class of that name beside the pass."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    module = sys.modules[all_passes()[name].__module__]
    return {str(k.arg): _value(k.value, module) for k in call.keywords}


def _value(node: ast.expr, module: ModuleType) -> object:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return getattr(module, node.func.id)(
            **{str(k.arg): _value(k.value, module) for k in node.keywords}
        )
    return ast.literal_eval(node)


@cache
def cases() -> tuple[Case, ...]:
    """All cases of all passes."""
    return tuple(c for path in sorted(FOLDER.glob("*.txt")) for c in _read(path))


def _read(path: Path) -> list[Case]:
    found: list[Case] = []
    for number, text in enumerate(_CASE.split(path.read_text(encoding="utf-8"))[1:]):
        title, _, body = text.partition("\n")
        _, *parts = _PART.split(body)
        named = dict(zip(parts[::2], parts[1::2], strict=True))
        rest = body[body.find("after:") :] if "after" in named else ""
        options = named.get("options", "").strip()
        found.append(Case(path.stem, number, title, options, named["before"], rest))
    return found


@pytest.mark.parametrize("name", all_passes())
def test_every_pass_has_cases(name: str):
    assert any(c.pass_name == name for c in cases()), f"add tests/compiler/passes/{name}.txt"


def test_files_are_of_passes():
    assert {c.pass_name for c in cases()} <= set(all_passes())


@pytest.mark.parametrize("name", sorted({c.pass_name for c in cases()}))
def test_programs_after_each_pass(name: str, request: pytest.FixtureRequest):
    own = [c for c in cases() if c.pass_name == name]
    text = "\n".join(c.written() for c in own)
    path = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "`make golden` accepts the new text; read it"


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_meaning_stays(case: Case):
    program = case.program()
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    run_pass(pass_named(case.pass_name, **_options(case.pass_name, case.options)), program)
    after = run(program, with_buffers(program, inputs))
    wanted, found = _arrays(before), _arrays(after)
    if case.pass_name in APPENDS:
        found = found[: len(wanted)]
    for one, other in zip(wanted, found, strict=True):
        exact = 2e-2 if one.dtype == np.float16 else 1e-4
        limit = ROUNDING.get(case.pass_name, exact)
        assert one.shape == other.shape
        assert one.size == 0 or differing(one, other) <= limit, str(program)


def _arrays(values: Iterable[Any]) -> list[np.ndarray]:
    return [a for v in values for a in (_arrays(v) if isinstance(v, tuple) else [v])]
