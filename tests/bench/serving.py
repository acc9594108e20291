"""Models in production on a GPU: graphs against launches, streams against one, constants swapped under way.

`python -m tests.bench.serving --runs 200` swaps constants under few runs, for `compute-sanitizer`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench import gpu_networks, on_device
from tests.bench.measure import Claim, Contender, Outcome, Timing, race
from tests.bench.swapping import HELD, Swapping, growth
from tests.models import export
from workbench.compat.aitemplate import Model
from workbench.compat.serving.clients import Client, together
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.devices.base import Device
from workbench.gpu.run.runner import DeviceRunner

KERNELS, WIDTH, BURST = 200, 16, 20
RUNS, THREADS = 10_000, 8
GRAPHS, PRODUCTS = "graphs of 200 kernels", "graphs of 200 products"
STREAMS = "streams of bert"
SWAPS, SWAPS_AS_GRAPHS = "swaps", "swaps with graphs"
SUBJECTS = (GRAPHS, PRODUCTS, STREAMS, SWAPS, SWAPS_AS_GRAPHS)
MOST_GROWTH = 8.0
"""MiB that 4,500 runs may add on the host and the device: allocators keep what they once had."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Wall time of runs as a caller sees them."""
    if subject in (GRAPHS, PRODUCTS):
        return _graphs(subject, seconds)
    if subject == STREAMS:
        if not on_device.has_cuda_torch():
            raise RuntimeError("this measure needs torch with CUDA, and a GPU")
        return _streams_of_bert(seconds)
    return swaps(subject, RUNS, THREADS, subject == SWAPS_AS_GRAPHS)


def device_of(model: Model) -> Device:
    """The device that a model runs on."""
    runner = model.build.runner
    assert isinstance(runner, DeviceRunner)
    return runner.here()


# Graphs


def sines(kernels: int = KERNELS) -> Program:
    """A chain of functions of a few elements, each of them one kernel where nothing is fused."""
    program = Program("sines")
    x = program.main.add_parameter("x", Shape("float", (1, WIDTH)))
    for k in range(kernels):
        x = program.main.add(("sin", "cos")[k % 2], x)
    program.main.add_return(x)
    return program


def layers(kernels: int = KERNELS) -> Program:
    """A chain of small products, each of them one kernel."""
    program = Program("layers")
    main = program.main
    x = main.add_parameter("x", Shape("float", (1, WIDTH)))
    for weight in _weights(kernels):
        x = main.add("relu", main.add("dot", x, main.add_literal(weight)))
    main.add_return(x)
    return program


def _weights(kernels: int) -> list[np.ndarray]:
    return [
        (0.35 * on_device.noise((WIDTH, WIDTH), np.float32, k)).astype(np.float32)
        for k in range(kernels)
    ]


def _graphs(subject: str, seconds: float) -> Outcome:
    program = layers() if subject == PRODUCTS else sines()
    options = {
        "target": "gpu",
        "record": False,
        "disable": ["fuse_pointwise"] * (subject == GRAPHS),
    }
    with Model.of(program, ["y"], num_runtimes=2, **options) as model:
        if (launches := len(model.build.kernels())) != KERNELS:
            raise RuntimeError(f"the model has {launches} kernels; expected {KERNELS}")
        device = device_of(model)
        inputs = {"x": on_device.noise((1, WIDTH), np.float32)}
        single, whole = (Client(model, inputs, graph_mode=g) for g in (False, True))
        works = {
            "kernel by kernel": _burst(single.start, device.synchronize),
            "as a graph": _burst(whole.start, device.synchronize),
            "kernel by kernel, each awaited": _burst(single.run),
            "as a graph, each awaited": _burst(whole.run),
            **_torch_graphs(subject),
        }
        contenders = {n: Contender(lambda _, w=w: w()) for n, w in works.items()}
        found = race("serving", subject, contenders, seconds=seconds)
        if any((a != b).any() for a, b in zip(single.results(), whole.results(), strict=True)):
            raise RuntimeError("a graph's results differ from those of its kernels")
    return _faster(subject, found)


def _faster(subject: str, found: dict[str, Timing]) -> Outcome:
    per_run = [
        Timing("serving", subject, n, tuple(s / BURST for s in t.seconds)) for n, t in found.items()
    ]
    median = {t.name: t.median for t in per_run}
    ratio = median["kernel by kernel"] / median["as a graph"]
    awaited = median["kernel by kernel, each awaited"] / median["as a graph, each awaited"]
    facts = [(f"{subject}: microseconds a run, {n}", f"{1e6 * s:.1f}") for n, s in median.items()]
    facts.append((f"{subject}: kernel by kernel / as a graph", f"{ratio:.2f}"))
    facts.append((f"{subject}: the same, each awaited", f"{awaited:.2f}"))
    claim = Claim("serving", subject, "kernel by kernel / as a graph", ratio, 3.0, True)
    return Outcome(tuple(per_run), (claim,) if subject == GRAPHS else (), tuple(facts))


def _burst(run: Callable[[], Any], end: Callable[[], Any] = lambda: None) -> Callable[[], None]:
    def work() -> None:
        for _ in range(BURST):
            run()
        end()

    return work


def _torch_graphs(subject: str) -> dict[str, Callable[[], None]]:
    """PyTorch's eager mode and its graphs, on the same model; nothing without PyTorch."""
    if not on_device.has_cuda_torch():
        return {}
    import torch

    weights = [torch.from_numpy(w).cuda() for w in _weights(KERNELS)]
    x = torch.from_numpy(on_device.noise((1, WIDTH), np.float32)).cuda()

    def step(k: int, y: Any) -> Any:
        if subject == PRODUCTS:
            return torch.relu(y @ weights[k])
        return torch.cos(y) if k % 2 else torch.sin(y)

    def forward() -> Any:
        y = x
        for k in range(KERNELS):
            y = step(k, y)
        return y

    graph = _torch_graph(forward, torch.cuda.Stream())
    end = torch.cuda.synchronize
    return {"torch, eager": _burst(forward, end), "torch, as a graph": _burst(graph.replay, end)}


def _torch_graph(forward: Callable[[], Any], stream: Any) -> Any:
    """A captured graph, after runs to warm up."""
    import torch

    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            forward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            forward()
    return graph


# Streams


def _streams_of_bert(seconds: float) -> Outcome:
    module, arguments = gpu_networks.network("bert", 1)
    inputs = {n: x.numpy() for n, x in arguments.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export.save(module, arguments, gpu_networks.FIELDS["bert"], path)
        program = parse_onnx(path)
    with Model.of(program, ["y"], target="gpu", precision="fp16", record=False) as model:
        rates = stream_rates(model, inputs, max(0.5, min(2.0, seconds / 8)))
    failures: tuple[tuple[str, str], ...] = ()
    try:
        rates |= _torch_rates(module, arguments)
    except RuntimeError as error:  # what ours took is kept
        failures = (("torch's graphs of bert", str(error)),)
    return replace(_compared(rates), failures=failures)


def stream_rates(model: Model, inputs: dict[str, Any], seconds: float) -> dict[str, float]:
    """Runs a second, by name: with one stream and with four, from one thread and from one for each stream."""
    rates: dict[str, float] = {}
    for graph in (True, False):
        how = "graphs" if graph else "kernels"
        for streams, runtimes in ((1, 1), (1, 2), (4, 4), (4, 8)):
            named = f"{streams} streams, {runtimes} runtimes, {how}"
            with model.beside(runtimes) as part:
                clients = [Client(part, inputs, graph) for _ in range(streams)]
                rates[f"{named}, 1 thread"] = _rate_of_one_thread(part, clients, seconds)
            if runtimes == streams:
                with model.beside(runtimes) as part:
                    clients = [Client(part, inputs, graph) for _ in range(streams)]
                    passed = together(clients, seconds)
                    runs = sum(len(c.seconds) for c in clients)
                    rates[f"{named}, {streams} threads, each run awaited"] = runs / passed
    return rates


def _rate_of_one_thread(model: Model, clients: list[Client], seconds: float) -> float:
    """Runs a second of one thread that starts them in each stream in turn, without waiting."""
    device = device_of(model)

    def rounds(count: int) -> None:
        for _ in range(count):
            for client in clients:
                client.start()
        device.synchronize()

    rounds(10)
    count = max(1, round(10 * seconds / on_device.wall(lambda: rounds(10))))
    return count * len(clients) / on_device.wall(lambda: rounds(count))


def _torch_rates(module: Any, arguments: dict[str, Any]) -> dict[str, float]:
    """PyTorch's own: a captured graph for each stream, replayed in turn."""
    import torch

    module = module.half().cuda()
    rates: dict[str, float] = {}
    for streams in (1, 4):
        queues = [torch.cuda.Stream() for _ in range(streams)]
        graphs = [_torch_graph(_forward(module, arguments), q) for q in queues]

        _replay(graphs, queues, 10)
        passed = on_device.wall(partial(_replay, graphs, queues, 200))
        rates[f"torch, {streams} streams, graphs"] = 200 * streams / passed
    return rates


def _replay(graphs: list[Any], queues: list[Any], count: int) -> None:
    import torch

    for _ in range(count):
        for graph, queue in zip(graphs, queues, strict=True):
            with torch.cuda.stream(queue):
                graph.replay()
    torch.cuda.synchronize()


def _forward(module: Any, arguments: dict[str, Any]) -> Callable[[], Any]:
    given = {n: x.cuda() for n, x in arguments.items()}
    return lambda: module(**given)


def _compared(rates: dict[str, float]) -> Outcome:
    one = {n: r for n, r in rates.items() if n.startswith("1 streams")}
    four = {n: r for n, r in rates.items() if n.startswith("4 streams")}
    ratio = max(four.values()) / max(one.values())
    timings = tuple(Timing("serving", STREAMS, n, (1 / r,)) for n, r in rates.items())
    facts = [(f"runs/s, {n}", f"{r:,.0f}") for n, r in rates.items()]
    facts.append(("the fastest with one stream", max(one, key=lambda n: one[n])))
    facts.append(("the fastest with four streams", max(four, key=lambda n: four[n])))
    claim = Claim("serving", STREAMS, "runs/s of 4 streams / 1 stream", ratio, 1.5, True)
    return Outcome(timings, (claim,), tuple(facts))


# Constants that are swapped under way


def swaps(subject: str, runs: int, threads: int, graph: bool) -> Outcome:
    """Wrong outputs, and memory at start, middle and end."""
    with Swapping(threads, graph) as work:
        samples = work.run(runs)
        host, device, pool = growth(samples)
        facts = [(f"{subject}: {n}", v) for s in samples for n, v in s.facts()]
        facts += [(f"{subject}: runs", f"{work.done:,}"), (f"{subject}: swaps", f"{work.swaps:,}")]
        facts.append((f"{subject}: runs/s", f"{work.rate:,.0f}"))
        wrong = work.wrong
    held = (threads + 2) * HELD
    claims = (
        Claim("serving", subject, "wrong outputs", wrong, 0, unit=""),
        Claim(
            "serving", subject, "growth of the host, middle to end", host, MOST_GROWTH, unit="MiB"
        ),
        Claim(
            "serving",
            subject,
            "growth of the device, middle to end",
            device,
            MOST_GROWTH,
            unit="MiB",
        ),
        Claim("serving", subject, "growth of buffers, middle to end", pool, held, unit="MiB"),
    )
    return Outcome(claims=claims, facts=tuple(facts))


def main() -> int:
    """Swap constants under few runs; 1 if an output is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.serving", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--graphs", action="store_true", help="launch all kernels of a run at once")
    options = parser.parse_args()
    found = swaps("swaps", options.runs, options.threads, options.graphs)
    for name, value in found.facts:
        print(f"{name}: {value}")
    print(f"wrong outputs: {found.claims[0].value:g}")
    return int(not found.claims[0].met)


if __name__ == "__main__":
    sys.exit(main())
