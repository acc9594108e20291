"""Recurrent networks and loops on a device, beside onnxruntime, or torch's GRU and LSTM on CUDA."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx

import workbench as wb
from tests.bench import on_device, peers
from tests.bench.measure import Claim, Contender, Outcome, Timing, race
from tests.models.graph import Graph
from workbench.compiler.builds.build import Build
from workbench.gpu.devices.registry import device

LOOPED, UNROLLED, ON_CPU = "workbench gpu", "workbench gpu, unrolled", "workbench cpu"
RUNTIME, TORCH = "onnxruntime CPU", "torch"
NETWORKS: dict[str, tuple[str, int, int, int, int]] = {
    "gru": ("GRU", 240, 1, 64, 128),
    "gru_batch": ("GRU", 60, 16, 64, 128),
    "lstm": ("LSTM", 64, 1, 64, 128),
    "lstm_both_ways": ("LSTM", 64, 1, 64, 128),
}
"""The operator, steps, batch, and the widths of the input and of the state."""
SIZE, TIMES = 128, 100
_BURST = 5
"""Runs in a row: threads of NumPy and onnxruntime spin on after one, at the cost of the next."""
SUBJECTS = (*NETWORKS, "loop", "loop_stops")


@cache
def model(subject: str) -> onnx.ModelProto:
    """A network of one operator, or a Loop around a product."""
    return _network(subject) if subject in NETWORKS else _loop(stops=subject == "loop_stops")


def _network(subject: str) -> onnx.ModelProto:
    kind, steps, batch, width, hidden = NETWORKS[subject]
    count, wide = 1 + subject.endswith("both_ways"), {"GRU": 3, "LSTM": 4}[kind] * hidden
    g = Graph(subject)
    scale = 0.5 / hidden**0.5
    x = g.input("x", [steps, batch, width])
    operands = [
        g.weight("w", count, wide, width, scale=scale),
        g.weight("r", count, wide, hidden, scale=scale),
        g.weight("b", count, 2 * wide, scale=scale),
    ]
    turned = {"direction": "bidirectional" if count == 2 else "forward"}
    y, last = g.add(kind, x, *operands, outputs=2, hidden_size=hidden, **turned)
    g.output(y, "y", [steps, count, batch, hidden])
    g.output(last, "last", [count, batch, hidden])
    return g.model(17)


def _loop(*, stops: bool) -> onnx.ModelProto:
    """A product and a tanh, repeated; one ends when a sum that it carries is large enough."""
    g, body = Graph("loop"), Graph("body", "/body")
    x, w = g.input("x", [1, SIZE]), g.weight("w", SIZE, SIZE, scale=0.1)
    body.input("step", [], np.int64)
    go = body.input("go", [], np.bool_)
    grown = body.add("Tanh", body.add("MatMul", body.input("carried", [1, SIZE]), w))
    total = body.add("Add", body.input("total", [1, 1]), 1.0)
    more = body.add("Identity", go)
    if stops:
        more = body.add("Less", body.add("ReduceMax", total, keepdims=0), float(TIMES))
    body.output(more, "more", [], np.bool_)
    body.output(grown, "grown", [1, SIZE])
    body.output(total, "sum", [1, 1])
    start = np.zeros((1, 1), np.float32)
    limits = 10 * TIMES if stops else TIMES, np.array(True)
    last, _ = g.add("Loop", *limits, x, start, outputs=2, body=body.proto())
    g.output(last, "last", [1, SIZE])
    return g.model(17)


def built(subject: str, target: str, *, looped: bool = True) -> Build:
    """The model for a target; recurrent networks unrolled, if asked for."""
    program = wb.parse_onnx(model(subject).SerializeToString())
    disable = () if looped else ("loop_rnn",)
    return wb.compile(program, target=target, disable=disable, record=False)


def inputs(subject: str) -> dict[str, Any]:
    """Seeded normal numbers."""
    (x,) = model(subject).graph.input
    lens = tuple(d.dim_value for d in x.type.tensor_type.shape.dim)
    return {"x": on_device.noise(lens, np.float32)}


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of a run by the device's clock; on a CPU, those of a whole run, as onnxruntime's are."""
    builds, facts = {}, []
    for name, looped in ((LOOPED, True), (UNROLLED, False)):
        if looped or subject in NETWORKS:
            started = time.perf_counter()
            builds[name] = built(subject, "gpu", looped=looped)
            plan = builds[name].runner.plan()  # pyright: ignore[reportOptionalMemberAccess]
            builds[name].runner.ready()  # pyright: ignore[reportOptionalMemberAccess]
            took = time.perf_counter() - started
            facts.append((f"{name}, {subject}", _counted(plan, took)))
    on_cpu = device(None).facts.processor == "CPU"
    run = _as_called if on_cpu else _by_events
    found = run(subject, builds, seconds)
    claims = [
        Claim("loops", subject, f"kernels of {LOOPED}", len(builds[LOOPED].kernels()), 60, unit="")
    ]
    for name in (UNROLLED, ON_CPU, RUNTIME, TORCH):
        if name in found:
            ratio = found[LOOPED].median / found[name].median
            facts.append((f"{LOOPED} / {name}, {subject}", f"{ratio:.2f}"))
    return Outcome(tuple(found.values()), tuple(claims), tuple(facts))


def _counted(plan: Any, took: float) -> str:
    kernels = {s.launch.kernel.name for s in plan.kernels}
    launches = sum(n for _, n in plan.timed)
    return (
        f"{len(plan.kernels)} kernels, {len(kernels)} of them distinct, {launches} launches or more, "
        f"{len(plan.host)} on the host, compiled in {took:.1f} s with what the cache has"
    )


def _as_called(subject: str, builds: dict[str, Build], seconds: float) -> dict[str, Timing]:
    given = inputs(subject)
    every = {**builds, ON_CPU: built(subject, "cpu")}
    contenders = {name: _contender(build, given) for name, build in every.items()}
    found = race("loops", subject, contenders, seconds=seconds, burst=_BURST)
    session = peers.session(model(subject).SerializeToString())
    theirs = {RUNTIME: Contender(lambda _: session.run(None, given))}
    return {**found, **race("loops", subject, theirs, seconds=seconds, burst=_BURST)}


def _contender(build: Build, given: dict[str, Any]) -> Contender:
    build.run(given)
    return Contender(lambda _: build.run(given))


def _by_events(subject: str, builds: dict[str, Build], seconds: float) -> dict[str, Timing]:  # noqa: ARG001
    found: dict[str, Timing] = {}
    for name, build in builds.items():
        executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
        times = on_device.run_seconds(executable, inputs(subject))
        found[name] = Timing("loops", subject, name, tuple(times))
    if (work := _torch(subject)) is not None:
        found[TORCH] = Timing("loops", subject, TORCH, tuple(on_device.torch_seconds(work)))
    return found


def _torch(subject: str) -> Callable[[], Any] | None:
    """The network in PyTorch, which calls cuDNN."""
    if subject not in NETWORKS or not on_device.has_cuda_torch():
        return None
    import torch

    kind, _, _, width, hidden = NETWORKS[subject]
    both = subject.endswith("both_ways")
    network = getattr(torch.nn, kind)(width, hidden, bidirectional=both).cuda()
    x = torch.from_numpy(inputs(subject)["x"]).cuda()

    def work() -> Any:
        with torch.no_grad():
            return network(x)

    return work
