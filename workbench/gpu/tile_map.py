"""Maps of memory, by which a GPU's copy engine finds the tiles of a tensor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TileMap:
    """Memory as a kernel's bulk copies see it: they load a tile by the indices of its first element.

    Elements past the end of an axis are 0. Axes are in the order of the tensor, the last one contiguous.
    """

    argument: int
    """The number of the kernel's argument that points to the memory."""
    offset: int
    """The first element, of 16 bits, counted from the start of the memory."""
    lens: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements from one index to the next one; but for the last one, multiples of 16 bytes."""
    box: tuple[int, ...]
    """The lens of a tile, whose rows of 128 bytes are swizzled in shared memory."""
