"""AITemplate's graph-building front end: tensors, lengths, operations and ``compile_model``."""

from workbench.compat.aitemplate.frontend import ops
from workbench.compat.aitemplate.frontend.compiling import (
    AITDebugSettings,
    DynamicProfileStrategy,
    Lowered,
    compile_model,
    lower,
)
from workbench.compat.aitemplate.frontend.lengths import IntImm, IntVar
from workbench.compat.aitemplate.frontend.targets import (
    CUDA,
    REFERENCE,
    ROCM,
    Target,
    detect_target,
)
from workbench.compat.aitemplate.frontend.tensor import Tensor

__all__ = [
    "CUDA", "REFERENCE", "ROCM", "AITDebugSettings", "DynamicProfileStrategy", "IntImm", "IntVar", "Lowered",
    "Target", "Tensor", "compile_model", "detect_target", "lower", "ops",
]  # fmt: skip
