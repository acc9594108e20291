"""Parallel runs of the tests: files are units of work, and each test is reported in one message."""

import marshal
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/jupyter/",)
"""Folders whose tests share what is long to start, so one process has them all."""
LAST = "runtest_protocol_complete"
"""The last event of a test."""
HELD = {"logstart", "testreport", "logfinish"}
"""Events that wait for the last one."""
SEVERAL = "several"
"""The name of a message with several events."""


class Scheduling(LoadScopeScheduling):
    """A file's tests run in one process, which then reads and compiles once what they share."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in TOGETHER:
            if nodeid.startswith(folder):
                return folder
        return nodeid.partition("::")[0]

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self.registered_collections[node] = Numbered(collection)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forgets a test that has run, and a file: what is pending is counted after each event."""
        name = self.registered_collections[node][item_index]
        files = self.assigned_work[node]
        file = self._split_scope(name)
        del files[file][name]
        if not files[file]:
            del files[file]
        self._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Names the test in which a process ended, which is not run again; other processes take the rest."""
        files = self.assigned_work.pop(node)
        if not files:
            return None
        file = next(iter(files))
        name = next(iter(files[file]))
        del files[file][name]
        self.workqueue.update({f: names for f, names in files.items() if names})
        for other in self.assigned_work:
            self._reschedule(other)
        return name


class Numbered(list[str]):
    """The names of a worker's tests; the number of a name is not searched for."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def index(self, name: str, *_: int) -> int:
        return self._numbers[name]


def hold_events(config: pytest.Config) -> None:
    """Lets a worker send all events of a test in one message, once it has run.

    If the process ends before, the controller names the test by what it has not heard of.
    """
    if not hasattr(config, "workerinput"):
        return
    (worker,) = (p for p in config.pluginmanager.get_plugins() if hasattr(p, "sendevent"))
    send: Callable[..., None] = worker.sendevent
    held: list[tuple[str, dict[str, Any]]] = []

    def sendevent(name: str, **facts: Any) -> None:
        if name in HELD:
            held.append((name, facts))
        elif name == LAST:
            send(SEVERAL, events=marshal.dumps([*held, (name, facts)]))
            held.clear()
        else:
            send(name, **facts)

    worker.sendevent = sendevent


def take_events(node: WorkerController) -> None:
    """Lets the controller of a worker take a message with several events."""
    take = node.process_from_remote

    def process_from_remote(message: Any) -> None:
        is_several = isinstance(message, tuple) and message[0] == SEVERAL
        for event in marshal.loads(message[1]["events"]) if is_several else [message]:
            take(event)

    node.process_from_remote = process_from_remote


def turn(config: pytest.Config, found: list[Any]) -> None:
    """Turns a folder's contents round in every other worker.

    Workers collect at the same time. Two that begin at opposite ends compile each file once between them.
    """
    if hasattr(config, "workerinput") and int(config.workerinput["workerid"][2:]) % 2:
        found.reverse()


def restore_order(items: list[pytest.Item]) -> None:
    """Puts tests into the order of their files, which is that of a run in one process."""
    if items and hasattr(items[0].config, "workerinput"):
        items.sort(key=lambda item: item.path.parts)
