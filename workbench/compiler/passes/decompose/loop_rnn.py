"""Recurrent networks as loops: one product for the inputs of all steps, then a module for each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ops.recurrent import (
    Gru,
    LastState,
    Lstm,
    Recurrent,
    RnnLastCellOutput,
    RnnLastHsOutput,
)
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.decompose.recurrent_steps import States, Step
from workbench.compiler.rewrite import Decline, Rewriter, Rule, op, rule
from workbench.compiler.rewrite.bodies import unused_name
from workbench.compiler.run.constants import evaluate_constant, is_large

_SEQUENCE, _W, _R, _BIAS, _LENS, _HIDDEN, _PEEPHOLE = 0, 1, 2, 3, 4, 5, 7
_LAST = (RnnLastHsOutput, RnnLastCellOutput)
_FEW = 4
"""Up to this number of steps, networks are left to be unrolled: their steps are fused."""


@rule(op("rnn|gru|lstm"))
def find_many_steps(b: Rewriter) -> Instruction | Decline:
    """rnn(x, w, r, …) → loop of steps on x · wᵀ"""
    network = b.root.op
    assert isinstance(network, Recurrent)
    steps = b.root.shape.lens[0]
    is_plain = not network.clip and not (isinstance(network, Lstm) and network.input_forget)
    if steps <= _FEW and is_plain:
        return Decline(f"its sequences have {steps} steps, which are unrolled")
    return _looped(b, network)


@rule(op("rnn|gru|lstm"))
def find_few_steps(b: Rewriter) -> Instruction | Decline:
    """rnn(x, w, r, …) → loop of few steps on x · wᵀ"""
    network = b.root.op
    assert isinstance(network, Recurrent)
    if b.root.shape.lens[0] > _FEW:
        return Decline(
            f"its sequences have {b.root.shape.lens[0]} steps; find_many_steps takes those"
        )
    return _looped(b, network)


def _looped(b: Rewriter, network: Recurrent) -> Instruction | Decline:
    steps = b.root.shape.lens[0]
    if not all(i.shape.elements for i in b.root.inputs[:3]) or not b.root.shape.elements:
        return Decline("an operand has no elements")
    lens = _operand(b.root, _LENS)
    if lens is not None and not lens.shape.type.is_integral:
        return Decline(f"the lens of its sequences, #{lens.id}, are not integers")
    return _Looped(b, network, None if _are_all(lens, steps) else lens).build()


def _operand(root: Instruction, index: int) -> Instruction | None:
    """An operand, or None if it is missing or empty."""
    found = root.inputs[index] if index < len(root.inputs) else None
    return None if found is None or not found.shape.elements else found


def _are_all(lens: Instruction | None, steps: int) -> bool:
    """Whether all sequences surely have all steps."""
    if lens is None or not lens.constant or is_large(lens):
        return False
    return bool(np.all(evaluate_constant(lens) == steps))


@dataclass
class _Looped:
    """One network that becomes a loop; ``lens`` is given if sequences may differ in length."""

    b: Rewriter
    network: Recurrent
    lens: Instruction | None

    def build(self) -> Instruction:
        """Build the loop; users of the network's last states read what it carries."""
        b, root = self.b, self.b.root
        users = [u for u in root.users if isinstance(u.op, LastState)]
        has_rows = len(users) < len(root.users) or root in root.module.outputs
        loop = self._loop(has_rows)
        result = self._rows(loop) if has_rows else loop
        for user in users:
            index = next(k for k, last in enumerate(_LAST) if isinstance(user.op, last))
            value = self._or_zero(b("get_tuple_elem", loop, index=index))
            user.module.replace(user, value)
        return result

    # Sizes

    @property
    def _lens(self) -> tuple[int, int, int, int]:
        """Steps, directions, batch, hidden size."""
        s, d, b, h = self.b.root.shape.lens
        return s, d, b, h

    @property
    def _wide(self) -> int:
        return self.network.gates * self.network.hidden_size

    # Before the loop

    def _fed(self) -> Instruction:
        """The sequence times its weights, plus biases that can be added before.

        For one direction ``[S, B, G · H]``; for both ``[S, D, B, G · H]``, each in the order of its steps.
        """
        b, (steps, count, batch, _) = self.b, self._lens
        x, w = self.b.root.inputs[_SEQUENCE], self.b.root.inputs[_W]
        width, columns = x.shape.lens[2], count * self._wide
        rows = b.reshape(x, (steps * batch, width))
        weights = b("transpose", b.reshape(w, (columns, width)), permutation=(1, 0))
        fed = b("dot", rows, weights)
        if (bias := _operand(b.root, _BIAS)) is not None:
            early = b.reshape(self._early(bias), (columns,))
            fed = b("add", fed, b("broadcast", early, axis=1, out_lens=fed.shape.lens))
        fed = b.reshape(fed, (steps, batch, columns))
        if count == 1:
            return fed
        parts = [
            b("slice", fed, axes=(2,), starts=(d * self._wide,), ends=((d + 1) * self._wide,))
            for d in range(count)
        ]
        parts[1] = b("reverse", parts[1], axes=(0,))
        return b("concat", *[b("unsqueeze", part, axes=(1,)) for part in parts], axis=1)

    def _early(self, bias: Instruction) -> Instruction:
        """The sum of both biases, ``[D, G · H]``, without the one that a reset gate scales."""
        one, other = self._part(bias, 0, self._wide), self._part(bias, self._wide, 2 * self._wide)
        if self._has_late:
            size = self.network.hidden_size
            zero = np.zeros((bias.shape.lens[0], size), bias.shape.type.numpy)
            kept = self._part(other, 0, 2 * size)
            other = self.b("concat", kept, self.b.literal(zero), axis=1)
        return self.b("add", one, other)

    @property
    def _has_late(self) -> bool:
        return isinstance(self.network, Gru) and bool(self.network.linear_before_reset)

    def _part(self, value: Instruction, start: int, end: int) -> Instruction:
        return self.b("slice", value, axes=(1,), starts=(start,), ends=(end,))

    def _late(self) -> Instruction | None:
        """The bias that a reset gate scales, ``[D, 1, H]``."""
        bias = _operand(self.b.root, _BIAS)
        if bias is None or not self._has_late:
            return None
        size = self.network.hidden_size
        part = self._part(bias, 5 * size, 6 * size)
        return self.b.reshape(part, (bias.shape.lens[0], 1, size))

    def _peephole(self) -> Instruction | None:
        given = _operand(self.b.root, _PEEPHOLE)
        return None if given is None else self.b("unsqueeze", given, axes=(1,))

    def _initial(self, index: int) -> Instruction:
        given = _operand(self.b.root, index)
        if given is not None:
            return given if given.shape.standard else self.b("contiguous", given)
        zero = self.b.scalar(0, self.b.root.shape.type)
        return self.b("multibroadcast", zero, out_lens=self._lens[1:])

    def _running(self) -> Instruction | None:
        """Whether each sequence has each step, in the order of the directions' steps, ``[S, D, B, 1]``."""
        if self.lens is None:
            return None
        steps, count, batch, _ = self._lens
        order = np.arange(steps)
        turned = [self.network.direction.reverses(d) for d in range(count)]
        numbers = np.stack([order[::-1] if back else order for back in turned], 1)
        at = self.b.literal(numbers.reshape(steps, count, 1, 1).astype(self.lens.shape.type.numpy))
        lens = self.b.reshape(self.lens, (1, 1, batch, 1))
        pair = (self.b("multibroadcast", v, out_lens=(steps, count, batch, 1)) for v in (at, lens))
        return self.b("convert", self.b("less", *pair), target_type=DType.BOOL)

    # The loop

    def _loop(self, has_rows: bool) -> Instruction:
        b, steps = self.b, self._lens[0]
        initial = [self._initial(_HIDDEN + k) for k in range(self.network.states)]
        module = self._module(has_rows)
        turned = [self.network.direction.reverses(d) for d in range(self._lens[1])]
        return b(
            "loop",
            b.literal(np.array(steps, np.int64)),
            b.literal(np.array(True)),
            *initial,
            modules=[module],
            max_iterations=steps,
            scan_output_directions=tuple(map(int, turned)) if has_rows else (),
        )

    def _module(self, has_rows: bool) -> Module:
        b, root = self.b, self.b.root
        fed, running = self._fed(), self._running()
        r = b("transpose", root.inputs[_R], permutation=(0, 2, 1))
        late, peephole = self._late(), self._peephole()
        module = b.program.create_module(unused_name(b.program, f"{root.name}_step"))
        inner = ModuleBuilder(module)
        number = inner.input("iteration", (), DType.INT64)
        going = inner.input("condition", (), DType.BOOL)
        names = ("hidden", "cell")[: self.network.states]
        states = tuple(inner.input(n, self._lens[1:], root.shape.type) for n in names)
        given = [None if v is None else inner.of(v) for v in (late, peephole)]
        step = Step(inner, self.network, inner.of(r), *given)
        after = step.after(self._turn(inner.of(fed), number), states)
        rows, after = self._masked(inner, running, number, states, after)
        each = [rows[d : d + 1] for d in range(self._lens[1])] if has_rows else []
        module.add_return(*[v.instruction for v in (going, *after, *each)])
        return module

    def _turn(self, fed: Value, number: Value) -> Value:
        """The part of the sequence that each direction reads in an iteration, ``[D, B, G · H]``."""
        if self._lens[1] > 1:
            return fed.apply("scan_slice", number, axis=0).apply("squeeze", axes=(0,))
        turned = int(self.network.direction.reverses(0))
        return fed.apply("scan_slice", number, axis=0, direction=turned)

    def _masked(
        self,
        inner: ModuleBuilder,
        running: Instruction | None,
        number: Value,
        before: States,
        after: States,
    ) -> tuple[Value, States]:
        """The hidden states to keep, and the next ones: sequences that have ended stay as they are."""
        if running is None:
            return after[0], after
        runs = inner.of(running).apply("scan_slice", number, axis=0)
        runs = runs.reshape(*self._lens[1:3], 1).broadcast_to(*self._lens[1:])
        kept = tuple(_where(runs, a, b) for a, b in zip(after, before, strict=True))
        return _where(runs, after[0], inner.zeros(self._lens[1:], after[0].dtype)), kept

    # After the loop

    def _rows(self, loop: Instruction) -> Instruction:
        """The hidden states after all steps, ``[S, D, B, H]``."""
        first, count = self.network.states, self._lens[1]
        parts = [self.b("get_tuple_elem", loop, index=first + d) for d in range(count)]
        return parts[0] if count == 1 else self.b("concat", *parts, axis=1)

    def _or_zero(self, last: Instruction) -> Instruction:
        """The last state, which is 0 for sequences without steps."""
        if self.lens is None:
            return last
        b, lens = self.b, last.shape.lens
        some = b.reshape(self.lens, (1, lens[1], 1))
        zero = b.scalar(0, self.lens.shape.type)
        pair = (b("multibroadcast", v, out_lens=lens) for v in (some, zero))
        has = b("convert", b("greater", *pair), target_type=DType.BOOL)
        nothing = b("multibroadcast", b.scalar(0, last.shape.type), out_lens=lens)
        return b("where", has, last, nothing)


def _where(condition: Value, yes: Value, no: Value) -> Value:
    inner = condition.builder.module
    parts = (v.instruction for v in (condition, yes, no))
    return condition.builder.of(inner.add("where", *parts))


@register
class LoopRnn(RewritePass):
    """Replace recurrent networks by loops, with one product for the inputs of all steps.

    Args:
        few_steps: Also networks of so few steps that unrolling them is faster.
    """

    name = "loop_rnn"
    rules = (find_many_steps, find_few_steps)
    few_steps: bool = False

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options allow."""
        return self.rules if self.few_steps else (find_many_steps,)
