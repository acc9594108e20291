"""Transfers between the host and the device, and tensors of zeros."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.op import SAME, record
from workbench.compat.popart.ir.ops.checks import check
from workbench.compat.popart.ir.streams import DeviceToHostStream, HostToDeviceStream
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value


@api
def init(shape: Iterable[int], dtype: dtype, name: str | None = None) -> Tensor:
    """A tensor of zeros."""
    return initialised(tuple(map(int, shape)), dtype, name or "init")


def initialised(shape: tuple[int, ...], type: dtype, name: str) -> Tensor:
    """Memory for an operation to fill; zeros before that."""
    zero = np.zeros((), type.as_numpy())

    def meaning(builder: ModuleBuilder) -> Value:
        return builder.constant(zero).broadcast_to(*shape) if shape else builder.constant(zero)

    attributes = {"shape": shape, "dtype": type}
    return record("Init", [], meaning, names=[name], attributes=attributes).outputs[0]


@api
def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """The next row of a stream from the host.

    Raises:
        TypeError: The stream goes to the host.
    """
    if not isinstance(h2d_stream, HostToDeviceStream):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"host_load: expected a HostToDeviceStream; found {h2d_stream!r}")
    base = name or h2d_stream.tensor_id()
    memory = initialised(h2d_stream.shape, h2d_stream.dtype, f"{base}_init")
    spec = memory.shape, memory.dtype
    return record(
        "HostLoad", [memory], names=[base], outputs=[spec], modifies=(0,), view=SAME, details=h2d_stream,
        attributes={"stream": h2d_stream.tensor_id()},
    ).outputs[0]  # fmt: skip


@api
def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Fill the next row of a stream to the host.

    Raises:
        ValueError: The tensor's shape or type is not the stream's.
        TypeError: The stream comes from the host.
    """
    check(t=t)
    if not isinstance(d2h_stream, DeviceToHostStream):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"host_store: expected a DeviceToHostStream; found {d2h_stream!r}")
    if t.dtype is not d2h_stream.dtype:
        raise ValueError(
            f"dtypes of stream and tensor do not match: {d2h_stream.dtype} != {t.dtype}"
        )
    if t.shape != d2h_stream.shape:
        raise ValueError(
            f"shapes of stream and tensor do not match: {d2h_stream.shape} != {t.shape}"
        )
    record(
        "HostStore",
        [t],
        outputs=[],
        details=d2h_stream,
        attributes={"stream": d2h_stream.tensor_id()},
    )
