"""An Ir as a program, with what binds its parameters and results to variables, streams and buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import Stream
from workbench.compat.popart.ir.tensors import Variable
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program


@dataclass(frozen=True)
class Printed:
    """A result that a run prints."""

    title: str


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
