"""PopART's `popart.ir` over the workbench's core: ``from workbench.compat import popart``."""

from workbench.compat.popart import ir
from workbench.compat.popart.devices import (
    DeviceConnectionType,
    DeviceManager,
    DeviceSelectionCriterion,
    SyncPattern,
)
from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.inference import (
    AnchorReturnType,
    DataFlow,
    InferenceSession,
    PyStepIO,
)
from workbench.compat.popart.ir.debug_info import (
    closePoplarDebugInfo,
    initializePoplarDebugInfo,
)
from workbench.compat.popart.ir.session_options import VirtualGraphMode
from workbench.compat.popart.reductions import ReductionType

__version__ = "2.5.0.dev"

__all__ = [
    "AnchorReturnType", "DataFlow", "DeviceConnectionType", "DeviceManager", "DeviceSelectionCriterion",
    "InferenceSession", "PyStepIO", "ReductionType", "SyncPattern", "VirtualGraphMode", "__version__",
    "closePoplarDebugInfo", "initializePoplarDebugInfo", "ir", "popart_exception",
]  # fmt: skip
