"""One step of a recurrent network, for all its directions at once: the module of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ops.recurrent import Gru, Lstm, Recurrent

States: TypeAlias = tuple[Value, ...]
"""The hidden state ``[D, B, H]``, followed for an lstm by the cell state."""


@dataclass(frozen=True)
class Step:
    """The weights that all steps share, as values of the module."""

    builder: ModuleBuilder
    network: Recurrent
    r: Value
    """The weights of the hidden state, ``[D, H, G · H]``."""
    late: Value | None = None
    """The bias that the reset gate of a gru scales, ``[D, 1, H]``."""
    peephole: Value | None = None
    """``[D, 1, 3 · H]``: i, o, f."""

    def after(self, fed: Value, states: States) -> States:
        """The states after a step.

        Args:
            fed: The product of the step's input with its weights, plus biases, ``[D, B, G · H]``.
            states: The states before it.
        """
        if isinstance(self.network, Lstm):
            return self._lstm(self.network, fed, *states)
        if isinstance(self.network, Gru):
            return (self._gru(self.network, fed, states[0]),)
        return (self._active(0, fed + states[0] @ self.r),)

    def _gru(self, network: Gru, fed: Value, h: Value) -> Value:
        both = self._columns(self.r, 0, 2)
        kept = h @ (self.r if network.linear_before_reset else both)
        z, r = (self._active(0, self._gate(fed, k) + self._gate(kept, k)) for k in range(2))
        if network.linear_before_reset:
            new = self._gate(kept, 2)
            new = r * (new if self.late is None else new + self.late)
        else:
            new = (r * h) @ self._columns(self.r, 2, 3)
        n = self._active(1, self._gate(fed, 2) + new)
        return (1.0 - z) * n + z * h

    def _lstm(self, network: Lstm, fed: Value, h: Value, c: Value) -> States:
        both = fed + h @ self.r
        xi, xo, xf, new = (self._gate(both, k) for k in range(4))
        i = self._active(0, self._peeped(xi, 0, c))
        f = 1.0 - i if network.input_forget else self._active(0, self._peeped(xf, 2, c))
        c = f * c + i * self._active(1, new)
        o = self._active(0, self._peeped(xo, 1, c))
        return o * self._active(2, c, is_gate=False), c

    def _peeped(self, x: Value, index: int, c: Value) -> Value:
        return x if self.peephole is None else x + self._gate(self.peephole, index) * c

    def _gate(self, value: Value, index: int) -> Value:
        return self._columns(value, index, index + 1)

    def _columns(self, value: Value, start: int, end: int) -> Value:
        size = self.network.hidden_size
        return value[:, :, start * size : end * size]

    def _active(self, index: int, x: Value, is_gate: bool = True) -> Value:
        """An activation, which may differ between directions; operands of gates are clamped by ``clip``."""
        network, b = self.network, self.builder
        if network.clip and is_gate:
            x = x.maximum(-network.clip).minimum(network.clip)
        found = [network.activations(d)[index] for d in range(network.direction.directions)]
        if len(set(found)) == 1:
            return b.of(b.module.add(found[0], x.instruction))
        parts = [b.module.add(f, x[d : d + 1].instruction) for d, f in enumerate(found)]
        return b.of(b.module.add("concat", *parts, axis=0))
