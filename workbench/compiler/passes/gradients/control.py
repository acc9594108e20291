"""Reverse-mode differentiation through branches, loops and calls: modules that compute gradients.

A branch or a body is computed again where its gradient is, from its operands; only the values that a loop
carries are kept from the first run. So memory grows with the carried values, not with the work between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from workbench.compiler.errors import DifferentiationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ops.control import Call, GetTupleElem, If, Loop
from workbench.compiler.passes.gradients.reverse import Reverse, described, expect_static, propagate
from workbench.compiler.rewrite.bodies import unused_name
from workbench.compiler.rewrite.clones import clone_into

MOST = 65535
"""The largest constant count that is room for what a loop carries; a larger one means no limit."""


def _reads(instruction: Instruction, reverse: Reverse) -> list[Instruction]:
    """The active floating-point values that an instruction's modules read from outside, each once."""
    found = dict.fromkeys(c for m in instruction.modules for c in captured(m))
    return [i for i in found if i in reverse.active and i.shape.type.is_float]


def _new_module(like: Module) -> Module:
    program = like.program
    return program.create_module(unused_name(program, f"{like.name}_gradient"))


@propagate.register
def _of_if(op: If, instruction: Instruction, reverse: Reverse) -> None:
    """A branch on the same condition, whose modules compute the gradients of what they read."""
    expect_static(instruction)
    names = sorted({name for m in instruction.modules for name in m.parameters})
    operands = dict(zip(names, instruction.inputs[1:], strict=True))
    given = reverse.given(instruction)
    outer = _reads(instruction, reverse)
    passed = {n: i for n, i in operands.items() if i in reverse.active and i.shape.type.is_float}
    branches = [_branch(m, given, passed, outer) for m in instruction.modules]
    called = [reverse.builder.of(i) for i in instruction.inputs]
    whole = reverse.builder.module.add(op, *[v.instruction for v in called], modules=branches)
    targets = [*passed.values(), *outer]
    for k, target in enumerate(targets):
        reverse.add(target, reverse.builder.of(whole).apply("get_tuple_elem", index=k))


def _branch(
    module: Module,
    given: Sequence[Value | None],
    passed: Mapping[str, Instruction],
    outer: Sequence[Instruction],
) -> Module:
    """A module of the same parameters that returns the gradients of some of them and of outer values."""
    made = _new_module(module)
    inside = {p: made.add_parameter(n, p.shape) for n, p in module.parameters.items()}
    copies = clone_into(made, module, inside)
    builder = ModuleBuilder(made)
    outputs = [copies.get(o, o) for o in module.outputs]
    pairs = zip(outputs, given, strict=True)
    seeds = [(o, builder.of(g.instruction)) for o, g in pairs if g is not None]
    own = {n: made.parameters[n] for n in passed if n in made.parameters}
    inner = differentiated(made, seeds, [*own.values(), *outer])
    found = [inner.of(own[n]) if n in own else inner.zeros(i.shape) for n, i in passed.items()]
    made.add_return(*[v.instruction for v in (*found, *map(inner.of, outer))])
    return made


def differentiated(
    module: Module, seeds: Sequence[tuple[Instruction, Value]], wanted: Sequence[Instruction]
) -> Reverse:
    """Append to a module the gradients of wanted values, given those of some of its values."""
    inner = Reverse(module, {}, wanted)
    instructions = list(module)
    for value, gradient in seeds:
        before = inner.gradients.get(value)
        here = inner.builder.of(gradient.instruction)
        inner.gradients[value] = here if before is None else before + here
    inner.run(instructions)
    return inner


@propagate.register
def _of_call(op: Call, instruction: Instruction, reverse: Reverse) -> None:
    """A call of a module that computes the results again, and then the gradients of what it reads."""
    expect_static(instruction)
    source = instruction.modules[0]
    outer = _reads(instruction, reverse)
    parameters = dict(zip(source.parameters, instruction.inputs, strict=True))
    passed = {n: i for n, i in parameters.items() if i in reverse.active and i.shape.type.is_float}
    made = _branch(source, reverse.given(instruction), passed, outer)
    whole = reverse.builder.module.add(op, *instruction.inputs, modules=[made])
    for k, target in enumerate((*passed.values(), *outer)):
        reverse.add(target, reverse.builder.of(whole).apply("get_tuple_elem", index=k))


@propagate.register
def _of_loop(op: Loop, instruction: Instruction, reverse: Reverse) -> None:
    """A loop over the iterations in reverse order, which computes each one again."""
    expect_static(instruction)
    _LoopGradient(op, instruction, reverse).add()


class _LoopGradient:
    """The gradient of a loop: it keeps what was carried into each iteration, and goes back through them."""

    def __init__(self, op: Loop, instruction: Instruction, reverse: Reverse) -> None:
        """Sort the loop's operands."""
        self.op, self.loop, self.reverse = op, instruction, reverse
        self.body = instruction.modules[0]
        self.carried = list(instruction.inputs[2:])
        self.floats = [k for k, i in enumerate(self.carried) if i.shape.type.is_float]
        self.outer = _reads(instruction, reverse)
        self.given = reverse.given(instruction)

    def add(self) -> None:
        """Append the loop over the iterations in reverse order, and the gradients that it returns."""
        builder = self.reverse.builder
        found = self._with_states()
        first = len(self.loop.shape.subs or ()) + 1
        states = [found.apply("get_tuple_elem", index=first + k) for k in range(len(self.carried))]
        total = found.apply("get_tuple_elem", index=len(self.carried))
        start = [self._seed(k) for k in self.floats]
        zeros = [self.reverse.zeros(i.shape) for i in self.outer]
        body = self._backward_body(states, total)
        operands = [total, builder.constant(np.array(True)), *start, *zeros]
        given = [v.instruction for v in operands]
        op = replace(self.op, max_iterations=self._room, scan_output_directions=())
        whole = builder.module.add(op, *given, modules=[body])
        targets = [*[self.carried[k] for k in self.floats], *self.outer]
        for k, target in enumerate(targets):
            self.reverse.add(target, builder.of(whole).apply("get_tuple_elem", index=k))
        self._redirect(found.instruction)

    @property
    def _room(self) -> int:
        """The largest number of iterations: the loop's own, or its constant count if it has no scans.

        A count beyond `MOST` is no count: the loop's condition ends it.
        """
        count = self.loop.inputs[0].literal
        if count is None or len(self.loop.shape.subs or ()) > len(self.carried):
            return self.op.max_iterations
        known = int(count.numpy().reshape(-1)[0])
        return max(known, 1) if known <= MOST else self.op.max_iterations

    def _seed(self, k: int) -> Value:
        given = self.given[k]
        return given if given is not None else self.reverse.zeros(self.carried[k].shape)

    def _with_states(self) -> Value:
        """The loop, which also counts its iterations, and stacks what is carried into each."""
        made = _new_module(self.body)
        made.rename(unused_name(made.program, f"{self.body.name}_states"))
        inside = {p: made.add_parameter(n, p.shape) for n, p in self.body.parameters.items()}
        copies = clone_into(made, self.body, inside)
        outputs = [copies.get(o, o) for o in self.body.outputs]
        carried, scans = outputs[: len(self.carried) + 1], outputs[len(self.carried) + 1 :]
        number = made.add_parameter(_unused(made, "iterations"), self.loop.inputs[0].shape)
        more = ModuleBuilder(made).of(number) + 1
        made.add_return(*carried, more.instruction, *scans, *list(inside.values())[2:])
        module = self.loop.module
        count = self.loop.inputs[0].shape
        zero = module.add_literal(np.zeros(count.lens, count.type.numpy))
        op = replace(self.op, max_iterations=self._room)
        after = self.loop.following
        return self.reverse.builder.of(
            module.insert(after, op, *self.loop.inputs, zero, modules=[made])
        )

    def _redirect(self, whole: Instruction) -> None:
        """Let the users of the loop's results use those of the loop that takes its place."""
        module, gradients = self.loop.module, self.reverse.gradients
        for user in list(self.loop.users):
            if not isinstance(user.op, GetTupleElem):
                raise DifferentiationError(
                    f"{described(self.loop)}: {user.name} uses its tuple of results as a whole; "
                    "expected get_tuple_elem only"
                )
            index = user.op.index
            index += index >= len(self.carried)
            new = module.insert(whole.following, "get_tuple_elem", whole, index=index)
            if user in gradients:
                gradients[new] = gradients[user]
            module.replace(user, new)

    def _backward_body(self, states: Sequence[Value], total: Value) -> Module:
        """One iteration: its values again, then the gradients of what was carried into it."""
        made = _new_module(self.body)
        iteration, condition, *carried = self.body.parameters.values()
        at = made.add_parameter("iteration", iteration.shape)
        going = made.add_parameter("condition", condition.shape)
        seeds = [made.add_parameter(f"gradient{k}", self.carried[k].shape) for k in self.floats]
        sums = [made.add_parameter(f"sum{k}", i.shape) for k, i in enumerate(self.outer)]
        builder = ModuleBuilder(made)
        now = builder.of(total.instruction).reshape(at.shape.lens) - builder.of(at) - 1
        known = {iteration: now.instruction, condition: going}
        row = now.reshape(1).astype(DType.INT64)
        for parameter, state in zip(carried, states, strict=True):
            known[parameter] = self._row(builder, state, row).instruction
        copies = clone_into(made, self.body, known)
        outputs = [copies.get(o, o) for o in self.body.outputs[1:]]
        given = [(outputs[k], builder.of(s)) for k, s in zip(self.floats, seeds, strict=True)]
        for k, output in enumerate(outputs[len(carried) :]):
            if (stacked := self.given[len(carried) + k]) is not None:
                place = self._from_end(builder, row) if self._is_backward(k) else row
                given.append((output, self._row(builder, stacked, place)))
        wanted = [*[known[carried[k]] for k in self.floats], *self.outer]
        inner = differentiated(made, given, wanted)
        results = [inner.of(known[carried[k]]) for k in self.floats]
        for total_so_far, value in zip(sums, self.outer, strict=True):
            results.append(inner.of(value) + inner.builder.of(total_so_far))
        made.add_return(going, *[v.instruction for v in results])
        return made

    def _is_backward(self, scan: int) -> bool:
        """Whether a scan has the last iteration's value first."""
        directions = self.op.scan_output_directions
        return scan < len(directions) and bool(directions[scan])

    def _from_end(self, builder: ModuleBuilder, row: Value) -> Value:
        """An iteration's row of such a scan: rows count back from the number that the loop may take."""
        count = builder.of(self.loop.inputs[0]).reshape(1).astype(DType.INT64)
        return count.minimum(self.op.max_iterations) - row - 1

    def _row(self, builder: ModuleBuilder, stacked: Value, row: Value) -> Value:
        """One iteration's row of values that a loop stacked."""
        taken = builder.of(stacked.instruction).apply("gather", row, axis=0)
        return taken.apply("squeeze", axes=(0,))


def _unused(module: Module, name: str) -> str:
    while name in module.parameters:
        name += "_"
    return name
