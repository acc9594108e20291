"""Streams between the host and the device."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.compat.popart.ir.context import get_current_graph
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.tensors import StreamTensor, Tensor, TensorSpec


class Stream:
    """A stream: its tensor in the main graph stands for the buffer on the host."""

    def __init__(self, tensor: Tensor) -> None:
        """The stream of a tensor; made by `h2d_stream` and `d2h_stream`."""
        self._tensor = tensor

    @property
    def dtype(self) -> dtype:
        """The element type of one transfer."""
        return self._tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one transfer."""
        return self._tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and type of one transfer."""
        return self._tensor.spec

    def tensor_id(self) -> str:
        """The id of its tensor."""
        return self._tensor.id

    def __eq__(self, other: object) -> bool:
        """Whether both are the same stream."""
        return isinstance(other, Stream) and self._tensor == other._tensor

    def __hash__(self) -> int:
        """By tensor."""
        return hash(self._tensor)

    def __repr__(self) -> str:
        """The class and the tensor."""
        t = self._tensor
        return f"{type(self).__name__}[{t.id} {t.dtype} {t.shape}]"


class HostToDeviceStream(Stream):
    """A stream that ``host_load`` reads."""


class DeviceToHostStream(Stream):
    """A stream that ``host_store`` writes."""


def h2d_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> HostToDeviceStream:
    """A stream from the host to the device.

    Raises:
        ValueError: The current graph is not the main graph.
    """
    return HostToDeviceStream(_tensor("h2d_stream", shape, dtype, name))


def d2h_stream(shape: Iterable[int], dtype: dtype, name: str | None = None) -> DeviceToHostStream:
    """A stream from the device to the host.

    Raises:
        ValueError: The current graph is not the main graph.
    """
    return DeviceToHostStream(_tensor("d2h_stream", shape, dtype, name))


def _tensor(kind: str, shape: Iterable[int], type: dtype, name: str | None) -> Tensor:
    graph = get_current_graph()
    if graph.id:
        raise ValueError(f"Can only call `{kind}` inside a main graph context, not in {graph.id}.")
    return graph.add_tensor(StreamTensor, name or kind, (tuple(map(int, shape)), type))
