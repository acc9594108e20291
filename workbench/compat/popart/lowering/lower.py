"""From the records of an Ir to one program: state and rows in, new state and rows out."""

from __future__ import annotations

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream, Stream
from workbench.compat.popart.ir.tensors import StreamTensor, Tensor, Variable
from workbench.compat.popart.lowering.effects import Effects, Place, Uses, uses_of
from workbench.compat.popart.lowering.frame import Frame
from workbench.compat.popart.lowering.lines import LineBuilder
from workbench.compat.popart.lowering.lowered import Bound, Lowered, parameter_name
from workbench.compiler.expressions.value import Value


def lower(ir: Ir) -> Lowered:
    """The program of an Ir.

    Raises:
        popart_exception: A stream is used more often than it has rows.
    """
    return _Lowering(ir).lowered()


class _Lowering:
    """The lowering of one Ir."""

    def __init__(self, ir: Ir) -> None:
        self.ir, self.graph = ir, ir.main_graph()
        self.builder = LineBuilder("main")
        self.found = Lowered(self.builder.module.program)
        self.values: dict[Bound, Value] = {}

    def lowered(self) -> Lowered:
        uses = uses_of(self.graph)
        self._check_rows(uses)
        effects = Effects({place: self._contents(place) for place in uses.places})
        before = dict(effects.contents)
        frame = Frame(self.graph, self.builder, effects, {}, self._variable)
        frame.run()
        results: list[Value] = []
        for tensor in self.graph.get_variables():
            if tensor in self.values and frame.read(tensor) is not self.values[tensor]:
                self._return(tensor, frame.read(tensor), results)
        for place in uses.written:
            if effects.contents[place] is not before[place]:
                self._return(place, effects.contents[place], results)
        self.builder.program(*(results or self._unused(frame)))
        self.found.modules[self.graph] = self.found.program.main
        return self.found

    def _return(self, bound: Bound, value: Value, results: list[Value]) -> None:
        self.found.results.append(bound)
        results.append(value)

    def _unused(self, frame: Frame) -> list[Value]:
        """The tensors that nothing uses, so that a program without effects computes something."""
        used = {t for op in self.graph.ops() for t in op.inputs}
        found = [t for op in self.graph.ops() for t in op.outputs if t not in used]
        return [frame.read(t) for t in found] or [self.builder.constant(0)]

    def _parameter(self, bound: Bound, lens: tuple[int, ...], type: str) -> Value:
        name = parameter_name(bound)
        self.found.parameters[name] = bound
        self.values[bound] = self.builder.input(name, lens, type)
        return self.values[bound]

    def _variable(self, tensor: Tensor) -> Value:
        if isinstance(tensor, StreamTensor) or not isinstance(tensor, Variable):
            raise popart_exception(f"{tensor!r} has no value; use ops.host_load to read a stream")
        return self._parameter(tensor, tensor.shape, tensor.dtype.as_numpy().__name__)

    def _contents(self, place: Place) -> Value:
        """The rows of a stream or a remote buffer before a run."""
        if isinstance(place, RemoteBuffer):
            lens = (place.entries, *place.tensor_shape)
            return self._parameter(place, lens, place.tensor_dtype.as_numpy().__name__)
        lens = (self.ir.num_host_transfers, *place.shape)
        if isinstance(place, HostToDeviceStream):
            return self._parameter(place, lens, place.dtype.as_numpy().__name__)
        zero = self.builder.constant(np.zeros((), place.dtype.as_numpy()))
        return zero.broadcast_to(*lens)

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
