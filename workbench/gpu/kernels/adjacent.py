"""The kernel of products whose matrices are adjacent in memory on a CPU, as those of depthwise convolutions.

A vector holds the sums of as many matrices, each of one column. A block is one work item and computes some
rows of all matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.kernels.kernel import Builder, Place
from workbench.gpu.kernels.operands import step_of
from workbench.gpu.kernels.panels import vector_of
from workbench.gpu.kernels.product import Product, Store

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_MOST_TERMS = 64
"""Most terms, each of which has a pointer of its own."""
_LEAST_MATRICES = 4
_BLOCKS = 32
_LEAST = 1 << 14
"""Multiplications of a block at least."""


def suits(lowering: Lowering, product: Product) -> bool:
    """Whether both operands are floats in memory, with those of the matrices next to each other."""
    floats = {i.shape.type for i in product.heart.inputs} == {DType.FLOAT}
    if not floats or product.n != 1 or len(product.lens) != 1 or product.k > _MOST_TERMS:
        return False
    if product.batch < _LEAST_MATRICES or not lowering.machine.is_cpu:
        return False
    steps = (step_of(lowering, product, side) for side in (0, 1))
    return all(step == 1 for step in steps)


class Adjacent:
    """Writes the kernel.

    Args:
        b: The builder, with the operands bound.
        product: The product.
        zeros: A zero for each matrix, which is read in place of elements that are not there.
    """

    threads = 1

    def __init__(self, b: Builder, product: Product, zeros: Place) -> None:
        """Compute this block's rows."""
        self.b, self.w, self.product, self.zeros = b, b.w, product, zeros
        work = product.batch * product.k
        self.each = -(-product.m // max(1, min(_BLOCKS, product.m * work // _LEAST)))
        self.blocks = -(-product.m // self.each)
        lanes = b.dialect.machine.vector // 4
        self.lanes = min(lanes, 1 << (product.batch.bit_length() - 1))
        self.part = Index()

    def write(self, store: Store) -> int:
        """Write the kernel; returns the number of blocks."""
        w, p, count = self.w, self.product, self.product.batch
        number = Variable(w.define(w.integer_type, "GROUP(0)", "g"), 0, self.blocks - 1)
        w.line(f"ALIGN(64) {p.work} p[{count}];")
        with w.loop(self.each) as turn:
            text = (Index.of(number) * self.each + turn).text()
            if self.blocks * self.each > p.m:
                w.line(f"if ({text} >= {p.m}) break;")
            row = Index.of(Variable(w.integer(text), 0, p.m - 1))
            self._sums(row)
            with w.loop(count) as matrix:
                store([((matrix,), row, Index())], [f"p[{matrix.text()}]"])
        return self.blocks

    def _sums(self, row: Index) -> None:
        """Put the sums of a row into an array, a vector at a time; the last one may overlap another."""
        w, lanes, count = self.w, self.lanes, self.product.batch
        vector = vector_of(self.b, lanes)
        pairs = [
            (self._pointer(0, row, k), self._pointer(1, row, k)) for k in range(self.product.k)
        ]
        with w.loop(-(-count // lanes), prefix="c") as turn:
            first = (turn * lanes).text()
            last = count - lanes
            at = w.integer(f"{first} < {last} ? {first} : {last}" if count % lanes else first)
            w.line(f"{vector} s = 0;")
            for x, y in pairs:
                w.line(
                    f"s += *(GLOBAL const {vector} *)({x} + {at}) * *(GLOBAL const {vector} *)({y} + {at});"
                )
            w.line(f"*({vector} *)(p + {at}) = s;")

    def _pointer(self, side: int, row: Index, k: int) -> str:
        """A pointer to the elements of all matrices for a term."""
        p = self.product
        address = (p.a, p.b)[side].address
        assert address is not None
        found = address(self.b.tensors, (Index(),), Index() if side else row, Index((), k))
        assert found is not None
        text = f"{found.pointer} + {found.offset.text()}"
        if found.inside != "1":
            text = f"{found.inside} ? {text} : {self.b.memory(self.zeros).name}"
        name = self.w.name("q")
        self.w.line(f"GLOBAL const f32 *{name} = {text};")
        return name


def zeros_for(lowering: Lowering, product: Product) -> Place:
    """A zero for each matrix."""
    return lowering.constant(product.heart, 0, np.zeros(product.batch, np.float32))
