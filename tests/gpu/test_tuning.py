"""Tuning: every variant is measured once a device, the fastest is used, and files keep the choice."""

import json

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import OperationError
from workbench.gpu.choices import Choices
from workbench.gpu.run import tuning

FIRST, SECOND = "dot float 12x40x24, terms and columns contiguous", "dot float 12x24x16"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Times that nobody has measured yet."""
    monkeypatch.setattr(tuning, "cache_folder", lambda _: tmp_path)
    return tmp_path


@pytest.fixture
def build(device):
    made = wb.Program()
    x = made.main.add_parameter("x", wb.Shape("float", (12, 40)))
    w = made.main.add_parameter("w", wb.Shape("float", (40, 24)))
    v = made.main.add_parameter("v", wb.Shape("float", (24, 16)))
    made.main.add_return(made.main.add("dot", made.main.add("relu", made.main.add("dot", x, w)), v))
    return wb.compile(made, target="gpu", device=device.spec)


def faked(monkeypatch, microseconds):
    """Measurements as given, for the ranks of variants; returns the variants that were asked for."""
    asked = []

    def measure(_make, _inputs, chosen, known):
        for problem, text in chosen.items():
            times = known.setdefault(problem, {})
            times[text] = microseconds[len(times) % len(microseconds)] * 1e-6
            asked.append((problem, text))

    monkeypatch.setattr(tuning, "_measure", measure)
    monkeypatch.setattr(tuning, "_run_seconds", lambda *_: 1.0)
    return asked


def test_variants_are_measured_on_the_device_and_results_stay_right(build):
    inputs = {
        n: np.random.default_rng(0).random(s.lens, np.float32)
        for n, s in build.program.parameters.items()
    }
    before = np.asarray(build.run(inputs)[0])
    found = build.tune(inputs, most=3)
    assert len(found) == 2
    assert all(2 <= len(one.seconds) <= 3 and min(one.seconds.values()) > 0 for one in found)
    np.testing.assert_allclose(np.asarray(build.run(inputs)[0]), before, 1e-5)
    table = found.table()
    assert table.groupby("problem")["chosen"].sum().tolist() == [1, 1]
    assert set(table["instructions"]) <= {f"@{k}" for k in range(len(list(build.program.main)))}
    assert "2 problems" in found.plot().get_title()


def attention(device):
    """Attention with more keys and values than a block of a CPU keeps."""
    made = wb.Program()
    q, k, v = (
        made.main.add_parameter(n, wb.Shape("float", (1, 2, rows, 128)))
        for n, rows in (("q", 9), ("k", 150), ("v", 150))
    )
    scores = made.main.add("dot", q, made.main.add("transpose", k, permutation=(0, 1, 3, 2)))
    made.main.add_return(made.main.add("dot", made.main.add("softmax", scores, axis=3), v))
    return wb.compile(made, target="gpu", device=device.spec)


def test_attention_is_tuned_as_products_are(device, own_cache):
    build = attention(device)
    inputs = {
        n: np.random.default_rng(0).random(s.lens, np.float32)
        for n, s in build.program.parameters.items()
    }
    before = np.asarray(build.run(inputs)[0])
    (found,) = build.tune(inputs, most=2)
    assert found.name == "attention float 2 of 9x150, 128 and 128 deep"
    assert len(found.seconds) == 2
    np.testing.assert_allclose(np.asarray(build.run(inputs)[0]), before, 1e-5)
    (path,) = own_cache.glob("*.json")
    assert json.loads(path.read_text()) == {found.name: found.seconds}


def test_the_chosen_kernel_of_attention_is_used(device, monkeypatch):
    build = attention(device)
    estimated = [s.launch.kernel.name for s in build.runner.plan().kernels]
    faked(monkeypatch, [10, 5, 11])
    (found,) = build.tune(most=3)
    assert found.gain == 2
    assert found.chosen == list(found.seconds)[1]
    assert [s.launch.kernel.name for s in build.runner.plan().kernels] != estimated


def test_the_fastest_is_used_if_it_is_clearly_faster(build, monkeypatch):
    estimated = [s.launch.kernel.name for s in build.runner.plan().kernels]
    faked(monkeypatch, [10, 9.9, 11])
    assert all(one.gain == 1 for one in build.tune(most=3))
    assert [s.launch.kernel.name for s in build.runner.plan().kernels] == estimated


def test_kernels_change_with_the_choice(build, monkeypatch):
    estimated = [s.launch.kernel.name for s in build.runner.plan().kernels]
    faked(monkeypatch, [10, 5, 11])
    found = build.tune(most=3)
    assert all(one.gain == 2 and one.chosen == list(one.seconds)[1] for one in found)
    assert [s.launch.kernel.name for s in build.runner.plan().kernels] != estimated


@pytest.mark.parametrize(
    ("together", "used"),
    [([3, 2, 4], 1), ([3, 3.5, 4], 2), ([5, 5, 4], 0)],
    ids=["those that gain much", "all", "none"],
)
def test_the_choices_are_those_with_which_the_whole_program_is_fastest(
    build, monkeypatch, together, used
):

    def measure(_make, _inputs, chosen, known):
        for number, (problem, text) in enumerate(chosen.items()):
            times = known.setdefault(problem, {})
            times[text] = 1e-6 * (10 if not times else (9.5, 5)[number])

    monkeypatch.setattr(tuning, "_measure", measure)
    seconds, asked = iter([*together, *(1 + s for s in reversed(together))]), []
    monkeypatch.setattr(
        tuning, "_run_seconds", lambda *given: asked.append(given[-1]) or next(seconds)
    )
    found = build.tune(most=2)
    assert [len(chosen) for chosen in asked] == [2, 1, 0, 0, 1, 2]
    assert sum(one.gain > 1 for one in found) == used
    assert sum(build.runner.choices[p.name] != next(iter(p.seconds)) for p in found) == used


def test_kernels_tell_of_the_search_until_others_are_chosen(build, monkeypatch):
    assert [k.search for k in build.kernels()] == [""] * len(build.kernels())
    faked(monkeypatch, [10, 5, 11])
    found = build.tune(most=3)
    told = [k.search for k in build.kernels() if k.search]
    assert sorted(told) == sorted(one.text() for one in found)
    first = found.problems[0]
    lines = first.text().splitlines()
    assert f"{first.chosen} is used, 2.00 times as fast" in lines[1]
    assert [line[0] for line in lines[3:]] == ["◇", " ", " "]
    assert [line.split()[-1] for line in lines[3:]] == ["2", "1", "3"]
    assert "Search for" in build.kernels().view(theme="light").to_static()
    build.runner.choose({})
    assert not any(k.search for k in build.kernels())


def test_what_is_known_is_not_measured_again(build, monkeypatch):
    asked = faked(monkeypatch, [3, 2])
    build.tune(most=2)
    assert len(asked) == 4
    build.tune(most=2)
    assert len(asked) == 4
    build.tune(most=3)
    assert len(asked) == 6


@pytest.mark.parametrize("text", ["[1", '{"a": {"b": NaN}}', '{"a": {"b": -1}}', '{"a": 1}'])
def test_a_damaged_file_of_times_is_written_anew(build, monkeypatch, own_cache, text):
    asked = faked(monkeypatch, [3, 2])
    build.tune(most=2)
    (path,) = own_cache.glob("*.json")
    path.write_text(text)
    build.tune(most=1)
    assert len(asked) == 6
    assert all(len(times) == 1 for times in json.loads(path.read_text()).values())


@pytest.mark.parametrize("most", [0, -1, 2.5, "3", None])
def test_a_number_of_variants_that_is_none_is_refused(build, most):
    with pytest.raises(
        OperationError, match=f"most: expected at least 1 variant .* found {most!r}"
    ):
        build.tune(most=most)


def test_an_interruption_keeps_what_was_measured(build, monkeypatch, own_cache):
    def measure(_make, _inputs, chosen, known):
        if known:
            raise KeyboardInterrupt
        known.update({problem: {text: 1.0} for problem, text in chosen.items()})

    monkeypatch.setattr(tuning, "_measure", measure)
    with pytest.raises(KeyboardInterrupt):
        build.tune()
    (path,) = own_cache.glob("*.json")
    assert len(json.loads(path.read_text())) == 2


def test_a_choice_that_is_no_variant_any_more_is_not_used():
    assert Choices({"a": "third"}).pick("a", ["first", "second"]) == "first"
    assert Choices({"a": "second"}).pick("a", ["first", "second"]) == "second"


@pytest.mark.parametrize(
    ("target", "most", "said"), [("gpu", 0, "at least 1 variant"), ("cpu", 8, "no kernels")]
)
def test_what_cannot_be_tuned_is_refused(build, target, most, said):
    made = build if target == "gpu" else wb.compile(build.source, target=target)
    with pytest.raises(OperationError, match=said):
        made.tune(most=most)
