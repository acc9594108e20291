"""The Ir: a main graph, its subgraphs, and what a session needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Set
from itertools import count
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from workbench.compat.popart.ir.graph import Graph, made_graph
from workbench.compat.popart.ir.low_level import LowLevelIr
from workbench.compat.popart.ir.session_options import SessionOptions
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream
from workbench.compat.popart.ir.tracing import traced

if TYPE_CHECKING:
    from workbench.compat.popart.ir.module import Module
    from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
    from workbench.compat.popart.lowering.lowered import Lowered
    from workbench.compiler.ir.program import Program

_IDS = count()


class Ir:
    """A whole computation: graphs with variables, streams and remote buffers."""

    _ir_cache: ClassVar[WeakValueDictionary[int, Ir]] = WeakValueDictionary()

    def __init__(self) -> None:
        """An Ir with an empty main graph."""
        self._id = next(_IDS)
        self._ir_cache[self._id] = self
        self._numbers, self._ops, self._subgraphs = count(), count(), count()
        self._graph_cache: dict[str, Graph] = {}
        self._graph_cache[""] = made_graph(self, "")
        self._buffers: dict[int, RemoteBuffer] = {}
        self._num_host_transfers = 1
        self._prepared = False
        self._lowered: Lowered | None = None
        self._low_level = LowLevelIr(self)
        self.options = SessionOptions()
        """PopART's session options; those of dumps have an effect, the others are recorded."""

    # Graphs

    def main_graph(self) -> Graph:
        """The main graph."""
        return self._graph_cache[""]

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Add a subgraph without contents."""
        id = f"{name or 'graph'}_subgraph({next(self._subgraphs)})"
        graph = self._graph_cache[id] = made_graph(self, id)
        return graph

    def add_graph(self, graph: Graph) -> Graph:
        """Add a graph, whose id is new, and return it."""
        self._graph_cache[graph.id] = graph
        return graph

    def create_graph(self, fn: Callable[..., Any] | Module, *args: Any, **kwargs: Any) -> Graph:
        """Add a subgraph with what a function does; tensors among its arguments become inputs.

        Args:
            fn: A function or a module; it returns None, a tensor or several.
            *args: Its arguments. Tensors, and lists of them, become inputs with the argument's name;
                everything else is passed on.
            **kwargs: The same, by name.

        Raises:
            TypeError: ``fn`` cannot be called, or a list has tensors and others.
            ValueError: The arguments do not fit, or the result is not made of tensors.
        """
        return traced(self, fn, args, kwargs)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """All graphs, the main graph first."""
        return tuple(self._graph_cache.values())

    # Streams and buffers

    def get_all_d2h_streams(self) -> Set[DeviceToHostStream]:
        """The streams that an operation stores to."""
        return {s for s in self._streams() if isinstance(s, DeviceToHostStream)}

    def get_all_h2d_streams(self) -> Set[HostToDeviceStream]:
        """The streams that an operation loads from."""
        return {s for s in self._streams() if isinstance(s, HostToDeviceStream)}

    def _streams(self) -> Set[Any]:
        ops = [op for g in self.graphs for op in g.ops()]
        parts = [p for op in ops for p in (op.parts or (op,))]
        return {p.details for p in parts if p.op_type in ("HostLoad", "HostStore")}

    @property
    def remote_buffers(self) -> tuple[RemoteBuffer, ...]:
        """All remote buffers."""
        return tuple(self._buffers.values())

    def add_buffer(self, buffer: RemoteBuffer) -> int:
        """Add a remote buffer; returns its id."""
        self._buffers[len(self._buffers) + 1] = buffer
        return len(self._buffers)

    # Settings

    @property
    def num_host_transfers(self) -> int:
        """The number of rows of each stream's buffer: batches per step times accumulated batches."""
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        self._num_host_transfers = value
        self.changed()

    @property
    def replication_factor(self) -> int:
        """The number of replicas that run the same graph on their own data."""
        options = self.options
        return options.replicatedGraphCount if options.enableReplicatedGraphs else 1

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._prepared:
            raise RuntimeError(
                "Cannot set the replication factor: this Ir is already prepared by a Session."
            )
        self.options.enableReplicatedGraphs = value > 1
        self.options.replicatedGraphCount = value
        self.changed()

    def prepare(self) -> None:
        """Note that a session has taken the Ir."""
        self._prepared = True

    # Our own view of it

    @property
    def lowered(self) -> Lowered:
        """The Ir as a program of the workbench, with what binds streams and variables to its parameters."""
        from workbench.compat.popart.lowering.lower import lower  # noqa: PLC0415 - it reads graphs

        if self._lowered is None:
            self._lowered = lower(self)
        return self._lowered

    @property
    def workbench(self) -> Program:
        """The Ir as a program of the workbench: state and rows of streams in, new state and rows out."""
        return self.lowered.program

    def changed(self) -> None:
        """Forget the program, as a graph is no longer the one that it was made from."""
        self._lowered = None

    def next_number(self) -> int:
        """A number that no tensor or hook of this Ir has."""
        return next(self._numbers)

    def next_op_id(self) -> int:
        """The id of the next operation."""
        return next(self._ops)

    @property
    def _pb_ir(self) -> LowLevelIr:
        """PopART's low-level Ir, for `popart.InferenceSession`."""
        return self._low_level

    # Dumps

    def dot_checkpoint(self, check: str, save_dir: str | PathLike[str] | None = None) -> None:
        """Write all graphs as DOT files, now.

        ``POPART_DOT_CHECKS`` and ``ir.options.dotChecks`` say which checkpoints write; without either all do.

        Args:
            check: The name, with which the files' names begin.
            save_dir: The folder of this checkpoint and of those after it; at first ``ir.options.logDir``.
        """
        from workbench.compat.popart.dumps.dot import checkpoint  # noqa: PLC0415 - it reads graphs

        checkpoint(self, check, save_dir)

    def log_ir(self) -> str:
        """All graphs as text, with each operation's inputs, outputs and attributes."""
        from workbench.compat.popart.dumps.text import text_of  # noqa: PLC0415 - it reads graphs

        return text_of(self)

    def serialize(self) -> str:
        """All graphs as JSON."""
        from workbench.compat.popart.dumps.serialized import json_of  # noqa: PLC0415 - it reads graphs

        return json_of(self)

    # Python's own

    @property
    def id(self) -> int:
        """A number that no other Ir has."""
        return self._id

    def __eq__(self, other: object) -> bool:
        """Whether it is the same Ir.

        Raises:
            TypeError: The other is no Ir.
        """
        if not isinstance(other, Ir):
            raise TypeError(f"Value must be of type popart.ir.Ir. Type: {type(other)}.")
        return self is other

    def __hash__(self) -> int:
        """By id."""
        return hash(self._id)

    def __repr__(self) -> str:
        """The id."""
        return f"Ir[id={self._id}]"
