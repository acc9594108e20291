"""Changes of whole graphs."""

from workbench.compat.popart.ir.transforms.autodiff import autodiff
from workbench.compat.popart.ir.transforms.connections import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from workbench.compat.popart.ir.transforms.merge_exchange import io_tile_exchange, merge_exchange

__all__ = [
    "ExpectedConnection", "ExpectedConnectionType", "GradGraphInfo", "autodiff", "io_tile_exchange",
    "merge_exchange",
]  # fmt: skip
