"""Sessions: an Ir compiled for a target, with the state of its variables and remote buffers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from workbench.compat.popart.dumps.dot import final_checkpoint
from workbench.compat.popart.ir.ir import Ir
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream, Stream
from workbench.compat.popart.ir.tensors import Constant, Tensor, Variable
from workbench.compat.popart.lowering.ambiguity import check_ambiguity
from workbench.compat.popart.lowering.lower import lower
from workbench.compat.popart.lowering.lowered import Bound, Printed
from workbench.compat.popart.lowering.state import AnyState, Array, State
from workbench.compat.popart.lowering.state_apart import StateApart
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.replicas import Replicas, compile_replicas, specs_of
from workbench.compiler.builds.stateful import Stateful
from workbench.compiler.builds.targets import target_named
from workbench.knobs import knobs

_LOG = logging.getLogger("popart.ir")
UNROLL = 32
DEVICES = ("cpu", "ipu_model", "ipu_hw")


class Device:
    """The device of a session; the workbench's target runs the program."""

    def __init__(
        self, description: str, ipus: int, target: str, places: Sequence[str] = ()
    ) -> None:
        """A device of this many IPUs; the target's devices that run it, where they were chosen."""
        self.description, self.ipus, self.target = description, ipus, target
        self.places = tuple(places)

    def detach(self) -> None:
        """Do nothing: a target of the workbench is not held."""

    def __enter__(self) -> Device:
        """The device itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Detach."""
        self.detach()

    def __repr__(self) -> str:
        """The description, the number of IPUs and the target."""
        where = ": ".join(filter(None, (self.target, ", ".join(self.places))))
        return f"Device[{self.description}, {self.ipus} IPUs, runs on {where}]"


class Session:
    """A compiled Ir that keeps the values of variables and remote buffers from run to run."""

    def __init__(
        self,
        ir: Ir,
        device_desc: str = "cpu",
        *,
        target: str = "ref",
        devices: Sequence[int | str] | None = None,
        record: bool = True,
        unroll: int | None = None,
    ) -> None:
        """Compile an Ir.

        Args:
            ir: The Ir, which cannot be replicated otherwise after this.
            device_desc: ``cpu``, ``ipu_model`` or ``ipu_hw``; recorded. ``cpu`` has one IPU.
            target: The workbench's target that runs the program: ``ref``, ``cpu``, ``gpu`` or ``auto``.
            devices: The device of each replica, such as ``[0, 1]`` or ``["cuda:0", "cuda:1"]``; for targets
                without devices, numbers that stand for threads. By default one program on one device has
                all replicas.
            record: Whether to record the passes, for ``session.build.explore()``.
            unroll: Loops of at most this many iterations become calls one after another, which devices run as
                kernels; loops run on the host. By default 32 for targets with devices, and 0 for others.

        Raises:
            ValueError: There is no such device, or it has too few IPUs, or there are not as many devices as
                replicas.
            DeviceError: A device is missing, or the devices cannot be connected.
            popart_exception: The order of updates in place is ambiguous, or a stream has too few rows.
        """
        if device_desc not in DEVICES:
            raise ValueError(f"device_desc {device_desc!r}; expected one of {', '.join(DEVICES)}")
        self._ir = ir
        specs = _specs(ir, target, devices)
        self.device = Device(device_desc, _ipus(ir), target, [s for s in specs if s])
        if device_desc == "cpu" and self.device.ipus > 1:
            raise ValueError(
                f"A device 'cpu' has one IPU, and this Ir needs {self.device.ipus}; use 'ipu_model'."
            )
        if knobs.popart_ir_dump:
            Path(knobs.popart_ir_dump).write_text(ir.serialize())
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug(ir.log_ir())
        if ir.options.enableInplaceAmbiguityChecking:
            check_ambiguity(ir)
        final_checkpoint(ir)
        if unroll is None:
            unroll = UNROLL if target_named(target).takes_device else 0
        self.replicas: Replicas | None = None
        """The replicas with their devices, if they run apart; ``session.replicas.table()`` lists them."""
        apart = len(specs) > 1
        self._lowered = lower(ir, unroll, apart=apart) if unroll or apart else ir.lowered
        if apart:
            self.replicas = compile_replicas(self._lowered.program, target, specs, record=record)
            self.build: Build = self.replicas.builds[0]
            """The workbench's build: ``session.build.explore()`` shows every pass."""
        else:
            self.build = compile(self._lowered.program, target, record=record, device=specs[0])
        ir.prepare()
        self._state = self._state_of(self.replicas)
        self.weights_from_host()

    def _state_of(self, replicas: Replicas | None) -> AnyState:
        bounds = self._lowered.parameters.values()
        first: dict[Bound, Array] = {
            b: self._first(b) for b in bounds if isinstance(b, Variable | RemoteBuffer)
        }
        if replicas is not None:
            return StateApart(replicas, self._lowered, first)
        return State(self.build, self._lowered, first)

    @property
    def ir(self) -> Ir:
        """The Ir."""
        return self._ir

    @property
    def stateful(self) -> Stateful | None:
        """The build with its state: ``history`` and ``plot`` show the outputs of one element over the runs.

        None if a run changes no variable and no remote buffer. If replicas run apart it is the first one's.
        """
        return self._state.stateful

    # Runs

    def run(
        self, inputs: Mapping[HostToDeviceStream, Any] | None = None
    ) -> dict[DeviceToHostStream, Array]:
        """Run the program once.

        Args:
            inputs: The rows of each stream from the host.

        Returns:
            The rows of each stream to the host.

        Raises:
            ValueError: A stream is missing or unknown, or its array has another shape.
            TypeError: An array has another element type.
        """
        outputs = self.create_host_outputs()
        self.run_with_outputs(inputs, outputs)
        return outputs

    def run_with_outputs(
        self,
        inputs: Mapping[HostToDeviceStream, Any] | None,
        outputs: Mapping[DeviceToHostStream, Array],
    ) -> None:
        """Run the program once and write the rows of streams to the host into these arrays.

        Args:
            inputs: The rows of each stream from the host.
            outputs: An array for each stream to the host.

        Raises:
            ValueError: A stream is missing or unknown, or its array has another shape.
            TypeError: An array has another element type.
        """
        given = self._validate_run_inputs(inputs or {})
        self._validate_run_outputs(outputs)
        printed: list[tuple[tuple[int, ...], str, Any]] = []
        for bound, value in self._state.run(
            {s.tensor_id(): self._rows(s, a) for s, a in given.items()}
        ):
            if isinstance(bound, Printed):
                printed += bound.values(value)
            elif isinstance(bound, DeviceToHostStream):
                np.copyto(outputs[bound], value.reshape(outputs[bound].shape))
        for _, title, value in sorted(printed, key=itemgetter(0)):
            print(f"{title}: {value}")  # noqa: T201 - PopART's print_tensor
        for variable in self._ir.main_graph().get_variables():
            held = variable.remote[0] if variable.remote is not None else variable
            variable.in_sync = variable.in_sync and not self._state.changes(held)

    def _rows(self, stream: Stream, array: Array) -> Array:
        """The rows of a stream with an axis for transfers, and one for replicas if there are several."""
        several = self._ir.replication_factor
        lens = (self._ir.num_host_transfers, *([several] if several > 1 else []), *stream.shape)
        return array.reshape(lens)

    def create_host_outputs(self) -> dict[DeviceToHostStream, Array]:
        """Arrays of zeros for all streams to the host."""
        streams = sorted(self._ir.get_all_d2h_streams(), key=lambda s: s.tensor_id())
        return {s: np.zeros(self.buffer_shape(s), s.dtype.as_numpy()) for s in streams}

    def expected_inputs(self) -> list[HostToDeviceStream]:
        """The streams that a run needs arrays for."""
        return sorted(self._ir.get_all_h2d_streams(), key=lambda s: s.tensor_id())

    def buffer_shape(self, stream: Stream) -> tuple[int, ...]:
        """The shape of a stream's array: axes of transfers and of replicas, if several, before its own."""
        several = (self._ir.num_host_transfers, self._ir.replication_factor)
        return (*(n for n in several if n > 1), *stream.shape)

    def _accepted(self, stream: Stream) -> set[tuple[int, ...]]:
        """The shapes that a stream's array may have: axes of one transfer or replica may be there or not."""
        transfers, replicas = self._ir.num_host_transfers, self._ir.replication_factor
        fronts: set[tuple[int, ...]] = {(transfers, replicas)}
        if replicas == 1:
            fronts.add((transfers,))
        if transfers == 1:
            fronts.add((replicas,))
        if transfers == replicas == 1:
            fronts.add(())
        return {(*front, *stream.shape) for front in fronts}

    def _validate_run_inputs(self, inputs: Mapping[Any, Any]) -> dict[Stream, Array]:
        _check_streams("inputs", set(inputs), set(self.expected_inputs()))
        given = {s: np.asarray(v) for s, v in inputs.items()}
        self._check_arrays("input", given)
        return given

    def _validate_run_outputs(self, outputs: Mapping[Any, Any]) -> None:
        _check_streams("outputs", set(outputs), set(self._ir.get_all_d2h_streams()))
        self._check_arrays("output", outputs)

    def _check_arrays(self, what: str, arrays: Mapping[Stream, Array]) -> None:
        for stream, array in arrays.items():
            expected = self.buffer_shape(stream)
            if array.shape not in self._accepted(stream):
                raise ValueError(
                    f"Shape mismatch for {what} {stream.tensor_id()}: expected {expected} "
                    f"(num_host_transfers={self._ir.num_host_transfers}, "
                    f"replication_factor={self._ir.replication_factor}, stream {stream.shape}); "
                    f"found {array.shape}"
                )
            if array.dtype != stream.dtype.as_numpy():
                raise TypeError(
                    f"dtype mismatch for {what} {stream.tensor_id()}: expected {stream.dtype}; "
                    f"found {array.dtype}"
                )

    # Data of variables and constants

    def get_tensor_data(self, tensor: Variable | Constant) -> Array:
        """The value of a variable or a constant.

        Raises:
            TypeError: The tensor is neither.
            ValueError: It is of another Ir.
        """
        self._check_held(tensor, Variable | Constant, "Constant or Variable")
        if isinstance(tensor, Variable):
            self._fetch(tensor)
        return tensor.data.copy()

    def get_tensors_data(
        self, tensors: Iterable[Variable | Constant]
    ) -> dict[Variable | Constant, Array]:
        """The values of variables and constants."""
        return {t: self.get_tensor_data(t) for t in tensors}

    def write_variable_data(self, tensor: Variable, data: Any) -> None:
        """Change the value of a variable, on the host and on the device.

        Raises:
            TypeError: The tensor is not a variable, or the array has another element type.
            ValueError: The array has another shape, or the tensor is of another Ir.
        """
        self._check_held(tensor, Variable, "Variable")
        array = np.asarray(data)
        if array.dtype != tensor.dtype.as_numpy():
            raise TypeError(
                f"The dtype of the array provided, {array.dtype}, is not that of {tensor!r}."
            )
        if array.shape != tensor.shape:
            raise ValueError(
                f"The shape of the array provided, {array.shape}, is not that of {tensor!r}."
            )
        tensor.data = array.copy()
        self._send(tensor)

    def write_variables_data(self, data: Mapping[Variable, Any]) -> None:
        """Change the values of several variables."""
        for tensor, array in data.items():
            self.write_variable_data(tensor, array)

    def weights_to_host(self) -> None:
        """Copy the values of variables from the device to the host; with replicas, those of the first."""
        for variable in self._ir.main_graph().get_variables():
            self._fetch(variable)

    def weights_from_host(self) -> None:
        """Copy the values of variables from the host to the device."""
        for variable in self._ir.main_graph().get_variables():
            self._send(variable)

    def _fetch(self, variable: Variable) -> None:
        """Copy a variable to the host, unless the host has its value."""
        held = variable.remote[0] if variable.remote is not None else variable
        if held in self._state and not variable.in_sync:
            found = self._state.read(held)
            variable.data = (
                self._of_row(variable, found) if variable.remote else self._of_first(found)
            )
        variable.in_sync = True

    def _send(self, variable: Variable) -> None:
        """Copy a variable to the device."""
        variable.in_sync = True
        held = variable.remote[0] if variable.remote is not None else variable
        if held not in self._state:
            return
        if variable.remote is None:
            self._state.write(variable, self._for_all(variable.data))
        else:
            self._state.write(held, self._with_row(variable, self._state.read(held)))

    def _first(self, bound: Variable | RemoteBuffer) -> Array:
        """The value of a variable or a remote buffer before the first run."""
        if isinstance(bound, Variable):
            return self._for_all(bound.data)
        lens = (bound.entries, *bound.tensor_shape)
        return self._for_all(np.zeros(lens, bound.tensor_dtype.as_numpy()))

    def _of_first(self, array: Array) -> Array:
        return array[0] if self._ir.replication_factor > 1 else array

    def _for_all(self, array: Array) -> Array:
        """An array with an axis for replicas, if there are several."""
        several = self._ir.replication_factor
        return np.stack([array] * several) if several > 1 else array

    def _of_row(self, variable: Variable, rows: Array) -> Array:
        """The value of a variable in a row of a remote buffer; of shards all together."""
        assert variable.remote is not None
        several, row = self._ir.replication_factor > 1, variable.remote[1]
        if several and variable.sharded:
            return rows[:, row].reshape(-1)[: variable.nelms].reshape(variable.shape)
        return rows[:, row] if several else rows[row].reshape(variable.shape)

    def _with_row(self, variable: Variable, rows: Array) -> Array:
        """A remote buffer with a variable in its row, of which each replica may have a shard."""
        assert variable.remote is not None
        buffer, row = variable.remote
        if self._ir.replication_factor == 1:
            rows[row] = variable.data.reshape(buffer.tensor_shape)
        elif variable.sharded:
            flat = np.zeros(rows[:, row].size, rows.dtype)
            flat[: variable.nelms] = variable.data.reshape(-1)
            rows[:, row] = flat.reshape(rows[:, row].shape)
        else:
            rows[:, row] = variable.data
        return rows

    def _check_held(self, tensor: Any, kinds: Any, named: str) -> None:
        if not isinstance(tensor, kinds):
            id = tensor.id if isinstance(tensor, Tensor) else repr(tensor)
            raise TypeError(f"Tensor {id} is not of type {named}. Type: {type(tensor)}.")
        if tensor.ir() is not self._ir:
            raise ValueError(f"Tensor {tensor.id} is not of this session's Ir: {tensor.ir()!r}.")

    def __repr__(self) -> str:
        """The Ir and the device."""
        return f"Session[{self._ir!r}, {self.device!r}]"


def _specs(ir: Ir, target: str, devices: Sequence[int | str] | None) -> list[str | None]:
    """The device of each replica, or of the one program that has all replicas.

    Raises:
        ValueError: There are not as many devices as replicas.
    """
    if devices is None:
        return [None]
    replicas = ir.replication_factor
    if len(devices) != replicas:
        raise ValueError(
            f"devices={list(devices)!r}: {len(devices)} for {replicas} replicas; expected one for each. "
            "Leave devices out to run all replicas in one program on one device, or set "
            f"ir.replication_factor to {len(devices)} before the graph is built"
        )
    return specs_of(target, devices)


def _ipus(ir: Ir) -> int:
    """The number of IPUs: those that operations name, for each replica, rounded up to a power of two."""
    largest = max((op.ipu or 0 for g in ir.graphs for op in g.ops()), default=0)
    return 1 << ((largest + 1) * ir.replication_factor - 1).bit_length()


def _check_streams(what: str, given: set[Any], expected: set[Any]) -> None:
    unexpected, missing = given - expected, expected - given
    if unexpected or missing:
        shown = [
            ", ".join(sorted(s.tensor_id() if isinstance(s, Stream) else repr(s) for s in found))
            for found in (unexpected, missing)
        ]
        raise ValueError(
            f"Unexpected/Missing {what} streams for this session\n"
            f"  Unexpected: {{{shown[0]}}}\n  Missing: {{{shown[1]}}}"
        )
