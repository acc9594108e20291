"""Arguments in the memory of a device. Reading one waits for its computation and copies it to the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from workbench.compat.migraphx.arguments import argument, of_value
from workbench.compat.migraphx.errors import bound
from workbench.compat.migraphx.shapes import from_core, shape
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.gpu.run.device_array import DeviceArray

_known: WeakValueDictionary[int, DeviceArray] = WeakValueDictionary()
"""Arrays by the number that ``data_ptr`` returned for them."""


class device_argument:
    """A tensor on a device: the result of ``to_gpu``, ``allocate_gpu`` and runs without copies.

    ``isinstance(a, migraphx.argument)`` holds, and it has all methods of an argument.
    """

    is_on_device = True
    _parts = ()

    def __init__(self, held: DeviceArray, is_pending: bool = False) -> None:
        self.held = held
        self.is_pending = is_pending
        """Whether its computation may still be pending in a stream of the caller."""

    @property
    def core(self) -> Shape:
        """The core's shape."""
        return self.held.shape

    @property
    def value(self) -> Array:
        """The elements, copied to the host."""
        if self.is_pending:
            self.held.device.synchronize()
            self.is_pending = False
        return self.held.numpy()

    def on_host(self) -> argument:
        """A copy in the memory of the host."""
        return of_value(self.core, self.value)

    @bound
    def get_shape(self) -> shape:
        """The shape."""
        return from_core(self.core)

    @bound
    def data_ptr(self) -> int:
        """The address on the device; with OpenCL, which has none, the number of the memory object."""
        pointer = self.held.pointer
        number = pointer if isinstance(pointer, int) else int(pointer.int_ptr)
        _known[number] = self.held
        return number

    @bound
    def get_sub_objects(self) -> list[argument]:
        """An empty list, because it is a tensor."""
        return []

    def empty(self) -> bool:
        """Whether there is no data."""
        return self.core.elements == 0

    def tolist(self) -> list[Any]:
        """The elements in logical order, in one flat list."""
        return self.on_host().tolist()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface for PyTorch and CuPy; only on CUDA and HIP."""
        return self.held.__cuda_array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The elements, for NumPy."""
        if copy is False:
            raise ValueError("NumPy cannot view an argument on a device without a copy")
        return np.asarray(self.value, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        """Equality of shapes and elements, as for arguments on the host."""
        return self.on_host() == (other.on_host() if isinstance(other, device_argument) else other)

    def __ne__(self, other: object) -> bool:
        """Not equal."""
        return not self == other

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __len__(self) -> int:
        """The length of the first axis."""
        return self.core.lens[0]

    def __getitem__(self, key: Any) -> Any:
        """Elements, as a plain array."""
        return self.value[key]

    def __iter__(self) -> Iterator[Any]:
        """Elements along the first axis, as plain arrays."""
        return iter(self.value)

    def __repr__(self) -> str:
        """The elements in logical order, ``1, 2, 3``."""
        return repr(self.on_host())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return self.on_host()._repr_mimebundle_(**options)  # pyright: ignore[reportPrivateUsage]


def known_at(address: int, core: Shape) -> device_argument | None:
    """The argument of a shape at a number that ``data_ptr`` returned, while that memory is allocated."""
    held = _known.get(address)
    if held is None or core.bytes > held.bytes:
        return None
    return device_argument(DeviceArray(held.device, core, held.pointer, keeps=held))
