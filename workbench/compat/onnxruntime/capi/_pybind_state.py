"""The names of onnxruntime's compiled module under its other name."""

from workbench.compat.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
from workbench.compat.onnxruntime.capi.onnxruntime_pybind11_state import __all__  # noqa: F401
