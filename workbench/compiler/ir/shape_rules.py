"""The rules by which shapes follow from ranges of lengths: the usual ones, and MIGraphX's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.compiler.ir.shape import Shape


@dataclass(frozen=True)
class ShapeRules:
    """The way a program infers shapes of results whose inputs have ranges of lengths."""

    keeps_fixed: bool = False
    """Whether shapes whose ranges are all single lengths stay dynamic, as they do in MIGraphX."""
    strict: bool = False
    """Whether operations refuse what MIGraphX refuses, though it could be computed."""

    def settle(self, inputs: Sequence[Shape], result: Shape) -> Shape:
        """The result of an operation on these inputs: static where it settled, unless ranges are kept."""
        keeps = self.keeps_fixed and any(s.dims is not None for s in inputs)
        return _reopened(result) if keeps else result


PLAIN = ShapeRules()
"""The usual rules: ranges of single lengths settle, and what can be computed is allowed."""

STRICT = ShapeRules(keeps_fixed=True, strict=True)
"""MIGraphX's rules."""


def _reopened(shape: Shape) -> Shape:
    """The shape with ranges of single lengths in place of the lens that came from such."""
    if shape.subs is None:
        return Shape.dynamic(shape.type, shape.ranges) if shape.ranges else shape
    parts = [_reopened(s) for s in shape.subs]
    if shape.kind:
        return Shape.sequence_of(parts[0] if parts else None, shape.kind)
    return Shape.tuple_of(parts)
