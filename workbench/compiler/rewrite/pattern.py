"""Patterns: conditions on an instruction and its operands, under which a rule applies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from workbench.compiler.ir.instruction import Instruction, is_constant
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.movement import Contiguous

Predicate = Callable[[Instruction], bool]
Condition = tuple[Predicate, str]
Kind = Callable[[type[Operation]], bool]
Given = tuple[str, bool]
"""An input, as far as it is looked at first: the name of its operation, and whether it is constant."""

_BROADCASTS = (Broadcast, Multibroadcast, Contiguous)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A condition on an instruction and its inputs.

    Structure either matches or not; if it matches but a condition fails, that is a near miss. The parts of
    a pattern that depend on operations alone are evaluated once for each combination of operations, not for
    each instruction: that the operation is one of ``ops``, that its class is of a ``kind``, that it
    ``reads`` one of some operations, that ``each`` of its inputs is one of some, and the ``ops`` of these.
    So is which inputs are ``constant``.
    """

    ops: frozenset[str] | None = None
    inputs: tuple[Pattern, ...] | None = None
    binding: str | None = None
    structure: Predicate | None = None
    conditions: tuple[Condition, ...] = ()
    choices: tuple[Pattern, ...] = ()
    kind: Kind | None = None
    reads: frozenset[str] | None = None
    each: frozenset[str] | None = None
    constant: bool | None = None
    """What ``structure`` says of constants: it takes no other values, or none of them; None for either."""
    reads_constant: bool = False
    """Whether what it ``reads`` has to be constant."""
    is_flat: bool = field(init=False, compare=False, repr=False)
    """Whether a test of the instruction decides, once operations fit: no operand is looked at."""
    is_tested_first: bool = field(init=False, compare=False, repr=False)
    """Whether ``structure`` is asked before the inputs are: it is flat, or says of them no operation."""
    first_test: Predicate | None = field(init=False, compare=False, repr=False)
    """Whether an instruction may match, as far as can be told without a look at its inputs; None for any.

    Most attempts end here, before anything is bound.
    """
    needs: frozenset[str] = field(init=False, compare=False, repr=False)
    """Operations that are in every match."""
    pairs_alike: frozenset[str] | None = field(init=False, compare=False, repr=False)
    """The names in two inputs that differ in nothing else, so that their order only decides the names.

    None if they do differ, or if a name is in both.
    """

    def __post_init__(self) -> None:
        """Work out what every attempt asks for: with slots, these are also the fastest to read."""
        is_flat = self.inputs is None and not self.choices
        object.__setattr__(self, "is_flat", is_flat)
        test = self.suits if is_flat else self._kind_test()
        test = self.structure if self.is_variable else test
        plain = not self.choices and all(p.is_variable for p in self.inputs or ())
        object.__setattr__(self, "is_tested_first", plain)
        object.__setattr__(self, "first_test", test)
        object.__setattr__(self, "needs", self._needed())
        object.__setattr__(self, "pairs_alike", self._paired())

    @property
    def is_variable(self) -> bool:
        """Whether this stands for a value of any operation."""
        parts = (self.ops, self.kind, self.reads, self.each)
        return self.is_flat and all(part is None for part in parts)

    def named(self, binding: str) -> Pattern:
        """This pattern with its instruction bound to a name; equal names must bind the same instruction."""
        return replace(self, binding=binding)

    def where(self, predicate: Predicate, reason: str) -> Pattern:
        """This pattern with a condition; ``reason`` is the explanation if it does not hold."""
        return replace(self, conditions=(*self.conditions, (predicate, reason)))

    def when(self, test: Predicate) -> Pattern:
        """This pattern restricted to instructions that satisfy ``test``; failing it is no near miss."""
        before = self.structure

        def both(instruction: Instruction) -> bool:
            return before is not None and before(instruction) and test(instruction)

        return replace(self, structure=test if before is None else both)

    def reading(self, names: frozenset[str], constant: bool = False) -> Pattern:
        """This pattern for an instruction with at least one input made by one of these operations.

        Args:
            names: The operations.
            constant: Whether that input has to be constant.
        """
        return replace(self, reads=names, reads_constant=constant)

    @property
    def once(self) -> Pattern:
        """This pattern for an instruction that is used once, as its work would otherwise be done twice."""
        alone = self.where(_has_one_user, "its value has other users")
        return alone.where(_has_one_use, "its user takes its value twice")

    def _kind_test(self) -> Predicate:
        """The test ``is_of_kind``, or a faster one that comes to the same."""
        names = self.ops
        if names is None or any(p is not None for p in (self.kind, self.reads, self.each)):
            return self.is_of_kind
        return lambda instruction: instruction.op.name in names

    def suits(self, instruction: Instruction) -> bool:
        """Whether an instruction has the right operation and passes ``test``, regardless of its inputs."""
        return self.is_of_kind(instruction) and (
            self.structure is None or self.structure(instruction)
        )

    def is_of_kind(self, instruction: Instruction) -> bool:
        """Whether an instruction has the right operation, and reads a result of the right ones."""
        op = instruction.op
        if self.ops is not None and op.name not in self.ops:
            return False
        if self.kind is not None and not self.kind(type(op)):
            return False
        if self.reads is None and self.each is None:
            return True
        return self._may_read([(i.op.name, i.constant) for i in instruction.inputs])

    def _may_read(self, inputs: Sequence[Given]) -> bool:
        """Whether it may have these inputs, as far as ``reads`` and ``each`` say."""
        if self.reads is not None:
            read = [name for name, constant in inputs if constant or not self.reads_constant]
            if self.reads.isdisjoint(read):
                return False
        return self.each is None or self.each.issuperset([name for name, _ in inputs])

    def may_be(self, op: type[Operation]) -> bool:
        """Whether an instruction of this operation can match, regardless of its inputs."""
        return (self.ops is None or op.name in self.ops) and (self.kind is None or self.kind(op))

    def may_fit(self, op: type[Operation], inputs: Sequence[Given]) -> bool:
        """Whether this operation can match on such inputs."""
        if not self.may_be(op) or not self._may_read(inputs):
            return False
        if self.choices and not any(c.may_fit(op, inputs) for c in self.choices):
            return False
        if self.inputs is None:
            return True
        swapped = len(inputs) == 2 and op.commutative
        return _may_fit(self.inputs, inputs) or (swapped and _may_fit(self.inputs, inputs[::-1]))

    def _paired(self) -> frozenset[str] | None:
        if self.inputs is None or len(self.inputs) != 2:
            return None
        one, other = self.inputs
        names = [*one.names(), *other.names()]
        alike = len({*names}) == len(names) and one.is_like(other)
        return frozenset(names) if alike else None

    def is_like(self, other: Pattern) -> bool:
        """Whether another pattern differs from this one in names at most."""
        same = replace(self, binding=None, inputs=None, choices=()) == replace(
            other, binding=None, inputs=None, choices=()
        )
        for mine, theirs in (
            (self.inputs or (), other.inputs or ()),
            (self.choices, other.choices),
        ):
            same = same and len(mine) == len(theirs) and all(map(Pattern.is_like, mine, theirs))
        return same

    def _needed(self) -> frozenset[str]:
        found = set(self.ops) if self.ops is not None and len(self.ops) == 1 else set[str]()
        for one in self.inputs or ():
            found |= one.needs
        if self.choices:
            found |= set.intersection(*[set(c.needs) for c in self.choices])
        return frozenset(found)

    def names(self) -> list[str]:
        """All bound names, in the order of the pattern."""
        own = [] if self.binding is None else [self.binding]
        inner = [n for p in (*(self.inputs or ()), *self.choices) for n in p.names()]
        return list(dict.fromkeys(own + inner))


def _may_fit(patterns: Sequence[Pattern], inputs: Sequence[Given]) -> bool:
    """Whether such inputs can match these patterns, one each."""
    return len(patterns) == len(inputs) and all(
        (p.ops is None or name in p.ops) and p.constant in (None, constant)
        for p, (name, constant) in zip(patterns, inputs, strict=True)
    )


def op(names: str, *inputs: Pattern, name: str | None = None) -> Pattern:
    """An instruction whose operation is one of ``names`` (``"add|mul"``), with these inputs (or any)."""
    return Pattern(frozenset(names.split("|")), inputs or None, name)


def either(*choices: Pattern) -> Pattern:
    """An instruction that matches one of some patterns, which bind the same names; the first match counts."""
    known = [c.ops for c in choices if c.ops is not None]
    ops = frozenset[str]().union(*known) if len(known) == len(choices) else None
    return Pattern(ops, choices=choices)


def var(name: str) -> Pattern:
    """Any value."""
    return Pattern(binding=name)


def constant(name: str) -> Pattern:
    """A value that is known before a run."""
    return Pattern(binding=name, structure=is_constant, constant=True)


def literal(name: str, test: Predicate | None = None) -> Pattern:
    """A literal, possibly behind broadcasts, that satisfies ``test``, if there is one."""

    def fits(instruction: Instruction) -> bool:
        found = behind_broadcasts(instruction)
        return found.literal is not None and (test is None or test(found))

    return Pattern(binding=name, structure=fits)


def pointwise(name: str | None = None) -> Pattern:
    """Any pointwise operation."""
    return Pattern(binding=name, kind=is_pointwise)


def is_pointwise(op: type[Operation]) -> bool:
    """Whether a class of operations is elementwise."""
    return op.pointwise


def behind_broadcasts(instruction: Instruction) -> Instruction:
    """The value below any broadcast, multibroadcast or contiguous."""
    while isinstance(instruction.op, _BROADCASTS):
        instruction = instruction.inputs[0]
    return instruction


def _has_one_user(instruction: Instruction) -> bool:
    return instruction.only_user is not None


def _has_one_use(instruction: Instruction) -> bool:
    return instruction.has_one_use


class Match:
    """An attempt to match a pattern: its bindings so far, and the first condition that failed."""

    __slots__ = ("bound", "reason", "seen")

    def __init__(self) -> None:
        self.bound: dict[str, Instruction] = {}
        self.seen: list[Instruction] = []
        """The instructions matched as operations; a rewrite's result gets their source nodes."""
        self.reason: str | None = None

    def meets(self, pattern: Pattern, instruction: Instruction) -> bool:
        """Whether the structure matches; ``reason`` then says which condition failed, if any."""
        test = pattern.first_test
        if test is not None and not test(instruction):
            return False
        if pattern.is_flat:
            return self.note(pattern, instruction)
        return self.meets_within(pattern, instruction)

    def meets_within(self, pattern: Pattern, instruction: Instruction) -> bool:
        """As ``meets``, for an instruction for which ``Pattern.may_fit`` is known to hold."""
        if pattern.choices and not self._meets_one(pattern.choices, instruction):
            return False
        if pattern.inputs is not None and not self._meets_inputs(pattern, instruction):
            return False
        if pattern.structure is not None and not pattern.structure(instruction):
            return False
        return self.note(pattern, instruction)

    def meets_tested(self, pattern: Pattern, instruction: Instruction) -> bool:
        """As ``meets_within``, where the pattern is tested first and ``structure`` is known to hold."""
        return self._meets_inputs(pattern, instruction) and self.note(pattern, instruction)

    def note(self, pattern: Pattern, instruction: Instruction) -> bool:
        """Bind an instruction whose structure matches, and check its conditions.

        Returns:
            Whether the name of the pattern was free, or bound to this instruction.
        """
        name = pattern.binding
        if name is not None and self.bound.setdefault(name, instruction) is not instruction:
            return False
        if pattern.ops is not None or pattern.inputs is not None:
            self.seen.append(instruction)  # a variable's value is not rewritten
        if pattern.conditions and self.reason is None:
            self._check(pattern, instruction)
        return True

    def _meets_one(self, choices: tuple[Pattern, ...], instruction: Instruction) -> bool:
        """Match a choice without a near miss, or else the first one with a near miss."""
        start = self._mark()
        near = None
        for choice in choices:
            if self.meets(choice, instruction):
                if self.reason == start[2]:
                    return True
                near = near or self._state()
            self._back_to(start)
        if near is not None:
            self._restore(near)
        return near is not None

    def _check(self, pattern: Pattern, instruction: Instruction) -> None:
        for predicate, reason in pattern.conditions:
            if self.reason is None and not predicate(instruction):
                self.reason = f"{instruction.op.name} #{instruction.id}: {reason}"

    def _meets_inputs(self, whole: Pattern, instruction: Instruction) -> bool:
        patterns, inputs = whole.inputs, instruction.inputs
        if patterns is None:
            return True
        count = len(inputs)
        if count != len(patterns):
            return False
        if count == 1:
            return self.meets(patterns[0], inputs[0])
        if count == 2 and instruction.op.commutative:
            return self._meets_either(whole, patterns, inputs)
        return all(map(self.meets, patterns, inputs))

    def _meets_either(
        self, whole: Pattern, patterns: tuple[Pattern, ...], inputs: tuple[Instruction, ...]
    ) -> bool:
        """Match the operands of a commutative operation in an order without a near miss, or else with one."""
        (first, second), (a, b) = patterns, inputs
        one, other = first.first_test, second.first_test
        straight = (one is None or one(a)) and (other is None or other(b))
        names = whole.pairs_alike
        if names is None:
            crossed = (one is None or one(b)) and (other is None or other(a))
        else:  # it is the same, but the other order only matters if a name is bound
            crossed = straight and not self.bound.keys().isdisjoint(names)
        if straight and crossed:
            return self._meets_best(first, second, (inputs, inputs[::-1]))
        if crossed:
            a, b = b, a
        elif not straight:
            return False
        return self._meets_further(first, a) and self._meets_further(second, b)

    def _meets_best(
        self, first: Pattern, second: Pattern, orders: Sequence[tuple[Instruction, ...]]
    ) -> bool:
        """Match two operands in the first of some orders without a near miss, or else the first with one."""
        start, near_miss = self._mark(), None
        for a, b in orders:
            if self._meets_further(first, a) and self._meets_further(second, b):
                if self.reason == start[2]:
                    return True
                near_miss = near_miss or self._state()
            self._back_to(start)
        if near_miss is not None:
            self._restore(near_miss)
        return near_miss is not None

    def _meets_further(self, pattern: Pattern, operand: Instruction) -> bool:
        """As ``meets``, for an operand that has passed the first test."""
        return (
            self.note(pattern, operand) if pattern.is_flat else self.meets_within(pattern, operand)
        )

    def _mark(self) -> tuple[int, int, str | None]:
        return len(self.bound), len(self.seen), self.reason

    def _back_to(self, mark: tuple[int, int, str | None]) -> None:
        """Forget what was bound and seen since; names are bound in order, and none is bound again."""
        bound, seen, self.reason = mark
        while len(self.bound) > bound:
            self.bound.popitem()
        del self.seen[seen:]

    def _state(self) -> tuple[dict[str, Instruction], list[Instruction], str | None]:
        return dict(self.bound), list(self.seen), self.reason

    def _restore(self, state: tuple[dict[str, Instruction], list[Instruction], str | None]) -> None:
        self.bound, self.seen, self.reason = dict(state[0]), list(state[1]), state[2]
