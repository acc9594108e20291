"""Dependences between streams: waits, and work that may run concurrently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from workbench.compiler.ir.module import Instruction


class Streams:
    """An order of instructions, the streams of those that do work, and the waits that follow from both.

    A stream runs its work in the order of the list. Across streams, work waits only for its producers.

    Args:
        ordered: The instructions in order.
        needs: The operands of each instruction.
        found: The stream of each instruction that does work; the others are views, constants and buffers.
    """

    def __init__(
        self,
        ordered: Sequence[Instruction],
        needs: Mapping[Instruction, Sequence[Instruction]],
        found: Mapping[Instruction, int],
    ) -> None:
        """Find the work that each instruction depends on."""
        self.ordered = ordered
        self.found = found
        self.producers = _producers(ordered, needs, found)
        self.marked = -1
        """The stream that the last mark set."""
        self.events: dict[Instruction, int] = {}
        """The recorded events, by the instructions that they follow."""
        self._waited: dict[int, int] = {}
        self._known: dict[Instruction, int] = {}

    def awaited(self, instruction: Instruction) -> list[Instruction]:
        """The last work on each other stream that an instruction depends on, by stream."""
        own, latest = self.found[instruction], dict[int, Instruction]()
        for one in self.producers[instruction]:  # in the order of the list
            if self.found[one] != own:
                latest[self.found[one]] = one
        return [latest[s] for s in sorted(latest)]

    def waits(self, instruction: Instruction) -> list[Instruction]:
        """The awaited work that the instruction's stream has not waited for yet, directly or indirectly."""
        stream = self.found[instruction]
        waited = self._waited.get(stream, 0)
        found: list[Instruction] = []
        for one in self.awaited(instruction):
            event = self.events.setdefault(one, len(self.events))
            if not waited >> event & 1:
                found.append(one)
            waited |= 1 << event | self._known[one]
        self._waited[stream] = self._known[instruction] = waited
        return found

    def conflicts(self) -> dict[Instruction, list[Instruction]]:
        """For each instruction that does work, earlier work whose memory it must not reuse.

        That is work that may run concurrently, and the values that such work reads.
        """
        numbers = {i: k for k, i in enumerate(self.found_in_order())}
        work = list(numbers)
        before = self._before(work, numbers)
        read = [_bits(numbers[p] for p in self.producers[i]) for i in work]
        found: dict[Instruction, list[Instruction]] = {}
        for k, instruction in enumerate(work):
            beside = ((1 << k) - 1) & ~before[k]
            kept = beside
            for u in _ones(beside):
                kept |= read[u]
            if kept:
                found[instruction] = [work[n] for n in _ones(kept & ((1 << k) - 1))]
        return found

    def found_in_order(self) -> list[Instruction]:
        """The instructions that do work, in order."""
        return [i for i in self.ordered if i in self.found]

    def _before(self, work: Sequence[Instruction], numbers: Mapping[Instruction, int]) -> list[int]:
        """For each item of work, as bits, the work that is done before it begins."""
        before: list[int] = []
        latest: dict[int, int] = {}
        for k, instruction in enumerate(work):
            stream = self.found[instruction]
            direct = [numbers[p] for p in self.producers[instruction]]
            if stream in latest:
                direct.append(latest[stream])
            bits = 0
            for n in direct:
                bits |= before[n] | 1 << n
            before.append(bits)
            latest[stream] = k
        return before


def _producers(
    ordered: Sequence[Instruction],
    needs: Mapping[Instruction, Sequence[Instruction]],
    found: Mapping[Instruction, int],
) -> dict[Instruction, tuple[Instruction, ...]]:
    """The work that each instruction depends on, directly or through views and constants; in order."""
    places = {i: k for k, i in enumerate(ordered)}
    producers: dict[Instruction, tuple[Instruction, ...]] = {}
    for instruction in ordered:
        one = {p: None for i in needs[instruction] for p in ((i,) if i in found else producers[i])}
        producers[instruction] = tuple(sorted(one, key=lambda p: places[p]))
    return producers


def _bits(numbers: Iterator[int]) -> int:
    found = 0
    for n in numbers:
        found |= 1 << n
    return found


def _ones(bits: int) -> Iterator[int]:
    """The positions of the set bits in a number."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
