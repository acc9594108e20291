"""Operands of kernels: the values in memory that a kernel reads, and their strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.gpu.emit.index import Index, Variable, linear
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Memory, Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import Place

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

Sources = list[tuple[Instruction, Place]]


def sources(
    lowering: Lowering, roots: Iterable[Instruction], stop: Iterable[Instruction] = ()
) -> Sources:
    """The values in memory that some values are computed from; a value in memory is its own source.

    Args:
        lowering: Holds the places of values.
        roots: The values.
        stop: Values that are already available; the search does not go past them.
    """
    found: dict[Instruction, Place] = {}
    seen, stack = set(stop), list(roots)[::-1]
    while stack:
        one = stack.pop()
        if one in seen or lowering.is_folded(one):
            continue
        seen.add(one)
        place = lowering.places.get((one.id, 0))
        if place is not None:
            found[one] = place
        else:
            stack += reversed(one.inputs)
    return list(found.items())


def strides_of(lowering: Lowering, instruction: Instruction) -> tuple[int, ...]:
    """The strides of a value's elements in memory; for a computed value, an estimate.

    The estimate is the strides of the largest tensor that the value is computed from.
    """
    place = lowering.places.get((instruction.id, 0))
    if place is not None:
        return place.shape.strides
    seen = _Seen(Writer())
    lens = instruction.shape.lens
    bind_named(seen, sources(lowering, [instruction]))
    index = [Index.of(Variable(f"axis{a}", 0, n - 1)) for a, n in enumerate(lens)]
    seen.at(instruction, index)
    return tuple(step(seen.offset, f"axis{a}") for a in range(len(lens)))


def bind_named(t: Tensors, known: Sources) -> dict[str, Place]:
    """Bind values in memory to pointers that no kernel has, to ask where elements are; the places by name."""
    named = {f"x{k}": place for k, (_, place) in enumerate(known)}
    for (one, place), name in zip(known, named, strict=True):
        t.bind(one, Memory(name, place.shape, place.offset))
    return named


class _Seen(Tensors):
    """Records the offset of the element that was read from the largest tensor."""

    offset = Index()
    _most = 0

    def load(self, memory: Memory, index: Sequence[Index]) -> Scalar:
        """The element; its offset is recorded."""
        if memory.shape.elements > self._most:
            self._most = memory.shape.elements
            self.offset = linear(index, memory.shape.strides, memory.offset)
        return super().load(memory, index)


def step(index: Index, name: str) -> int:
    """The increase of an expression per unit of a variable, ignoring carries of divisions."""
    total = 0
    for v, k in index.terms:
        if v.name == name:
            total += k
        elif v.remainder_of is not None:
            total += step(v.remainder_of[0], name) % v.remainder_of[1] * k
        elif v.quotient_of is not None:
            total += step(v.quotient_of[0], name) // v.quotient_of[1] * k
    return total


def nearer(strides: Sequence[int], first: int, second: int) -> bool:
    """Whether the first axis has the smaller stride."""
    a, b = strides[first], strides[second]
    return a != 0 and (b == 0 or a <= b)
