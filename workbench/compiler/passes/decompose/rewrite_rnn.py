"""Recurrent networks unrolled: matrix products and gates for each step, and the states concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.recurrent import Lstm, Recurrent, RnnLastCellOutput, RnnLastHsOutput
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.decompose.recurrent_cells import CELLS, Cell, States
from workbench.compiler.rewrite import Decline, Rewriter, op, rule
from workbench.compiler.rewrite.bodies import prune_all
from workbench.compiler.run.constants import evaluate_constant, is_large

_SEQUENCE, _BIAS, _LENS, _HIDDEN, _PEEPHOLE = 0, 3, 4, 5, 7

_LAST = (RnnLastHsOutput, RnnLastCellOutput)
"""Operations that pick the last hidden and the last cell state."""
MAX_STEPS = 1 << 14
"""Steps that are unrolled; each takes a dozen instructions or more."""


@rule(op("rnn|gru|lstm"))
def find_recurrent(b: Rewriter) -> Instruction | Decline:
    """rnn(x, w, r, …) → concat of the hidden states after each step"""
    network = b.root.op
    assert isinstance(network, Recurrent)
    if network.clip:
        return Decline(f"clip={network.clip:g} bounds the inputs of its activations")
    if isinstance(network, Lstm) and network.input_forget:
        return Decline("its input and forget gates are coupled (input_forget)")
    lens = _operand(b.root, _LENS)
    if lens is not None and not lens.shape.type.is_integral:
        return Decline(f"the lens of its sequences, #{lens.id}, are not integers")
    if lens is not None and is_large(lens):
        return Decline(f"the lens of its sequences, #{lens.id}, are too large to be computed here")
    steps = _steps(b.root, lens)
    if steps == 0:
        return Decline("its sequences have no steps")
    if (count := steps or _most(b.root)) > MAX_STEPS:
        return Decline(f"its sequences have {count} steps, more than {MAX_STEPS} are not unrolled")
    return _Unrolled(b, network, lens if steps is None else None, steps or _most(b.root)).build()


def _operand(root: Instruction, index: int) -> Instruction | None:
    """An operand, or None if it is missing or empty."""
    found = root.inputs[index] if index < len(root.inputs) else None
    return None if found is None or not found.shape.elements else found


def _most(root: Instruction) -> int:
    return root.shape.lens[0]


def _steps(root: Instruction, lens: Instruction | None) -> int | None:
    """The number of steps of all sequences; None if they differ or are known only at run time."""
    if lens is None:
        return _most(root)
    if not lens.constant:
        return None
    found = evaluate_constant(lens)
    within = bool(np.all((found >= 0) & (found <= _most(root))))
    return int(found.flat[0]) if within and np.all(found == found.flat[0]) else None


@dataclass
class _Track:
    """The states of one direction, ``[S, 1, B, H]``: after all steps but the last, and after that one."""

    backwards: bool
    before: States = ()
    last: States = ()


@dataclass
class _Unrolled:
    """One network being unrolled; ``lens`` is given if sequences differ in length."""

    b: Rewriter
    network: Recurrent
    lens: Instruction | None
    steps: int

    def build(self) -> Instruction:
        """Build the replacement of the network; users of its last states read them from it."""
        root = self.b.root
        users = [[u for u in root.users if isinstance(u.op, last)] for last in _LAST]
        tracks = self._tracks(bool(users[1]))
        if self.lens is None:
            last = self._last(tracks, [i for i, found in enumerate(users) if found])
            states = [self._padded(self._whole(tracks, has_cells=False)[0])]
        else:
            last = {}
            states = self._shifted(self._whole(tracks, bool(users[1])))
        for i, found in enumerate(users):
            for user in found:
                self._give(user, last.get(i) or states[i], picked=i in last)
        if root.module.program.find(root.id) is None:
            prune_all(states)
        return states[0]

    def _give(self, user: Instruction, value: Instruction, picked: bool) -> None:
        """Replace ``user`` by the last states: ``value``, or picked from the states after all steps."""
        if not picked:
            assert self.lens is not None
            name, direction = "rnn_var_sl_last_output", self.network.direction
            value = user.module.insert(user, name, value, self.lens, direction=direction)
        user.module.replace(user, value)

    # Steps

    def _tracks(self, wants_cells: bool) -> list[_Track]:
        """Every direction, unrolled."""
        b, network, root = self.b, self.network, self.b.root
        w, r = (self._split(root.inputs[i]) for i in (1, 2))
        bias = self._optional(_BIAS)
        initial = [self._initial(_HIDDEN + i) for i in range(network.states)]
        peephole = self._optional(_PEEPHOLE)
        sequence, found = root.inputs[_SEQUENCE], list[_Track]()
        for i in range(network.direction.directions):
            track = _Track(network.direction.reverses(i))
            if track.backwards and self.lens is not None:
                sequence = b("rnn_var_sl_shift_sequence", sequence, self.lens)
            states = [s[i] for s in initial]
            cell = CELLS[type(network)](b, network, i, w[i], r[i], bias[i], peephole[i], states)
            self._run(track, cell, sequence, wants_cells)
            found.append(track)
        return found

    def _run(self, track: _Track, cell: Cell, sequence: Instruction, wants_cells: bool) -> None:
        """Unroll all steps; cell states are kept only if they are used."""
        b = self.b
        for i in range(self.steps):
            t = self.steps - 1 - i if track.backwards else i
            row = b("contiguous", b("slice", sequence, axes=(0,), starts=(t,), ends=(t + 1,)))
            states = cell.step(b("squeeze", row, axes=(0,)))
            is_last = i == self.steps - 1
            keep = 2 if wants_cells and (is_last or self.lens is not None) else 1
            track.last = tuple(b("unsqueeze", s, axes=(0, 1)) for s in states[:keep])
            if i == 0 and not is_last:
                track.before = track.last
            elif not is_last:
                pairs = zip(track.before, track.last, strict=True)
                track.before = tuple(self._after(track, *pair) for pair in pairs)

    def _after(self, track: _Track, before: Instruction, last: Instruction) -> Instruction:
        """States followed by those of one more step, in the order of the sequence."""
        pair = (last, before) if track.backwards else (before, last)
        return self.b("concat", *pair, axis=0)

    # Operands

    def _split(self, value: Instruction) -> list[Instruction]:
        """The part of an operand for each direction."""
        count = self.network.direction.directions
        if count == 1:
            return [value]
        return [self.b("slice", value, axes=(0,), starts=(i,), ends=(i + 1,)) for i in range(count)]

    def _optional(self, index: int) -> Sequence[Instruction | None]:
        given = _operand(self.b.root, index)
        return [None, None] if given is None else self._split(given)

    def _initial(self, index: int) -> list[Instruction]:
        given = _operand(self.b.root, index)
        if given is not None:
            return self._split(given)
        shape = self.b.root.shape
        zero = np.zeros((1, *shape.lens[2:]), shape.type.numpy)
        return [self.b.literal(zero) for _ in range(self.network.direction.directions)]

    # Results

    def _last(self, tracks: Sequence[_Track], wanted: Sequence[int]) -> dict[int, Instruction]:
        """The states after the last step, ``[D, B, H]``."""
        ends = {s: [track.last[s] for track in tracks] for s in wanted}
        joined = {s: e[0] if len(e) == 1 else self.b("concat", *e, axis=1) for s, e in ends.items()}
        return {s: self.b("squeeze", value, axes=(0,)) for s, value in joined.items()}

    def _whole(self, tracks: Sequence[_Track], has_cells: bool) -> list[Instruction]:
        """The hidden states after all steps, ``[S, D, B, H]``, and the cell states if wanted."""
        wanted = [0, 1] if has_cells else [0]
        if len(tracks) == 1:
            found = [self._in_time(tracks[0], s) for s in reversed(wanted)]
            if self.steps == 1:
                found[-1] = self.b("concat", found[-1], axis=0)
            return found[::-1]
        parts = [[self._in_time(track, s) for track in tracks] for s in wanted]
        found = [self.b("concat", *part, axis=1) for part in reversed(parts)]
        return found[::-1]

    def _in_time(self, track: _Track, state: int) -> Instruction:
        if not track.before:
            return track.last[state]
        return self._after(track, track.before[state], track.last[state])

    def _padded(self, hidden: Instruction) -> Instruction:
        """Hidden states padded with zeros to the length of the input, if all sequences are shorter."""
        lens = self.b.root.shape.lens
        if self.steps == lens[0]:
            return hidden
        zero = np.zeros((lens[0] - self.steps, *lens[1:]), hidden.shape.type.numpy)
        return self.b("concat", hidden, self.b.literal(zero), axis=0)

    def _shifted(self, states: Sequence[Instruction]) -> list[Instruction]:
        """States moved to the positions of their steps in the sequence, with zeros beyond each end."""
        assert self.lens is not None
        name, direction = "rnn_var_sl_shift_output", self.network.direction
        pairs = zip(states, ("hidden_states", "cell_outputs"), strict=False)
        return [
            self.b(name, value, self.lens, output_name=word, direction=direction)
            for value, word in pairs
        ]


@register
class RewriteRnn(RewritePass):
    """Unroll recurrent networks into matrix products, sums and activations, step by step."""

    name = "rewrite_rnn"
    rules = (find_recurrent,)
