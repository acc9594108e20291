"""Every rule is tested by its law: on its samples it fires, changes no result, and comes to rest."""

from collections import Counter

import numpy as np
import pytest

from tests.compiler.rule_samples import Sample, samples
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import RewritePass, all_passes
from workbench.compiler.record.recording import Recording
from workbench.compiler.rewrite import Rule, drive
from workbench.compiler.run.reference import run

RULES: dict[str, Rule] = {
    rule.name: rule
    for pass_ in all_passes().values()
    if issubclass(pass_, RewritePass)
    for rule in pass_.rules
}
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3}
KINDS = ("fires", "declines", "ignores")


def differing(a: np.ndarray, b: np.ndarray) -> float:
    """Relative RMS difference."""
    if not a.size:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    x, y = (np.where(same, 0.5, v.astype(np.float64)) for v in (a, b))
    return float(np.sqrt(np.mean((x - y) ** 2)) / max(np.sqrt(np.mean(x**2)), 1e-30))


def apply(program: Program, rule: Rule) -> tuple[int, list[str]]:
    """Edits and reasons of declines."""
    with Recording(program) as recording:
        edits = drive(program, (rule,))
    # As recorded, with ids: printed names depend on the program around.
    return edits, [miss.reason for step in recording for miss in step.recorded_misses]


def check_law(program: Program, rule: Rule) -> int:
    """Apply a rule, and check that nothing but the program's form changed."""
    validate(program)
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    edits, _ = apply(program, rule)
    validate(program)
    after = run(program, inputs)
    for one, other in zip(before, after, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert differing(one, other) <= TOLERANCE.get(str(one.dtype), 0), f"{rule.law}\n{program}"
    assert apply(program, rule)[0] == 0, f"{rule.name} does not rest on its own result\n{program}"
    return edits


def test_names_are_unique():
    names = Counter(
        r.name for p in all_passes().values() if issubclass(p, RewritePass) for r in set(p.rules)
    )
    assert [n for n, count in names.items() if count > 1] == []


def test_samples_are_of_rules():
    assert {s.rule for s in samples()} - set(RULES) == set()
    assert {s.kind for s in samples()} <= set(KINDS)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_sample_on_which_it_fires(name):
    own = [s for s in samples() if s.rule == name]
    assert any(s.kind == "fires" for s in own), f"add tests/compiler/rules/{name}.txt"


@pytest.mark.parametrize("sample", [s for s in samples() if s.kind == "fires"], ids=str)
def test_it_fires_and_keeps_its_law(sample: Sample):
    rule = RULES[sample.rule]
    assert check_law(sample.program(), rule) > 0, f"{rule} did not fire on\n{sample.text}"


@pytest.mark.parametrize("type", ["half_type", "double_type"])
@pytest.mark.parametrize(
    "sample", [s for s in samples() if s.kind == "fires" and "float_type" in s.text], ids=str
)
def test_the_law_holds_in_other_types(sample: Sample, type: str):
    check_law(sample.program(type), RULES[sample.rule])


@pytest.mark.parametrize("sample", [s for s in samples() if s.kind == "declines"], ids=str)
def test_it_declines_with_the_reason(sample: Sample):
    edits, reasons = apply(sample.program(), RULES[sample.rule])
    assert edits == 0
    assert any(sample.note in r for r in reasons), reasons


@pytest.mark.parametrize("sample", [s for s in samples() if s.kind == "ignores"], ids=str)
def test_it_does_not_even_miss(sample: Sample):
    assert apply(sample.program(), RULES[sample.rule]) == (0, [])


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_where_it_is_and_what_it_does(name):
    rule = RULES[name]
    assert rule.file.startswith("workbench/")
    assert rule.line > 0
    assert "→" in rule.law
