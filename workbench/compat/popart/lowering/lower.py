"""From the records of an Ir to one program: state and rows in, new state and rows out."""

from __future__ import annotations

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream, Stream
from workbench.compat.popart.ir.tensors import Tensor, Variable
from workbench.compat.popart.lowering.calls import Callees
from workbench.compat.popart.lowering.effects import Effects, Place, Uses, uses_of
from workbench.compat.popart.lowering.frame import Frame, Lane
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compat.popart.lowering.lowered import Bound, Lowered, Printed, parameter_name
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.program import Program


def lower(ir: Ir, unroll: int = 0, *, apart: bool = False) -> Lowered:
    """The program of an Ir.

    Args:
        ir: The Ir.
        unroll: Loops of at most this many iterations become calls one after another.
        apart: Whether the program is that of one replica, which exchanges values with the others by
            collectives; else it is that of all replicas, whose state has an axis for them.

    Raises:
        popart_exception: A stream is used more often than it has rows.
    """
    return _Lowering(ir, unroll, apart).lowered()


class _Lowering:
    """The lowering of one Ir; with several replicas in one program state has an axis for them."""

    def __init__(self, ir: Ir, unroll: int, apart: bool) -> None:
        self.ir, self.graph = ir, ir.main_graph()
        self.replicas = 1 if apart else ir.replication_factor
        self.callees = Callees(unroll=unroll, apart=ir.replication_factor if apart else 0)
        self.found = Lowered(Program("main"))
        self.builder = LineBuilder(self.found.program.main)
        self.values: dict[Bound, list[Value]] = {}
        """The value of a variable for each replica before the run."""

    def lowered(self) -> Lowered:
        uses = uses_of(self.graph)
        self._check_rows(uses)
        contents = {place: self._contents(place) for place in uses.places}
        lanes = [self._lane(k, contents) for k in range(self.replicas)]
        Frame(self.graph, self.builder, lanes, self.callees).run()
        results: list[Value] = []
        for tensor in self.graph.get_variables():
            after = [lane.read(tensor) for lane in lanes] if tensor in self.values else []
            if any(a is not b for a, b in zip(after, self.values.get(tensor, []), strict=True)):
                self._return(tensor, self._stacked(after, 0), results)
        for place in uses.written:
            axis = 1 if isinstance(place, Stream) else 0
            now = [lane.effects.contents[place] for lane in lanes]
            self._return(place, self._stacked(now, axis), results)
        for lane in lanes:
            for printed, value in lane.effects.printed:
                self._return(printed, value, results)
        self.builder.end(results or self._unused(lanes[0]))
        self._name_results()
        self.found.modules[self.graph] = self.found.program.main
        self.found.modules.update(self.callees.first)
        return self.found

    def _lane(self, k: int, contents: dict[Place, list[Value]]) -> Lane:
        effects = Effects({place: values[k] for place, values in contents.items()})
        names = self.found.program.tensors if k == 0 else None
        return Lane(self.builder, effects, {}, lambda t: self._variable(t)[k], names)

    def _name_results(self) -> None:
        """Tell the program the names of its results, and which of them replace parameters."""
        program, results = self.found.program, self.found.results
        program.output_names = tuple(
            f"print{k}:{b.title}" if isinstance(b, Printed) else parameter_name(b)
            for k, b in enumerate(results)
        )
        state = {k: b for k, b in enumerate(results) if isinstance(b, Variable | RemoteBuffer)}
        program.updates = {parameter_name(b): k for k, b in state.items()}

    def _return(self, bound: Bound | Printed, value: Value, results: list[Value]) -> None:
        self.found.results.append(bound)
        results.append(value)

    def _stacked(self, values: list[Value], axis: int) -> Value:
        """The values of all replicas along an axis."""
        if len(values) == 1:
            return values[0]
        rows = [v.apply("unsqueeze", axes=(axis,)) for v in values]
        return rows[0].apply("concat", *rows[1:], axis=axis)

    def _split(self, value: Value, axis: int) -> list[Value]:
        """The part of a value that each replica has."""
        if self.replicas == 1:
            return [value]
        front = (slice(None),) * axis
        return [value[(*front, k)] for k in range(self.replicas)]

    def _unused(self, lane: Lane) -> list[Value]:
        """The tensors that nothing uses, so that a program without effects computes something."""
        used = {t for op in self.graph.ops() for t in op.inputs}
        found = [t for op in self.graph.ops() for t in op.outputs if t not in used]
        return [lane.read(t) for t in found] or [self.builder.constant(0)]

    def _parameter(
        self, bound: Bound, lens: tuple[int, ...], type: dtype, axis: int
    ) -> list[Value]:
        name = parameter_name(bound)
        self.found.parameters[name] = bound
        lens = (*lens[:axis], *([self.replicas] if self.replicas > 1 else []), *lens[axis:])
        return self._split(self.builder.input(name, lens, type.as_numpy().__name__), axis)

    def _variable(self, tensor: Tensor) -> list[Value]:
        if not isinstance(tensor, Variable):
            raise popart_exception(f"{tensor!r} has no value; use ops.host_load to read a stream")
        if tensor not in self.values:
            self.values[tensor] = self._parameter(tensor, tensor.shape, tensor.dtype, 0)
        return self.values[tensor]

    def _contents(self, place: Place) -> list[Value]:
        """The rows of a stream or a remote buffer before a run, for each replica."""
        if isinstance(place, RemoteBuffer):
            lens = (place.entries, *place.tensor_shape)
            return self._parameter(place, lens, place.tensor_dtype, 0)
        lens = (self.ir.num_host_transfers, *place.shape)
        if isinstance(place, HostToDeviceStream):
            return self._parameter(place, lens, place.dtype, 1)
        zero = self.builder.constant(np.zeros((), place.dtype.as_numpy()))
        return [zero.broadcast_to(*lens)] * self.replicas

    def _check_rows(self, uses: Uses) -> None:
        rows = self.ir.num_host_transfers
        for stream, count in uses.transfers.items():
            if count > rows:
                raise popart_exception(_exhausted(stream, count, rows))


def _exhausted(stream: Stream, count: int, rows: int) -> str:
    what = "host_store" if isinstance(stream, DeviceToHostStream) else "host_load"
    return (
        f"{stream!r}: a run executes {count} {what} operations on it and it has {rows} rows; "
        f"set ir.num_host_transfers to at least {count}"
    )
