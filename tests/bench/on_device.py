"""Timing on a device, by its own clock: several launches between two events, medians of many such."""

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

from workbench.compiler.ir.program import Program
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run.executable import Executable

BURST = 20
_WARM = 0.3
"""Seconds of work before a measurement, so that the device's clocks are up, whoever comes first."""


def seconds_of(
    device: Device, work: Callable[[], Any], stream: Any, repeat: int = 15
) -> list[float]:
    """Seconds of one piece of work that only launches, `repeat` times the mean of a burst."""
    _warm(work, lambda: device.synchronize(stream))
    found: list[float] = []
    for _ in range(repeat):
        first = device.record(stream)
        for _ in range(BURST):
            work()
        last = device.record(stream)
        found.append(device.elapsed(first, last) / BURST)
    return found


def _warm(work: Callable[[], Any], wait: Callable[[], Any]) -> None:
    """Do the work for a while."""
    until = time.perf_counter() + _WARM
    while time.perf_counter() < until:
        for _ in range(3):
            work()
        wait()


def run_seconds(executable: Executable, inputs: dict[str, Any], repeat: int = 15) -> list[float]:
    """Seconds of a run without the copies of its inputs and outputs; replayed where the device has graphs."""
    executable.run(inputs)
    executable.run(inputs)
    stream = executable.stream
    return seconds_of(executable.device, lambda: executable.again(stream), stream, repeat)


def in_order_seconds(
    executable: Executable, inputs: dict[str, Any], repeat: int = 15
) -> list[float]:
    """The same, of a graph in which no kernel begins before the one before it has ended."""
    device = executable.device
    capture = device.capture
    with patch.object(device, "capture", lambda stream, overlap: capture(stream)):  # noqa: ARG005
        apart = Executable(executable.plan, device)
        found = run_seconds(apart, inputs, repeat)
    apart.close()
    return found


def burst_seconds(executable: Executable, inputs: dict[str, Any], repeat: int = 15) -> list[float]:
    """Seconds of a run among many in one graph: of kernels so short that the host's launches take longer."""
    executable.run(inputs)
    device, stream = executable.device, executable.stream
    with device.capture(stream, overlap=True) as captured:
        for _ in range(BURST):
            executable._steps(executable._ready, stream)
    bursts = seconds_of(device, lambda: device.replay(captured[0], stream), stream, repeat)
    return [one / BURST for one in bursts]


def executable_of(program: Program, device: Device) -> Executable:
    """A program as it stands, on a device."""
    return Executable(lower(program, device.dialect), device)


def torch_seconds(
    work: Callable[[], Any], repeat: int = 15, replay: bool = False, count: int = 1
) -> list[float]:
    """Seconds of a piece of PyTorch's work on CUDA, measured in the same way.

    Args:
        work: Launches the work.
        repeat: How many bursts are measured.
        replay: Whether to replay a graph of it, as ours is: else Python's time to launch counts, too.
        count: How many times the graph has the work.
    """
    import torch

    for _ in range(5):
        work()
    torch.cuda.synchronize()
    if replay:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                work()
        work = graph.replay
    _warm(work, torch.cuda.synchronize)
    found: list[float] = []
    for _ in range(repeat):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(BURST):
            work()
        last.record()
        last.synchronize()
        found.append(first.elapsed_time(last) / 1e3 / BURST / count)
    return found


def has_cuda_torch() -> bool:
    """Whether PyTorch can be compared with: it is here, and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def wall(work: Callable[[], Any]) -> float:
    """Seconds of a piece of work on the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(seconds: list[float]) -> float:
    """The median."""
    return statistics.median(seconds)


def noise(shape: tuple[int, ...], type: Any, seed: int = 0) -> np.ndarray:
    """Seeded normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(type)
