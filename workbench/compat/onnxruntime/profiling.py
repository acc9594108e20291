"""Profiles of sessions, as files in the form of onnxruntime's: one event of Chrome's format per line."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.builds.runner import NumPyRunner
from workbench.compiler.report.result import Result
from workbench.compiler.report.timings import LAUNCH, Measured


class Profile:
    """The events of a session from its start to ``end_profiling``.

    Args:
        prefix: The beginning of the file's name.
        provider: The provider that events name.
    """

    def __init__(self, prefix: str, provider: str) -> None:
        """Start the clock."""
        self._prefix = prefix
        self._provider = provider
        self._start = time.perf_counter_ns()
        self.start_ns = time.monotonic_ns()
        """When it began, in nanoseconds of a clock that only runs forward."""
        self._events: list[dict[str, Any]] = []

    @contextmanager
    def event(self, name: str) -> Generator[None]:
        """Time a part of the session, such as ``model_run``."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            took = time.perf_counter_ns() - start
            self._add("Session", name, (start - self._start) / 1e3, took / 1e3, {})

    def measured(self, build: Build, inputs: Mapping[str, Any]) -> list[Any]:
        """Run a build with a time for each kernel; a device runs it twice, as its first run is not timed."""
        start = (time.perf_counter_ns() - self._start) / 1e3
        if isinstance(build.runner, NumPyRunner):
            outputs, times = build.runner.timed(inputs, False)
        else:
            outputs, times = build.runner.profiled(inputs, 1, False)
        result = Result(build.program, tuple(outputs), times, 0.0, dict(inputs))
        self._add_kernels(result.measured, start)
        return list(outputs)

    def _add_kernels(self, measured: Measured, start: float) -> None:
        for span in measured.spans:
            if span.row == LAUNCH or span.timing < 0:
                continue
            row = measured.rows[span.timing]
            args = {
                "op_name": row.kernel, "provider": self._provider, "node_index": str(row.id),
                "sources": list(row.sources), "instruction": row.name,
            }  # fmt: skip
            name = "+".join(row.sources) or row.name
            self._add(
                "Node", f"{name}_kernel_time", start + span.start * 1e6, span.seconds * 1e6, args
            )

    def _add(self, category: str, name: str, at: float, took: float, args: dict[str, Any]) -> None:
        self._events.append({
            "cat": category, "pid": os.getpid(), "tid": threading.get_native_id(), "dur": round(took),
            "ts": round(at), "ph": "X", "name": name, "args": args,
        })  # fmt: skip

    def save(self) -> str:
        """Write the file and return its path, in the present folder unless the prefix says otherwise."""
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")  # the clock of the user's files
        path = f"{self._prefix}_{stamp}.json"
        lines = ",\n".join(json.dumps(e, separators=(",", " :")) for e in self._events)
        Path(path).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        return path
