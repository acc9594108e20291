"""Rules for inferring shapes from ranges of lengths: the default ones, and MIGraphX's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from workbench.compiler.ir.shape import Shape


@dataclass(frozen=True)
class ShapeRules:
    """A program's rules for the shapes of results whose inputs have ranges of lengths."""

    keeps_fixed: bool = False
    """Whether shapes whose ranges are all of one length stay dynamic, as in MIGraphX."""
    strict: bool = False
    """Whether operations refuse what MIGraphX refuses, even if it could be computed."""
    scalars: bool = False
    """Whether values of rank 0 have the shape of MIGraphX's scalar, ``{1}, {0}``."""

    def settle(self, inputs: Sequence[Shape], result: Shape) -> Shape:
        """The shape of a result, with one-length ranges made static or kept as the rules say."""
        result = self.held(result)
        keeps = self.keeps_fixed and any(s.dims is not None for s in inputs)
        return _reopened(result) if keeps else result

    def held(self, shape: Shape) -> Shape:
        """The shape that a program stores: MIGraphX's scalar for rank 0, if these rules have scalars."""
        return Shape.scalar(shape.type) if self.scalars and shape.has_rank_0 else shape

    def plain(self, shape: Shape) -> Shape:
        """The inverse of `held`: rank 0 for MIGraphX's scalar, if these rules have scalars."""
        return Shape(shape.type) if self.is_scalar(shape) else shape

    def is_scalar(self, shape: Shape) -> bool:
        """Whether this is the shape of MIGraphX's scalar, which stands for rank 0 under these rules."""
        return self.scalars and shape == Shape.scalar(shape.type)


@cache
def shape_rules(keeps_fixed: bool, strict: bool, scalars: bool) -> ShapeRules:
    """The rules with these options: one object for equal ones."""
    return ShapeRules(keeps_fixed, strict, scalars)


PLAIN = shape_rules(False, False, False)
"""The default rules: one-length ranges become static, and everything computable is allowed."""

STRICT = shape_rules(True, True, True)
"""MIGraphX's rules."""


def _reopened(shape: Shape) -> Shape:
    """The shape with one-length ranges restored where its lens came from them."""
    if shape.subs is None:
        return Shape.dynamic(shape.type, shape.ranges) if shape.ranges else shape
    parts = [_reopened(s) for s in shape.subs]
    if shape.kind:
        return Shape.sequence_of(parts[0] if parts else None, shape.kind)
    return Shape.tuple_of(parts)
