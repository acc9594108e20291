"""The names of onnxruntime's module of sessions."""

from workbench.compat.onnxruntime.binding import IOBinding
from workbench.compat.onnxruntime.devices import OrtDevice
from workbench.compat.onnxruntime.enums import OrtDeviceVendorId
from workbench.compat.onnxruntime.providers import check_and_normalize_provider_args
from workbench.compat.onnxruntime.session import InferenceSession, Session
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compat.onnxruntime.values import OrtValue, copy_tensors

__all__ = [
    "IOBinding", "InferenceSession", "OrtDevice", "OrtDeviceVendorId", "OrtValue", "Session", "SparseTensor",
    "check_and_normalize_provider_args", "copy_tensors",
]  # fmt: skip
