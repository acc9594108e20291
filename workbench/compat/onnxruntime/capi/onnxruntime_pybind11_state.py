"""The names of onnxruntime's compiled module: exceptions, options, values, enumerations."""

from workbench.compat.onnxruntime.assignment import OrtEpAssignedNode, OrtEpAssignedSubgraph
from workbench.compat.onnxruntime.binding import SessionIOBinding
from workbench.compat.onnxruntime.build_facts import get_build_info, get_version_string, set_seed
from workbench.compat.onnxruntime.devices import OrtArenaCfg, OrtDevice, OrtMemoryInfo
from workbench.compat.onnxruntime.dlpack import is_dlpack_uint8_tensor
from workbench.compat.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from workbench.compat.onnxruntime.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from workbench.compat.onnxruntime.logs import (
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
from workbench.compat.onnxruntime.session import InferenceSession
from workbench.compat.onnxruntime.sparse import SparseTensor
from workbench.compat.onnxruntime.types import ModelMetadata, NodeArg
from workbench.compat.onnxruntime.values import OrtValue, OrtValueVector, copy_tensors

get_default_session_options = SessionOptions
get_session_initializer = SessionOptions

__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel",
    "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled",
    "ModelLoaded", "ModelMetadata", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg",
    "NotFound", "NotImplemented", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice",
    "OrtDeviceMemoryType", "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtMemType",
    "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue", "OrtValueVector",
    "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions", "SparseTensor",
    "copy_tensors", "get_all_providers", "get_available_providers", "get_build_info",
    "get_default_session_options", "get_device", "get_session_initializer", "get_version_string",
    "is_dlpack_uint8_tensor", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed",
]  # fmt: skip
