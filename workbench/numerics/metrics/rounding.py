"""The error that rounding alone may cause in one instruction: by the types it computes in, and its sums."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, sqrt

from workbench.compiler.arrays.metrics import type_tolerance
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.shape import Shape
from workbench.compiler.report.result import work_of

_ROUNDINGS = 8
"""Unit roundoffs of the narrowest type that a value may be off by: 64 independent roundings in a row."""
_TERMS = 4
"""Unit roundoffs of the accumulator for the root of a sum's length: errors of terms are independent."""


def rounding_bound(instruction: Instruction) -> float:
    """Relative RMS that rounding may cause in an instruction whose inputs are exact.

    ``8 u + 4 √n a`` for the unit roundoff u of the narrowest float that it reads or writes, sums of n terms,
    and the unit roundoff a of the accumulator: that of float, or of double if nothing narrower takes part.
    Independent rounding errors grow with the root of their number: Higham, *Accuracy and Stability of
    Numerical Algorithms*, section 2.8. 0 if no floats take part.
    """
    types = set(float_types(instruction))
    if not types:
        return 0.0
    narrow = max(map(unit_roundoff, types))
    wide = min(narrow, unit_roundoff(DType.FLOAT))
    return _ROUNDINGS * narrow + _TERMS * sqrt(terms(instruction)) * wide


def precision_bound(instruction: Instruction) -> float:
    """Relative RMS from which the types of an instruction count as too narrow for its values.

    The tolerance of the narrowest type (docs/numbers.md), also of integers that floats are rounded to.
    """
    types = set(float_types(instruction))
    parts = [s.type for s in _shapes(instruction)]
    integers = {t for t in parts if t.is_integral and t is not DType.BOOL and t.size == 1}
    return max(map(type_tolerance, types | (integers if types else set())), default=0.0)


def unit_roundoff(type: DType) -> float:
    """The largest relative error of rounding to a float type: half its epsilon."""
    return type.format.epsilon / 2


def is_narrow(instruction: Instruction) -> bool:
    """Whether an instruction computes in less than float: in a narrower one, or in 8 bits."""
    types = set(float_types(instruction))
    quantized = any(
        s.type.is_integral and s.type.size == 1 and s.type is not DType.BOOL
        for s in _shapes(instruction)
    )
    return any(t.size < DType.FLOAT.size for t in types) or (quantized and bool(types))


def float_types(instruction: Instruction) -> Iterator[DType]:
    """The float types that an instruction reads, writes or computes in."""
    for shape in _shapes(instruction):
        if shape.type.is_float:
            yield shape.type


def terms(instruction: Instruction) -> int:
    """The length of the longest sum in an instruction, at least 1.

    Read from its arithmetic for each element of the result, and from the axes of what is not elementwise.
    """
    found = max([1, *map(terms, _parts(instruction))])
    if instruction.op.family is Family.POINTWISE or instruction.modules:
        return found
    shapes = list(_shapes(instruction))
    if all(s.is_tensor and not s.is_dynamic for s in shapes):
        elements = max(prod(shapes[0].lens), 1)
        found = max(found, work_of(instruction).flops // elements)
    return max([found, *(n for s in shapes for n in _most(s))])


def _most(shape: Shape) -> tuple[int, ...]:
    """The lens; the largest ones of ranges."""
    if not shape.is_tensor:
        return ()
    return shape.lens if shape.dims is None else tuple(d.max for d in shape.dims)


def _parts(instruction: Instruction) -> list[Instruction]:
    return [i for m in instruction.modules for i in m if not i.name.startswith("@")]


def _shapes(instruction: Instruction) -> Iterator[Shape]:
    for shape in (instruction.shape, *(i.shape for i in instruction.inputs)):
        yield from shape.subs or (shape,)
    for part in _parts(instruction):
        yield from _shapes(part)
