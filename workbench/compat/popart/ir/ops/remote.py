"""Loads from and stores to remote buffers."""

from __future__ import annotations

import numpy as np

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.factories import constant
from workbench.compat.popart.ir.op import SAME, record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.ops.host import initialised
from workbench.compat.popart.ir.remote_buffer import RemoteBuffer
from workbench.compat.popart.ir.tensors import Tensor


@api
def remote_load(
    remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None
) -> Tensor:
    """A row of a remote buffer.

    Nothing orders it after a store to that row but ``in_sequence``.

    Args:
        remote_buffer: The buffer.
        offset: The number of the row.
        name: The name of the result.

    Raises:
        ValueError: A number is out of range, or a tensor is of another graph.
    """
    at = _offset(remote_buffer, offset)
    base = name or f"remote_load_{remote_buffer.remote_buffer_id}"
    shape, type = remote_buffer.tensor_shape, remote_buffer.tensor_dtype
    made = _loaded("RemoteLoad", remote_buffer, at, initialised(shape, type, f"{base}_init"), base)
    made.meta_shape = remote_buffer.meta_shape
    return made


@api
def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Overwrite a tensor with a row of a remote buffer.

    Args:
        remote_buffer: The buffer.
        offset: The number of the row.
        t: The tensor.

    Raises:
        ValueError: The tensor does not fit the buffer, or a number is out of range.
    """
    check(t=t)
    remote_buffer.validate_tensor_matches_buffer(t)
    at = _offset(remote_buffer, offset)
    return _loaded("RemoteLoadInplace", remote_buffer, at, t, "remote_load_out")


def _loaded(op_type: str, buffer: RemoteBuffer, at: Tensor, target: Tensor, name: str) -> Tensor:
    return record(
        op_type, [target, at], names=[name], outputs=[(target.shape, target.dtype)], modifies=(0,),
        view=SAME, details=buffer, attributes={"remote_buffer_id": buffer.remote_buffer_id},
    ).outputs[0]  # fmt: skip


@api
def remote_store(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> None:
    """Store a tensor in a row of a remote buffer.

    Args:
        remote_buffer: The buffer.
        offset: The number of the row.
        t: The tensor.

    Raises:
        ValueError: The tensor does not fit the buffer, or a number is out of range.
    """
    check(t=t)
    remote_buffer.validate_tensor_matches_buffer(t)
    record(
        "RemoteStore", [t, _offset(remote_buffer, offset)], outputs=[], details=remote_buffer,
        attributes={"remote_buffer_id": remote_buffer.remote_buffer_id},
    )  # fmt: skip


def _offset(buffer: RemoteBuffer, offset: int | Tensor) -> Tensor:
    if isinstance(offset, Tensor):
        check(offset=offset)
        return offset
    if not 0 <= offset < buffer.entries:
        raise ValueError(f"Row {offset} of {buffer!r}; expected 0 to {buffer.entries - 1}.")
    return constant(np.array(offset, np.int32), name="offset")
