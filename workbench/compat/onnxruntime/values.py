"""OrtValue: a tensor, a sequence or a sparse tensor, in the memory of the host or of a device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np

from workbench.compat.onnxruntime import dlpack
from workbench.compat.onnxruntime.devices import OrtDevice
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compat.onnxruntime.types import code_of, element_word, numpy_of
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device as device_named
from workbench.gpu.run.device_array import DeviceArray, borrowed

_KINDS = {"cuda": "cuda", "hip": "hip", "rocm": "hip", "gpu": "", "opencl": "opencl"}
"""Our kind of each of onnxruntime's kinds of devices."""
_NO_DEVICE = (
    "Can't allocate memory on the device using this package of OnnxRuntime: {}; "
    "`workbench devices` lists those here"
)


def _placed(device_type: str | OrtDevice, device_id: int) -> tuple[str, int]:
    if isinstance(device_type, OrtDevice):
        return device_type.kind, device_type.device_id()
    return device_type.lower(), OrtDevice.make(device_type, device_id).device_id()


def _on(kind: str, number: int) -> Any:
    """Our device of onnxruntime's kind."""
    if kind not in _KINDS:
        raise RuntimeError(_NO_DEVICE.format(f"there are no devices of kind {kind!r} here"))
    try:
        return device_named(f"{_KINDS[kind]}:{number}" if _KINDS[kind] else None)
    except DeviceError as error:
        raise RuntimeError(_NO_DEVICE.format(error)) from error


class OrtValue:
    """A value of a model's input or output.

    Args:
        value: An array, an array on a device, a list of arrays, a sparse tensor, or None.
        kind: The kind of device in onnxruntime's words.
    """

    def __init__(self, value: Any, kind: str = "cpu") -> None:
        """Keep the value; an array is shared, not copied."""
        self.value = value._value if isinstance(value, OrtValue) else value
        self._kind = kind

    # Making

    @classmethod
    def ortvalue_from_numpy(
        cls,
        numpy_obj: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,  # noqa: ARG003  # of onnxruntime's signature
    ) -> OrtValue:
        """The tensor of an array: on the CPU the same memory, on a device a copy.

        Raises:
            RuntimeError: There is no such device here.
        """
        kind, number = _placed(device_type, device_id)
        array = np.asarray(numpy_obj)
        if kind == "cpu":
            return cls(array if array.flags.c_contiguous else np.ascontiguousarray(array))
        return cls(DeviceArray.of(_on(kind, number), array), kind)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int) -> OrtValue:
        """The tensor of an array whose bits are those of another type, such as bfloat16 in uint16.

        Raises:
            RuntimeError: The elements have other sizes.
        """
        array, type = np.ascontiguousarray(data), numpy_of(int(onnx_element_type))
        if type.itemsize != array.itemsize:
            raise RuntimeError(f"elements of {array.dtype} do not have the size of {type}")
        return cls(array.view(type))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,  # noqa: ARG003  # of onnxruntime's signature
    ) -> OrtValue:
        """A tensor whose elements are not set yet.

        Args:
            shape: Its lengths.
            element_type: NumPy's type, or ONNX's number of one.
            device_type: Where it is.
            device_id: The number of the device.
            vendor_id: The vendor of the device; the kind says it here.

        Raises:
            RuntimeError: There is no such device or type.
        """
        type = numpy_of(element_type) if isinstance(element_type, int) else np.dtype(element_type)
        kind, number = _placed(device_type, device_id)
        if kind == "cpu":
            return cls(np.zeros(tuple(shape), type))
        return cls(DeviceArray(_on(kind, number), Shape(type.name, shape)), kind)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """The value of a sparse tensor."""
        return cls(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """The tensor of a DLPack capsule or of an object that makes one, in the same memory.

        Args:
            data: A capsule, a tensor with ``__dlpack__``, or one on a device with
                ``__cuda_array_interface__``.
            is_bool_tensor: Read bytes as booleans, for libraries whose DLPack has none.

        Raises:
            RuntimeError: It is neither, or is on a device without an interface.
        """
        if isinstance(data, OrtValue):
            return cls(data.value, data.device_name())
        interface = getattr(data, "__cuda_array_interface__", None)
        if interface is not None:
            return cls(borrowed(data, _on("cuda", 0), "data"), "cuda")
        array = dlpack.array_of(data)
        return cls(array.view(np.bool_) if is_bool_tensor else array)

    # What it is

    def is_tensor(self) -> bool:
        """Whether it is a tensor with all its elements."""
        return isinstance(self.value, np.ndarray | DeviceArray)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return isinstance(self.value, SparseTensor)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self.value, list | tuple)

    def has_value(self) -> bool:
        """Whether it is anything; an optional may be nothing."""
        return self.value is not None

    def device_name(self) -> str:
        """The device that it is on: ``cpu``, ``cuda``, ..."""
        return self._kind

    def shape(self) -> list[int]:
        """The lengths of the tensor."""
        value = self.value
        if isinstance(value, SparseTensor):
            return value.dense_shape()
        return list(value.shape.lens if isinstance(value, DeviceArray) else self._array().shape)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return code_of(
            self.value.shape.type.numpy
            if isinstance(self.value, DeviceArray)
            else self._array().dtype
        )

    def data_type(self) -> str:
        """The type, such as ``tensor(float)``."""
        if isinstance(self.value, SparseTensor):
            return self.value.data_type()
        if isinstance(self.value, list | tuple):
            parts = cast("Sequence[Any]", self.value)
            return f"seq({OrtValue(parts[0]).data_type()})" if parts else "seq()"
        return f"tensor({element_word(self.element_type())})"

    def tensor_size_in_bytes(self) -> int:
        """The bytes of the elements."""
        return prod(self.shape()) * numpy_of(self.element_type()).itemsize

    def data_ptr(self) -> int:
        """The address of the first element.

        Raises:
            RuntimeError: The device has no addresses (OpenCL), or it is not a tensor.
        """
        if not isinstance(self.value, DeviceArray):
            return self._array().ctypes.data
        if not isinstance(self.value.pointer, int):
            raise RuntimeError(f"memory of {self.value.device.kind} has no address")
        return self.value.pointer

    # What is in it

    def numpy(self) -> Any:
        """The elements: those of the CPU in the same memory, those of a device copied.

        Raises:
            RuntimeError: It is not a tensor.
        """
        return self.value.numpy() if isinstance(self.value, DeviceArray) else self._array()

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor.

        Raises:
            RuntimeError: It is something else.
        """
        if not isinstance(self.value, SparseTensor):
            raise RuntimeError("the value is not a sparse tensor")
        return self.value

    def update_inplace(self, np_arr: Any) -> None:
        """Replace the elements in the same memory.

        Raises:
            RuntimeError: The array has another type or size.
        """
        array = np.ascontiguousarray(np_arr)
        if (
            array.nbytes != self.tensor_size_in_bytes()
            or code_of(array.dtype) != self.element_type()
        ):
            raise RuntimeError(
                "The input size of numpy arrays does not match the size of the OrtValue."
            )
        if isinstance(self.value, DeviceArray):
            self.value.device.upload(self.value.pointer, array.reshape(-1))
        else:
            np.copyto(self._array(), array.reshape(self._array().shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The elements, for NumPy; without a copy on the CPU if the type is the same."""
        array = self.numpy()
        if copy or (dtype is not None and np.dtype(dtype) != array.dtype):
            if copy is False:
                raise ValueError("a conversion needs a copy; expected copy=None or True")
            return np.array(array, dtype=dtype)
        return array

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """A DLPack capsule over the same memory."""
        if isinstance(self.value, DeviceArray):
            raise RuntimeError(
                "a tensor on a device has __cuda_array_interface__ (value.value), not DLPack"
            )
        return self._array().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's numbers of the device: 1 is the CPU, 2 CUDA."""
        return (2 if isinstance(self.value, DeviceArray) else 1), 0

    to_dlpack = __dlpack__

    def _array(self) -> Array:
        if not isinstance(self.value, np.ndarray):
            raise RuntimeError(f"the value is not a tensor but {type(self.value).__name__}")
        return cast("Array", self.value)

    @property
    def _value(self) -> Any:
        return self.value

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self


class OrtValueVector(list[OrtValue]):
    """A list of values."""

    def push_back(self, value: OrtValue) -> None:
        """Append a value."""
        self.append(value)

    def element_type_at(self, index: int) -> int:
        """ONNX's number of the type of one."""
        return self[index].element_type()

    def dlpack_at(self, index: int) -> Any:
        """A DLPack capsule of one."""
        return self[index].to_dlpack()

    def to_dlpacks(self) -> list[Any]:
        """DLPack capsules of all."""
        return [v.to_dlpack() for v in self]

    def bool_tensor_indices(self) -> list[int]:
        """The positions of tensors of booleans."""
        return [k for k, v in enumerate(self) if v.is_tensor() and v.data_type() == "tensor(bool)"]

    def reserve(self, count: int) -> None:
        """Nothing: lists grow by themselves."""

    def shrink_to_fit(self) -> None:
        """Nothing: lists grow by themselves."""


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:  # noqa: ARG001
    """Copy the elements of tensors into those of others, between devices too.

    Raises:
        RuntimeError: The lists differ in length, or tensors in type or size.
    """
    if len(src) != len(dst):
        raise RuntimeError(f"{len(src)} tensors to copy into {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source.numpy())
