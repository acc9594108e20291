"""GridSample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_CUBIC = -0.75

Taps: TypeAlias = "Callable[[_Grid, Instruction], list[tuple[Instruction, Instruction]]]"
"""Makes the whole coordinates around a point along an axis, each with its weight."""


@dataclass
class _Grid:
    """Points at which an image (batch, height, width, channels) is sampled."""

    node: NodeContext
    image: Instruction
    border: str
    align: bool

    def number(self, like: Instruction, value: float) -> Instruction:
        return self.node.multibroadcast(self.node.scalar(like.shape.type, value), like.shape.lens)

    def op(self, name: str, a: Instruction, b: Instruction | float) -> Instruction:
        other = b if isinstance(b, Instruction) else self.number(a, b)
        return self.node.add(name, a, other)


@onnx_op("GridSample")
def grid_sample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An image sampled at the points of a grid."""
    node.expect(inputs, 2)
    x, points = inputs
    if x.shape.ndim != 4 or points.shape.ndim != 4:
        raise node.fail(f"image {x.shape} and grid {points.shape}; expected rank 4")
    mode = node.text("mode", "linear")
    border = node.text("padding_mode", "zeros")
    if border not in {"zeros", "border", "reflection"}:
        raise node.fail(f"padding_mode={border!r}; expected zeros, border or reflection")
    points = node.convert(points, x.shape.type)
    grid = _Grid(node, node.transpose(x, 0, 2, 3, 1), border, node.flag("align_corners"))
    height, width = x.shape.lens[2:]
    places = [
        _unnormalized(grid, node.squeeze(node.slice(points, [3], [i], [i + 1]), 3), size)
        for i, size in enumerate((width, height))
    ]
    if "nearest" in mode:
        whole = [node.add("nearbyint", p) for p in places]
        result = _at(grid, whole[0], whole[1])
    elif "linear" in mode:
        result = _weighted(grid, places, _linear_taps)
    elif "cubic" in mode:
        result = _weighted(grid, places, _cubic_taps)
    else:
        raise node.fail(f"mode={mode!r}; expected nearest, linear or cubic")
    return node.transpose(result, 0, 3, 1, 2)


def _unnormalized(grid: _Grid, points: Instruction, size: int) -> Instruction:
    """Coordinates from −1…1 to pixels."""
    raised = grid.op("add", points, 1.0)
    if grid.align:
        return grid.op("mul", raised, (size - 1) / 2)
    return grid.op("add", grid.op("mul", raised, size / 2), -0.5)


def _inside(grid: _Grid, places: Instruction, size: int) -> Instruction:
    """Coordinates moved into the image, as the border asks for it."""
    if grid.border == "reflection":
        places = _reflected(grid, places, size)
    low, high = grid.number(places, 0.0), grid.number(places, size - 1.0)
    return grid.node.add("clip", places, low, high)


def _reflected(grid: _Grid, places: Instruction, size: int) -> Instruction:
    start, span = (0.0, size - 1.0) if grid.align else (-0.5, float(size))
    if span <= 0:
        return grid.number(places, 0.0)
    distance = grid.node.add("abs", grid.op("sub", places, start))
    turns = grid.node.add("floor", grid.op("div", distance, span))
    rest = grid.op("sub", distance, grid.op("mul", turns, span))
    back = grid.op("add", grid.op("mul", rest, -1.0), span)
    is_even = grid.op("equal", grid.op("mod", turns, 2.0), 0.0)
    chosen = grid.node.add("where", grid.node.convert(is_even, DType.BOOL), rest, back)
    return grid.op("add", chosen, start)


def _at(grid: _Grid, x: Instruction, y: Instruction) -> Instruction:
    """The pixels at whole coordinates."""
    node = grid.node
    batch, height, width, channels = grid.image.shape.lens
    safe = [_inside(grid, x, width), _inside(grid, y, height)]
    index = [node.unsqueeze(node.convert(s, DType.INT64), 3) for s in reversed(safe)]
    lens = (*x.shape.lens, 1)
    samples = node.literal(np.arange(batch, dtype=np.int64).reshape(batch, 1, 1, 1))
    places = node.add("concat", node.multibroadcast(samples, lens), *index, axis=3)
    found = node.add("gathernd", grid.image, places, batch_dims=0)
    if grid.border != "zeros":
        return found
    same = [
        node.convert(node.add("equal", a, b), DType.BOOL) for a, b in zip((x, y), safe, strict=True)
    ]
    valid = node.unsqueeze(node.add("logical_and", *same), 3)
    spread = node.multibroadcast(valid, (*x.shape.lens, channels))
    return node.add("where", spread, found, grid.number(found, 0.0))


def _weighted(grid: _Grid, places: list[Instruction], make: Taps) -> Instruction:
    """The sum of the pixels around each point, each by its weights in x and y."""
    height, width = grid.image.shape.lens[1:3]
    if grid.border != "zeros" and make is _linear_taps:
        places = [_inside(grid, p, n) for p, n in zip(places, (width, height), strict=True)]
    columns, rows = (make(grid, p) for p in places)
    total: Instruction | None = None
    for y, y_weight in rows:
        for x, x_weight in columns:
            weight = grid.node.unsqueeze(grid.node.add("mul", x_weight, y_weight), 3)
            pixels = _at(grid, x, y)
            part = grid.node.add("mul", pixels, grid.node.multibroadcast(weight, pixels.shape.lens))
            total = part if total is None else grid.node.add("add", total, part)
    assert total is not None  # there are taps
    return total


def _linear_taps(grid: _Grid, place: Instruction) -> list[tuple[Instruction, Instruction]]:
    low = grid.node.add("floor", place)
    fraction = grid.node.add("sub", place, low)
    rest = grid.op("add", grid.op("mul", fraction, -1.0), 1.0)
    return [(low, rest), (grid.op("add", low, 1.0), fraction)]


def _cubic_taps(grid: _Grid, place: Instruction) -> list[tuple[Instruction, Instruction]]:
    low = grid.node.add("floor", place)
    fraction = grid.node.add("sub", place, low)
    rest = grid.op("add", grid.op("mul", fraction, -1.0), 1.0)
    return [
        (grid.op("add", low, -1.0), _far(grid, grid.op("add", fraction, 1.0))),
        (low, _near(grid, fraction)),
        (grid.op("add", low, 1.0), _near(grid, rest)),
        (grid.op("add", low, 2.0), _far(grid, grid.op("add", rest, 1.0))),
    ]


def _near(grid: _Grid, x: Instruction) -> Instruction:
    """Keys' kernel up to a distance of 1: ``((a + 2) x - (a + 3)) x² + 1``."""
    inner = grid.op("add", grid.op("mul", x, _CUBIC + 2), -(_CUBIC + 3))
    return grid.op("add", grid.op("mul", grid.op("mul", inner, x), x), 1.0)


def _far(grid: _Grid, x: Instruction) -> Instruction:
    """Keys' kernel from 1 to 2: ``((a x - 5 a) x + 8 a) x - 4 a``."""
    inner = grid.op("add", grid.op("mul", x, _CUBIC), -5 * _CUBIC)
    inner = grid.op("add", grid.op("mul", inner, x), 8 * _CUBIC)
    return grid.op("add", grid.op("mul", inner, x), -4 * _CUBIC)
