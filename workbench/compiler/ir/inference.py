"""Inference of shapes: that of an operation on some inputs, remembered where it can recur."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.operation import Operation, attribute_names, expect_unpacked
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.module import Module


def infer(op: Operation, inputs: Sequence[Instruction], modules: Sequence[Module] = ()) -> Shape:
    """The shape of an operation on these inputs.

    Raises:
        ShapeError: The operation rejects the inputs; the message names both.
    """
    shapes = [i.shape for i in inputs]
    rules = inputs[0].module.program.shape_rules if inputs else PLAIN
    if rules is PLAIN and not modules and _are_fixed(shapes):
        kind = type(op)
        is_plain = _plain.get(kind)
        if is_plain is None:
            is_plain = _plain[kind] = not attribute_names(kind)
        try:
            return _inferred(kind, None if is_plain else op, *shapes)
        except TypeError:  # an attribute without a hash, such as a list
            return _infer(op, rules, shapes, modules)
    return _infer(op, rules, shapes, modules)


def _are_fixed(shapes: Sequence[Shape]) -> bool:
    """Whether equality tells all of each shape: of lengths that are or were ranges, it does not."""
    for shape in shapes:  # noqa: SIM110 (a loop is faster)
        if shape.dims is not None or shape.subs is not None or shape.ranges:
            return False
    return True


_plain: dict[type[Operation], bool] = {}
"""Whether operations of a class have no attributes, so that the class tells all."""


@lru_cache(maxsize=1 << 12)
def _inferred(kind: type[Operation], op: Operation | None, *shapes: Shape) -> Shape:
    """The shape of an operation on static shapes; a network applies most operations many times alike.

    Without attributes, the class stands for the operation: it is hashed and compared in no time.
    """
    return _infer(kind() if op is None else op, PLAIN, shapes, ())


def _infer(
    op: Operation, rules: ShapeRules, shapes: Sequence[Shape], modules: Sequence[Module]
) -> Shape:
    expect_unpacked(op, shapes)
    try:
        return op.shape_by(rules, shapes, modules)
    except (IndexError, ZeroDivisionError, AttributeError) as error:
        found = "; ".join(map(str, shapes)) or "no inputs"
        raise ShapeError(f"{op}: cannot take inputs of these shapes: {found}") from error
