"""Bodies of reductions, scatters and sorts: which of the known functions a region computes."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.compiler.stablehlo.context import Context

FUNCTIONS = {
    "stablehlo.add": "add", "stablehlo.multiply": "mul", "stablehlo.maximum": "max",
    "stablehlo.minimum": "min", "stablehlo.and": "and", "stablehlo.or": "or", "stablehlo.subtract": "sub",
}  # fmt: skip
"""Functions of two elements by the operation that computes them."""

_ARGUMENT_EXTREME = [
    "compare", "compare", "or", "compare", "compare", "and", "or", "select", "select", "return",
]  # fmt: skip
"""The operations by which JAX chooses the larger of two elements, or the one with the lower index."""


class Key(NamedTuple):
    """One key of a sort: the operand, and whether its largest element comes first."""

    operand: int
    is_descending: bool


def functions(block: Any, count: int) -> list[str]:
    """The function of each of ``count`` pairs of arguments; empty where it is not known.

    ``second`` replaces the first argument by the second.
    """
    arguments, returned = list(block.arguments), _returned(block)
    pairs = [(arguments[k], arguments[k + count]) for k in range(count)]
    return [_function(v, *p) for v, p in zip(returned, pairs, strict=True)]


def _function(value: Any, first: Any, second: Any) -> str:
    if value == second:
        return "second"
    owner = value.owner
    name = getattr(owner, "name", "")
    if name not in FUNCTIONS:
        return ""
    operands = list(owner.operands)
    turned = operands == [second, first] and name != "stablehlo.subtract"
    return FUNCTIONS[name] if operands == [first, second] or turned else ""


def _returned(block: Any) -> list[Any]:
    return list(list(block.operations)[-1].operation.operands)


def extreme_index(block: Any) -> str:
    """``max`` or ``min`` if a reduction of values and indices chooses an extreme; else empty."""
    ops = [o.operation for o in block.operations]
    if [o.name.partition(".")[2] for o in ops] != _ARGUMENT_EXTREME:
        return ""
    directions = [_direction(o) for o in ops if o.name == "stablehlo.compare"]
    if directions[1:] != ["NE", "EQ", "LT"] or directions[0] not in {"GT", "LT"}:
        return ""
    a, i, b, j = block.arguments
    compared = [list(o.operands) for o in ops if o.name == "stablehlo.compare"]
    if compared != [[a, b], [a, a], [a, b], [i, j]]:
        return ""
    return "max" if directions[0] == "GT" else "min"


def _direction(op: Any) -> str:
    text = str(op.attributes["comparison_direction"])
    return text.rstrip(">").split()[-1]


def sort_keys(node: Context, block: Any) -> list[Key]:
    """The keys of a sort, the most important first.

    Raises:
        ModelError: The comparison is not one of elements in lexicographic order.
    """
    found = _keys(_returned(block)[0], list(block.arguments))
    if found is None:
        raise node.fail(
            "a sort by a comparison of its own; expected elements in ascending or descending order of one "
            "or several operands"
        )
    return found


def _keys(value: Any, arguments: list[Any]) -> list[Key] | None:
    owner = value.owner
    name = getattr(owner, "name", "")
    if name == "stablehlo.compare":
        return _key(owner, arguments)
    if name != "stablehlo.or":
        return None
    for first, rest in (owner.operands, reversed(list(owner.operands))):
        both = getattr(rest.owner, "name", "") == "stablehlo.and"
        found = _keys(first, arguments) if both else None
        if found is not None:
            return _followed(found, rest.owner, arguments)
    return None


def _followed(found: list[Key], both: Any, arguments: list[Any]) -> list[Key] | None:
    """The keys of a comparison that decides, and of one that decides where the first finds equality."""
    for equal, less in (both.operands, reversed(list(both.operands))):
        is_equal = getattr(equal.owner, "name", "") == "stablehlo.compare"
        if is_equal and _direction(equal.owner) == "EQ":
            rest = _keys(less, arguments)
            pair = [_plain(v) for v in equal.owner.operands]
            own = [arguments[2 * found[0].operand], arguments[2 * found[0].operand + 1]]
            return [*found, *rest] if rest is not None and pair in (own, own[::-1]) else None
    return None


def _key(op: Any, arguments: list[Any]) -> list[Key] | None:
    direction = _direction(op)
    a, b = (_plain(v) for v in op.operands)
    if direction not in {"LT", "GT"} or a not in arguments or b not in arguments:
        return None
    first, second = arguments.index(a), arguments.index(b)
    if first // 2 != second // 2 or first == second:
        return None
    return [Key(first // 2, (direction == "GT") == (first < second))]


def _plain(value: Any) -> Any:
    """The argument that a value is, but for choices that make all zeros and all NaN equal."""
    while getattr(value.owner, "name", "") == "stablehlo.select":
        value = value.owner.operands[2]
    return value
