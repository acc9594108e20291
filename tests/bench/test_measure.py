"""The stopwatch itself, and what a run of it writes."""

import json

import pytest

from tests.bench import compare_cost, report
from tests.bench.measure import (
    Claim,
    Contender,
    Outcome,
    Timing,
    paired_ratio,
    processor_times,
    race,
)


def _timing(*seconds: float) -> Timing:
    return Timing("m", "s", "n", seconds)


def test_contenders_take_turns_after_a_warm_up_round():
    order: list[str] = []
    steps = {name: Contender(lambda _, name=name: order.append(name)) for name in "ab"}
    found = race("m", "s", steps, repeat=3)
    assert "".join(order) == "abababab"
    assert [len(t.seconds) for t in found.values()] == [3, 3]


def test_preparation_is_given_to_the_run_and_not_timed():
    import time

    contender = Contender(lambda given: given.append(1), lambda: time.sleep(0.01) or [])
    assert race("m", "s", {"a": contender}, repeat=3)["a"].median < 0.005


def test_at_least_three_rounds_and_at_most_as_many_as_a_contender_bears():
    runs = {"slow": Contender(lambda _: None, at_most=2), "fast": Contender(lambda _: None)}
    found = race("m", "s", runs, repeat=10, seconds=0)
    assert [len(t.seconds) for t in found.values()] == [2, 3]


def test_median_and_quartiles():
    timing = _timing(1, 2, 3, 4, 100)
    assert timing.median == 3
    assert timing.iqr == 2
    assert _timing(7).iqr == 0


def test_ratios_are_taken_round_by_round():
    ours, peer = _timing(1, 10, 3), _timing(2, 20, 6)
    assert paired_ratio(ours, peer) == 0.5
    assert paired_ratio(_timing(3), peer) == 0.5


@pytest.mark.parametrize(("value", "at_least", "met"), [(2, False, True), (3, False, False)])
def test_a_claim_is_met_within_its_limit(value: float, at_least: bool, met: bool):
    assert Claim("m", "s", "a / b", value, 2, at_least).met == met
    assert Claim("m", "s", "a / b", value, 2, not at_least).met


def test_report_is_a_table_and_json_with_every_repetition(tmp_path):
    claim = Claim("compile", "resnet50", "ours / peer", 0.5, 1.0)
    outcome = Outcome((_timing(0.001, 0.002),), (claim,), (("pulled in", []),))
    assert "1.5" in report.times(outcome.timings)
    assert "≤ 1 x" in report.claims(outcome.claims)
    report.write([outcome], tmp_path / "bench.json")
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["timings"][0]["seconds"] == [0.001, 0.002]
    assert written["claims"][0]["met"] is True
    assert written["machine"]["cores"] >= 1


def test_a_wait_costs_no_processor_time():
    import time

    found = processor_times({"wait": lambda: time.sleep(0.02)}, repeat=3)["wait"]
    assert min(found["wall"]) >= 0.02
    assert max(found["processor"]) < 0.01


def test_a_comparison_is_held_against_a_run_and_its_peer():
    least = {compare_cost.COMPARE: 4.0, compare_cost.RUN: 2.0, compare_cost.POLYGRAPHY: 8.0}
    claims = compare_cost._claims("m", least, {"compare, resident": 600.0})
    assert [(c.text, c.value, c.met) for c in claims] == [
        ("compare / one ref run", 2.0, True),
        ("compare / Polygraphy", 0.5, False),
        ("compare, resident", 600.0, False),
    ]
