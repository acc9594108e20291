"""The context in which operations are made: graph, IPU, stage, order, names, and the user's line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from workbench.compat.popart.ir.tensor_location import ExecutionContext
from workbench.compiler.expressions.location import Location, location_outside

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.op import Op

P = ParamSpec("P")
R = TypeVar("R")
_OWN = str(Path(__file__).parents[1])


class Sequence:
    """Operations made in one ``in_sequence`` block, and those of the block around it that come before."""

    def __init__(self, ordered: bool, outer: Sequence | None) -> None:
        """A block without operations."""
        self.ordered = ordered
        self.outer = outer
        self.made: dict[Graph, tuple[Op, ...]] = {}
        """For each graph the last operations if the block is ordered, else all."""

    def before(self, graph: Graph) -> tuple[Op, ...]:
        """The operations that the next one of this graph must follow."""
        if self.ordered and graph in self.made:
            return self.made[graph]
        return self.outer.before(graph) if self.outer is not None else ()

    def add(self, graph: Graph, ops: tuple[Op, ...]) -> None:
        """Take operations that were made, as one unit."""
        self.made[graph] = ops if self.ordered else (*self.made.get(graph, ()), *ops)

    def forget(self, graph: Graph, gone: set[Op], merged: Op) -> None:
        """Put one operation in the place of several."""
        if graph in self.made and gone & set(self.made[graph]):
            kept = (o for o in self.made[graph] if o not in gone)
            self.made[graph] = (*kept, merged)

    def close(self) -> None:
        """Pass the operations on to the block around this one."""
        if self.outer is not None:
            for graph, ops in self.made.items():
                self.outer.add(graph, ops)


class Context:
    """The state that operations are stamped with when they are made."""

    def __init__(self) -> None:
        """A context outside of all graphs: IPU 0, no stage, no order."""
        self.graphs: list[Graph] = []
        self.ipus: list[int | None] = [0]
        self.stages: list[int | None] = [None]
        self.io_tiles = [False]
        self.execution = [ExecutionContext.Normal]
        self.names: list[str] = []
        self.sequence: Sequence | None = None
        self.calls: list[tuple[str, Location | None]] = []
        """Functions marked by ``op_debug_context`` that are running, with the user's lines that call them."""
        self.frame_offset = 0

    @property
    def graph(self) -> Graph:
        """The innermost graph.

        Raises:
            RuntimeError: There is none.
        """
        if not self.graphs:
            raise RuntimeError(
                "Looking for a context without specifying one. Have you entered a graph? "
                "Use `with ir.main_graph():`."
            )
        return self.graphs[-1]

    @property
    def tile_set(self) -> str:
        """The tiles that operations use: ``compute`` or ``io``."""
        return "io" if self.io_tiles[-1] else "compute"

    @property
    def api(self) -> str:
        """The function that makes an operation."""
        return self.calls[0][0] if self.calls else ""

    @property
    def location(self) -> Location | None:
        """The user's line that makes an operation."""
        return self.calls[0][1] if self.calls else location_outside(_OWN, self.frame_offset)

    def push(self, graph: Graph) -> None:
        """Enter a graph.

        Raises:
            RuntimeError: The graph around it belongs to another Ir.
        """
        if self.graphs and self.graphs[-1].ir() is not graph.ir():
            raise RuntimeError("Nested graph contexts must be from the same Ir.")
        self.graphs.append(graph)

    def pop(self) -> None:
        """Leave a graph."""
        self.graphs.pop()

    def scoped(self, name: str) -> str:
        """A name with the name scopes around it."""
        return "/".join([*self.names, name])


_CURRENT = Context()


def get_current_context() -> Context:
    """The context."""
    return _CURRENT


def get_current_graph() -> Graph:
    """The graph that operations are added to now.

    Raises:
        RuntimeError: There is none.
    """
    return _CURRENT.graph


def get_main_graph() -> Graph:
    """The main graph of the Ir of the current graph.

    Raises:
        RuntimeError: There is no current graph.
    """
    return _CURRENT.graph.ir().main_graph()


gcg = get_current_graph
gmg = get_main_graph


@contextmanager
def _set(stack: list[R], value: R) -> Generator[R]:
    stack.append(value)
    try:
        yield value
    finally:
        stack.pop()


@contextmanager
def ipu(ipu: int | None) -> Generator[int | None]:
    """Operations made inside are on this IPU; with None, on none."""
    with _set(_CURRENT.ipus, ipu):
        yield ipu


virtual_graph = ipu


@contextmanager
def pipeline_stage(stage: int) -> Generator[int]:
    """Operations made inside belong to this stage of a pipeline."""
    with _set(_CURRENT.stages, stage):
        yield stage


@contextmanager
def io_tiles() -> Generator[None]:
    """Operations made inside are on the tiles for input and output."""
    with _set(_CURRENT.io_tiles, True):
        yield


@contextmanager
def placed_on(tile_set: str) -> Generator[None]:
    """Operations made inside are on this set of tiles: ``compute`` or ``io``."""
    with _set(_CURRENT.io_tiles, tile_set == "io"):
        yield


@contextmanager
def execution_context(context: ExecutionContext) -> Generator[None]:
    """Operations made inside belong to this part of the program."""
    with _set(_CURRENT.execution, context):
        yield


@contextmanager
def name_scope(scope: str) -> Generator[None]:
    """Names of tensors and operations made inside begin with this one and a slash."""
    with _set(_CURRENT.names, scope):
        yield


@contextmanager
def in_sequence(enabled: bool = True) -> Generator[None]:
    """Operations made inside run in the order in which they are made.

    Args:
        enabled: With False inside of True, they have no order among themselves but are one unit of the
            order around them.

    Raises:
        TypeError: ``enabled`` is None.
    """
    if enabled is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise TypeError("None cannot be passed to 'in_sequence'. Try False instead.")
    outer = _CURRENT.sequence
    inner = _CURRENT.sequence = Sequence(bool(enabled), outer)
    try:
        yield
    finally:
        _CURRENT.sequence = outer
        inner.close()


@contextmanager
def debug_context_frame_offset(i: int) -> Generator[None]:
    """Locations recorded inside are those of a caller ``i`` frames further out."""
    before, _CURRENT.frame_offset = _CURRENT.frame_offset, _CURRENT.frame_offset + i
    try:
        yield
    finally:
        _CURRENT.frame_offset = before


def api(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: operations that it makes are recorded with its name and its caller's line."""
    return _marked(function, function.__name__)


def op_debug_context(name: Any) -> Any:
    """Decorate a function: operations that it makes are recorded with its name and its caller's line.

    Args:
        name: The function, or the name to record instead of its own.
    """
    if not callable(name):
        return functools.partial(_marked, name=name)
    return api(name)


def _marked(function: Callable[P, R], name: str) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _CURRENT.calls:
            return function(*args, **kwargs)
        _CURRENT.calls.append((name, location_outside(_OWN, _CURRENT.frame_offset)))
        try:
            return function(*args, **kwargs)
        finally:
            _CURRENT.calls.pop()

    return call
