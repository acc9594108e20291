"""Runs of similar programs in float64: a value that an earlier run computed is not computed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Param, Return
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Operation, Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.sym.bindings import bindings, bound
from workbench.compiler.ops.buffers import Written
from workbench.compiler.run.failures import RAISED, failure
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.results import in_lens
from workbench.compiler.run.steps import Plan, step_of, uses

MOST_BYTES = 1 << 30
"""The memory for values that are kept for later runs, in bytes; the least recently used go first."""


class Evaluations:
    """The values of programs on the same inputs, every float in float64.

    A value is known by a digest of its elements, and work by its operation, its shape, the bodies that it
    calls and the digests of its operands. Work that was done before is not done again, in whichever program
    it stands; nor is the work behind it, once its result is the same to the bit.

    Args:
        program: The program that the inputs are for.
        inputs: An array for each of its parameters, by name.
        most_bytes: The memory for values that are kept; runs are right with 0, too, but repeat more work.

    Raises:
        InputError: An input is missing, unknown, or has the wrong type or shape.
    """

    def __init__(
        self, program: Program, inputs: Mapping[str, Any], most_bytes: int = MOST_BYTES
    ) -> None:
        """Check the inputs; nothing is run yet."""
        self.inputs = check_inputs(program, inputs)
        self.most_bytes = most_bytes
        self.runs = 0
        """Number of programs evaluated."""
        self.evaluated = 0
        """Number of instructions of main modules evaluated, in all runs together."""
        self._done: dict[Hashable, bytes] = {}
        self._kept: OrderedDict[bytes, Value] = OrderedDict()
        self._bytes = 0
        self._literals: dict[int, tuple[Argument, bytes]] = {}
        self._told: dict[int, tuple[Operation, int]] = {}
        self._operations: dict[Hashable, int] = {}

    def of(self, program: Program) -> Evaluation:
        """The evaluation of a program.

        Raises:
            EvaluationError: An instruction failed.
            InputError: The program's parameters do not fit the inputs.
        """
        self.runs += 1
        return Evaluation(self, program)

    # What evaluations share

    def fitted(self, program: Program) -> dict[str, Value]:
        """The inputs for a program whose passes changed parameters' types, or added buffers as parameters."""
        given = {name: self._fitted(name, s) for name, s in program.parameters.items()}
        return check_inputs(program, given)

    def _fitted(self, name: str, shape: Shape) -> Value:
        value = self.inputs.get(name)
        if value is None:
            return np.zeros(shape.lens, shape.type.numpy)
        if isinstance(value, tuple) or value.dtype == shape.type.numpy:
            return value
        return value.astype(shape.type.numpy)

    def literal_digest(self, argument: Argument) -> bytes:
        """The digest of a literal in float64."""
        known = self._literals.get(id(argument))
        if known is None:
            known = self._literals[id(argument)] = argument, digest_of(widened(argument.numpy()))
        return known[1]

    def told(self, op: Operation) -> int:
        """A number for an operation, found by identity: programs of one recording share their operations."""
        known = self._told.get(id(op))
        if known is None:
            number = self._operations.setdefault(_told(op), len(self._operations))
            known = self._told[id(op)] = op, number
        return known[1]

    def digest(self, work: Hashable) -> bytes | None:
        """The digest of the result of some work; None if it was never done."""
        return self._done.get(work)

    def kept(self, digest: bytes) -> Value | None:
        """The value with a digest; None if it was dropped."""
        value = self._kept.get(digest)
        if value is not None:
            self._kept.move_to_end(digest)
        return value

    def done(self, work: Hashable, value: Value, is_view: bool) -> bytes:
        """Count and keep the result of some work; returns its digest."""
        self.evaluated += 1
        digest = self._done.get(work)
        if digest is None:
            # A view is told by its operand. A network's value carries more than its elements.
            own = is_view or not _is_plain(value)
            digest = b"#%d" % len(self._done) if own else digest_of(value)
            self._done[work] = digest
        self._keep(digest, value)
        return digest

    def _keep(self, digest: bytes, value: Value) -> None:
        if digest in self._kept:
            return
        self._kept[digest] = value
        self._bytes += _size(value)
        while self._bytes > self.most_bytes and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)


class _Once(PlannedInterpreter):
    """Evaluates single instructions, whose modules run once: a plan for many runs would not pay."""

    def _plan(self, module: Module, whole: bool = True) -> Plan:
        plan = self._plans.get((module, whole))
        if plan is None:
            steps = [step_of(i) for i in module if not isinstance(i.op, Param | Return)]
            plan = self._plans[module, whole] = Plan(steps, {})
        return plan

    def step(self, instruction: Instruction, values: Mapping[int, Value]) -> Value:
        """Run one instruction. Without modules it reads only its operands, so it needs no scope or step."""
        inputs = instruction.inputs
        if instruction.modules or any(i.shape.dims is not None for i in (instruction, *inputs)):
            return super().step(instruction, values)
        read = [values[i.id] for i in inputs]
        try:
            value = self._operation(instruction).compute_as(instruction.shape, *read)
        except RAISED as error:
            raise failure(instruction, read, error) from error
        return in_lens(value, instruction.shape)


class _DroppedError(Exception):
    """A value is needed that is not kept any more."""


@dataclass(frozen=True)
class _Plan:
    """Instructions to compute although their digests may be known, and kept values that they read."""

    computed: Collection[int] = ()
    pinned: Mapping[int, Value] = field(default_factory=dict[int, Value])


class Evaluation:
    """The values of one program."""

    def __init__(self, shared: Evaluations, program: Program) -> None:
        """Run the program.

        Raises:
            EvaluationError: An instruction failed.
            InputError: The program's parameters do not fit the inputs.
        """
        self.program = program
        self._shared = shared
        self._main = {i.id: i for i in program.main}
        self._reads = {i.id: [x for x in uses(i) if x in self._main] for i in program.main}
        self._inputs = shared.fitted(program)
        self._parameters = {k: digest_of(widened(v)) for k, v in self._inputs.items()}
        self._digests: dict[int, bytes] = {}
        self.outputs = self._outputs()
        """The values of the outputs, in order."""

    def _outputs(self) -> list[Value]:
        outputs = self.program.outputs
        if any(isinstance(i.op, Written) for i in self.program.instructions):
            return self._written()
        values = self.values([o.id for o in outputs])
        return [values[o.id] for o in outputs]

    def _written(self) -> list[Value]:
        """The outputs of a program that writes into buffers, which have a type: none is widened."""
        counted = [i for i in self.program.main if i.inputs and not isinstance(i.op, Return)]
        self._shared.evaluated += len(counted)
        inputs = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self._inputs.items()}
        return [widened(v) for v in PlannedInterpreter(self.program).run(inputs)]

    def values(self, ids: Collection[int]) -> dict[int, Value]:
        """The values of instructions of the main module, by id; those not kept are computed again.

        Raises:
            EvaluationError: An instruction failed.
        """
        order = self._order(ids)
        with self._symbols():
            try:
                return self._run(order, ids, _Plan())
            except _DroppedError:
                return self._run(order, ids, self._plan(order, ids))

    def computed_from(self, i: Instruction, known: Mapping[int, Value]) -> Value:
        """The value of an instruction in float64, on operands as another run computed them.

        Args:
            i: The instruction.
            known: Values of that run by id; operands that it lacks, such as views, are computed from it.

        Raises:
            EvaluationError: An instruction failed.
        """
        interpreter = _Once(self.program, float64=True)

        def computed(one: Instruction) -> Value:
            return interpreter.step(one, {x: operand(self._main[x]) for x in self._reads[one.id]})

        def operand(one: Instruction) -> Value:
            if one.id in known:
                return widened(known[one.id])
            return self._value(one, {}) if _is_given(one) else computed(one)

        with self._symbols():
            return computed(i)

    @contextmanager
    def _symbols(self) -> Generator[None]:
        """Bind the symbols of the program's lengths to those of the inputs."""
        shapes = self.program.parameters
        token = bound.set(bindings((k, s, self._inputs[k]) for k, s in shapes.items()))
        try:
            yield
        finally:
            bound.reset(token)

    def _order(self, ids: Iterable[int]) -> list[Instruction]:
        """The instructions that these values depend on, and they themselves, in the order of the run."""
        needed: set[int] = set()
        stack = list(ids)
        while stack:
            if (id := stack.pop()) not in needed:
                needed.add(id)
                stack += self._reads[id]
        return [i for id, i in self._main.items() if id in needed]

    def _plan(self, order: Sequence[Instruction], ids: Collection[int]) -> _Plan:
        """A plan by which every operand is at hand when its turn comes, though some were dropped."""
        unknown = self._unknown(order)
        wanted = set(ids).union(*(self._reads[id] for id in unknown))
        again: set[int] = set()
        pinned: dict[int, Value] = {}
        for i in reversed(order):
            if i.id not in wanted or i.id in unknown or _is_given(i):
                continue
            kept = self._shared.kept(self._digests[i.id])
            if kept is not None:
                pinned[i.id] = kept
            else:
                again.add(i.id)
                wanted.update(self._reads[i.id])
        return _Plan(unknown | again, pinned)

    def _unknown(self, order: Sequence[Instruction]) -> set[int]:
        """The instructions whose work was never done, and those that read them; the others get digests."""
        unknown: set[int] = set()
        for i in order:
            digest = None
            if unknown.isdisjoint(self._reads[i.id]):
                digest = self._given_digest(i) or self._shared.digest(self._work(i))
            if digest is None:
                unknown.add(i.id)
            else:
                self._digests[i.id] = digest
        return unknown

    def _run(
        self, order: Sequence[Instruction], ids: Collection[int], plan: _Plan
    ) -> dict[int, Value]:
        """The wanted values.

        Args:
            order: The instructions to go through.
            ids: The wanted ones.
            plan: What to compute though it is known. Without one, ``_DroppedError`` is raised if a value
                turns out to be needed that is not kept.
        """
        interpreter = _Once(self.program, float64=True)
        last = {x: i.id for i in order for x in self._reads[i.id]}
        ends: dict[int, list[int]] = {}
        for read, reader in last.items():
            ends.setdefault(reader, []).append(read)
        at_hand = dict(plan.pinned)
        found: dict[int, Value] = {}
        for i in order:
            self._step(interpreter, i, at_hand, i.id in plan.computed)
            if i.id in ids:
                found[i.id] = self._value(i, at_hand)
            for gone in ends.get(i.id, ()):
                at_hand.pop(gone, None)
        return found

    def _step(
        self,
        interpreter: _Once,
        i: Instruction,
        at_hand: dict[int, Value],
        needed: bool,
    ) -> None:
        """Give an instruction its digest; compute its value if that is unknown, or needed but dropped."""
        if (given := self._given_digest(i)) is not None:
            self._digests[i.id] = given
            return
        work = self._work(i)
        digest = self._shared.digest(work)
        value = self._shared.kept(digest) if needed and digest is not None else None
        if digest is None or (needed and value is None):
            operands = {x: self._value(self._main[x], at_hand) for x in self._reads[i.id]}
            value = _frozen(interpreter.step(i, operands))
            digest = self._shared.done(work, value, i.op.alias is not None)
        if value is not None:
            at_hand[i.id] = value
        self._digests[i.id] = digest

    def _given_digest(self, i: Instruction) -> bytes | None:
        """The digest of a literal or a parameter; None if the instruction is neither."""
        if i.literal is not None:
            return self._shared.literal_digest(i.literal)
        if isinstance(i.op, Param):
            return self._parameters[_name(i)]
        return None

    def _value(self, i: Instruction, at_hand: Mapping[int, Value]) -> Value:
        if i.id in at_hand:
            return at_hand[i.id]
        if i.literal is not None:
            return widened(i.literal.numpy())
        if isinstance(i.op, Param):
            return widened(self._inputs[_name(i)])
        kept = self._shared.kept(self._digests[i.id])
        if kept is None:
            raise _DroppedError
        return kept

    def _work(self, i: Instruction) -> Hashable:
        operands = tuple(self._digests[x.id] for x in i.inputs)
        bodies = tuple(self._body(m, {}) for m in i.modules)
        return (self._shared.told(i.op), i.shape, operands, bodies)

    def _body(self, module: Module, around: Mapping[int, Hashable]) -> Hashable:
        """A key for a called module: its instructions, with digests of the values that it captures."""
        names: dict[int, Hashable] = dict(around)
        rows: list[Hashable] = []
        for i in module:
            operands = tuple(
                self._digests[x.id] if x.id in self._digests else names[x.id] for x in i.inputs
            )
            literal = None if i.literal is None else self._shared.literal_digest(i.literal)
            bodies = tuple(self._body(m, names) for m in i.modules)
            rows.append((self._shared.told(i.op), i.shape, operands, literal, bodies))
            names[i.id] = len(names)
        return tuple(rows)


def _frozen(value: Value) -> Value:
    """A value that later runs read, made read-only; a network's value keeps what else it carries."""
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    if type(value) is np.ndarray:
        value = value.view()
        value.flags.writeable = False
    return value


def widened(value: Value) -> Value:
    """A value with its floats in float64."""
    if isinstance(value, tuple | list):
        return tuple(map(widened, value))
    return value.astype(np.float64) if DType.of(value.dtype).is_float else value


def digest_of(value: Value) -> bytes:
    """A digest of types, lens and elements: equal for values that are the same to the bit."""
    hashed = sha256()
    if isinstance(value, tuple):
        hashed.update(b"(%d)" % len(value))
        for part in value:
            hashed.update(digest_of(part))
    else:
        hashed.update(_kind(value.dtype, value.shape))
        hashed.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return hashed.digest()


@cache
def _kind(dtype: np.dtype[Any], lens: tuple[int, ...]) -> bytes:
    return f"{dtype}{lens}".encode()


def _told(op: Operation) -> Hashable:
    """An operation as a key. Its text tells -0.0 from 0.0 and True from 1, which are equal in Python."""
    if not _has_attributes(type(op)):
        return type(op)
    try:
        hash(op)
    except TypeError:
        return id(op), repr(op)
    return op, repr(op)


@cache
def _has_attributes(type: type[Operation]) -> bool:
    return bool(fields(type))


def _is_given(i: Instruction) -> bool:
    return i.literal is not None or isinstance(i.op, Param)


def _name(parameter: Instruction) -> str:
    assert isinstance(parameter.op, Param)
    return parameter.op.parameter


def _is_plain(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return type(value) is np.ndarray


def _size(value: Value) -> int:
    """The memory that a value keeps from being freed, in bytes."""
    if isinstance(value, tuple):
        return sum(map(_size, value))
    owner: Array = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.nbytes
