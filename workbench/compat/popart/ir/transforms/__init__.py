"""Changes of whole graphs."""

from workbench.compat.popart.ir.transforms.merge_exchange import io_tile_exchange, merge_exchange

__all__ = ["io_tile_exchange", "merge_exchange"]
