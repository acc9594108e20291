"""Sessions as PopART's first programs in ``popart.ir`` make them: a data flow, anchors and step buffers."""

# ruff: noqa: N802, N803 - PopART's names
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compat.popart.dumps.dot import final_checkpoint
from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.session import Device, Session
from workbench.compat.popart.lowering.ambiguity import check_ambiguity

if TYPE_CHECKING:
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.low_level import LowLevelIr

Array = np.ndarray[Any, np.dtype[Any]]


class AnchorReturnType:
    """The batches whose values an anchor returns; only ``All`` is supported."""

    def __init__(self, name: str = "All") -> None:
        """All batches.

        Raises:
            ValueError: The name is another one.
        """
        if name.lower() != "all":
            raise ValueError(f"AnchorReturnType {name!r}: expected 'All'")
        self.name = name


@dataclass
class DataFlow:
    """The number of batches in a step, and the streams to the host whose rows a step returns, by id."""

    batchesPerStep: int = 1  # noqa: N815
    anchorTensors: Mapping[str, AnchorReturnType] | None = None  # noqa: N815


@dataclass
class PyStepIO:
    """The rows of streams for a step, by id, and the arrays to write the results into."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Array]


class InferenceSession:
    """A session with anchors; `popart.ir.Session` is the newer interface."""

    def __init__(self, ir: Ir, flow: DataFlow, device: Device) -> None:
        """A session that has not compiled yet; made by `fromIr`."""
        self._ir, self._device = ir, device
        streams = {s.tensor_id(): s for s in ir.get_all_d2h_streams()}
        for id in flow.anchorTensors or {}:
            if id not in streams:
                known = ", ".join(sorted(streams)) or "none"
                raise popart_exception(
                    f"anchor {id!r}: no operation stores to a stream of this id; streams to the host: "
                    f"{known}"
                )
        self._anchors = {id: streams[id] for id in flow.anchorTensors or {}}
        self._session: Session | None = None
        final_checkpoint(ir)

    @classmethod
    def fromIr(cls, ir: LowLevelIr, deviceInfo: Device) -> InferenceSession:
        """A session of an Ir, ``ir._pb_ir``; it writes the DOT files of the checkpoint FINAL.

        Raises:
            popart_exception: An anchor is not a stream to the host.
        """
        return cls(ir.ir, ir.flow, deviceInfo)

    def checkInplacingAmbiguity(self) -> None:
        """Check the order of updates in place.

        Raises:
            popart_exception: It is ambiguous.
        """
        check_ambiguity(self._ir)

    def prepareDevice(self) -> None:
        """Compile; the number of IPUs of the device is not checked."""
        self._session = Session(self._ir, "ipu_model", target=self._device.target)

    @property
    def session(self) -> Session:
        """The compiled session.

        Raises:
            popart_exception: It is not compiled yet.
        """
        if self._session is None:
            raise popart_exception("the session has no device yet: call prepareDevice() first")
        return self._session

    def initAnchorArrays(self) -> dict[str, Array]:
        """An array of zeros for each anchor."""
        made = self.session.create_host_outputs()
        return {id: made[stream] for id, stream in self._anchors.items()}

    def weightsFromHost(self) -> None:
        """Copy the values of variables to the device."""
        self.session.weights_from_host()

    def weightsToHost(self) -> None:
        """Copy the values of variables from the device."""
        self.session.weights_to_host()

    def run(self, stepio: PyStepIO) -> None:
        """Run a step.

        Raises:
            ValueError: A stream is missing or unknown, or an array does not have its elements.
        """
        streams = {s.tensor_id(): s for s in self.session.expected_inputs()}
        outputs = self.session.create_host_outputs()
        inputs = {streams.get(id, id): value for id, value in stepio.inputs.items()}
        given: dict[Any, Array] = {s: self._shaped(s, v) for s, v in inputs.items()}
        self.session.run_with_outputs(given, outputs)
        for id, array in stepio.outputs.items():
            np.copyto(array, outputs[self._anchors[id]].reshape(array.shape))

    def _shaped(self, stream: Any, value: Any) -> Array:
        """Rows in the shape that the session takes, if they have as many elements."""
        array = np.asarray(value)
        if isinstance(stream, str):
            return array
        lens = self.session.buffer_shape(stream)
        return array.reshape(lens) if array.size == np.prod(lens, dtype=int) else array


__all__ = ["AnchorReturnType", "DataFlow", "InferenceSession", "PyStepIO"]
