"""Kernels of instructions that repeat an earlier one on other memory: layers that are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.fused import FusedReduce, Group, PointwiseModule
from workbench.gpu.kernels.kernel import Launch, Root
from workbench.gpu.lowering.places import parts_of

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_REPEATED = (Dot, Group, FusedReduce, PointwiseModule)
"""Operations whose kernels depend on nothing but their form."""


class _Odd(Exception):  # noqa: N818
    """An instruction whose kernels depend on more than its form."""


@dataclass(frozen=True)
class _Form:
    """All that the kernels of an instruction depend on, and what differs between repetitions."""

    key: Hashable
    roots: tuple[Root, ...]
    """The memory of its inputs and results."""
    ids: tuple[int, ...]
    """The ids of the instruction and of those in its modules."""


class Repeats:
    """Remembers the kernels of a lowering's instructions by their form."""

    def __init__(self) -> None:
        """Start without any."""
        self._known: dict[Hashable, tuple[_Form, list[Launch]]] = {}

    def launches(
        self,
        lowering: Lowering,
        instruction: Instruction,
        make: Callable[[Instruction], list[Launch] | None],
    ) -> list[Launch] | None:
        """The kernels of an instruction: those of an earlier one like it, or new ones.

        Args:
            lowering: Has the places of the inputs and of the results.
            instruction: The instruction.
            make: Makes its kernels; None if no kernel computes it.
        """
        form = _form(lowering, instruction)
        if form is None:
            return make(instruction)
        if form.key in self._known:
            before, made = self._known[form.key]
            return [_moved(one, before, form) for one in made]
        made = make(instruction)
        if made is not None and all(_is_movable(r, form) for one in made for r in one.arguments):
            self._known[form.key] = form, made
        return made


def _is_movable(root: Root, form: _Form) -> bool:
    return root in form.roots or (root.kind == "scratch" and root.id in form.ids)


def _moved(launch: Launch, before: _Form, after: _Form) -> Launch:
    """A launch of the same kernel on the memory of another instruction."""
    roots = dict(zip(before.roots, after.roots, strict=True))
    ids = dict(zip(before.ids, after.ids, strict=True))
    moved = {r: roots[r] if r in roots else replace(r, id=ids[r.id]) for r in launch.arguments}
    arguments = tuple(moved[r] for r in launch.arguments)
    return replace(launch, arguments=arguments, writes=frozenset(moved[r] for r in launch.writes))


def _form(lowering: Lowering, instruction: Instruction) -> _Form | None:
    """The form of an instruction; None if its kernels may depend on more than that."""
    if not isinstance(instruction.op, _REPEATED):
        return None
    roots: dict[Root, int] = {}
    try:
        inputs = tuple(_input(lowering, i, roots) for i in instruction.inputs)
        modules = tuple(tuple(_module(m)) for m in instruction.modules)
    except _Odd:
        return None
    outputs = _placed(lowering, instruction, roots)
    key = (instruction.op, instruction.shape, inputs, modules, outputs)
    return _Form(key, tuple(roots), (instruction.id, *_ids(instruction)))


def _input(lowering: Lowering, one: Instruction, roots: dict[Root, int]) -> Hashable:
    """An input: its value if it is a constant of one element, else its place; and how it was made.

    Products look at an operand that is repeated along the batch.
    """
    if lowering.is_folded(one):
        return one.shape, _folded(one)
    if (one.id, 0) not in lowering.places:
        raise _Odd
    origin = type(one.op), tuple(i.shape for i in one.inputs)
    return one.shape, origin, _placed(lowering, one, roots)


def _folded(one: Instruction) -> Hashable:
    while one.literal is None:
        (one,) = one.inputs
    return one.shape.type, one.literal.numpy().tobytes()


def _placed(lowering: Lowering, one: Instruction, roots: dict[Root, int]) -> Hashable:
    """The places of a value, whose memory has a number by its first use."""
    places = [lowering.place(one, part) for part in range(len(parts_of(one.shape)))]
    return tuple((p.shape, p.offset, roots.setdefault(p.root, len(roots))) for p in places)


def _module(module: Module) -> Iterator[Hashable]:
    """The instructions of a module; those before it are named by their numbers."""
    numbers: dict[Instruction, int] = {}
    for one in module:
        if one.literal is not None and one.shape.elements != 1:
            raise _Odd  # a table, which has memory and may be part of the kernel's text
        if any(i not in numbers for i in one.inputs):
            raise _Odd  # a value of the caller
        value = None if one.literal is None else one.literal.numpy().tobytes()
        given = tuple(numbers[i] for i in one.inputs)
        modules = tuple(tuple(_module(m)) for m in one.modules)
        yield one.op, one.shape, one.parameter, value, given, modules
        numbers[one] = len(numbers)


def _ids(instruction: Instruction) -> Iterator[int]:
    for module in instruction.modules:
        for one in module:
            yield one.id
            yield from _ids(one)
