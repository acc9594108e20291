"""Instruction order: a doubly linked list whose positions are comparable numbers."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.compiler.ir.instruction import Instruction
    from workbench.compiler.ir.operation import Operation
    from workbench.compiler.ir.program import Program

_GAP = 1 << 64
_order_of = attrgetter("order")


class InstructionList:
    """The instructions of a module in order, regardless of what they compute."""

    def __init__(self, program: Program) -> None:
        """An empty list."""
        self.program = program
        self._first: Instruction | None = None
        self._last: Instruction | None = None
        self._size = 0
        self._listed: list[Instruction] | None = None
        """What ``listed`` found, until an instruction is linked or unlinked."""
        self._kinds: tuple[Sequence[Instruction], Sequence[type[Operation]]] | None = None
        """What ``kinds`` found, and for which list."""
        self._calling: dict[Instruction, None] = {}
        """The instructions that take modules, in no particular order."""

    def __iter__(self) -> Iterator[Instruction]:
        """The instructions in order; removing the current one during iteration is safe."""
        current = self._first
        while current is not None:
            following = current._next
            yield current
            current = following

    def __reversed__(self) -> Iterator[Instruction]:
        """The instructions from the last to the first."""
        current = self._last
        while current is not None:
            previous = current._previous
            yield current
            current = previous

    @property
    def listed(self) -> Sequence[Instruction]:
        """The instructions in order, as they are now; for passes that only look, as most of them do."""
        found = self._listed
        if found is None:
            found = self._listed = []
            current = self._first
            while current is not None:
                found.append(current)
                current = current._next
        return found

    @property
    def kinds(self) -> Sequence[type[Operation]]:
        """The classes of the operations of ``listed``: most passes look for instructions of some classes."""
        listed = self.listed
        if self._kinds is None or self._kinds[0] is not listed:
            self._kinds = listed, [type(i.op) for i in listed]
        return self._kinds[1]

    def of_kinds(self, wanted: Set[type[Operation]]) -> Iterator[Instruction]:
        """The instructions of ``listed`` whose operation is of one of some classes."""
        return compress(self.listed, map(wanted.__contains__, self.kinds))

    @property
    def unused(self) -> list[Instruction]:
        """The instructions without users, from the last to the first."""
        return [i for i in reversed(self.listed) if not i._users]

    @property
    def calling(self) -> list[Instruction]:
        """The instructions that take modules as arguments, in order."""
        return sorted(self._calling, key=_order_of) if self._calling else []

    def __len__(self) -> int:
        """The number of instructions."""
        return self._size

    @property
    def last(self) -> Instruction | None:
        """The last instruction."""
        return self._last

    def _link(self, made: Instruction, before: Instruction | None) -> None:
        if before is None:
            self._append_all((made,))
            return
        previous = before._previous
        made.order = self._order_between(previous, before)
        before._previous = made
        made._previous, made._next = previous, before
        if previous is None:
            self._first = made
        else:
            previous._next = made
        self._size += 1
        self._listed = None

    def _chain(self, made: Sequence[Instruction]) -> None:
        """Link instructions that have their places, while the list is empty."""
        previous: Instruction | None = None
        for one in made:
            one._previous = previous
            if previous is None:
                self._first = one
            else:
                previous._next = one
            previous = one
        self._last, self._size, self._listed = previous, len(made), None

    def _append_all(self, made: Sequence[Instruction]) -> None:
        """As ``_link`` at the end, one after the other, for instructions that are in no list."""
        previous = self._last
        order = 0 if previous is None else previous.order + _GAP
        for one in made:
            one.order, one._previous, one._next = order, previous, None
            if previous is None:
                self._first = one
            else:
                previous._next = one
            order += _GAP
            previous = one
        self._last, self._listed = previous, None
        self._size += len(made)

    def _order_between(self, previous: Instruction | None, following: Instruction) -> int:
        if previous is None:
            return following.order - _GAP
        if following.order - previous.order < 2:
            self._renumber()
        # Nearer to the predecessor: most insertions come in sequence before one instruction.
        return previous.order + max(1, (following.order - previous.order) >> 4)

    def _renumber(self) -> None:
        for i, instruction in enumerate(self):
            instruction.order = i * _GAP
            self.program.tell_touched(instruction)

    def _unlink(self, gone: Instruction) -> None:
        self._unlink_all((gone,))
        gone._previous = gone._next = None

    def _unlink_all(self, gone: Sequence[Instruction]) -> None:
        """As ``_unlink`` one after the other, for instructions that are linked elsewhere right after."""
        for one in gone:
            before, after = one._previous, one._next
            if before is None:
                self._first = after
            else:
                before._next = after
            if after is None:
                self._last = before
            else:
                after._previous = before
        self._size -= len(gone)
        self._listed = None
