"""One execution of a graph: its operations in order, each as instructions on the current values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensor_location import ExecutionContext
from workbench.compat.popart.ir.tensors import Constant, Tensor
from workbench.compat.popart.lowering.calls import Binding, called, repeated
from workbench.compat.popart.lowering.effects import Effects, index_of, row_of, with_row
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compat.popart.lowering.memory import Memory
from workbench.compiler.expressions.value import Value

_PHASES = (ExecutionContext.WeightsFromHostFragment, None, ExecutionContext.WeightsToHostFragment)


class Frame:
    """An execution of a graph with given inputs; state outside of tensors is passed on."""

    def __init__(
        self,
        graph: Graph,
        builder: LineBuilder,
        effects: Effects,
        inputs: Mapping[Tensor, Value],
        variable: Callable[[Tensor], Value] | None = None,
    ) -> None:
        """An execution that has not begun.

        Args:
            graph: The graph.
            builder: Appends the instructions.
            effects: The state of streams and remote buffers, which changes.
            inputs: The values of the graph's inputs.
            variable: Gives the value of a variable that is read first; only the main graph has some.
        """
        self.graph, self.builder, self.effects = graph, builder, effects
        self._variable = variable
        self.memory = Memory(inputs, self._missing, builder.lines_of)

    def run(self) -> None:
        """Append the instructions of all operations."""
        for op in phased(self.graph):
            with self.builder.lines_of(op):
                for one in op.parts or (op,):
                    _EFFECTS.get(one.op_type, _computed)(self, one)

    def read(self, tensor: Tensor) -> Value:
        """The value of a tensor now."""
        return self.memory.read(tensor)

    def inputs_of(self, op: Op) -> list[Value]:
        """The values of an operation's inputs now."""
        return [self.memory.read(t) for t in op.inputs]

    def _missing(self, tensor: Tensor) -> Value:
        if isinstance(tensor, Constant):
            return self.builder.constant(tensor.data)
        assert self._variable is not None, f"{tensor!r} has no value"
        return self._variable(tensor)


def phased(graph: Graph) -> list[Op]:
    """The operations of a graph, with those that load weights first and those that store them last."""

    def phase(op: Op) -> int:
        return _PHASES.index(op.execution_context if op.execution_context in _PHASES else None)

    return sorted(graph.ops(), key=phase)


def _computed(frame: Frame, op: Op) -> None:
    """An operation with a meaning; a view of memory has a value when it is read."""
    assert op.meaning is not None, f"{op!r} has no meaning"
    if op.view is not None and not op.modifies:
        return
    found = op.meaning(*(frame.inputs_of(op) or [frame.builder]))
    values = list(found) if isinstance(found, tuple) else [found]
    if op.view is not None:
        frame.memory.write(op.inputs[op.aliases[0]], values[0])
    for k, output in enumerate(op.outputs):
        if k or op.view is None:
            frame.memory.write(output, values[k])
    for k, value in zip(op.hidden, values[len(op.outputs) :], strict=True):
        frame.memory.write(op.inputs[k], value)


def _loaded(frame: Frame, op: Op) -> None:
    frame.memory.write(op.inputs[0], frame.effects.load(op.details))


def _stored(frame: Frame, op: Op) -> None:
    frame.effects.store(op.details, frame.read(op.inputs[0]))


def _remote_loaded(frame: Frame, op: Op) -> None:
    target, offset = op.inputs
    rows = frame.effects.contents[op.details]
    frame.memory.write(target, row_of(rows, index_of(frame.read(offset))))


def _remote_stored(frame: Frame, op: Op) -> None:
    source, offset = frame.inputs_of(op)
    contents = frame.effects.contents
    contents[op.details] = with_row(contents[op.details], index_of(offset), source)


def _called(frame: Frame, op: Op) -> None:
    _bind(frame, op, called(frame, op))


def _repeated(frame: Frame, op: Op) -> None:
    _bind(frame, op, repeated(frame, op))


def _bind(frame: Frame, op: Op, binding: Binding) -> None:
    """Give a call's results to its outputs, and to the inputs that the callee changed."""
    for output, value in zip(op.outputs, binding.outputs, strict=True):
        frame.memory.write(output, value)
    for k, value in zip(op.modifies, binding.modified, strict=True):
        frame.memory.write(op.inputs[k], value)


_EFFECTS: dict[str, Callable[[Frame, Op], None]] = {
    "HostLoad": _loaded,
    "HostStore": _stored,
    "RemoteLoad": _remote_loaded,
    "RemoteLoadInplace": _remote_loaded,
    "RemoteStore": _remote_stored,
    "Call": _called,
    "Loop": _repeated,
}
