"""Elements that come from one of several sources, with one branch for all elements of a work item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.functions import limit_text
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import Scalar, c_type
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import At, Indices, Tensors

Then: TypeAlias = "Callable[[Indices, Scalar], Scalar]"
Bounds: TypeAlias = Mapping[int, Sequence[int]]
"""The positions along each axis at which the source changes."""


@dataclass(frozen=True)
class Arm:
    """A possible source of an element."""

    condition: Callable[[Indices], str]
    """The condition for an index; "1" if it always holds, "0" if it never does."""
    value: At


@dataclass(frozen=True)
class Arms:
    """The possible sources of an element, tried in order: the first one whose condition holds is taken."""

    type: DType
    places: Sequence[Arm]
    """The last one is taken if no other is; its condition is not evaluated."""
    bounds: Bounds
    """The bounds that the conditions compare the index with."""


def chosen(
    t: Tensors, i: Instruction, index: Indices, arms: Arms, then: Then | None = None
) -> Scalar:
    """The element of an instruction that comes from one of several sources.

    The work item's other elements are computed in the same branch, so that they share a vector load,
    unless the source changes between them.

    Args:
        t: The kernel's values.
        i: The instruction.
        index: The index of the element.
        arms: The possible sources.
        then: Makes the result's element from the source's; by default they are equal.
    """
    indices = neighbours(t, i.shape.lens, index, arms.bounds)
    found = _branches(t, arms, indices)
    if then is not None:
        found = [then(other, value) for other, value in zip(indices, found, strict=True)]
    for other, value in zip(indices, found, strict=True):
        t.remember(i, other, value)
    return found[indices.index(index)]


def neighbours(t: Tensors, lens: Sequence[int], index: Indices, bounds: Bounds) -> list[Indices]:
    """The indices of the work item's elements, this one included, if no bound lies between them."""
    lanes = t.lanes
    for axis, at in enumerate(index):
        first = _first_lane(at, lens[axis], lanes)
        if first is not None and not any(b % lanes for b in bounds.get(axis, ())):
            return [(*index[:axis], first + k, *index[axis + 1 :]) for k in range(lanes)]
    return [index]


def _first_lane(at: Index, length: int, lanes: int) -> Index | None:
    """The index of a work item's first element along an axis; None if they do not lie along this one."""
    if lanes == 1 or at.divisor % lanes or (at.is_constant and length != lanes):
        return None
    first = at - at.constant % lanes
    low, high = first.range
    return first if low >= 0 and high + lanes <= length else None


def _branches(t: Tensors, arms: Arms, indices: Sequence[Indices]) -> list[Scalar]:
    w, type = t.w, arms.type
    conditions = [arm.condition(indices[0]) for arm in arms.places[:-1]] + ["1"]
    some = zip(conditions[: conditions.index("1") + 1], arms.places, strict=False)
    left = [(c, arm) for c, arm in some if c != "0"]
    if len(left) == 1:
        return [left[0][1].value(index) for index in indices]
    names = [w.name("c") for _ in indices]
    w.line(f"{c_type(type)} {', '.join(names)};")
    for number, (condition, arm) in enumerate(left):
        head = "else" if number == len(left) - 1 else f"{'else ' * (number > 0)}if ({condition})"
        with w.block(head):
            for name, index in zip(names, indices, strict=True):
                w.line(f"{name} = {arm.value(index).text};")
    return [Scalar(name, type) for name in names]


def below(at: Index, bound: int) -> str:
    """The condition that an index is less than a bound."""
    low, high = at.range
    return "1" if high < bound else "0" if low >= bound else f"{at.text()} < {bound}"


def axis_of(i: Instruction) -> int:
    """The attribute ``axis``, counted from the front of the first input's axes."""
    axis: int = cast("Any", i.op).axis
    return axis % i.inputs[0].shape.ndim


# Indices computed from data

_WRAPPED = (
    "DEVICE {T} wrapped_{T}({T} i, {T} n) "
    "{{ if (i < 0) i += n; return i < 0 ? 0 : i < n ? i : n - 1; }}"
)
_KEPT = "DEVICE {T} kept_{T}({T} i, {T} n) {{ return i < 0 ? 0 : i < n ? i : n - 1; }}"
_KEPT_U = "DEVICE {T} kept_{T}({T} i, {T} n) {{ return i < n ? i : n - 1; }}"


def wrapped(t: Tensors, value: Scalar, length: int) -> Index:
    """An index from data: negative ones count from the end, and all are clamped to the range."""
    return _within(t, value, length, "wrapped")


def kept(t: Tensors, value: Scalar, length: int) -> Index:
    """An index from data, clamped to 0 … ``length`` - 1."""
    return _within(t, value, length, "kept")


def _within(t: Tensors, value: Scalar, length: int, function: str) -> Index:
    if length <= 1:
        return Index()
    text, kind = integer_text(t, value, length)
    function = "kept" if kind.startswith("u") else function
    body = {"wrapped": _WRAPPED, "kept": _KEPT_U if kind.startswith("u") else _KEPT}[function]
    t.w.need(body.format(T=kind))
    call = f"{function}_{kind}({text}, {limit_text(kind, length)})"
    return Index.of(Variable(t.w.integer(f"({t.w.integer_type}){call}"), 0, length - 1))


def integer_text(t: Tensors, value: Scalar, length: int) -> tuple[str, str]:
    """A value as an integer that can be compared with a length, and its C type."""
    if value.type.is_float:
        value = converted(t.w, value, DType.INT64)
    kind = c_type(value.type)
    wide = kind if kind in ("i32", "u32", "i64", "u64") else "i32"
    wide = wide if length < 1 << 31 or wide == "u64" else "i64"
    return (value.text if wide == kind else f"({wide}){value.text}"), wide
