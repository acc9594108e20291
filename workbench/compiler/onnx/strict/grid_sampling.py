"""GridSample of images as MIGraphX composes it: elements gathered into one row of samples, then weighted."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.nodes.sampling import grid_sample
from workbench.compiler.onnx.registry import strict_op

MAX_NEAREST = 4096
"""The most samples of a nearest-neighbour grid: MIGraphX has a literal per sample and channel."""


class FlatSampler:
    """Samples of an image at the points of a grid, all of them in one row."""

    def __init__(self, node: NodeContext, image: Instruction, grid: Instruction) -> None:
        """Split the grid into pixel coordinates, moved into the image as ``padding_mode`` says."""
        self.node, self.image, self.type = node, image, grid.shape.type
        self.border = node.text("padding_mode", "zeros")
        self.align = node.flag("align_corners")
        height, width = image.shape.lens[2:]
        batch, rows, columns = grid.shape.lens[:3]
        self.lens = (batch, rows, columns, image.shape.lens[1])
        check_size(Shape(DType.DOUBLE, (*self.lens, 3)), node.op_type)
        self.zero, self.one = self._number(0), self._number(1)
        self.two = node.scalar(DType.INT64, 2)
        self.start = self._number(-0.5)
        self.right, self.width = self._number(width - 1), self._number(width)
        self.bottom, self.height = self._number(height - 1), self._number(height)
        parts = [node.slice(grid, [3], [i], [i + 1]) for i in (0, 1)]
        x, y = (node.squeeze(p, 3) for p in parts)
        self.x, self.y = self._pixels(x, width), self._pixels(y, height)
        if self.border == "reflection":
            spans = (self.right, self.bottom) if self.align else (self.width, self.height)
            self.x, self.y = self._reflected(self.x, spans[0]), self._reflected(self.y, spans[1])
        if self.border != "zeros":
            self.x = node.common("clip", self.x, self.zero, self.right)
            self.y = node.common("clip", self.y, self.zero, self.bottom)

    def _number(self, value: float) -> Instruction:
        return self.node.scalar(self.type, value)

    def _pixels(self, points: Instruction, size: int) -> Instruction:
        node = self.node
        raised = node.common("add", points, self.one)
        if self.align:
            return node.common("mul", raised, self._number((size - 1) / 2))
        return node.common("add", node.common("mul", raised, self._number(size / 2)), self.start)

    def _reflected(self, places: Instruction, span: Instruction) -> Instruction:
        node, start = self.node, self.zero if self.align else self.start
        distance = node.common("abs", node.common("sub", start, places))
        turns = node.common("floor", node.common("div", distance, span))
        is_even = node.common("equal", node.common("mod", turns, self.two), self.zero)
        rest = node.common("sub", distance, node.common("mul", turns, span))
        there = node.common("add", rest, start)
        back = node.common("add", node.common("sub", span, rest), start)
        return node.common("where", is_even, there, back)

    def linear(self) -> Instruction:
        """The elements at the four corners around each point, weighted by their proximity."""
        node = self.node
        left, top = node.common("floor", self.x), node.common("floor", self.y)
        right, bottom = node.common("add", left, self.one), node.common("add", top, self.one)
        across, down = node.common("sub", self.x, left), node.common("sub", self.y, top)
        rest = node.common("sub", self.one, across), node.common("sub", self.one, down)
        sides = [(rest[1], rest[0]), (rest[1], across), (down, rest[0]), (down, across)]
        weights = [node.common("mul", a, b) for a, b in sides]
        places, channels = self._indices()
        row, again, pairs = (
            node.literal(v.astype(self.type.numpy)) for v in (places, places, channels)
        )
        found = [node.add("gathernd", v, row) for v in (top, left, bottom, right)]
        limits = (self.bottom, self.right) * 2
        kept = [self._validated(v, n) for v, n in zip(found, limits, strict=True)]
        in_y0, in_x0, in_y1, in_x1 = (valid for _, valid in kept)
        y0, x0, y1, x1 = [node.reshape(v, len(places), 1) for v, _ in kept]
        corners = [(x0, y0), (x1, y0), (x0, y1), (x1, y1)]
        indices = [self._joined(pairs, y, x) for x, y in corners]
        inside = [(in_x0, in_y0), (in_x1, in_y0), (in_x0, in_y1), (in_x1, in_y1)]
        valid = [node.common("logical_and", a, b) for a, b in inside]
        elements = [self._chosen(i, v) for i, v in zip(indices, valid, strict=True)]
        parts = [
            node.add("mul", e, node.add("gathernd", w, again))
            for e, w in zip(elements, weights, strict=True)
        ]
        return self._image(reduce(partial(node.add, "add"), parts))

    def nearest(self) -> Instruction:
        """The element nearest to each point."""
        node = self.node
        x, y = node.common("nearbyint", self.x), node.common("nearbyint", self.y)
        channels, rows, pairs = self.lens[3], list[Instruction](), list[Instruction]()
        places, named = self._indices()
        for at in range(0, len(places), channels):
            row = node.literal(places[at : at + 1])
            rows += [row] * channels
            for pair in named[at : at + channels]:
                pairs.append(node.literal(pair[None].astype(self.type.numpy)))
        joined = partial(node.add, "concat", axis=0)
        at = reduce(joined, rows)
        down, across = node.add("gathernd", y, at), node.add("gathernd", x, at)
        valid = None
        if self.border != "border":
            low = node.common("clip", down, self.zero, self.bottom)
            near = node.common("clip", across, self.zero, self.right)
            same = node.common("equal", down, low), node.common("equal", across, near)
            valid = node.common("logical_and", *same)
            down, across = low, near
        pair = reduce(joined, pairs)
        down, across = (node.reshape(v, len(places), 1) for v in (down, across))
        index = self._joined(pair, down, across)
        found = node.add("gathernd", self.image, index)
        if valid is not None:
            found = node.common("where", valid, found, self.zero)
        return self._image(found)

    def _indices(self) -> tuple[Array, Array]:
        """The grid index of each sample (batch, row, column), and its batch and channel."""
        found = np.indices(self.lens).reshape(4, -1).T
        return np.ascontiguousarray(found[:, :3]), np.ascontiguousarray(found[:, [0, 3]])

    def _validated(self, at: Instruction, most: Instruction) -> tuple[Instruction, Instruction]:
        """Coordinates clipped to the image, and whether they were inside."""
        inside = self.node.common("clip", at, self.zero, most)
        return inside, self.node.common("equal", at, inside)

    def _joined(self, pairs: Instruction, y: Instruction, x: Instruction) -> Instruction:
        return self.node.add("concat", pairs, self.node.add("concat", y, x, axis=1), axis=1)

    def _chosen(self, index: Instruction, valid: Instruction) -> Instruction:
        elements = self.node.add("gathernd", self.image, index)
        return self.node.common("where", valid, elements, self.zero)

    def _image(self, samples: Instruction) -> Instruction:
        node = self.node
        moved = node.transpose(node.reshape(samples, *self.lens), 0, 3, 1, 2)
        return node.add("convert", moved, target_type=self.image.shape.type)


@strict_op("GridSample")
def flat_sample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """An image sampled at the points of a grid.

    Bicubic samples, and nearest ones of large grids, are left to the other handler.
    """
    node.expect(inputs, 2)
    image, grid = inputs
    shapes = f"image {image.shape} and grid {grid.shape}"
    if image.shape.is_dynamic or grid.shape.is_dynamic:
        raise node.fail(f"{shapes}; expected fixed dimensions")
    if not grid.shape.type.is_float:
        raise node.fail(f"{shapes}; expected a grid of floats")
    if image.shape.ndim != 4 or grid.shape.ndim != 4:
        raise node.fail(f"{shapes}; expected four dimensions of both")
    mode, samples = node.text("mode", "linear"), grid.shape.elements // 2 * image.shape.lens[1]
    if "nearest" in mode and samples <= MAX_NEAREST:
        return FlatSampler(node, image, grid).nearest()
    if "nearest" not in mode and "linear" in mode:
        return FlatSampler(node, image, grid).linear()
    return grid_sample(node, inputs)
