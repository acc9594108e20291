"""An Ir as a program, with what binds its parameters and results to variables, streams and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import Stream
from workbench.compat.popart.ir.tensors import Variable
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True)
class Printed:
    """A result that a run prints; inside loops, once for each iteration."""

    title: str
    place: tuple[int, ...] = (0,)
    """Its number among all that is printed, then in each loop around it its number in one iteration.

    The result has a leading axis for each of these loops.
    """

    def in_call(self, first: int) -> Printed:
        """The same in a call whose results are printed from this number on."""
        return Printed(self.title, (first + self.place[0], *self.place[1:]))

    def in_loop(self, first: int) -> Printed:
        """The same in each iteration of a loop with this number."""
        return Printed(self.title, (first, *self.place))

    def values(self, array: Array) -> Iterator[tuple[tuple[int, ...], str, Any]]:
        """Each value that is printed, with its title and what it is ordered by.

        Args:
            array: The result of a run.
        """
        loops = len(self.place) - 1
        for index in np.ndindex(array.shape[:loops]):
            inside = (n for pair in zip(index, self.place[1:], strict=True) for n in pair)
            yield (self.place[0], *inside), self.title, array[index]


Bound: TypeAlias = Variable | Stream | RemoteBuffer


@dataclass
class Lowered:
    """A program whose parameters are state and rows of streams, and whose results are their new values."""

    program: Program
    parameters: dict[str, Bound] = field(default_factory=dict[str, Bound])
    """Everything that the program takes, by the parameter's name."""
    results: list[Bound | Printed] = field(default_factory=list[Bound | Printed])
    """Everything that the program changes, in the order of its results; others may follow them."""
    modules: dict[Graph, Module] = field(default_factory=dict[Graph, Module])

    def module_of(self, graph: Graph) -> Module:
        """The module that a graph became.

        Raises:
            ValueError: It became none, as no call reaches it.
        """
        if graph not in self.modules:
            raise ValueError(f"{graph!r} has no module, as no call reaches it.")
        return self.modules[graph]


def parameter_name(bound: Bound) -> str:
    """The name of the parameter for a variable, a stream or a remote buffer."""
    if isinstance(bound, RemoteBuffer):
        return f"remote_buffer_{bound.remote_buffer_id}"
    return bound.tensor_id() if isinstance(bound, Stream) else bound.id
