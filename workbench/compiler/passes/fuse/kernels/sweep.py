"""Rules applied in sweeps: at each instruction in module order, and at most once per sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import open_modules
from workbench.compiler.passes.fuse.kernels.pairs import is_view
from workbench.compiler.rewrite import Rule, candidates, first_applied


def sweep(program: Program, rules: Sequence[Rule]) -> int:
    """Apply rules once at each instruction that is there, in module order; the number of edits.

    For rules that make nothing that they apply to, so nobody has to listen to what they change.
    """
    among, edits = candidates(tuple(rules)), 0
    if not any(map(among.rooted, program.operations)):
        return 0
    for module in open_modules(program):
        for root in [i for i in module if among.rooted(type(i.op))]:
            if root.module is module and program.find(root.id) is root:
                edits += first_applied(among.at(root), root) is not None
    return edits


class Sweeps(Listener):
    """Sweeps through a program; each visits only what has changed since the previous one.

    The order of fusion decides the order of inputs and the names of bodies. So fusion goes through a module
    from beginning to end, repeatedly, rather than by a worklist. It is a context manager because it also
    listens to changes between sweeps.
    """

    def __init__(self, program: Program, rules: Sequence[Rule]) -> None:
        """Queue every instruction of every module that is not a fused body."""
        self.program = program
        self._candidates = candidates(tuple(rules))
        self._modules = open_modules(program)
        self._pending = self._all()
        self._holds_all = True
        """Whether what is pending is all that there is."""
        self._touched: dict[Instruction, None] = {}
        self._seen_all_at = -1

    def once(self) -> int:
        """One sweep through the instructions that may have become a match; the number of edits."""
        if not self._candidates.rules:
            return 0
        self._pending.update(dict.fromkeys(self._around()))
        pending, self._pending = self._pending, {}
        edits = sum(self._through(m, pending) for m in self._modules)
        if self._holds_all and not edits:
            self._seen_all_at = self.program.version
        self._holds_all = False
        return edits

    def all(self) -> int:
        """One sweep through all instructions, unless nothing has changed since the last full sweep."""
        if not self._candidates.rules or self._seen_all_at == self.program.version:
            return 0
        self._pending, self._holds_all = self._all(), True
        return self.once()

    def _all(self) -> dict[Instruction, None]:
        roots = set(filter(self._candidates.rooted, self.program.operations))
        if not roots:
            return {}
        return {i: None for m in self._modules for i in m.of_kinds(roots)}

    def _through(self, module: Module, pending: dict[Instruction, None]) -> int:
        waiting = sorted([(one.order, one.id) for one in pending if one.module is module])
        waiting.reverse()  # the next one is the last
        heap: list[tuple[int, int]] = []
        edits, last, find, at = 0, (0, -1), self.program.find, self._candidates.at
        while waiting or heap:
            is_queued = heap and not (waiting and waiting[-1] < heap[0])
            order, id = place = heappop(heap) if is_queued else waiting.pop()
            root = find(id)
            if root is None or root.module is not module or place == last:
                continue
            if root.order != order:  # it was moved
                heappush(heap, (root.order, id))
                continue
            last = place
            attempts = at(root)
            if attempts and (answer := first_applied(attempts, root)) is not None:
                edits += 1
                self._touched[answer] = None
                self._sort_touched(module, heap, max(order, answer.order))
        return edits

    def _sort_touched(self, module: Module, heap: list[tuple[int, int]], place: int) -> None:
        """Queue touched instructions: those ahead for this sweep, those behind for the next."""
        for one in self._around():
            if one.module is module and one.order > place:
                heappush(heap, (one.order, one.id))
            else:
                self._pending[one] = None

    def _around(self) -> list[Instruction]:
        """The touched instructions with their inputs and users, for which a rule may now match."""
        touched, self._touched = self._touched, {}
        found: dict[Instruction, None] = {}
        for one in touched:
            if not one.module.bypass and self.program.find(one.id) is one:
                found.update(dict.fromkeys((one, *one.inputs)))
                stack = [one]
                while stack:
                    for user in stack.pop().users:
                        if user not in found:
                            found[user] = None
                            if is_view(user):
                                stack.append(user)
        rooted = self._candidates.rooted
        return [i for i in found if rooted(type(i.op)) and not i.module.bypass]

    # Listening

    def __enter__(self) -> Sweeps:
        """Start listening, if there is a rule to listen for."""
        if self._candidates.rules:
            self.program.listeners.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        if self in self.program.listeners:
            self.program.listeners.remove(self)

    def touched(self, instruction: Instruction) -> None:
        """Queue the instruction for the next sweep."""
        self._touched[instruction] = None

    def touched_by_edit(self, instructions: Mapping[Instruction, None]) -> None:
        """Queue the instructions for the next sweep."""
        self._touched.update(instructions)
