"""Graphs of launches on a device that has none."""

from contextlib import contextmanager
from functools import partial
from threading import local
from typing import Any

import pytest

from workbench.gpu.devices.opencl import OpenCLDevice


class Graphs:
    """Graphs on a device that has none: a capture keeps the calls of its thread, a replay makes them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.thread, self.captures, self.replays = local(), 0, 0
        patch.setattr(OpenCLDevice, "has_graphs", True)
        patch.setattr(OpenCLDevice, "capture", contextmanager(self.capture))
        patch.setattr(OpenCLDevice, "replay", self.replay)
        for name in ("launch", "copy"):
            patch.setattr(OpenCLDevice, name, self.kept(getattr(OpenCLDevice, name)))
        prepare = OpenCLDevice.prepare
        patch.setattr(OpenCLDevice, "prepare", lambda *given: self.kept(prepare(*given)))

    def kept(self, call: Any) -> Any:
        def keep(*given: Any) -> None:
            if (calls := getattr(self.thread, "calls", None)) is None:
                call(*given)
            else:
                calls.append(partial(call, *given[:-1]))

        return keep

    def capture(self, *_: Any, **__: Any) -> Any:
        calls = self.thread.calls = []
        captured: list[Any] = []
        yield captured
        self.thread.calls = None
        captured.append(calls)
        self.captures += 1

    def replay(self, graph: Any, stream: Any) -> None:
        assert graph, "a graph of nothing"
        for call in graph:
            call(stream)
        self.replays += 1
