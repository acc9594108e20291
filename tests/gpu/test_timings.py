"""A profile on a device: every step has a row, what measuring cost is known, and two profiles compare."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import DeviceError, OperationError
from workbench.compiler.ir.operation import OPERATIONS
from workbench.compiler.report.timing_comparison import grouped, rank_test, within_noise
from workbench.compiler.report.timings import Measured, Spread, Timing
from workbench.gpu.devices.registry import device as chosen
from workbench.gpu.report.timings import Taken, rows_of, run_times
from workbench.gpu.run import profile as profiling
from workbench.gpu.run.profile import marks_of, turns_for
from workbench.gpu.run.sequence import Costs, Gate, Timed, gate_of

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def program(hosted: str | None = None, name: str = "x") -> wb.Program:
    made = wb.Program()
    x = made.main.add_parameter(name, wb.Shape("float", (4, 6)))
    with made.source("first"):
        y = made.main.add("tanh", made.main.add("mul", x, x))
    with made.source("second"):
        y = made.main.add(hosted or "exp", y)
    with made.source("third"):
        y = made.main.add("relu", y)
    made.main.add_return(y)
    return made


@pytest.fixture
def hosted():
    """An operation that has no kernel, for nobody wrote one."""
    name = "plus_one_on_the_host"
    wb.operation(
        name=name, compute_shape=lambda shapes: shapes[0], compute=lambda _, arrays: arrays[0] + 1
    )
    yield name
    OPERATIONS.pop(name, None)


@pytest.fixture
def unfused(device):
    return wb.compile(program(), target="gpu", device=device.spec, passes=[])


@pytest.fixture
def fused(device):
    return wb.compile(program(), target="gpu", device=device.spec)


def test_a_profile_has_a_row_for_every_kernel_and_copy(unfused):
    result = unfused.run({"x": X}, profile=True, repetitions=4)
    np.testing.assert_allclose(result[0], np.exp(np.tanh(X * X)), rtol=1e-5)
    rows = result.measured.rows
    assert [(t.where, t.op) for t in rows] == [
        ("copy", "@param"),
        ("device", "mul"),
        ("device", "tanh"),
        ("device", "exp"),
        ("device", "relu"),
        ("copy", "@return"),
    ]
    assert {len(t.seconds) for t in rows} == {4}
    assert all(s >= 0 for t in rows for s in t.seconds)
    assert [t.launches for t in rows] == [0, 1, 1, 1, 1, 0]
    assert [t.sources for t in rows[1:5]] == [("first",), ("first",), ("second",), ("third",)]
    assert [t.bytes for t in rows] == [96, 288, 192, 192, 192, 96]


def test_the_table_has_rates_and_the_whole_run(fused, device, monkeypatch):
    monkeypatch.setattr(profiling, "turns_for", lambda *_: 1)
    result = fused.run({"x": X}, profile=True, repetitions=3)
    table = result.timings()
    kernel = table[table["where"] == "device"].iloc[0]
    assert len(table) == 3
    assert kernel["sources"] == "first, second, third"
    assert kernel["GB/s"] == pytest.approx(kernel["MB"] / kernel["ms"])
    peak = result.measured.bandwidth
    assert kernel["% of peak bandwidth"] == pytest.approx(1e11 * kernel["GB/s"] / peak)
    assert table["share"].sum() == pytest.approx(1)
    run = result.run_times
    assert table.attrs == run.facts()
    assert run.kernels * 1e3 == pytest.approx(kernel["ms"])
    assert (run.launches, run.marked, run.repetitions) == (1, 2, 3)
    assert run.mode == ("graph" if device.times_graphs else "queue")
    assert (run.graph is not None) == device.has_graphs
    assert run.whole.median > 0
    assert run.wall.median > 0
    assert "its kernels add up to" in str(run)


def test_a_run_that_was_not_profiled_says_how_to_time_it(unfused):
    with pytest.raises(OperationError, match=r"run\(inputs, profile=True\)"):
        unfused.run({"x": X}).timings()


def test_what_the_host_computes_is_marked(hosted, device):
    build = wb.compile(program(hosted), target="gpu", device=device.spec, passes=[])
    result = build.run({"x": X}, profile=True, repetitions=3)
    np.testing.assert_allclose(result[0], np.tanh(X * X) + 1, rtol=1e-5)
    table = result.timings().set_index("op")
    assert table.loc[hosted, "where"] == "host"
    assert table.loc[hosted, "launches"] == 0
    assert len(result.measured.rows[3].seconds) == 3
    assert result.run_times.launches == 3
    hatched = [bar.get_hatch() for bar in result.plot_timings().patches]
    assert sum(h is not None for h in hatched) == 3
    assert {s.row for s in result.measured.spans} == {"launch", "host", "copy", "device"}


@pytest.mark.parametrize("failing", ["warm_up", "measure_kernels"])
def test_a_profile_that_is_interrupted_gives_its_memory_back(unfused, device, monkeypatch, failing):
    unfused.run({"x": X})
    before = device.in_use

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(profiling._Profile, failing, interrupt)
    with pytest.raises(KeyboardInterrupt):
        unfused.run({"x": X}, profile=True)
    monkeypatch.undo()
    assert device.in_use == before
    unfused.run({"x": X}, profile=True, repetitions=1).timings()
    assert device.in_use == before


def test_the_sum_is_held_against_the_run_before_it(unfused, device):
    plan = unfused.runner.executable().plan
    taken = Taken.of(4)
    taken.steps = [[0.2, 2.0, 2.0]] * 4
    taken.launches = [[0.1]] * 4
    taken.profiled, taken.whole, taken.pairs = [1.1, 11.0, 11.0], [1.0, 10.0], [0, 1]
    run = run_times(device, rows_of(plan, taken), taken, Costs(0.1, 0.1), "queue", 5)
    assert run.difference == pytest.approx(-0.2)
    assert run.slowdown == pytest.approx(0.1)
    assert run.kernels == pytest.approx(8.0)


# Instructions of several kernels


def test_an_instruction_of_several_kernels_has_a_row_a_kernel(unfused):
    plan = unfused.runner.executable().plan
    first = plan.steps[0]
    twice = replace(plan, steps=(first, first, *plan.steps[1:]))
    taken = Taken.of(5)
    taken.steps = [[1.0], [3.0], [1.0], [1.0], [1.0]]
    taken.launches = [[0.5]] * 5
    rows = rows_of(twice, taken)
    assert [t.kernel for t in rows[:3]] == ["mul (1 of 2)", "mul (2 of 2)", "tanh"]
    assert [t.flops for t in rows[:2]] == [0, 24]
    assert [t.bytes for t in rows[:2]] == [512, 512]
    assert len(Measured(rows).table()) == 5


# How it is measured


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_every_launch_is_between_two_events_in_its_turn(count, turns):
    for k in range(count):
        marks = marks_of(count, turns, k % turns)
        assert {0, k, k + 1, count} <= set(marks)
        assert marks == sorted(marks)


def test_events_take_a_small_part_of_a_run():
    assert turns_for(50, 1e-6, 1e-2) == 1
    turns = turns_for(50, 1e-6, 5e-4)
    assert 2 * 50 / turns * 1e-6 <= 0.04 * 5e-4
    assert turns_for(3, 1e-3, 1e-6) == 3
    assert turns_for(1, 1e-3, 1e-6) == 1


def test_runs_share_their_events_where_these_are_dear(unfused, monkeypatch):
    monkeypatch.setattr(profiling, "turns_for", lambda *_: 3)
    result = unfused.run({"x": X}, profile=True, repetitions=4)
    assert {len(t.seconds) for t in result.measured.rows} == {4}
    assert result.run_times.repetitions == 4
    # Of 4 kernels one turn times two that are apart, the others one: 0 1 3 4, 0 1 2 4, 0 2 3 4.
    assert result.run_times.marked == 4


def test_on_opencl_the_event_of_a_kernel_is_its_own():
    device = chosen("opencl")
    with gate_of(device) as gate:
        gate.empty(None)
        first = device.record()
        assert device.record() is first
        gate.empty(None)
        assert device.record() is not first
        assert device.elapsed(first, device.record()) > 0
        device.fill(device.pointer(gate._buffer, 0, 256), 256)
        marker = device.record()
        assert device.record() is not marker


def test_a_gate_holds_the_device_longer_when_it_is_told_to(device):
    def seconds(wanted):
        first = device.record()
        gate.held(wanted)(None)
        return device.elapsed(first, device.record())

    with gate_of(device) as gate:
        seconds(0.001)
        assert seconds(0.05) > seconds(0.0005)


class Recorder:
    """A device that writes down what it is told."""

    times_graphs = True

    def __init__(self, refuses: bool = False, silent: bool = False):
        self.said: list[str] = []
        self.refuses, self.silent = refuses, silent
        self.count = 0

    def capture(self, stream, overlap=False):
        device = self

        class Capture:
            def __enter__(self):
                device.said.append("begin")
                if device.refuses:
                    raise DeviceError("no graphs")
                self.graphs = []
                return self.graphs

            def __exit__(self, *_):
                device.said.append("end")
                self.graphs.append("graph")

        return Capture()

    def record(self, stream=None):
        self.said.append("event")
        self.count += 1
        return self.count

    def replay(self, graph, stream):
        self.said.append("replay")

    def synchronize(self, stream=None):
        pass

    def elapsed(self, first, last):
        return 0.0 if self.silent else float(last - first)


def timed_on(device: Recorder) -> Timed:
    gate = SimpleNamespace(device=device, held=lambda _: lambda _: device.said.append("hold"))
    launches = [lambda _, k=k: device.said.append(f"kernel{k}") for k in range(3)]
    return Timed(gate, launches, (0, 1, 3), stream="stream")


def test_a_device_that_keeps_time_in_graphs_replays_one():
    device = Recorder()
    timed = timed_on(device)
    captured = ["begin", "event", "kernel0", "event", "kernel1", "kernel2", "event", "end"]
    assert device.said[:8] == captured
    assert (timed.mode, timed()) == ("graph", {0: 0.0, 1: 1.0, 3: 2.0})
    assert set(device.said[8:]) == {"replay"}


@pytest.mark.parametrize("fault", ["refuses", "silent"])
def test_a_device_whose_graphs_tell_no_time_is_held_instead(fault):
    device = Recorder(**{fault: True})
    timed = timed_on(device)
    device.said.clear()
    assert timed.mode == "queue"
    assert list(timed()) == [0, 1, 3]
    assert device.said == ["hold", "event", "kernel0", "event", "kernel1", "kernel2", "event"]


def test_a_gate_that_cannot_be_made_keeps_no_memory(device, monkeypatch):
    before = device.in_use
    monkeypatch.setattr(device, "prepare", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Gate(device)
    assert device.in_use == before


# Two runs


def timing(name, seconds, sources=(), where="device", **more):
    return Timing(1, name, name, name, where, tuple(seconds), sources=tuple(sources), **more)


def test_kernels_stand_together_where_they_compute_the_same_nodes():
    a = [timing("m", [1], ["x"]), timing("n", [1], ["y"]), timing("o", [1], ["z"])]
    b = [timing("p", [1], ["x", "y"]), timing("q", [1], ["z"])]
    groups = [([t.name for t in g.a], [t.name for t in g.b]) for g in grouped(a, b)]
    assert groups == [(["m", "n"], ["p"]), (["o"], ["q"])]


def test_without_nodes_what_was_fused_tells_what_belongs_together():
    a = [timing("m", [1], aliases=frozenset({3})), timing("n", [1], aliases=frozenset({4}))]
    b = [timing("p", [1], aliases=frozenset({9, 3, 4}))]
    assert [len(g.a) for g in grouped(a, b)] == [2]


def test_a_comparison_of_fused_and_unfused(unfused, fused):
    a, b = (build.run({"x": X}, profile=True, repetitions=5) for build in (unfused, fused))
    compared = wb.compare_timings(a, b, ("unfused", "fused"))
    table = compared.table().set_index("computes")
    row = table.loc["first, second, third"]
    assert (row["kernels a"], row["kernels b"]) == (4, 1)
    assert row["ratio"] == pytest.approx(row["ms a"] / row["ms b"])
    assert row["difference ms"] == pytest.approx(row["ms b"] - row["ms a"])
    assert list(table["kind"]) == ["copy", "kernels", "copy", "total"]
    assert table["ms a"].iloc[-1] == pytest.approx(row["ms a"])
    bundle = compared._repr_mimebundle_()
    assert "<table" in bundle["text/html"]
    assert "unfused" in bundle["text/plain"]
    ax = compared.plot()
    assert len(ax.patches) == 6


def test_a_device_compares_with_the_interpreter(fused):
    cpu = wb.compile(fused.source, target="cpu").run({"x": X}, profile=True, repetitions=4)
    gpu = fused.run({"x": X}, profile=True, repetitions=4)
    table = wb.compare_timings(cpu, gpu).table()
    kernels = table[table["kind"] == "kernels"]
    assert list(kernels["computes"]) == ["first, second, third"]
    assert set(table[table["kind"] == "copy"]["kernels a"]) == {0}
    assert table["ms a"].isna().sum() == 2


def test_compare_timings_wants_results(fused):
    with pytest.raises(OperationError, match=r"a is a Build; expected a result of build\.run"):
        wb.compare_timings(fused, fused)


def test_a_run_beside_itself_is_within_noise(fused):
    result = fused.run({"x": X}, profile=True, repetitions=5)
    compared = wb.compare_timings(result, result)
    assert compared.table()["within noise"].tolist() == [True] * 4
    assert "0 of 3 groups differ" in str(compared)


def test_too_few_repetitions_are_said(fused):
    result = fused.run({"x": X}, profile=True, repetitions=2)
    assert "2 repetitions are too few" in str(wb.compare_timings(result, result))


def permuted(a, b) -> float:
    """The definition of the test: every choice of the ranks is as likely as the other."""
    values = np.array([*a, *b])
    ranks = np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])
    middle = len(a) * (len(values) + 1) / 2
    sums = [abs(ranks[list(c)].sum() - middle) for c in combinations(range(len(values)), len(a))]
    return float(np.mean(np.array(sums) >= abs(ranks[: len(a)].sum() - middle) - 1e-9))


@pytest.mark.parametrize("seed", range(4))
def test_the_rank_test_counts_permutations(seed):
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 8, 5), random.integers(2, 10, 6)
    assert rank_test(a, b) == pytest.approx(permuted(a, b))
    assert rank_test(b, a) == pytest.approx(rank_test(a, b))


def test_the_rank_test_of_many_measurements_is_near_the_exact_one():
    random = np.random.default_rng(5)
    a, b = random.normal(0, 1, 20), random.normal(0.5, 1, 20)
    exact, near = rank_test(a, b), rank_test([*a, 0.1], b)
    assert near == pytest.approx(exact, rel=0.35)
    assert rank_test([1.0] * 30, [1.0] * 30) == 1
    assert np.isnan(rank_test([], [1.0]))
    assert rank_test(range(10), range(20, 30)) == pytest.approx(2 / 184756)


def test_many_rows_ask_for_more_than_one():
    assert within_noise([0.004]) == [False]
    assert within_noise([0.004, 0.5, 0.6]) == [True, True, True]
    assert within_noise([0.004, 0.001, float("nan")]) == [False, False, False]
    # Each is below a hundredth; the first fails its stricter bound, and so do those after it.
    assert within_noise([0.006, 0.009]) == [True, True]


# Pictures and traces


def test_plots_show_what_was_measured(unfused):
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    result = unfused.run({"x": X}, profile=True, repetitions=3)
    for draw in (result.plot_timings, result.plot_roofline, result.plot_timeline):
        figure, ax = plt.subplots()
        assert draw(ax) is ax
        figure.draw_without_rendering()
        plt.close(figure)
    dots = result.plot_roofline().collections[0].get_offsets()
    assert len(dots) == 4
    assert [t.get_text() for t in result.plot_timeline().get_yticklabels()] == [
        "device",
        "copies",
        "launches",
    ]
    assert len(Measured().table()) == 0
    plt.close("all")


def test_a_model_with_odd_names_is_drawn_as_it_is_called():
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    rows = (timing("$\\frac", [1e-3], ["<b>$x^", '"'], flops=4, bytes=8, type="f32"),)
    a = SimpleNamespace(measured=Measured(rows))
    ax = wb.compiler.report.timing_comparison.TimingComparison(a, a, ("$a", "$b")).plot()
    ax.figure.draw_without_rendering()
    assert ax.get_yticklabels()[0].get_text() == '<b>$x^, "'
    plt.close("all")


def nested(events) -> None:
    """Spans of one track lie apart or one inside the other, to a nanosecond: ends are sums that round."""
    tracks = defaultdict(list)
    for event in events:
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        stack = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= start + 1e-3:
                stack.pop()
            assert not stack or end <= stack[-1] + 1e-3
            stack.append(end)


def test_a_trace_opens_and_nests(hosted, device, tmp_path):
    odd = 'x"\\\n</script>\u2028'
    made = program(hosted, odd)
    build = wb.compile(made, target="gpu", device=device.spec, passes=[])
    result = build.run({odd: X}, profile=True, repetitions=2)
    result.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    nested(spans)
    assert f"upload {odd}" in {e["name"] for e in spans}
    kernels = [e for e in spans if e["cat"] == "device"]
    assert [k["args"]["sources"] for k in kernels] == [["first"], ["first"], ["third"]]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
    (run,) = [e for e in spans if e["name"] == "run"]
    assert all(e["ts"] + e["dur"] <= run["dur"] + 1e-3 for e in spans if e["pid"] == run["pid"])
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes[1] == "host"
    assert processes[2].endswith(f"({device.spec})")


def test_the_kernels_of_one_instruction_lie_inside_its_span():
    from workbench.compiler.report.timings import Span

    rows = (timing("mul (1 of 2)", [1.0]), timing("mul (2 of 2)", [1.0]))
    spans = tuple(Span("device", r.name, k * 1.5, 1.0, k) for k, r in enumerate(rows))
    result = wb.Result(wb.Program(), (), Measured(rows, spans), 0.0, {})
    events = [e for e in result.trace()["traceEvents"] if e["ph"] == "X"]
    nested(events)
    assert [(e["ts"], e["dur"]) for e in events] == [(0, 2.5e6), (0, 1e6), (1.5e6, 1e6)]


def test_an_interpreted_run_has_a_timeline_and_a_trace_too():
    result = wb.compile(program(), target="ref").run({"x": X})
    assert result.run_times is None
    assert len(result.trace()["traceEvents"]) >= 4
    assert result.plot_timeline().get_yticklabels()[0].get_text() == "host"


def test_a_spread_is_median_and_middle_half():
    assert Spread.of([4.0, 1.0, 3.0, 2.0, 5.0]) == Spread(3.0, 2.0)
    assert Spread.of([]) == Spread(0.0, 0.0)
