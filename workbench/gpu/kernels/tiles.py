"""Tiles of a matrix product: a block computes one tile, each work item a part of it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.gpu.dialect import Dialect

_PLENTY = 128
"""Number of blocks that keep a device busy."""

_HELD = 24 << 10
"""Bytes of an operand's tile if one work item computes the product's whole tile."""

_SHAPES = (
    (128, 128, 8, 8, 1.0), (128, 64, 8, 4, 0.9), (64, 128, 4, 8, 0.9), (64, 64, 4, 4, 0.8),
    (32, 128, 4, 4, 0.7), (128, 32, 4, 4, 0.7), (16, 256, 4, 4, 0.6), (256, 16, 4, 4, 0.6),
    (32, 64, 2, 4, 0.6), (64, 32, 4, 2, 0.6), (32, 32, 2, 2, 0.4), (16, 64, 2, 2, 0.4),
    (64, 16, 2, 2, 0.4), (16, 16, 1, 1, 0.2),
)  # fmt: skip
"""Rows and columns of a tile and of a work item's part, and the utilization of a multiprocessor."""


@dataclass(frozen=True)
class Tile:
    """A block's part of a product, and a work item's part of that."""

    rows: int
    columns: int
    depth: int
    """Terms of the sums that are in shared memory at a time."""
    height: int
    """Rows that a work item keeps in registers."""
    width: int
    """Columns that a work item keeps in registers."""
    threads: int

    def __str__(self) -> str:
        """Everything that tells it from others."""
        return f"{self.rows}x{self.columns}x{self.depth}, work item {self.height}x{self.width}"

    @property
    def alone(self) -> bool:
        """Whether one work item computes the whole tile, part by part, which suits a CPU."""
        return self.threads == 1

    @property
    def parts(self) -> int:
        """Number of work items' parts in a tile."""
        return self.rows // self.height * (self.columns // self.width)

    def blocks(self, batch: int, m: int, n: int) -> int:
        """Number of tiles in a product."""
        return batch * -(-m // self.rows) * -(-n // self.columns)


def tiles_for(dialect: Dialect, size: int, batch: int, m: int, n: int, k: int) -> list[Tile]:
    """The tiles for a product of these lens, the one with the least estimated time first.

    Args:
        dialect: The dialect; its machine decides whether work items share loads, as they do on GPUs.
        size: Bytes of an element in the type of sums.
        batch: The number of matrices.
        m: The number of rows.
        n: The number of columns.
        k: The number of terms of each sum.
    """
    if dialect.machine.is_cpu:
        cuts = (
            (high, bytes, most) for most in (64, 32, 16) for high in (8, 4) for bytes in (64, 32)
        )
        return list(dict.fromkeys(_alone(size, m, n, k, *cut) for cut in cuts))
    found: list[tuple[float, Tile]] = []
    for rows, columns, height, width, use in _SHAPES:
        threads = rows // height * (columns // width)
        tile = Tile(rows, columns, 16, height, width, threads)
        rounds = -(-tile.blocks(batch, m, n) // _PLENTY)
        if size == 4 or rows * columns <= 4096:
            found.append((rounds * rows * columns / use, tile))
    return [tile for _, tile in sorted(found, key=lambda pair: pair[0])]


def _alone(size: int, m: int, n: int, k: int, high: int, bytes: int, most: int) -> Tile:
    """The tile of one work item, of at most so many rows, and parts of so many rows and bytes of a row."""
    height, width = min(high, _power(m)), min(bytes // size, _power(n))
    rows = min(most, up(m, height))
    columns = min(4096 // rows // width * width, 512, up(n, width))
    depth = max(min(_HELD // (size * max(rows, columns)), k), 1)
    return Tile(rows, columns, depth, height, width, 1)


def _power(n: int) -> int:
    """The greatest power of 2 up to a length, or the next one if that wastes little."""
    low = 1 << (n.bit_length() - 1)
    return low if n <= low + low // 2 else 2 * low


def up(n: int, by: int) -> int:
    """A number rounded up to a multiple."""
    return -(-n // by) * by
