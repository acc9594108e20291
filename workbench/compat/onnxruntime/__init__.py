"""onnxruntime's Python interface over the workbench: ``from workbench.compat import onnxruntime as ort``."""

from typing import NoReturn

from workbench.compat.onnxruntime.assignment import OrtEpAssignedNode, OrtEpAssignedSubgraph
from workbench.compat.onnxruntime.binding import IOBinding, SessionIOBinding
from workbench.compat.onnxruntime.build_facts import (
    VERSION,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    set_seed,
)
from workbench.compat.onnxruntime.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo
from workbench.compat.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from workbench.compat.onnxruntime.logs import (
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from workbench.compat.onnxruntime.options import RunOptions, SessionOptions
from workbench.compat.onnxruntime.pools import set_global_thread_pool_sizes
from workbench.compat.onnxruntime.providers import (
    get_all_providers,
    get_available_providers,
    get_device,
)
from workbench.compat.onnxruntime.session import InferenceSession, Session
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compat.onnxruntime.types import ModelMetadata, NodeArg
from workbench.compat.onnxruntime.values import OrtValue, copy_tensors

__version__ = VERSION

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "NodeArg", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice",
    "OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtEpAssignedNode", "OrtEpAssignedSubgraph",
    "OrtMemType", "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue",
    "RunOptions", "Session", "SessionIOBinding", "SessionOptions", "SparseTensor", "__version__",
    "copy_tensors", "create_and_register_allocator", "create_and_register_allocator_v2",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_build_info", "get_device", "get_ep_devices",
    "get_version_string", "has_collective_ops", "preload_dlls", "set_default_logger_callback",
    "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes",
    "set_seed",
]  # fmt: skip

_MISSING = {
    "AdapterFormat": "LoRA adapters are files of onnxruntime's own format",
    "LoraAdapter": "LoRA adapters are files of onnxruntime's own format",
    "ModelCompiler": "a compiled model is saved by workbench.save",
    "register_execution_provider_library": "a provider compiled for onnxruntime needs onnxruntime itself",
    "unregister_execution_provider_library": "a provider compiled for onnxruntime needs onnxruntime itself",
}


def __getattr__(name: str) -> NoReturn:
    if name in _MISSING:
        raise AttributeError(f"workbench.compat.onnxruntime has no {name!r}: {_MISSING[name]}")
    raise AttributeError(
        f"workbench.compat.onnxruntime has no {name!r}; it has {', '.join(__all__)}"
    )
