"""The instructions inside a fused kernel, evaluated one by one in the kernel's precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.report.result import kernel_sources
from workbench.numerics.capture.evaluator import Evaluator
from workbench.numerics.compare.expected import is_computed
from workbench.numerics.compare.measure import arrays_of, distance
from workbench.numerics.metrics.metrics import Metrics
from workbench.numerics.metrics.rounding import precision_bound, rounding_bound

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Range:
    """The values of an operand: the finite ones' least and largest, and counts of the others."""

    low: float
    high: float
    nan: int
    inf: int

    @classmethod
    def of(cls, value: Value) -> Range:
        """The range of a value."""
        flat = np.concatenate([np.asarray(x, np.float64).ravel() for x in arrays_of(value)])
        finite = flat[np.isfinite(flat)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        return cls(low, high, int(np.isnan(flat).sum()), int(np.isinf(flat).sum()))

    def __str__(self) -> str:
        """``[-1, 65504] and 3 infinities``."""
        others = [f"{n} {word}" for n, word in ((self.nan, "NaN"), (self.inf, "infinite")) if n]
        return " and ".join([f"[{self.low:.4g}, {self.high:.4g}]", *others])


@dataclass(frozen=True)
class Part:
    """An instruction inside a fused one, on the operands that it has there."""

    id: int
    name: str
    """The operation."""
    sources: tuple[str, ...]
    local: Metrics
    """The error in the kernel's precision, against float64 on the same operands."""
    inherited: Metrics
    """The error against float64 throughout the kernel."""
    bound: float
    """The relative RMS that its types account for."""
    operands: tuple[Range, ...]
    reason: str = ""
    """Why the value is not finite, if it is the first that is not."""

    @property
    def is_beyond(self) -> bool:
        """Whether the instruction's own error is larger than rounding in its types explains."""
        return self.local.exceeds(self.bound)

    @property
    def strays(self) -> bool:
        """Whether its error is that large when errors of earlier instructions in the kernel are included."""
        return self.inherited.exceeds(self.bound)


@dataclass
class _Watch:
    """The values of the inner instructions of one evaluation; those of blocks are joined."""

    values: dict[int, list[Value]] = field(default_factory=dict[int, "list[Value]"])
    operands: dict[int, list[Sequence[Value]]] = field(
        default_factory=dict[int, "list[Sequence[Value]]"]
    )
    at: dict[int, Instruction] = field(default_factory=dict[int, Instruction])

    def __call__(self, instruction: Instruction, value: Value, inputs: Sequence[Value]) -> None:
        if is_computed(instruction):
            self.at[instruction.id] = instruction
            self.values.setdefault(instruction.id, []).append(_copied(value))
            self.operands.setdefault(instruction.id, []).append([_copied(x) for x in inputs])


def parts_of(
    instruction: Instruction,
    known: Mapping[int, Value],
    typed: Evaluator,
    exact: Evaluator,
) -> list[Part]:
    """The instructions inside a fused one, in the order in which they run; of any other, itself.

    Args:
        instruction: The instruction.
        known: The values that it reads, by id, in its own types.
        typed: Evaluates in the program's types.
        exact: Evaluates in float64.
    """
    narrow, wide = _Watch(), _Watch()
    for watch, evaluator in ((narrow, typed), (wide, exact)):
        given = {k: evaluator.widened(v) for k, v in known.items()}
        value = evaluator.value(instruction, given, watch)
        if not instruction.modules:
            watch(instruction, value, [given[i.id] for i in instruction.inputs])
    return [_part(i, narrow, wide, exact) for i in narrow.at.values()]


def _part(inner: Instruction, narrow: _Watch, wide: _Watch, exact: Evaluator) -> Part:
    values, operands = narrow.values[inner.id], narrow.operands[inner.id]
    again = [_again(inner, v, xs, exact) for v, xs in zip(values, operands, strict=True)]
    local = distance(tuple(values), tuple(again))
    whole = distance(tuple(values), tuple(wide.values.get(inner.id, values)))
    ranges = tuple(Range.of(tuple(xs)) for xs in zip(*operands, strict=True))
    lost = any(map(_underflows, operands, wide.operands.get(inner.id, ())))
    reason = "" if local.is_sane and whole.is_sane else why_not_finite(inner, ranges, lost)
    bound = max(rounding_bound(inner), precision_bound(inner))
    return Part(inner.id, inner.name, kernel_sources(inner), local, whole, bound, ranges, reason)


def _again(inner: Instruction, value: Value, operands: Sequence[Value], exact: Evaluator) -> Value:
    """The value in float64 on the same operands; of a nested body, the value itself."""
    if inner.modules:
        return value
    known = {i.id: exact.widened(x) for i, x in zip(inner.inputs, operands, strict=True)}
    return exact.value(inner, known)


def _underflows(operands: Sequence[Value], wide: Sequence[Value]) -> bool:
    """Whether an operand is 0 where it is not in float64."""
    pairs = zip(operands, wide, strict=True)
    arrays = [(a, b) for x, y in pairs for a, b in zip(arrays_of(x), arrays_of(y), strict=True)]
    return any(a.shape == b.shape and bool(((a == 0) & (b != 0)).any()) for a, b in arrays)


def why_not_finite(instruction: Instruction, operands: Sequence[Range], underflows: bool) -> str:
    """A sentence on why an instruction made a NaN or an infinity where float64 has none.

    Args:
        instruction: The instruction.
        operands: The ranges of its operands.
        underflows: Whether an operand is 0 that is not in float64.
    """
    shape = instruction.shape.subs[0] if instruction.shape.subs else instruction.shape
    shown = ", ".join(map(str, operands)) or "none"
    if any(o.nan or o.inf for o in operands):
        return f"its operands are not finite: {shown}"
    if underflows:
        return f"an operand underflows to 0: operands {shown}"
    if not shape.type.is_float:
        return f"its operands are {shown}"
    name, largest = shape.type.type_name.removesuffix("_type"), shape.type.format.limits[1]
    return f"it overflows {name}, whose largest value is {largest:.5g}: operands {shown}"


def table_of(parts: Sequence[Part]) -> DataFrame:
    """A row for each instruction inside: its own error, that with all before it, operands, and why."""
    import pandas as pd  # noqa: PLC0415

    columns = [
        "id",
        "name",
        "local relative rms",
        "relative rms",
        "bound",
        "operands",
        "reason",
        "sources",
    ]
    rows = [
        (
            p.id, p.name, p.local.error, p.inherited.error, p.bound, ", ".join(map(str, p.operands)),
            p.reason, ", ".join(p.sources),
        )
        for p in parts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns).set_index("id")


def _copied(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return np.array(value, copy=True)
