"""Graphs: tensors and the operations that were made on them."""

# A graph and the function that makes it are one thing.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import get_current_context
from workbench.compat.popart.ir.debug_info import note_op, note_tensor
from workbench.compat.popart.ir.op import Op, Spec
from workbench.compat.popart.ir.tensors import Constant, Tensor, Variable, made_tensor

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compat.popart.ir.ir import Ir
    from workbench.compiler.ir.module import Module

Hook = Callable[[Op], Any]


class Graph:
    """The main graph of an Ir or a subgraph; entered by ``with``, so that operations are added to it."""

    def __init__(self) -> None:
        """Refuse: an Ir makes graphs.

        Raises:
            TypeError: Always.
        """
        raise TypeError("popart.ir.Graph cannot be constructed directly; use Ir.create_graph.")

    _ir: Ir
    _id: str
    _tensors: dict[str, Tensor]
    _inputs: list[Tensor]
    _outputs: list[Tensor]
    _ops: list[Op]
    _hooks: dict[int, Hook]
    _by_ref_inputs: set[Tensor]

    # Identity

    @property
    def name(self) -> str:
        """The name; empty for the main graph."""
        return self._id

    @property
    def id(self) -> str:
        """The id, which is the name."""
        return self._id

    def ir(self) -> Ir:
        """The Ir that it belongs to."""
        return self._ir

    def get_main_graph(self) -> Graph:
        """The main graph of its Ir."""
        return self._ir.main_graph()

    # Contents

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """Its inputs, in order."""
        return tuple(self._inputs)

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """Its outputs, in order."""
        return tuple(self._outputs)

    def get_tensor(self, tensor_id: str) -> Tensor:
        """The tensor with this id.

        Raises:
            ValueError: It has none.
        """
        if tensor_id not in self._tensors:
            raise ValueError(f"No tensor {tensor_id} in the graph {self._id!r}.")
        return self._tensors[tensor_id]

    def get_tensors(self) -> tuple[Tensor, ...]:
        """All tensors, streams included."""
        return tuple(self._tensors.values())

    def get_variables(self) -> tuple[Variable, ...]:
        """The variables."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Variable))

    def get_constants(self) -> tuple[Constant, ...]:
        """The constants."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Constant))

    # The names of later versions

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Its inputs, in order."""
        return self.get_input_tensors()

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Its outputs, in order."""
        return self.get_output_tensors()

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """Its inputs by name."""
        return {t.name: t for t in self._inputs}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, streams included."""
        return self.get_tensors()

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables."""
        return self.get_variables()

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants."""
        return self.get_constants()

    @property
    def main_graph(self) -> Graph:
        """The main graph of its Ir."""
        return self.get_main_graph()

    # Ours

    def ops(self) -> tuple[Op, ...]:
        """The operations in the order in which they were made."""
        return tuple(self._ops)

    def schedule(self) -> tuple[Op, ...]:
        """The operations in an order that keeps the least memory alive, within the order that they need."""
        from workbench.compat.popart.lowering.schedule import scheduled  # noqa: PLC0415 - it reads graphs

        return scheduled(self)

    def table(self) -> DataFrame:
        """A row for each operation: type, tensors, IPU, pipeline stage, tiles, order and the user's line."""
        from workbench.compat.popart.dumps.table import table_of  # noqa: PLC0415 - it reads graphs

        return table_of(self)

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The graphs that its operations call, each once."""
        return tuple(dict.fromkeys(g for op in self._ops for g in op.called_graphs))

    @property
    def workbench(self) -> Module:
        """The module of ``ir.workbench`` that this graph became; for a subgraph that of its first use.

        Raises:
            ValueError: The main graph does not reach it.
        """
        return self._ir.lowered.module_of(self)

    # Hooks

    def register_op_created_hook(self, fn: Hook) -> int:
        """Call a function with each operation that is added to this graph; the result removes it again."""
        handle = self._ir.next_number()
        self._hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Stop calling a function.

        Raises:
            ValueError: There is no such handle.
        """
        if handle not in self._hooks:
            raise ValueError(f"No hook with the handle {handle} on the graph {self._id!r}.")
        del self._hooks[handle]

    # Additions, for operations and factories

    def new_id(self, name: str) -> str:
        """An unused id for a tensor, from a name in the name scopes around."""
        scoped = get_current_context().scoped(name)
        found = f"{self._id}/{scoped}" if self._id else scoped
        while found in self._tensors:
            base = f"{self._id}/{scoped}" if self._id else scoped
            found = f"{base}__t{self._ir.next_number()}"
        return found

    def add_tensor(self, kind: type[Tensor], name: str, spec: Spec, **details: Any) -> Tensor:
        """Add a tensor without a producer."""
        tensor = made_tensor(kind, self, self.new_id(name), spec, **details)
        self._tensors[tensor.id] = tensor
        self._ir.changed()
        note_tensor(tensor)
        return tensor

    def add_result(self, op: Op, index: int, name: str, spec: Spec) -> Tensor:
        """Add the tensor that is an output of an operation."""
        tensor = self.add_tensor(Tensor, name, spec)
        tensor.producer, tensor.producer_index = op, index
        return tensor

    def add_op(self, op: Op) -> None:
        """Add an operation and tell the hooks."""
        self._ops.append(op)
        if (sequence := get_current_context().sequence) is not None:
            sequence.add(self, (op,))
        self._ir.changed()
        note_op(op)
        for hook in list(self._hooks.values()):
            hook(op)

    def add_call_outputs(self, tensors: Sequence[Tensor]) -> None:
        """Add outputs to this graph, and to every call of it."""
        for tensor in tensors:
            self.add_output(tensor)
            for op in [op for g in self._ir.graphs for op in g.ops() if self in op.called_graphs]:
                if op.op_type != "Call":
                    raise popart_exception(
                        f"{op!r} calls {self!r}; outputs can be added to calls only"
                    )
                spec = tensor.shape, tensor.dtype
                made = op.graph.add_result(op, len(op.outputs), tensor.name, spec)
                op.outputs = (*op.outputs, made)

    def add_input(self, tensor: Tensor, by_ref: bool) -> None:
        """Make a tensor an input."""
        self._inputs.append(tensor)
        if by_ref:
            self._by_ref_inputs.add(tensor)

    def add_output(self, tensor: Tensor) -> None:
        """Make a tensor an output."""
        self._outputs.append(tensor)
        self._ir.changed()

    def replace_ops(self, gone: set[Op], merged: Op) -> None:
        """Put one operation in the place of several, after all operations that those need."""
        for op in self._ops:
            if gone & set(op.in_sequence):
                kept = [o for o in op.in_sequence if o not in gone]
                op.in_sequence = (*kept, merged)
        sequence = get_current_context().sequence
        while sequence is not None:
            sequence.forget(self, gone, merged)
            sequence = sequence.outer
        self._ops = in_order([merged if op in gone else op for op in self._ops])
        self._ir.changed()

    # Python's own

    def __enter__(self) -> Graph:
        """Add operations made from now on to this graph."""
        get_current_context().push(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the graph."""
        get_current_context().pop()

    def __contains__(self, tensor: object) -> bool:
        """Whether a tensor is of this graph.

        Raises:
            TypeError: It is not a tensor.
        """
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Value must be of type popart.ir.Tensor. Type: {type(tensor)}.")
        return tensor.graph is self

    def __eq__(self, other: object) -> bool:
        """Whether it is the same graph of the same Ir.

        Raises:
            TypeError: The other is not a graph.
        """
        if not isinstance(other, Graph):
            raise TypeError(f"Value must be of type popart.ir.Graph. Type: {type(other)}.")
        return self is other

    def __hash__(self) -> int:
        """By id and Ir."""
        return hash((self._id, self._ir.id))

    def __repr__(self) -> str:
        """The id and the name."""
        return f"Graph[id={self._id} name={self.name}]"


def made_graph(ir: Ir, id: str) -> Graph:
    """An empty graph of an Ir."""
    graph = object.__new__(Graph)
    graph._ir, graph._id = ir, id
    graph._tensors, graph._hooks = {}, {}
    graph._inputs, graph._outputs, graph._ops = [], [], []
    graph._by_ref_inputs = set()
    return graph


def in_order(ops: list[Op]) -> list[Op]:
    """Operations, each once: in their order, but after those that each needs."""
    done: dict[Op, None] = {}
    known = set(ops)
    for op in ops:
        stack = [op]
        while stack:
            needs = [o for o in stack[-1].needs if o not in done and o in known]
            if needs:
                stack.append(needs[-1])
            else:
                done[stack.pop()] = None
    return list(done)
