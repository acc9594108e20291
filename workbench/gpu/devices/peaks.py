"""Peak rates of a device, measured with kernels that only copy or only compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import DType
from workbench.gpu.code.cache_folder import cache_folder, keep, kept_json
from workbench.gpu.devices.base import Device, Peaks, Stream
from workbench.gpu.kernels import matrix_bytes, matrix_float, warpgroup
from workbench.gpu.kernels.matrix_tiles import COLUMNS, COPIES, ROWS, TERMS, multiply

_THREADS = 256
_PER_ITEM = 4
_REPETITIONS = 12
_COPY = """
typedef struct ALIGN(16) {{ u64 low; u64 high; }} pair;
KERNEL({threads}) copy(GLOBAL const pair *RESTRICT from, GLOBAL pair *RESTRICT to) {{
  const i64 first = (i64)GROUP(0) * {block} + LOCAL(0);
  UNROLL
  for (i32 k = 0; k < {block}; k += {threads}) to[first + k] = from[first + k];
}}
"""
# A CPU's compiler vectorizes a long loop over an array; a GPU's keeps a short array in registers.
_CHAINS = """
KERNEL({threads}) chains(GLOBAL {type} *to) {{
  {type} x[{count}];
  {unroll} for (i32 k = 0; k < {count}; ++k) x[k] = ({type})(LOCAL(0) + k);
  for (i32 j = 0; j < {steps}; ++j) {{
    {unroll} for (i32 k = 0; k < {count}; ++k) x[k] = x[k] * ({type})0.5 + ({type})1.5;
  }}
  {type} sum = 0;
  {unroll} for (i32 k = 0; k < {count}; ++k) sum += x[k];
  to[GROUP(0) * {threads} + LOCAL(0)] = sum;
}}
"""
_MATRIX = """
KERNEL({threads}) products(GLOBAL {type} *to) {{
  {type} r[{count}];
  UNROLL for (i32 k = 0; k < {count}; ++k) r[k] = 0;
  {begin}
  for (i32 j = 0; j < {steps}; ++j) {{ {product} }}
  {end}
  {type} sum = 0;
  UNROLL for (i32 k = 0; k < {count}; ++k) sum += r[k];
  to[GROUP(0) * {threads} + LOCAL(0)] = sum;
}}
"""
_MATRIX_UNITS = ("matrix", "matrix i8", "matrix f32")
_known: dict[str, Peaks] = {}


def peaks_of(device: Device) -> Peaks:
    """The device's peaks: from this process, from disk, or measured now (under a second)."""
    key = device.digest
    if key not in _known:
        folder = cache_folder("peaks")
        path = None if folder is None else folder / f"{key}.json"
        found = None if path is None else _read(path)
        _known[key] = found if found and _is_whole(found, device) else measured(device)
        if path is not None:
            _write(path, device, _known[key])
    return _known[key]


def _read(path: Path) -> Peaks | None:
    """The measurements of an earlier process; None if there are none or they cannot be read."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        found = kept_json(path)
        flops = {str(name): float(value) for name, value in found["flops"].items()}
        bandwidth = float(found["bandwidth"])
        if all(0 < rate < inf for rate in (bandwidth, *flops.values())):
            return Peaks(bandwidth, flops)
    return None


def _is_whole(peaks: Peaks, device: Device) -> bool:
    """Whether the measurements, perhaps an older version's, include those of all matrix units."""
    return not device.dialect.machine.matrix or {*_MATRIX_UNITS} <= peaks.flops.keys()


def _write(path: Path, device: Device, peaks: Peaks) -> None:
    said = {"device": device.facts.name, "bandwidth": peaks.bandwidth, "flops": peaks.flops}
    keep(path, json.dumps(said, indent=1).encode())


def measured(device: Device) -> Peaks:
    """The device's peaks, measured now: the best of several runs of each kernel."""
    flops: dict[str, float] = {}
    for name in ("f32", "f64"):
        with suppress(DeviceError):  # some devices lack f64
            flops[name] = _flops(device, name)
    if device.dialect.machine.matrix:
        group = device.dialect.machine.matrix == warpgroup.CAPABILITY
        halves, integers = (
            (_of_a_warp_group(True), _of_a_warp_group(False)) if group else _of_warps()
        )
        for name, products in zip(
            _MATRIX_UNITS, (halves, integers, _of_warps_in_float()), strict=True
        ):
            flops[name] = _matrix_flops(device, products)
    return Peaks(_bandwidth(device), flops)


_Products: TypeAlias = tuple[str, dict[str, Any], int, int]
"""Functions, the parts of the kernel, bytes of shared memory, and operations of a block's step."""


def _matrix_flops(device: Device, products: _Products) -> float:
    """The rate of products of whatever is in registers or shared memory."""
    words, texts, shared, flops = products
    steps, threads = 4096, 128
    blocks = max(device.facts.compute_units, 1) * 32
    source = words + _MATRIX.format(threads=threads, steps=steps, **texts)
    function = _function(device, source, "products")
    return flops * blocks * steps / _seconds_of(device, function, blocks, threads, 4, shared)


def _of_a_warp_group(halves: bool) -> _Products:
    """Products of half, or of 8-bit integers, by the largest instruction."""
    columns, rows, size = 256, 64, 2 if halves else 1
    name = f"multiply_{columns}"
    own = (
        warpgroup.instruction(name, "f16", columns, (False, False))
        if halves
        else matrix_bytes.group_instruction(name, DType.INT8, columns)
    )
    line = 2 * warpgroup.DEPTH
    align = warpgroup.ALIGN
    begin = (
        f"extern __shared__ u8 whole[]; const u32 p = shared_place(whole) + {align - 1} & ~{align - 1}; "
        f"const u64 a = tile_at(p, {align}), b = tile_at(p + {rows * line}, {align}); FENCE();"
    )
    texts = {
        "type": "f32" if halves else "u32",
        "count": columns // 2,
        "begin": begin,
        "end": "WAIT(0);",
    }
    texts["product"] = f"{name}(r, a, b); COMMIT();"
    shared = (rows + columns) * line + align
    return COPIES + warpgroup.WORDS + own, texts, shared, 2 * rows * columns * 2 * TERMS // size


_TILES, _WARPS = 8, 4


def _of_warps() -> tuple[_Products, _Products]:
    """Products of half, and of 8-bit integers."""
    begin = "u32 a[4], b[2]; UNROLL for (i32 k = 0; k < 4; ++k) a[k] = b[k / 2] = LOCAL(0) + k;"
    steps = 2 * _WARPS * _TILES * ROWS * COLUMNS
    halves = _one_after_another(begin, "multiply_f16(r + k * 4, a, b)")
    integers = _one_after_another(begin, "multiply_s8(r + k * 4, a, b)", "u32")
    return (
        (multiply(DType.HALF), halves, 0, steps * TERMS),
        (matrix_bytes.multiply_integers(DType.INT8), integers, 0, steps * matrix_bytes.TERMS),
    )


def _of_warps_in_float() -> _Products:
    """Products of floats, of which each is split into two numbers already."""
    begin = (
        "u32 a[4], b[2]; f32 c[4], d[2]; "
        "UNROLL for (i32 k = 0; k < 4; ++k) c[k] = d[k / 2] = a[k] = b[k / 2] = LOCAL(0) + k;"
    )
    texts = _one_after_another(begin, "multiply_float(r + k * 4, a, c, b, d)")
    return matrix_float.WORDS, texts, 0, 2 * _WARPS * _TILES * ROWS * COLUMNS * matrix_float.TERMS


def _one_after_another(begin: str, product: str, type: str = "f32") -> dict[str, Any]:
    """The parts of a kernel whose warps have several independent products."""
    each = f"UNROLL for (i32 k = 0; k < {_TILES}; ++k) {product};"
    return {"type": type, "count": _TILES * 4, "begin": begin, "product": each, "end": ""}


def _bandwidth(device: Device) -> float:
    unit = 16 * _THREADS * _PER_ITEM
    wanted = 64 << 20 if device.facts.processor == "CPU" else 512 << 20
    size = min(wanted, (device.facts.memory or wanted) // 16) // unit * unit
    source = _COPY.format(threads=_THREADS, block=_THREADS * _PER_ITEM)
    function = _function(device, source, "copy")
    buffers = [device.allocate(size) for _ in range(2)]
    try:
        first, second = (device.pointer(buffer, 0, size) for buffer in buffers)
        device.fill(first, size, 1)
        grid, block = (size // unit, 1, 1), (_THREADS, 1, 1)
        kernel = device.prepare(function, grid, block, 0, [first, second])
        ways: list[Callable[[Stream], None]] = [
            kernel,
            lambda stream: device.copy(second, first, size, stream),
        ]
        return 2 * size / min(_seconds(device, way) for way in ways)
    finally:
        for buffer in buffers:
            device.free(buffer)


def _flops(device: Device, type: str) -> float:
    cpu = device.facts.processor == "CPU"
    count, steps, waves = (64, 256, 8) if cpu else (16, 4096, 32)
    unroll = "" if cpu else "UNROLL"
    source = _CHAINS.format(threads=_THREADS, type=type, count=count, steps=steps, unroll=unroll)
    function = _function(device, source, "chains")
    blocks = max(device.facts.compute_units, 1) * waves
    seconds = _seconds_of(device, function, blocks, _THREADS, 8)
    return 2 * blocks * _THREADS * count * steps / seconds


def _seconds_of(
    device: Device, function: object, blocks: int, threads: int, bytes: int, shared: int = 0
) -> float:
    """The time of a kernel that writes one number of so many bytes for each work item."""
    size = bytes * blocks * threads
    buffer = device.allocate(size)
    try:
        arguments = [device.pointer(buffer, 0, size)]
        grid, block = (blocks, 1, 1), (threads, 1, 1)
        return _seconds(device, device.prepare(function, grid, block, shared, arguments))
    finally:
        device.free(buffer)


def _function(device: Device, source: str, name: str) -> object:
    code = device.compiler.compile(device.dialect.prologue + source, name)
    return device.load(code, name)


def _seconds(device: Device, work: Callable[[Stream], None]) -> float:
    """The shortest of several times on the default stream, after a warm-up run."""
    work(None)
    times: list[float] = []
    for _ in range(_REPETITIONS):
        first = device.record()
        work(None)
        times.append(device.elapsed(first, device.record()))
    return min(times)
