"""GridSample and AffineGrid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import agree, dims_of, fixed
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_CUBIC = -0.75

Taps: TypeAlias = "Callable[[_Grid, Instruction], list[tuple[Instruction, Instruction]]]"
"""Builds the integer coordinates around a point along an axis, each with its weight."""


@dataclass
class _Grid:
    """Points at which an image (batch, spatial axes, channels) is sampled."""

    node: NodeContext
    image: Instruction
    border: str
    align: bool

    @property
    def lens(self) -> tuple[int, ...]:
        return self.node.fixed(self.node.lens(self.image)[1:-1], "spatial axes")

    def number(self, like: Instruction, value: float) -> Instruction:
        return self.node.multibroadcast(
            self.node.scalar(like.shape.type, value), self.node.lens(like)
        )

    def op(self, name: str, a: Instruction, b: Instruction | float) -> Instruction:
        other = b if isinstance(b, Instruction) else self.number(a, b)
        return self.node.add(name, a, other)


@onnx_op("GridSample")
def grid_sample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An image, or a volume, sampled at the points of a grid."""
    node.expect(inputs, 2)
    x, points = inputs
    rank = x.shape.ndim
    fits = agree(dims_of(points.shape)[-1:], fixed(rank - 2))
    if rank < 3 or points.shape.ndim != rank or not fits:
        raise node.fail(
            f"image {x.shape} and grid {points.shape}; expected equal ranks, one coordinate per axis"
        )
    mode = node.text("mode", "linear")
    border = node.text("padding_mode", "zeros")
    if border not in {"zeros", "border", "reflection"}:
        raise node.fail(f"padding_mode={border!r}; expected zeros, border or reflection")
    points = node.convert(points, x.shape.type)
    channels_last = node.transpose(x, 0, *range(2, rank), 1)
    grid = _Grid(node, channels_last, border, node.flag("align_corners"))
    last = rank - 1
    places = [  # the first coordinate is the last axis'
        _unnormalized(grid, node.squeeze(node.slice(points, [last], [i], [i + 1]), last), size)
        for i, size in zip(reversed(range(rank - 2)), grid.lens, strict=True)
    ]
    if "nearest" in mode:
        result = _at(grid, [node.add("nearbyint", p) for p in places])
    elif "linear" in mode:
        result = _weighted(grid, places, _linear_taps)
    elif "cubic" in mode:
        result = _weighted(grid, places, _cubic_taps)
    else:
        raise node.fail(f"mode={mode!r}; expected nearest, linear or cubic")
    return node.transpose(result, 0, last, *range(1, last))


@onnx_op("AffineGrid")
def affine_grid(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The coordinates of an image's elements, from −1 to 1, transformed by a matrix per image."""
    node.expect(inputs, 2)
    theta, lens = inputs[0], node.constant_ints(inputs[1], "the images' lens")
    rank, batch = len(lens) - 2, lens[0] if lens else 0
    if rank < 1 or theta.shape.lens != (batch, rank, rank + 1):
        raise node.fail(
            f"matrices {theta.shape} for images of {list(lens)}; expected "
            f"{[batch, rank, rank + 1]}, and spatial axes"
        )
    axes = [_centres(n, align=node.flag("align_corners")) for n in lens[2:]]
    grids = reversed(np.meshgrid(*axes, indexing="ij"))
    places = np.stack([*grids, np.ones(lens[2:])], axis=-1)
    flat = node.literal(places.reshape(-1, rank + 1).astype(theta.shape.type.numpy))
    spread = node.multibroadcast(flat, (batch, *flat.shape.lens))
    moved = node.add("dot", spread, node.transpose(theta, 0, 2, 1))
    return node.reshape(moved, batch, *lens[2:], rank)


def _centres(length: int, *, align: bool) -> Array:
    """The centres of an axis' elements, from −1 to 1; ``align`` puts the outer ones at the ends."""
    if align:
        return np.linspace(-1, 1, length)
    return (np.arange(length) + 0.5) * 2 / max(length, 1) - 1


def _unnormalized(grid: _Grid, points: Instruction, size: int) -> Instruction:
    """Coordinates converted from −1…1 to pixels."""
    raised = grid.op("add", points, 1.0)
    if grid.align:
        return grid.op("mul", raised, (size - 1) / 2)
    return grid.op("add", grid.op("mul", raised, size / 2), -0.5)


def _inside(grid: _Grid, places: Instruction, size: int) -> Instruction:
    """Coordinates moved into the image as ``padding_mode`` says."""
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


def _at(grid: _Grid, places: Sequence[Instruction]) -> Instruction:
    """The elements at integer coordinates, given as one value per axis."""
    node = grid.node
    batch, channels = grid.node.lens(grid.image)[0], grid.node.lens(grid.image)[-1]
    lens, last = grid.node.lens(places[0]), len(places) + 1
    safe = [_inside(grid, p, n) for p, n in zip(places, grid.lens, strict=True)]
    index = [node.unsqueeze(node.convert(s, DType.INT64), last) for s in safe]
    samples = node.unsqueeze(node.counted(DType.INT64, batch), *range(1, last + 1))
    spread = node.multibroadcast(samples, (*lens, 1))
    found = node.add(
        "gathernd", grid.image, node.add("concat", spread, *index, axis=last), batch_dims=0
    )
    if grid.border != "zeros":
        return found
    same = [
        node.convert(node.add("equal", a, b), DType.BOOL) for a, b in zip(places, safe, strict=True)
    ]
    valid = reduce(partial(node.add, "logical_and"), same)
    mask = node.multibroadcast(node.unsqueeze(valid, last), (*lens, channels))
    return node.add("where", mask, found, grid.number(found, 0.0))


def _weighted(grid: _Grid, places: list[Instruction], make: Taps) -> Instruction:
    """The sum of the elements around each point, weighted by the product of their weights per axis."""
    if grid.border != "zeros" and make is _linear_taps:
        places = [_inside(grid, p, n) for p, n in zip(places, grid.lens, strict=True)]
    parts: list[Instruction] = []
    for taps in product(*(make(grid, p) for p in places)):
        weight = reduce(partial(grid.node.add, "mul"), [w for _, w in taps])
        elements = _at(grid, [at for at, _ in taps])
        spread = grid.node.unsqueeze(weight, len(places) + 1)
        spread = grid.node.multibroadcast(spread, grid.node.lens(elements))
        parts.append(grid.node.add("mul", elements, spread))
    return reduce(partial(grid.node.add, "add"), parts)


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
