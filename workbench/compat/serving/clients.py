"""Clients that run a model again and again at once, each in a stream of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError, Event, Thread
from time import perf_counter
from typing import Any

import numpy as np

from workbench.compat.aitemplate.data import AITData
from workbench.compat.aitemplate.model import Model
from workbench.compiler.ir.dtypes import Array

_WARM_UP = 3
_STARTS_WITHIN = 600
"""Seconds in which every client has to be warm: kernels are compiled meanwhile."""


@dataclass
class Client:
    """One thread with a stream and results of its own.

    Args:
        model: The model.
        inputs: An array for each input, by name.
        graph_mode: Launch all kernels of a run at once.
        copies: Whether inputs and results are the host's, and copied in each run.
    """

    model: Model
    inputs: Mapping[str, Array]
    graph_mode: bool = False
    copies: bool = False
    seconds: list[float] = field(default_factory=list[float])
    """Of each timed run."""
    began: float = 0.0
    """When the first timed run began, on the clock of ``perf_counter``."""
    finished: float = 0.0
    """When the last one was done."""
    error: BaseException | None = None

    def __post_init__(self) -> None:
        """Allocate what the runs read and write."""
        self._given: Mapping[str, Any] = self.inputs
        names = self.model.get_output_name_to_index_map()
        empty = {n: self._empty(n, k) for n, k in names.items()}
        self._into: Mapping[str, Any] = empty
        if not self.copies:
            there = self.model.numpy_to_ait_data
            self._given = {n: there(a) for n, a in self.inputs.items()}
            self._into = {n: there(a) for n, a in empty.items()}
        self._stream = self.model.new_stream()
        self._run = self.model.run_with_tensors if self.copies else self.model.run

    def _empty(self, name: str, position: int) -> Array:
        type = self.model.output_type(position).numpy
        return np.empty(self.model.get_output_maximum_shape(name), type)

    def work(self, start: Barrier, stop: Event) -> None:
        """Warm up, wait for the others, and run until it is told to stop; one run at least."""
        try:
            for _ in range(_WARM_UP):
                self.run()
            start.wait(_STARTS_WITHIN)
            self._repeat(stop)
        except BrokenBarrierError:  # another client failed, and says why
            pass
        except BaseException as error:
            self.error = error
            start.abort()
            stop.set()

    def _repeat(self, stop: Event) -> None:
        self.began = before = perf_counter()
        while True:
            self.run()
            now = perf_counter()
            self.seconds.append(now - before)
            before = self.finished = now
            if stop.is_set():
                return

    def run(self) -> None:
        """Run once, and wait for it."""
        self._run(self._given, self._into, self._stream, True, self.graph_mode)

    def start(self) -> None:
        """Start a run without waiting for it; results of two such runs share their memory."""
        self._run(self._given, self._into, self._stream, False, self.graph_mode)

    def results(self) -> list[Array]:
        """The results of the last run, after it was waited for."""
        there = self.model.ait_data_to_numpy
        return [there(v) if isinstance(v, AITData) else v for v in self._into.values()]

    def free(self) -> None:
        """Free what was allocated."""
        for data in (*self._given.values(), *self._into.values()):
            if isinstance(data, AITData):
                self.model.free_gpu_memory(data.data_ptr)


def _started(start: Barrier) -> bool:
    """Wait for the clients; whether all were ready."""
    try:
        start.wait(_STARTS_WITHIN)
    except BrokenBarrierError:
        return False
    except BaseException:
        start.abort()  # only now: one that has not left the barrier yet would take it for another's failure
        raise
    return True


def together(clients: list[Client], seconds: float) -> float:
    """Let clients work at once; the seconds from the first one's start to the end of the last run.

    An interrupt from the keyboard ends them and is raised again.

    Args:
        clients: The clients.
        seconds: After that time no further run is begun.

    Raises:
        AITemplateError: A run failed.
    """
    start, stop = Barrier(len(clients) + 1), Event()
    threads = [Thread(target=c.work, args=(start, stop), daemon=True) for c in clients]
    for thread in threads:
        thread.start()
    try:
        if _started(start):
            stop.wait(seconds)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return max(c.finished for c in clients) - min(c.began for c in clients)
