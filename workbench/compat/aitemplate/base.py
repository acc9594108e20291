"""The state of a model: its compiled program, memory, constants and executions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from workbench.compat.aitemplate.compiled import Compiled
from workbench.compat.aitemplate.constants import Constants, Folding, Values
from workbench.compat.aitemplate.data import AITData
from workbench.compat.aitemplate.execution import Started, execution_of
from workbench.compat.aitemplate.memory import DeviceMemory, Held, HostMemory
from workbench.compat.aitemplate.pool import Pool, Slot
from workbench.compat.aitemplate.signature import (
    Param,
    expect_lens,
    expect_pointer,
    expect_type,
    facts_of,
    type_given,
)
from workbench.compat.aitemplate.tensors import seen
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import DType
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.runner import DeviceRunner

LOG = logging.getLogger("aitemplate")


class Base:
    """The state that all methods of a model share."""

    _pool: Pool | None = None
    _reads: tuple[Values, dict[str, Held]] | None = None
    """The state of the constants that the last run read, and what it read of it."""
    lib_path: str | None = None
    debug_sorted_graph: Sequence[Any] = ()
    """The tensors of the graph that it was compiled from, in order; empty if it was loaded."""
    compiled: Compiled

    def _load(self, compiled: Compiled, num_runtimes: int) -> None:
        self.compiled = compiled
        self.build = compiled.rest
        """The workbench's build: ``model.build.explore()`` shows every pass."""
        runner = self.build.runner
        device = runner.here() if isinstance(runner, DeviceRunner) else None
        self._memory = HostMemory() if device is None else DeviceMemory(device)
        program = self.build.program
        shapes = program.parameters
        self._inputs = [Param(n, shapes[n]) for n in compiled.inputs]
        found = (o.shape for o in program.outputs)
        self._outputs = [Param(n, s) for n, s in zip(compiled.outputs, found, strict=True)]
        self._direct = [n for n in shapes if n not in compiled.inputs and n not in compiled.folded]
        self._constants = self._constants_of(compiled)
        self._allocated: set[int] = set()
        self._told = False
        outside = (*self._direct, *compiled.folded)
        executions = [execution_of(self.build, outside) for _ in range(num_runtimes)]
        self._pool = Pool(executions, device, self._closed)

    def _constants_of(self, compiled: Compiled) -> Constants:
        rest, folding = compiled.rest.program.parameters, None
        shapes = {n: rest[n] for n in self._direct}
        if compiled.folding is not None:
            program = compiled.folding.program
            shapes |= program.parameters
            results = {n: rest[n] for n in compiled.folded}
            folding = Folding(
                execution_of(compiled.folding, ()), tuple(program.parameters), results
            )
        unread = [n for n in (*compiled.unbound, *compiled.bound) if n not in shapes]
        bound = {n: v for n, v in compiled.bound.items() if n in shapes}
        unbound = [n for n in compiled.unbound if n in shapes]
        return Constants(shapes, unbound, bound, self._memory, folding, unread)

    @property
    def inputs(self) -> Sequence[Param]:
        """Name and shape of each input, in order."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> Sequence[Param]:
        """Name and shape of each output, in order."""
        return tuple(self._outputs)

    def close(self) -> None:
        """Wait for runs in progress, and free all memory, also what ``allocate_gpu_memory`` gave."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        pool.close()
        self._constants.close()
        self._reads = None
        for pointer in list(self._allocated):
            with suppress(Exception):  # freed by hand
                self._memory.free(pointer)
        self._allocated.clear()

    def _closed(self) -> Exception:
        return RuntimeError(f"Cannot use closed AIT library: {self.lib_path or 'compiled here'}")

    def _open(self) -> Pool:
        if self._pool is None:
            raise self._closed()
        return self._pool

    def _run(
        self,
        inputs: Sequence[Held],
        outputs: Sequence[Held],
        stream_ptr: Any,
        sync: bool,
        graph_mode: bool,
        keeps: Iterable[Any],
    ) -> list[tuple[int, ...]]:
        """Start a run in an execution of the pool; the shapes of its results."""
        pool, stream = self._open(), self._memory.stream_of(stream_ptr)
        slot = pool.take(stream)
        pending = False
        try:
            started = self.start_in(slot, inputs, outputs, stream_ptr, graph_mode)
            slot.keeps += [*inputs, *outputs, *keeps]
            slot.event, pending = started.event, started.event is not None
            if pending and sync:
                assert self._memory.device is not None
                self._memory.device.wait(started.event)
                slot.event, pending = None, False
                slot.keeps.clear()
        except BaseException:
            if not pending:  # what was started before it failed may still use the caller's memory
                with suppress(DeviceError):
                    self._memory.synchronize(stream)
            raise
        finally:
            pool.give(slot, pending)
        return started.lens

    def start_in(
        self,
        slot: Slot,
        inputs: Sequence[Held],
        outputs: Sequence[Held],
        stream_ptr: Any,
        graph_mode: bool = False,
    ) -> Started:
        """Start a run in an execution that the caller holds."""
        if graph_mode and not self.has_graphs and not self._told:
            self._told = True
            LOG.warning("graph_mode: this target has no graphs; runs launch kernels one by one")
        stream = self._memory.stream_of(stream_ptr)
        values = self._constants.active(stream)
        read = self._read(values)
        slot.keeps.append(values)
        slot.stream = stream
        given = {p.name: a for p, a in zip(self._inputs, inputs, strict=True)}
        return slot.execution.start(read, given, outputs, stream, graph_mode)

    @property
    def has_graphs(self) -> bool:
        """Whether ``graph_mode`` changes how kernels are launched."""
        device = self._memory.device
        return device is not None and device.has_graphs

    def _read(self, values: Values | None = None) -> dict[str, Held]:
        """The constants that the main part reads, by its own names: one object for one state of them."""
        values = values or self._constants.active()
        known = self._reads
        if known is None or known[0] is not values:
            made = {n: values.given[n] for n in self._direct} | dict(values.folded or {})
            self._reads = known = values, made
        return known[1]

    def new_stream(self) -> Any:
        """A stream of the device, for ``stream_ptr``; None on a target without devices."""
        device = self._memory.device
        return None if device is None else device.stream()

    def _expect(self, k: int, param: Param, type: DType, lens: Sequence[int]) -> None:
        expect_type(k, param, type)
        expect_lens(k, param, lens)

    def _inputs_at(self, data: Sequence[AITData]) -> list[Held]:
        for k, (param, one) in enumerate(zip(self._inputs, data, strict=True)):
            self._expect(k, param, type_given(one), one.shape)
            expect_pointer(param, one)
        return [self._memory.at(d.data_ptr, type_given(d), d.shape) for d in data]

    def _outputs_at(self, data: Sequence[AITData]) -> list[Held]:
        pairs = list(zip(self._outputs, data, strict=True))
        for k, (param, one) in enumerate(pairs):
            expect_type(k, param, type_given(one))
        return [self._output_at(param, one) for param, one in pairs]

    def _output_at(self, param: Param, data: AITData) -> Held:
        """The memory of an output; null has room for no element, which may do if a range begins at 0."""
        lens = data.shape
        if not data.data_ptr and any(low == 0 for low, _ in param.ranges):
            lens = [0]
        else:
            expect_pointer(param, data)
        return self._memory.at(data.data_ptr, type_given(data), lens)

    def _seen(self, tensors: Sequence[Any], label: str) -> list[Held]:
        return [seen(t, self._memory, f"{label}[{k}]") for k, t in enumerate(tensors)]

    def _target(self, array: Held) -> Held:
        """The memory that a result goes to first: its own, or some on the device."""
        if isinstance(array, DeviceArray) or self._memory.device is None:
            return array
        return self._memory.new(*facts_of(array))
