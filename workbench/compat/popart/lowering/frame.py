"""One execution of a graph: its operations in order, each as instructions on the current values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensor_location import ExecutionContext
from workbench.compat.popart.ir.tensors import Constant, Tensor
from workbench.compat.popart.lowering.calls import Binding, Callees, called, repeated
from workbench.compat.popart.lowering.collectives import connected, exchanged
from workbench.compat.popart.lowering.effects import Effects, index_of, row_of, with_row
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compat.popart.lowering.lowered import Printed
from workbench.compat.popart.lowering.memory import Memory
from workbench.compiler.expressions.value import Value

_PHASES = (ExecutionContext.WeightsFromHostFragment, None, ExecutionContext.WeightsToHostFragment)


class Lane:
    """One replica's execution: its memory, and its state outside of tensors, which is passed on."""

    def __init__(
        self,
        builder: LineBuilder,
        effects: Effects,
        inputs: Mapping[Tensor, Value],
        variable: Callable[[Tensor], Value] | None = None,
        names: dict[str, int] | None = None,
    ) -> None:
        """An execution that has not begun.

        Args:
            builder: Appends the instructions.
            effects: The state of streams and remote buffers, which changes.
            inputs: The values of the graph's inputs.
            variable: Gives the value of a variable that is read first; only the main graph has some.
            names: Receives the id of the instruction that computes each tensor, by the tensor's id.
        """
        self._names = names
        self.builder, self.effects, self._variable = builder, effects, variable
        self.memory = Memory(inputs, self._missing, builder.lines_of)

    def read(self, tensor: Tensor) -> Value:
        """The value of a tensor now."""
        return self.memory.read(tensor)

    def write(self, tensor: Tensor, value: Value) -> None:
        """Overwrite the memory of a tensor."""
        self.memory.write(tensor, value)
        self.note(tensor, value)

    def note(self, tensor: Tensor, value: Value) -> None:
        """Note the first value of a tensor under its id."""
        if self._names is not None:
            self._names.setdefault(tensor.id, value.instruction.id)

    def inputs_of(self, op: Op) -> list[Value]:
        """The values of an operation's inputs now."""
        return [self.memory.read(t) for t in op.inputs]

    def _missing(self, tensor: Tensor) -> Value:
        if isinstance(tensor, Constant):
            return self.builder.constant(tensor.data)
        assert self._variable is not None, f"{tensor!r} has no value"
        return self._variable(tensor)


class Frame:
    """An execution of a graph by all replicas in step."""

    def __init__(
        self, graph: Graph, builder: LineBuilder, lanes: Sequence[Lane], callees: Callees
    ) -> None:
        """An execution that has not begun.

        Args:
            graph: The graph.
            builder: Appends the instructions.
            lanes: The executions by each replica.
            callees: The modules of graphs, to which new ones are added.
        """
        self.graph, self.builder, self.lanes, self.callees = graph, builder, lanes, callees

    def run(self) -> None:
        """Append the instructions of all operations."""
        for op in phased(self.graph):
            try:
                with self.builder.lines_of(op):
                    for one in op.parts or (op,):
                        self._run(one)
            except ValueError as error:
                raise popart_exception(f"{op!r}: {error}") from error

    def _run(self, op: Op) -> None:
        if (together := _TOGETHER.get(op.op_type)) is not None:
            together(self, op)
            return
        alone = _EFFECTS.get(op.op_type, _computed)
        for lane in self.lanes:
            alone(lane, op)


def phased(graph: Graph) -> list[Op]:
    """The operations of a graph, with those that load weights first and those that store them last."""

    def phase(op: Op) -> int:
        return _PHASES.index(op.execution_context if op.execution_context in _PHASES else None)

    return sorted(graph.ops(), key=phase)


# By each replica alone


def _computed(lane: Lane, op: Op) -> None:
    """An operation with a meaning; a view of memory has a value when it is read."""
    assert op.meaning is not None, f"{op!r} has no meaning"
    if op.view is not None and not op.modifies:
        return
    found = op.meaning(*(lane.inputs_of(op) or [lane.builder]))
    values = list(found) if isinstance(found, tuple) else [found]
    if op.view is not None:
        lane.write(op.inputs[op.aliases[0]], values[0])
        lane.note(op.outputs[0], values[0])
    for k, output in enumerate(op.outputs):
        if k or op.view is None:
            lane.write(output, values[k])
    for k, value in zip(op.hidden, values[len(op.outputs) :], strict=True):
        lane.write(op.inputs[k], value)


def _loaded(lane: Lane, op: Op) -> None:
    value = lane.effects.load(op.details)
    lane.write(op.inputs[0], value)
    lane.note(op.outputs[0], value)


def _stored(lane: Lane, op: Op) -> None:
    lane.effects.store(op.details, lane.read(op.inputs[0]))


def _remote_loaded(lane: Lane, op: Op) -> None:
    target, offset = op.inputs
    rows = lane.effects.contents[op.details]
    lane.write(target, row_of(rows, index_of(lane.read(offset))))


def _remote_stored(lane: Lane, op: Op) -> None:
    source, offset = lane.inputs_of(op)
    contents = lane.effects.contents
    contents[op.details] = with_row(contents[op.details], index_of(offset), source)


def _printed(lane: Lane, op: Op) -> None:
    _computed(lane, op)
    if op.attributes["print_self"]:
        printed = Printed(op.attributes["title"], (lane.effects.next_printed,))
        lane.effects.printed.append((printed, lane.read(op.outputs[0])))


# By all replicas together


def _called(frame: Frame, op: Op) -> None:
    _bind(frame, op, called(frame, op))


def _repeated(frame: Frame, op: Op) -> None:
    _bind(frame, op, repeated(frame, op))


def _bind(frame: Frame, op: Op, bindings: Sequence[Binding]) -> None:
    """Give a call's results to its outputs, and to the inputs that the callee changed."""
    for lane, binding in zip(frame.lanes, bindings, strict=True):
        for output, value in zip(op.outputs, binding.outputs, strict=True):
            lane.write(output, value)
        for k, value in zip(op.modifies, binding.modified, strict=True):
            lane.write(op.inputs[k], value)


def _exchanged(frame: Frame, op: Op) -> None:
    values, lens = [lane.read(op.inputs[0]) for lane in frame.lanes], op.outputs[0].shape
    if apart := frame.callees.apart:
        found = [connected(op.details, values[0], apart, lens)]
    else:
        found = exchanged(op.details, values, lens)
    target = op.inputs[0] if op.modifies else op.outputs[0]
    for lane, value in zip(frame.lanes, found, strict=True):
        lane.write(target, value)


_EFFECTS: dict[str, Callable[[Lane, Op], None]] = {
    "HostLoad": _loaded,
    "HostStore": _stored,
    "RemoteLoad": _remote_loaded,
    "RemoteLoadInplace": _remote_loaded,
    "RemoteStore": _remote_stored,
    "PrintTensor": _printed,
}
_TOGETHER: dict[str, Callable[[Frame, Op], None]] = {
    "Call": _called,
    "Loop": _repeated,
    "ReplicatedAllReduce": _exchanged,
    "ReplicatedAllReduceInplace": _exchanged,
    "ReplicatedAllGather": _exchanged,
    "ReplicatedReduceScatter": _exchanged,
}
