"""Recurrent networks, and operations that select their last states.

Omitted optional operands are ``undefined``: they have no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.ranges import (
    agree,
    dims_of,
    expect,
    expect_rank,
    expect_tensors,
    fixed,
    ranged,
)
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.accumulate import quiet, rounded, widened
from workbench.compiler.ops.contract import matrix_product
from workbench.compiler.ops.elementary import Sigmoid, Tanh
from workbench.compiler.ops.pointwise import Elu, LeakyRelu, Relu
from workbench.compiler.ops.sequences import Direction, lengths

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

State: TypeAlias = tuple[Array, ...]
"""The hidden state of one step, ``[B, H]``; for an lstm, also the cell state."""

Function: TypeAlias = Callable[[Array], Array]

_SEQUENCE, _W, _R, _BIAS, _LENS, _HIDDEN, _CELL, _PEEPHOLE = range(8)

_FEW = 4
"""The number of steps from which it pays to copy the weights to a better layout."""


class HiddenStates(np.ndarray[Any, np.dtype[Any]]):
    """The hidden states of every step, with the states after the last one attached.

    Hidden states do not say which one was last, nor what the cell state was. So a network's value carries
    both along for ``rnn_last_hs_output`` and ``rnn_last_cell_output``. Values computed from it do not:
    those two operations must be applied to the network itself.
    """

    last: State = ()

    def __array_wrap__(
        self, array: Array, context: Any = None, return_scalar: bool = False
    ) -> Array:
        """Results of arithmetic are plain arrays."""
        return array.view(np.ndarray)


@dataclass(frozen=True)
class _Cell:
    """The values that the steps of one direction share, in the type of the arithmetic."""

    sequence: Array
    """``[S, B, G · H]``: the sequence times W, plus the biases that can be added beforehand."""
    r: Array
    """``[H, G · H]``."""
    bias: Array
    """``[2, G, H]``: Wb, Rb."""
    peephole: Array | None
    """``[3, H]``: i, o, f."""
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class Recurrent(Operation):
    """Base of rnn, gru and lstm: the hidden states ``[S, D, B, H]`` of a sequence ``[S, B, I]``.

    Operands are the sequence, W ``[D, G · H, I]``, R ``[D, G · H, H]``, then optionally the bias
    ``[D, 2 · G · H]`` (Wb, Rb), the lengths ``[B]`` of the sequences, the initial hidden state
    ``[D, B, H]``; of an lstm also the initial cell state and the peepholes ``[D, 3 · H]``.

    States beyond the end of a sequence are 0; in reverse, a sequence is read from its own end. As in
    ONNX, ``clip`` bounds the operands of the gates' activations; 0 means no bound.
    """

    family = Family.CONTRACTION
    dynamic = True
    context_free = False
    """A folded literal could not carry the last states, so networks are never folded."""
    gates = 1
    states = 1
    most = 6
    """Number of operands, including omitted ones."""
    arithmetic = 2
    """Additions and multiplications per element, besides products and activations."""
    defaults = (Tanh(),)
    called = (1,)
    """Number of calls of each activation per element."""
    filler = -1
    """The activation that fills up a list too short for both directions."""

    hidden_size: int = 1
    actv_func: tuple[Operation, ...] = (Tanh(), Tanh())
    direction: Direction = Direction.FORWARD
    clip: float = 0.0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[S, D, B, H]`` of the sequence's type, standard."""
        expect_count(self, inputs, *range(3, self.most + 1))
        expect_tensors(self, inputs)
        expect_rank(self, inputs[:3], 3, 3)
        expect(self, self.clip >= 0, f"clip={self.clip}; expected 0 or a positive bound")
        expect(
            self, inputs[0].type.is_float, f"input 0 is {inputs[0].type.type_name}; expected floats"
        )
        for function in self.actv_func:
            unary = function.pointwise and getattr(function, "arity", 0) == 1
            expect(self, unary, f"activation {function}; expected a function of one tensor")
        self._check_operands(inputs)
        steps, batch, _ = dims_of(inputs[_SEQUENCE])
        directions, hidden = fixed(self.direction.directions, self.hidden_size)
        return ranged(inputs[0].type, (steps, directions, batch, hidden))

    def _check_operands(self, inputs: Sequence[Shape]) -> None:
        for i, (shape, dims) in enumerate(zip(inputs, self._dims(inputs[0]), strict=False)):
            if i > _R and shape.dims is None and not shape.elements:
                continue
            if i == _LENS and agree(dims_of(shape), self._dims(inputs[0])[_HIDDEN]):
                continue  # a state in place of the lens: as in MIGraphX, only a run rejects it
            fits = agree(dims_of(shape), dims)
            expect(self, fits, f"input {i} is {shape}; expected lens [{', '.join(map(str, dims))}]")
            wanted = inputs[0].type
            same = shape.type.is_integral if i == _LENS else shape.type is wanted
            kind = "an integer type" if i == _LENS else wanted.type_name
            expect(self, same, f"input {i} is {shape.type.type_name}; expected {kind}")

    def _check_lens(self, inputs: Sequence[Array]) -> None:
        """Check lengths that are ranges in the shapes, and so are known only in a run."""
        x, d, h = inputs[_SEQUENCE], self.direction.directions, self.hidden_size
        weights = [(d, self.gates * h, x.shape[2]), (d, self.gates * h, h)]
        states = [(d, x.shape[1], h)] * 2
        fit = inputs[_W].shape == weights[0] and inputs[_R].shape == weights[1]
        given = [i.shape for i in inputs[_HIDDEN : _HIDDEN + 2] if i.size]
        if not (fit and given == states[: len(given)]):
            self._check_operands([Shape(DType.of(i.dtype), i.shape) for i in inputs])

    def _dims(self, sequence: Shape) -> list[tuple[Dim, ...]]:
        """The dimensions of every operand."""
        own, count = dims_of(sequence), self.direction.directions
        _, b, width = own
        d, h, wide = fixed(count, self.hidden_size, self.gates * self.hidden_size)
        state = (d, b, h)
        weights = [(d, wide, width), (d, wide, h), fixed(count, 2 * wide.min)]
        return [own, *weights, (b,), state, state, fixed(count, 3 * h.min)]

    def activations(self, index: int) -> tuple[Operation, ...]:
        """The activations of a direction; a list that is too short is completed as in MIGraphX."""
        count, found = len(self.defaults), self.actv_func or self.defaults
        if len(found) == 1:
            found *= count * 2
        found += found[-1:] * (count - len(found))
        if len(found) == count:
            found *= 2
        found += (found[self.filler],) * (2 * count - len(found))
        return found[index * count :][:count]

    @quiet
    def compute(self, *inputs: Any) -> Any:
        """Step by step, in float32 at least; rounded once."""
        self._check_lens(inputs)
        x: Array = inputs[_SEQUENCE]
        lens = lengths(self, inputs[_LENS], len(x)) if _given(inputs, _LENS) else None
        if lens is not None and lens.shape != x.shape[1:2]:
            raise EvaluationError(
                f"{self.name}: lengths of shape {list(lens.shape)}; expected one for each of the "
                f"{x.shape[1]} sequences"
            )
        every: list[Array] = []
        last: list[State] = []
        for index in range(self.direction.directions):
            hidden, state = self._run(inputs, index, lens)
            every.append(hidden)
            last.append(state)
        result = rounded(np.stack(every, 1), x.dtype).view(HiddenStates)
        ends = zip(*last, strict=True)
        result.last = tuple(rounded(np.stack(end), x.dtype) for end in ends)
        return result

    def _run(self, inputs: Sequence[Array], index: int, lens: Array | None) -> tuple[Array, State]:
        """The hidden states of one direction, ``[S, B, H]``, and the last states."""
        cell = self._cell(inputs, index)
        steps, batch, _ = cell.sequence.shape
        state = self._initial(inputs, index, batch, cell.sequence.dtype)
        hidden = np.zeros((steps, batch, self.hidden_size), cell.sequence.dtype)
        for t in reversed(range(steps)) if self.direction.reverses(index) else range(steps):
            after = self.step(cell, cell.sequence[t], state)
            if lens is None:
                hidden[t], state = after[0], after
                continue
            runs = (t < lens)[:, None]
            hidden[t] = np.where(runs, after[0], 0)
            state = tuple(np.where(runs, a, b) for a, b in zip(after, state, strict=True))
        if lens is not None:  # the last state of an empty sequence is 0
            state = tuple(np.where((lens > 0)[:, None], s, 0) for s in state)
        return hidden, state

    def _cell(self, inputs: Sequence[Array], index: int) -> _Cell:
        x = widened(inputs[_SEQUENCE])
        w, r = (widened(inputs[i][index]) for i in (_W, _R))
        steps, batch, width = x.shape
        product = matrix_product(x.reshape(steps * batch, width), w.T)
        product = product.reshape(steps, batch, len(w))
        lens = (2, self.gates, self.hidden_size)
        bias = np.zeros(lens, x.dtype)
        if _given(inputs, _BIAS):
            bias = widened(inputs[_BIAS][index]).reshape(lens)
            product += self.early_bias(bias).reshape(-1)
        peephole = None
        if _given(inputs, _PEEPHOLE):
            peephole = widened(inputs[_PEEPHOLE][index]).reshape(3, -1)
        functions = tuple(a.compute for a in self.activations(index))
        turned = np.ascontiguousarray(r.T) if steps > _FEW else r.T
        return _Cell(product, turned, bias, peephole, functions)

    def bounded(self, x: Array) -> Array:
        """The operand of an activation, clamped by ``clip``."""
        return np.clip(x, -self.clip, self.clip) if self.clip else x

    def _initial(
        self, inputs: Sequence[Array], index: int, batch: int, dtype: np.dtype[Any]
    ) -> State:
        zero = np.zeros((batch, self.hidden_size), dtype)
        operands = range(_HIDDEN, _HIDDEN + self.states)
        return tuple(widened(inputs[i][index]) if _given(inputs, i) else zero for i in operands)

    def early_bias(self, bias: Array) -> Array:
        """The bias that is added to the sequence times W: ``[G, H]``."""
        return bias[0] + bias[1]

    def step(self, cell: _Cell, x: Array, state: State) -> State:
        """The state after a step with ``x``, a row ``[B, G · H]`` of the cell's sequence."""
        raise NotImplementedError

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """The products with W and R, the activations, and the other elementwise arithmetic."""
        one = Shape(output.type, (1,))
        products = 2 * self.gates * (inputs[_SEQUENCE].lens[-1] + self.hidden_size)
        calls = zip(self.called, self.activations(0), strict=True)
        functions = sum(n * a.flops([one], one) for n, a in calls)
        return output.elements * (products + functions + self.arithmetic)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Few and all operands, the directions, sequences of several lengths, bounds, activations."""
        two, back = Direction.BIDIRECTIONAL, Direction.REVERSE
        lens = np.array([3, 0, 5, 1], np.int32)
        yield cls(hidden_size=3), cls._operands(1)[:3]
        yield cls(hidden_size=3, direction=two), cls._operands(2)
        yield cls(hidden_size=3, direction=two, clip=0.3), cls._operands(2, lens)
        yield cls(hidden_size=3, direction=back), cls._operands(1, lens, np.float16)
        slopes = (Elu(alpha=0.5), LeakyRelu(alpha=0.1), Relu())
        yield cls(hidden_size=3, actv_func=slopes[: len(cls.defaults)]), cls._operands(1)
        yield cls(hidden_size=3, actv_func=()), cls._operands(1)

    @classmethod
    def _operands(
        cls, count: int, lens: Array | None = None, type: Any = np.float32
    ) -> list[Array]:
        op = cls(hidden_size=3, direction=tuple(Direction)[count])
        dims = op._dims(Shape(lens=(5, 4, 2)))[: cls.most]
        wanted = [[d.min for d in each] for each in dims]
        found = [(noise(*n, seed=i) / 2).astype(type) for i, n in enumerate(wanted)]
        found[_LENS] = np.zeros(0, type) if lens is None else lens
        return found


def _given(inputs: Sequence[Array], index: int) -> bool:
    return index < len(inputs) and inputs[index].size > 0


@operation
class Rnn(Recurrent):
    """A plain recurrent network: ``h = f(x · Wᵀ + h · Rᵀ + Wb + Rb)``."""

    name = "rnn"
    not_differentiable = "rewrite_rnn unrolls it before differentiation, but not this form of it"
    on_host = "passes rewrite it into products and elementwise work"

    def step(self, cell: _Cell, x: Array, state: State) -> State:
        """One product, one activation."""
        (f,) = cell.functions
        return (f(self.bounded(x + state[0] @ cell.r)),)


@operation
class Gru(Recurrent):
    """A gated recurrent unit. Gates are z, r, h; activations f, g.

    ``z = f(…)``, ``r = f(…)``, ``n = g(x · Whᵀ + (r ∘ h) · Rhᵀ + Rbh + Wbh)``, or
    ``n = g(x · Whᵀ + r ∘ (h · Rhᵀ + Rbh) + Wbh)`` with ``linear_before_reset``;
    ``h = (1 - z) ∘ n + z ∘ h``.
    """

    name = "gru"
    not_differentiable = "rewrite_rnn unrolls it before differentiation, but not this form of it"
    on_host = "passes rewrite it into products and elementwise work"
    gates = 3
    arithmetic = 11
    defaults = (Sigmoid(), Tanh())
    called = (2, 1)
    filler = 0
    actv_func: tuple[Operation, ...] = (Sigmoid(), Tanh())
    linear_before_reset: int = 0

    def early_bias(self, bias: Array) -> Array:
        """All biases except the one that the reset gate scales."""
        early = bias.sum(0)
        if self.linear_before_reset:
            early[2] = bias[0, 2]
        return early

    def step(self, cell: _Cell, x: Array, state: State) -> State:
        """The gates z and r, then n."""
        f, g = cell.functions
        (h,), size = state, self.hidden_size
        zr = f(self.bounded(x[:, : 2 * size] + h @ cell.r[:, : 2 * size]))
        z, r = zr[:, :size], zr[:, size:]
        weights = cell.r[:, 2 * size :]
        fed = r * (h @ weights + cell.bias[1, 2]) if self.linear_before_reset else (r * h) @ weights
        n = g(self.bounded(x[:, 2 * size :] + fed))
        return ((1 - z) * n + z * h,)


@operation
class Lstm(Recurrent):
    """Long short-term memory. Gates are i, o, f, c; activations F, G, H; peepholes Pi, Po, Pf.

    ``i = F(… + Pi ∘ c)``, ``f = F(… + Pf ∘ c)``, or ``1 - i`` with ``input_forget``;
    ``c = f ∘ c + i ∘ G(…)``, ``o = F(… + Po ∘ c)``, ``h = o ∘ H(c)``.
    """

    name = "lstm"
    not_differentiable = "rewrite_rnn unrolls it before differentiation, but not this form of it"
    on_host = "passes rewrite it into products and elementwise work"
    gates = 4
    states = 2
    most = 8
    arithmetic = 12
    defaults = (Sigmoid(), Tanh(), Tanh())
    called = (3, 1, 1)
    actv_func: tuple[Operation, ...] = (Sigmoid(), Tanh(), Tanh())
    input_forget: int = 0

    def step(self, cell: _Cell, x: Array, state: State) -> State:
        """Input and forget gates, the cell, then the output gate."""
        gate, block, out = cell.functions
        h, c = state
        xi, xo, xf, xc = np.split(x + h @ cell.r, 4, axis=1)
        i = gate(self.bounded(_peeped(cell, 0, xi, c)))
        f = 1 - i if self.input_forget else gate(self.bounded(_peeped(cell, 2, xf, c)))
        c = f * c + i * block(self.bounded(xc))
        return gate(self.bounded(_peeped(cell, 1, xo, c))) * out(c), c

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Also coupled gates."""
        yield from super().samples()
        yield cls(hidden_size=3, input_forget=1), cls._operands(1)


def _peeped(cell: _Cell, gate: int, x: Array, c: Array) -> Array:
    return x if cell.peephole is None else x + cell.peephole[gate] * c


@dataclass(frozen=True)
class LastState(Operation):
    """Base of the operations that select a state after the last step of the network they are applied to."""

    dynamic = True
    index = 0
    networks = ""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[D, B, H]``: the first axis is removed."""
        expect_count(self, inputs, 1)
        expect_tensors(self, inputs)
        expect_rank(self, inputs, 4, 4)
        return ranged(inputs[0].type, dims_of(inputs[0])[1:])

    def compute(self, *inputs: Any) -> Any:
        """Select from the network's value."""
        value = inputs[0]
        if not isinstance(value, HiddenStates) or self.index >= len(value.last):
            raise EvaluationError(
                f"{self.name}: input 0 does not carry that state; "
                f"expected the value of {self.networks} itself, not one computed from it"
            )
        return value.last[self.index]


@operation
class RnnLastHsOutput(LastState):
    """The hidden state of a network after its last step."""

    name = "rnn_last_hs_output"
    not_differentiable = "rewrite_rnn unrolls it before differentiation, but not this form of it"
    on_host = "passes rewrite it with its network"
    networks = "rnn, gru or lstm"


@operation
class RnnLastCellOutput(LastState):
    """The cell state of an lstm after its last step."""

    name = "rnn_last_cell_output"
    not_differentiable = "rewrite_rnn unrolls it before differentiation, but not this form of it"
    on_host = "passes rewrite it with its network"
    index = 1
    networks = "lstm"
