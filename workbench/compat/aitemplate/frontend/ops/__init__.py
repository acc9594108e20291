"""AITemplate's operations, each with its meaning: ``ops.gemm_rcr()(a, b)`` adds one to a graph."""

from typing import Any

from workbench.compat.aitemplate.frontend.ops import elementwise as _elementwise
from workbench.compat.aitemplate.frontend.ops.attention import ATTENTION
from workbench.compat.aitemplate.frontend.ops.convolution import CONVOLUTIONS
from workbench.compat.aitemplate.frontend.ops.func_enum import FuncEnum
from workbench.compat.aitemplate.frontend.ops.joining import JOINING
from workbench.compat.aitemplate.frontend.ops.matrix import PRODUCTS
from workbench.compat.aitemplate.frontend.ops.norms import NORMS
from workbench.compat.aitemplate.frontend.ops.reductions import REDUCTIONS
from workbench.compat.aitemplate.frontend.ops.shapes import SHAPES
from workbench.compiler.errors import did_you_mean

_NAMES = ("elementwise", "clamp", "gt", "ge", "lt", "le", "eq", "ne", "where", "cast", "identity")
OPERATIONS: dict[str, type[Any]] = {
    **{n: getattr(_elementwise, n) for n in _NAMES},
    **PRODUCTS, **CONVOLUTIONS, **NORMS, **REDUCTIONS, **SHAPES, **JOINING, **ATTENTION,
}  # fmt: skip
"""Every operation by name."""

__all__ = ["OPERATIONS", "FuncEnum"]
globals().update(OPERATIONS)


def __getattr__(name: str) -> Any:
    """Name an operation of AITemplate's that is not here.

    Raises:
        AttributeError: Always.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    hint = did_you_mean(name, list(OPERATIONS))
    raise AttributeError(f"this front end of AITemplate has no operation {name!r}{hint}")
