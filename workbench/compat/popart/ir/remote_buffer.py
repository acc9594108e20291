"""Remote buffers: rows of one shape and type in the host's memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.compat.popart.ir.context import get_current_graph
from workbench.compat.popart.ir.dtypes import dtype

if TYPE_CHECKING:
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.tensor import Tensor

_FIXED = "can't set attribute"


class RemoteBuffer:
    """Rows of one shape and type in the host's memory, which operations load and store."""

    def __init__(
        self, ir: Ir, tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int
    ) -> None:
        """A buffer of an Ir.

        Raises:
            ValueError: ``entries`` is not positive.
        """
        self._shape = tuple(map(int, tensor_shape))
        self._dtype = tensor_dtype
        self.entries = entries
        self.meta_shape: tuple[int, ...] = ()
        """The shape of the whole tensor, if rows are shards of one."""
        self._current_ir = ir
        self._id = ir.add_buffer(self)

    @property
    def remote_buffer_id(self) -> int:
        """Its number; the first one of an Ir is 1."""
        return self._id

    @remote_buffer_id.setter
    def remote_buffer_id(self, _: int) -> None:
        raise AttributeError(_FIXED)

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self._shape

    @tensor_shape.setter
    def tensor_shape(self, _: Iterable[int]) -> None:
        raise AttributeError(_FIXED)

    @property
    def tensor_dtype(self) -> dtype:
        """The element type."""
        return self._dtype

    @tensor_dtype.setter
    def tensor_dtype(self, _: dtype) -> None:
        raise AttributeError(_FIXED)

    @property
    def entries(self) -> int:
        """The number of rows."""
        return self._entries

    @entries.setter
    def entries(self, value: int) -> None:
        if not isinstance(value, int) or value < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Entries must be a non-zero, positive integer. Got {value}")
        self._entries = value

    def set_remote_buffer_info(
        self, tensor_dtype: dtype, tensor_shape: Iterable[int], entries: int
    ) -> None:
        """Change the type, the shape and the number of rows."""
        self.entries = entries
        self._dtype, self._shape = tensor_dtype, tuple(map(int, tensor_shape))

    def validate_tensor_matches_buffer(self, t: Tensor) -> None:
        """Check that a tensor can be a row.

        Raises:
            ValueError: Its shape or type is another.
        """
        if (t.shape, t.dtype) != (self._shape, self._dtype):
            raise ValueError(
                "Tensor does not match buffer.\n"
                f"  Tensor: {t.id} {t.dtype} {t.shape}\n"
                f"  Buffer: {self._id} {self._dtype} {self._shape}"
            )

    def __repr__(self) -> str:
        """Number, type, shape and rows."""
        return f"RemoteBuffer[{self._id} {self._dtype} {self._shape} entries={self._entries}]"


def remote_buffer(tensor_shape: Iterable[int], tensor_dtype: dtype, entries: int) -> RemoteBuffer:
    """A remote buffer of the current Ir.

    Raises:
        ValueError: ``entries`` is not positive.
    """
    return RemoteBuffer(get_current_graph().ir(), tensor_shape, tensor_dtype, entries)
