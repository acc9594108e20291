"""Convolutions in NumPy: one matrix product, products of columns of taps, or tap by tap."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from workbench.compiler.arrays import memory
from workbench.compiler.arrays.parallel import is_divided, spread
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ops.accumulate import working_type
from workbench.compiler.ops.windows import Window

Ints: TypeAlias = tuple[int, ...]

_COLUMNS, _BLOCK = 1 << 24, 1 << 21
"""Bytes of columns that are computed at once, and the bytes of a block if there are more."""

_CHANNELS, _PLANES = 16, 1 << 16
"""Number of channels, and of their elements, that a depthwise convolution processes at once."""

_SHARES = 8
"""Number of parts into which work is split for threads."""


def convolved(x: Array, w: Array, window: Window, group: int) -> Array:
    """The convolution, in the accumulation type."""
    taps = prod(w.shape[1:])
    kind = working_type(x, w, taps)
    lens = (x.shape[0], w.shape[0], *window.output)
    if 0 in lens or not taps:
        return np.zeros(lens, kind)
    x, w = x.astype(kind, copy=False), w.astype(kind, copy=False)
    if group > 1 and w.shape[1] == 1 and _is_long(x, window):
        return _by_taps(x, w, window, lens)
    weights = w.reshape(group, -1, taps) if group > 1 else w.reshape(-1, taps)
    lead = (lens[0], group, taps) if group > 1 else (lens[0], taps)
    out = memory.empty((*lead[:-1], weights.shape[-2], prod(window.output)), kind)
    if window.is_pointwise:
        np.matmul(weights, _strided(x, window.stride).reshape(*lead, -1), out=out)
    else:
        _by_columns(window.view(window.padded(x)), weights, lead, out)
    return out.reshape(lens)


def _is_long(x: Array, window: Window) -> bool:
    """Whether a depthwise convolution is faster tap by tap than by columns (measured)."""
    return prod(window.size) >= 16 or (x.size >= _PLANES and set(window.stride) == {1})


def _strided(x: Array, stride: Ints) -> Array:
    """Every n-th element of the last axes; ``x`` itself if all steps are 1."""
    if set(stride) <= {1}:
        return x
    steps = tuple(slice(None, None, s) for s in stride)
    return _copied(x[(..., *steps)])


def _copied(x: Array) -> Array:
    """A row-major copy, made by several threads if it is large."""
    out = memory.empty(x.shape, x.dtype)
    _copy(out, x)
    return out


def _copy(out: Array, x: Array) -> None:
    if not is_divided(x.size):
        out[...] = x
        return
    shares = min(_SHARES, x.shape[1])
    bounds = [x.shape[1] * i // shares for i in range(shares + 1)]

    def share(i: int) -> None:
        part = slice(bounds[i], bounds[i + 1])
        out[:, part] = x[:, part]

    spread(share, shares, x.size)


def _by_columns(view: Array, weights: Array, lead: Ints, out: Array) -> None:
    """The matrix product of the weights with columns of taps, a few rows of outputs at a time."""
    axis = 2 + (view.ndim - 2) // 2
    rows, rest, taps = view.shape[axis], prod(view.shape[axis + 1 :]), lead[-1]
    step = rows if view.nbytes <= _COLUMNS else _rows_of_a_block(view, rows, taps)
    room = memory.empty((view.size // rows * step,), view.dtype)
    for start in range(0, rows, step):
        end = min(rows, start + step)
        part = view[(slice(None),) * axis + (slice(start, end),)]
        columns = room[: part.size].reshape(part.shape)
        _copy(columns, part)
        np.matmul(weights, columns.reshape(*lead, -1), out=out[..., start * rest : end * rest])


def _rows_of_a_block(view: Array, rows: int, taps: int) -> int:
    """Rows of outputs whose columns stay in cache; many taps need larger products to be fast."""
    block = _BLOCK if taps < 2048 else 2 * _COLUMNS
    return min(rows, max(1, block * rows // view.nbytes))


def _by_taps(x: Array, w: Array, window: Window, lens: Ints) -> Array:
    """A depthwise convolution, a few channels at a time so that they stay in cache."""
    channels = lens[1]
    if channels > x.shape[1]:
        x = np.repeat(x, channels // x.shape[1], 1)
    out = memory.empty(lens, x.dtype)
    shares = max(1, min(channels // _CHANNELS, x.size // _PLANES))
    bounds = [channels * i // shares for i in range(shares + 1)]
    dense = replace(window, stride=(*window.stride[:-1], 1))

    def share(i: int) -> None:
        part = slice(bounds[i], bounds[i + 1])
        sums = _tap_sums(x[:, part], w[part, 0], dense)
        out[:, part] = np.moveaxis(sums, -1, 1)[..., :: window.stride[-1]]

    spread(share, shares, x.size * prod(window.size))
    return out


def _tap_sums(x: Array, w: Array, window: Window) -> Array:
    """The weight of each tap times the inputs under it, summed over taps; channels last.

    A row of outputs and its channels form one long axis, along which the weights are repeated: NumPy
    is fastest on long runs. So the stride along the row is 1, and the caller selects from the result.
    """
    rank = len(window.size)
    view = np.moveaxis(window.view(window.padded(x, channels_last=True)), 1, -1)
    view = view.reshape(*view.shape[:-2], -1)
    weights = np.tile(np.moveaxis(w, 0, -1), window.output[-1])
    sums = np.empty((x.shape[0], *window.output, x.shape[1]), x.dtype)
    taps, outputs = range(1, 1 + rank), range(1 + rank, view.ndim)
    np.einsum(
        view, [0, *taps, *outputs], weights, [*taps, outputs[-1]], [0, *outputs],
        out=sums.reshape(*view.shape[:1], *view.shape[1 + rank :]),
    )  # fmt: skip
    return sums
