"""The cells of recurrent networks, expanded step by step."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.recurrent import Gru, Lstm, Recurrent, Rnn
from workbench.compiler.rewrite import Rewriter

States: TypeAlias = tuple[Instruction, ...]
"""The hidden state ``[B, H]``, followed for an lstm by the cell state."""


class Cell:
    """The values that the steps of one direction share, and the state after the last one.

    Args:
        b: The rewriter to build with.
        network: The network's operation.
        index: The direction.
        w: The weights ``[1, G · H, I]`` of the input.
        r: The weights ``[1, G · H, H]`` of the hidden state.
        bias: Wb and Rb, ``[1, 2 · G · H]``.
        peephole: ``[1, 3 · H]``.
        initial: The states before the first step, ``[1, B, H]``.
    """

    gates = 1

    def __init__(
        self,
        b: Rewriter,
        network: Recurrent,
        index: int,
        w: Instruction,
        r: Instruction,
        bias: Instruction | None,
        peephole: Instruction | None,
        initial: list[Instruction],
    ) -> None:
        """Build what precedes the first step."""
        self.b = b
        self.network = network
        self.size = network.hidden_size
        self.batch = initial[0].shape.lens[1]
        self.functions = network.activations(index)
        self.w = self._turned(b("squeeze", w, axes=(0,)))
        self._weigh(b("squeeze", r, axes=(0,)))
        self.states: States = tuple(b("squeeze", i, axes=(0,)) for i in initial)
        self.biased = bias is not None
        if bias is not None:
            self._add_bias(b("squeeze", bias, axes=(0,)))
        self.peephole: States = ()
        if peephole is not None:
            self._peep(b("squeeze", peephole, axes=(0,)))

    def step(self, x: Instruction) -> States:
        """The states after a step with ``x``, ``[B, I]``."""
        raise NotImplementedError

    def _weigh(self, r: Instruction) -> None:
        self.r = self._turned(r)

    def _add_bias(self, bias: Instruction) -> None:
        n = self.gates * self.size
        both = self.b("add", self._part(bias, 0, n), self._part(bias, n, 2 * n))
        self.bias = self._laid(both, self.gates)

    def _peep(self, peephole: Instruction) -> None:
        parts = [(i * self.size, (i + 1) * self.size) for i in range(3)]
        self.peephole = tuple(self._laid(self._part(peephole, *part), 1) for part in parts)

    def _turned(self, weights: Instruction) -> Instruction:
        return self.b("transpose", weights, permutation=(1, 0))

    def _part(self, value: Instruction, start: int, end: int, axis: int = 0) -> Instruction:
        return self.b("slice", value, axes=(axis,), starts=(start,), ends=(end,))

    def _gate(self, value: Instruction, index: int) -> Instruction:
        """The columns of one gate."""
        return self._part(value, index * self.size, (index + 1) * self.size, axis=1)

    def _laid(self, value: Instruction, gates: int) -> Instruction:
        """A vector repeated for every sequence of the batch."""
        return self.b("broadcast", value, axis=1, out_lens=(self.batch, gates * self.size))


class RnnCell(Cell):
    """``h = f(x · Wᵀ + b + h · Rᵀ)``."""

    def step(self, x: Instruction) -> States:
        """A product with the input, one with the state, and an activation."""
        b, (f,) = self.b, self.functions
        fed, kept = b("dot", x, self.w), b("dot", self.states[0], self.r)
        if self.biased:
            fed = b("add", fed, self.bias)
        self.states = (b(f, b("add", fed, kept)),)
        return self.states


class GruCell(Cell):
    """Gates z and r, then n; ``h = (1 - z) ∘ n + z ∘ h``."""

    gates = 3

    def _weigh(self, r: Instruction) -> None:
        b, n = self.b, self.size
        ones = np.ones((self.batch, n), r.shape.type.numpy)
        self.one = b.literal(ones)
        self.r = self._turned(self._part(r, 0, 2 * n))
        self.r_new = self._turned(self._part(r, 2 * n, 3 * n))

    def _add_bias(self, bias: Instruction) -> None:
        n = self.size
        self.bias = self._laid(self._part(bias, 0, 3 * n), 3)
        gates, new = self._part(bias, 3 * n, 5 * n), self._part(bias, 5 * n, 6 * n)
        self.bias_kept, self.bias_new = self._laid(gates, 2), self._laid(new, 1)

    def step(self, x: Instruction) -> States:
        """The gates, the candidate, and the mean of candidate and old state, weighted by z."""
        b, (f, g), h = self.b, self.functions, self.states[0]
        fed, kept = b("dot", x, self.w), b("dot", h, self.r)
        if self.biased:
            fed, kept = b("add", fed, self.bias), b("add", kept, self.bias_kept)
        fed_z, fed_r, fed_n = (self._gate(fed, i) for i in range(3))
        kept_z, kept_r = (self._gate(kept, i) for i in range(2))
        z = b(f, b("add", fed_z, kept_z))
        r = b(f, b("add", fed_r, kept_r))
        new = b(g, b("add", fed_n, self._reset(r, h)))
        fresh = b("mul", b("sub", self.one, z), new)
        self.states = (b("add", fresh, b("mul", z, h)),)
        return self.states

    def _reset(self, r: Instruction, h: Instruction) -> Instruction:
        """The product of the state with its weights, with the reset gate applied before or after it."""
        assert isinstance(self.network, Gru)
        after = self.network.linear_before_reset
        value = self.b("dot", h if after else self.b("mul", r, h), self.r_new)
        if self.biased:
            value = self.b("add", value, self.bias_new)
        return self.b("mul", r, value) if after else value


class LstmCell(Cell):
    """Gates i, o, f and the candidate c; ``C = f ∘ C + i ∘ c``, ``h = o ∘ H(C)``."""

    gates = 4

    def step(self, x: Instruction) -> States:
        """Input and forget gates, the cell, then the output gate."""
        b, (gate, block, out), (h, c) = self.b, self.functions, self.states
        both = b("add", b("dot", x, self.w), b("dot", h, self.r))
        if self.biased:
            both = b("add", both, self.bias)
        i, o, f, new = (self._gate(both, k) for k in range(4))
        i, f = self._peeped(i, 0, c), self._peeped(f, 2, c)
        i, f, new = b(gate, i), b(gate, f), b(block, new)
        c = b("add", b("mul", f, c), b("mul", i, new))
        o = b(gate, self._peeped(o, 1, c))
        self.states = (b("mul", o, b(out, c)), c)
        return self.states

    def _peeped(self, value: Instruction, index: int, c: Instruction) -> Instruction:
        if not self.peephole:
            return value
        return self.b("add", value, self.b("mul", self.peephole[index], c))


CELLS: dict[type[Recurrent], type[Cell]] = {Rnn: RnnCell, Gru: GruCell, Lstm: LstmCell}
"""Cells by the network's operation."""
