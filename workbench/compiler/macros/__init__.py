"""Macros, which MIGraphX calls op builders; ``expand`` inserts the instructions of one."""

from workbench.compiler.macros import (
    contractions,  # pyright: ignore[reportUnusedImport]  # noqa: F401
    convolution,  # pyright: ignore[reportUnusedImport]  # noqa: F401
    einsum,  # pyright: ignore[reportUnusedImport]  # noqa: F401
    elementwise,  # pyright: ignore[reportUnusedImport]  # noqa: F401
    quantization,  # pyright: ignore[reportUnusedImport]  # noqa: F401
    rotary,  # pyright: ignore[reportUnusedImport]  # noqa: F401
)
from workbench.compiler.macros.table import MACROS, Macro, expand, macro

__all__ = ["MACROS", "Macro", "expand", "macro"]
