"""Every planted fault changes its model's outputs and is named first; a control raises no alarm."""

import os
import random

import pytest

from tests.faults.drawn import tried
from tests.faults.fault import Control, Fault, effect, judged, tolerance
from tests.faults.table import CONTROLS, FAULTS
from tests.profiles import IS_DEEP

DRAWN = 300 if IS_DEEP else 4
"""Changes of models that are drawn for each seed."""


def _chosen(cases: list[Fault] | list[Control]) -> list[object]:
    return [pytest.param(c, id=c.name) for c in cases if IS_DEEP or not c.slow]


def test_names_are_unique_and_the_set_is_large_enough() -> None:
    names = [c.name for c in (*FAULTS, *CONTROLS)]
    assert len(set(names)) == len(names)
    assert len(FAULTS) >= 60
    assert len(CONTROLS) >= 20


@pytest.mark.parametrize("fault", _chosen(FAULTS))
def test_the_culprit_is_named_first(fault: Fault) -> None:
    with fault.plant() as planted:
        assert effect(planted) > tolerance(planted), "a fault without an effect is none"
        verdict = judged(fault, planted)
    if fault.not_yet and not verdict.is_right:
        pytest.xfail(fault.not_yet)
    assert verdict.is_right, verdict
    assert not fault.not_yet, "it is named first now: remove the reason why not"


@pytest.mark.parametrize("control", _chosen(CONTROLS))
def test_a_control_raises_no_alarm(control: Control) -> None:
    with control.plant() as planted:
        assert effect(planted) <= tolerance(planted), "the two sides differ"
        report = control.call(planted)
    assert report.passed, report
    assert not report.culprits(), [str(c) for c in report.culprits()]


@pytest.mark.parametrize(
    "seed", [0, int(os.environ.get("WORKBENCH_TEST_SEED", "1"))], ids=["fixed", "seed"]
)
def test_changes_that_are_drawn_are_named_first(seed: int) -> None:
    draw, outcomes = random.Random(seed), list[str]()
    while len(outcomes) < DRAWN:
        outcome = tried(draw)
        if outcome is not None:
            outcomes.append(outcome)
    assert [o for o in outcomes if o] == []
