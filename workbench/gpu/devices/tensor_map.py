"""Tensor maps of CUDA's driver, by which the copy engine of Hopper GPUs finds tiles."""

from __future__ import annotations

from typing import Any

from workbench.compiler.report.run_plan import TileMap

MAP_BYTES = 128
_HALF = 2


def encode(driver: Any, pointer: int, map: TileMap) -> Any:
    """The result of the driver's call that encodes a map.

    Args:
        driver: The bindings of the driver.
        pointer: The address of the memory.
        map: The tensor there, and the lens of a tile.
    """
    lens, strides, box = (list(reversed(of)) for of in (map.lens, map.strides, map.box))
    return driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        len(lens),
        pointer + map.offset * _HALF,
        [driver.cuuint64_t(n) for n in lens],
        [driver.cuuint64_t(n * _HALF) for n in strides[1:]],
        [driver.cuuint32_t(n) for n in box],
        [driver.cuuint32_t(1) for _ in box],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
