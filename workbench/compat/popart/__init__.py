"""PopART's `popart.ir` over the workbench's core: ``from workbench.compat import popart``."""

from workbench.compat.popart import ir
from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.inference import (
    AnchorReturnType,
    DataFlow,
    DeviceManager,
    InferenceSession,
    PyStepIO,
)
from workbench.compat.popart.ir.debug_info import (
    closePoplarDebugInfo,
    initializePoplarDebugInfo,
)
from workbench.compat.popart.reductions import ReductionType

__version__ = "2.5.0.dev"

__all__ = [
    "AnchorReturnType", "DataFlow", "DeviceManager", "InferenceSession", "PyStepIO", "ReductionType",
    "__version__", "closePoplarDebugInfo", "initializePoplarDebugInfo", "ir", "popart_exception",
]  # fmt: skip
