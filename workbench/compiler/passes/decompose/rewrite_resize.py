"""Resizing rewritten as a gather at constant indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ops.resize import Resize
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Rewriter, drive, op, rule, var

_MOST_AXES = 63


def _scales(root: Instruction) -> list[float]:
    """The scale of each axis."""
    resize = root.op
    assert isinstance(resize, Resize)
    pairs = zip(root.shape.lens, root.inputs[0].shape.lens, strict=True)
    return list(resize.scales) or [m / n if n else 1.0 for m, n in pairs]


def is_affine(root: Instruction) -> bool:
    """Whether every axis shrinks by an integer factor or, for nearest, may also grow by one."""
    resize, lens = root.op, root.inputs[0].shape.lens
    assert isinstance(resize, Resize)
    pairs = list(zip(lens, root.shape.lens, strict=True))
    if not all(min(p) and max(p) % min(p) == 0 for p in pairs):
        return False
    return resize.mode == "nearest" or (resize.mode == "linear" and all(n >= m for n, m in pairs))


@rule(
    op("resize", var("x")),
    except_at={Edge.NAN, Edge.INFINITE},  # a weight of 0 makes NaN of such a neighbour
)
def find_resize(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """resize(x) → gather(x, places), or means of gathered elements weighed by their distance"""
    resize, scales = b.root.op, _scales(b.root)
    assert isinstance(resize, Resize)
    if x.shape.ndim > _MOST_AXES:
        return Decline(f"{x.shape.ndim} axes; at most {_MOST_AXES}")
    if all(s == 1 for s in scales):
        return x
    if not b.root.shape.elements:
        return Decline("it has no elements")
    if x.shape.elements > np.iinfo(np.int32).max:
        return Decline(f"{x.shape.elements} elements; 32-bit indices cannot address them")
    try:
        if resize.mode == "nearest":
            return _nearest(b, x, resize)
        where = {
            i: resize.positions(n, b.root.shape.lens[i], scales[i])
            for i, n in enumerate(x.shape.lens)
            if scales[i] != 1
        }
    except EvaluationError as error:
        return Decline(str(error))
    if resize.mode != "linear":
        return Decline(f"mode {resize.mode}; expected nearest or linear")
    if not x.shape.type.is_float:
        return Decline(
            f"linear weights are fractions, which {x.shape.type.type_name} cannot represent"
        )
    return _linear(b, x, where)


def _nearest(b: Rewriter, x: Instruction, resize: Resize) -> Instruction:
    """A gather at the indices that resizing the element numbers gives."""
    places = resize.compute(np.arange(x.shape.elements, dtype=np.int32).reshape(x.shape.lens))
    flat = b.reshape(x, (x.shape.elements,))
    return b("gather", flat, b.literal(places), axis=0)


def _linear(b: Rewriter, x: Instruction, where: dict[int, Array]) -> Instruction:
    """Gather both neighbours along every resized axis, then interpolate axis by axis."""
    lens, kind = b.root.shape.lens, x.shape.type.numpy
    flat = b.reshape(x, (x.shape.elements,))
    data = b("gather", flat, b.literal(_neighbours(x.shape.lens, lens, where)), axis=0)
    first = lens[0] << len(where)
    for axis, at in reversed(where.items()):
        first //= 2
        beyond = (at - np.floor(at)).reshape([-1 if i == axis else 1 for i in range(len(lens))])
        block = np.ascontiguousarray(np.broadcast_to(beyond, lens), kind)
        distance = b.literal(np.concatenate([block] * (first // lens[0])))
        low = b("slice", data, axes=(0,), starts=(0,), ends=(first,))
        high = b("slice", data, axes=(0,), starts=(first,), ends=(2 * first,))
        data = b("add", b("mul", b("sub", high, low), distance), low)
    return data


def _neighbours(lens: Sequence[int], out: Sequence[int], where: dict[int, Array]) -> Array:
    """Indices of neighbours: a block along the first axis for each choice of lower or upper per axis."""
    blocks: list[Array] = []
    for choice in range(1 << len(where)):
        index = [np.arange(m) for m in out]
        for i, (axis, at) in enumerate(where.items()):
            index[axis] = (np.ceil if choice >> i & 1 else np.floor)(at).astype(np.int64)
        grid = np.broadcast_arrays(*np.ix_(*index))
        blocks.append(np.ravel_multi_index(grid, tuple(lens)))
    return np.concatenate(blocks).astype(np.int32)


@register
class RewriteResize(RewritePass):
    """Rewrite resizing as a gather, with weighted means for linear interpolation.

    Attributes:
        affine_only: Rewrite only where lengths divide, and linear resizing lengthens no axis.
    """

    name = "rewrite_resize"
    rules = (find_resize,)
    affine_only: bool = False

    def apply(self, program: Program) -> None:
        """Apply the rule, to affine resizes only if the option says so."""
        rules = self.active
        if self.affine_only:
            rules = tuple(replace(r, pattern=r.pattern.when(_is_affine_call)) for r in rules)
        drive(program, rules)


def _is_affine_call(root: Instruction) -> bool:
    return root.inputs[0].shape.dims is None and is_affine(root)
