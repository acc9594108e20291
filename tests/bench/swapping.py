"""Concurrent runs of a model whose constants are swapped under way: outputs checked, memory sampled."""

import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any, Self

import numpy as np

from workbench.compat.aitemplate import Model
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.base import Device
from workbench.gpu.run.runner import DeviceRunner

ROWS, SIZE, SETS = 8, 64, 4
MIB = 1 << 20
PAGE = 4096
HELD = 3 * SIZE * SIZE * 4 / MIB
"""Of a set of constants and what is folded of it. Each runtime holds the set that it read last."""
WARM_UP = 0.1
"""The part of the runs before the first sample."""


@dataclass(frozen=True)
class Sample:
    """Memory at one time, in MiB; of the device if it says so."""

    when: str
    host: float
    device: float | None
    buffers: float

    def facts(self) -> list[tuple[str, str]]:
        """Readable facts."""
        found = [(f"host at the {self.when}", f"{self.host:.1f} MiB")]
        if self.device is not None:
            found.append((f"device at the {self.when}", f"{self.device:.1f} MiB"))
        return [*found, (f"buffers at the {self.when}", f"{self.buffers:.3f} MiB")]


def growth(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """MiB by which host, device and buffers grew from the middle to the end."""
    _, middle, end = samples
    device = (end.device or 0.0) - (middle.device or 0.0)
    return end.host - middle.host, device, end.buffers - middle.buffers


def program() -> Program:
    """``relu(x @ (w * w) @ v)``, where ``w * w`` is folded."""
    made = Program("swapped")
    main = made.main
    x = main.add_parameter("x", Shape("float", (ROWS, SIZE)))
    w, v = (main.add_parameter(n, Shape("float", (SIZE, SIZE))) for n in "wv")
    made.main.add_return(
        main.add("relu", main.add("dot", main.add("dot", x, main.add("mul", w, w)), v))
    )
    return made


class Swapping:
    """A model, sets of constants, and threads with a stream, an input and wanted outputs each.

    All numbers are small integers, so that a right output is exact.
    """

    def __init__(self, threads: int, graph: bool) -> None:
        """Compile, and compute the outputs for each set of constants."""
        random = np.random.default_rng(0)
        self.sets = [
            tuple(random.integers(-1, 2, (2, SIZE, SIZE)).astype(np.float32)) for _ in range(SETS)
        ]
        w, v = self.sets[0]
        self.model = Model.of(program(), ["y"], {"w": w}, ["v"], threads, "gpu", record=False)
        self.model.set_constant_with_tensor("v", v)
        runner = self.model.build.runner
        assert isinstance(runner, DeviceRunner)
        self.device: Device = runner.here()
        self.graph = graph
        self.inputs = [
            random.integers(-2, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(threads)
        ]
        self.wanted = [[np.maximum(x @ (w * w) @ v, 0) for w, v in self.sets] for x in self.inputs]
        self.streams = [self.model.new_stream() for _ in range(threads)]
        self.wrong = self.swaps = self.done = 0
        self.rate = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.model.close()

    def run(self, runs: int) -> list[Sample]:
        """So many runs; memory at the start, which is after a tenth of them, in the middle and at the end."""
        first = max(1, int(WARM_UP * runs))
        half = max(1, (runs - first) // 2)
        began = perf_counter()
        samples: list[Sample] = []
        for when, count in (("start", first), ("middle", half), ("end", runs - first - half)):
            self._phase(count)
            samples.append(self._sample(when))
        self.rate = self.done / (perf_counter() - began)
        return samples

    def _phase(self, runs: int) -> None:
        over, threads = Event(), len(self.inputs)
        counts = [len(range(k, runs, threads)) for k in range(threads)]
        with ThreadPoolExecutor(threads + 1) as pool:
            swapping = pool.submit(self._swap, over)
            try:
                self.wrong += sum(pool.map(self._runs, range(threads), counts))
            finally:
                over.set()
            swapping.result()
        self.done += runs

    def _runs(self, k: int, count: int) -> int:
        """The wrong outputs of so many runs of one thread."""
        y, wrong = np.empty((ROWS, SIZE), np.float32), 0
        for _ in range(count):
            y[...] = np.nan
            self.model.run_with_tensors(
                [self.inputs[k]], [y], self.streams[k], graph_mode=self.graph
            )
            wrong += not any(np.array_equal(y, w) for w in self.wanted[k])
        return wrong

    def _swap(self, over: Event) -> None:
        while not over.is_set():
            w, v = self.sets[self.swaps % SETS]
            given: dict[str, Any] = {"w": w, "v": v}
            self.model.set_many_double_buffer_constants_with_tensors(given)
            self.model.fold_constants(double_buffer=True)
            self.model.swap_constants()
            self.swaps += 1

    def _sample(self, when: str) -> Sample:
        gc.collect()
        self.device.synchronize()
        resident = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * PAGE
        return Sample(when, resident / MIB, self._used(), self.device.in_use / MIB)

    def _used(self) -> float | None:
        """MiB of the device in use by all processes, as the driver says; None for other devices."""
        if self.device.kind != "cuda":
            return None
        from cuda.bindings import driver

        _, free, total = driver.cuMemGetInfo()
        return (total - free) / MIB
