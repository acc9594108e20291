"""Elements that come from one of several places, chosen once for all that a work item handles."""

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
"""Where along an axis another place begins, by axis."""


@dataclass(frozen=True)
class Arm:
    """A place that an element may come from."""

    condition: Callable[[Indices], str]
    """The condition for an index; "1" where it surely holds, "0" where it surely does not."""
    value: At


@dataclass(frozen=True)
class Arms:
    """The places that an element may come from; of the first whose condition holds it does."""

    type: DType
    places: Sequence[Arm]
    """The last one's condition is not looked at."""
    bounds: Bounds
    """What the conditions compare the index with."""


def chosen(
    t: Tensors, i: Instruction, index: Indices, arms: Arms, then: Then | None = None
) -> Scalar:
    """The element of an instruction that comes from one of several places.

    Neighbours that a work item handles as well are computed in the same branch, so that their loads
    are one, unless a place begins between them.

    Args:
        t: The kernel's values.
        i: What is computed.
        index: The element of it.
        arms: Where it may come from.
        then: Makes the result's element of what was found; by default, it is that.
    """
    indices = neighbours(t, i.shape.lens, index, arms.bounds)
    found = _branches(t, arms, indices)
    if then is not None:
        found = [then(other, value) for other, value in zip(indices, found, strict=True)]
    for other, value in zip(indices, found, strict=True):
        t.remember(i, other, value)
    return found[indices.index(index)]


def neighbours(t: Tensors, lens: Sequence[int], index: Indices, bounds: Bounds) -> list[Indices]:
    """The indices of the elements that a work item handles with this one, all between the same bounds."""
    lanes = t.lanes
    for axis, at in enumerate(index):
        first = _first_lane(at, lens[axis], lanes)
        if first is not None and not any(b % lanes for b in bounds.get(axis, ())):
            return [(*index[:axis], first + k, *index[axis + 1 :]) for k in range(lanes)]
    return [index]


def _first_lane(at: Index, length: int, lanes: int) -> Index | None:
    """The start of neighbours along an axis; None if they do not lie along it."""
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


# Indices that are data

_WRAPPED = (
    "DEVICE {T} wrapped_{T}({T} i, {T} n) "
    "{{ if (i < 0) i += n; return i < 0 ? 0 : i < n ? i : n - 1; }}"
)
_KEPT = "DEVICE {T} kept_{T}({T} i, {T} n) {{ return i < 0 ? 0 : i < n ? i : n - 1; }}"
_KEPT_U = "DEVICE {T} kept_{T}({T} i, {T} n) {{ return i < n ? i : n - 1; }}"


def wrapped(t: Tensors, value: Scalar, length: int) -> Index:
    """An index that is data, negative ones counted from the end, others out of range kept within it."""
    return _within(t, value, length, "wrapped")


def kept(t: Tensors, value: Scalar, length: int) -> Index:
    """An index that is data, kept within 0 to ``length`` - 1."""
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
