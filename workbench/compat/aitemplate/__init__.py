"""AITemplate's Python runtime over the workbench's core: ``from workbench.compat import aitemplate``."""

from workbench.compat.aitemplate.data import (
    AITData,
    AITemplateAllocatorKind,
    AITemplateMemcpyKind,
    dtype_size,
    dtype_str_to_enum,
)
from workbench.compat.aitemplate.errors import AITemplateError
from workbench.compat.aitemplate.model import Model

__all__ = [
    "AITData", "AITemplateAllocatorKind", "AITemplateError", "AITemplateMemcpyKind", "Model",
    "dtype_size", "dtype_str_to_enum",
]  # fmt: skip
