"""Rewriting: patterns, rules with their laws, declines with their reasons, and the driver."""

from __future__ import annotations

import inspect
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from workbench.compiler.errors import RewriteError, WorkbenchError
from workbench.compiler.ir import Instruction, Module, is_constant
from workbench.compiler.operation import Operation
from workbench.compiler.program import Program

Predicate = Callable[[Instruction], bool]
Condition = tuple[Predicate, str]


@dataclass(frozen=True)
class Decline:
    """A rule's answer when its pattern is met but it does not apply; the reason is shown to the user."""

    reason: str


@dataclass(frozen=True)
class Pattern:
    """What an instruction must look like.

    Structure either fits or not; where it fits and a condition fails, that is a near miss.
    """

    ops: frozenset[str] | None = None
    inputs: tuple[Pattern, ...] | None = None
    binding: str | None = None
    structure: Predicate | None = None
    conditions: tuple[Condition, ...] = ()
    choices: tuple[Pattern, ...] = ()

    def named(self, binding: str) -> Pattern:
        """This pattern, its instruction bound to a name; one name means one instruction."""
        return replace(self, binding=binding)

    def where(self, predicate: Predicate, reason: str) -> Pattern:
        """This pattern with a condition; ``reason`` says what is wrong when it does not hold."""
        return replace(self, conditions=(*self.conditions, (predicate, reason)))

    def when(self, test: Predicate) -> Pattern:
        """This pattern for instructions of which ``test`` holds; others are no near miss."""
        before = self.structure
        both = test if before is None else lambda i: before(i) and test(i)
        return replace(self, structure=both)

    @property
    def once(self) -> Pattern:
        """This pattern for an instruction with one user; otherwise its work would be done twice."""
        return self.where(lambda i: i.only_user is not None, "its value has other users")

    def names(self) -> list[str]:
        """All bound names, in the order of the pattern."""
        own = [] if self.binding is None else [self.binding]
        inner = [n for p in (*(self.inputs or ()), *self.choices) for n in p.names()]
        return list(dict.fromkeys(own + inner))


def op(names: str, *inputs: Pattern, name: str | None = None) -> Pattern:
    """An instruction whose operation is one of ``names`` (``"add|mul"``), with these inputs (or any)."""
    return Pattern(frozenset(names.split("|")), inputs or None, name)


def either(*choices: Pattern) -> Pattern:
    """An instruction that meets one of some patterns, which bind the same names; the first that fits."""
    known = [c.ops for c in choices if c.ops is not None]
    ops = frozenset[str]().union(*known) if len(known) == len(choices) else None
    return Pattern(ops, choices=choices)


def var(name: str) -> Pattern:
    """Any value."""
    return Pattern(binding=name)


def constant(name: str) -> Pattern:
    """A value that is known before a run."""
    return Pattern(binding=name, structure=is_constant)


def literal(name: str, test: Predicate | None = None) -> Pattern:
    """A literal, possibly behind broadcasts, for which ``test`` (if any) holds."""

    def fits(instruction: Instruction) -> bool:
        found = behind_broadcasts(instruction)
        return found.literal is not None and (test is None or test(found))

    return Pattern(binding=name, structure=fits)


def pointwise(name: str | None = None) -> Pattern:
    """Any pointwise operation."""
    return Pattern(binding=name, structure=lambda i: i.op.pointwise)


def behind_broadcasts(instruction: Instruction) -> Instruction:
    """What is broadcast: the value below any broadcast, multibroadcast or contiguous."""
    while instruction.name in ("broadcast", "multibroadcast", "contiguous"):
        instruction = instruction.inputs[0]
    return instruction


class Rewriter:
    """What a rule builds with: new instructions go before the root of the match."""

    def __init__(self, root: Instruction) -> None:
        """Build before ``root``."""
        self.root = root
        self.module: Module = root.module
        self.program: Program = root.module.program
        self.before: Instruction | None = root

    def __call__(
        self,
        op: Operation | str,
        *inputs: Instruction,
        modules: Sequence[Module] = (),
        **attributes: Any,
    ) -> Instruction:
        """Insert an instruction before the root."""
        return self.module.insert(self.before, op, *inputs, modules=modules, **attributes)

    def literal(self, value: Any) -> Instruction:
        """Add a literal to the module."""
        return self.module.add_literal(value)


class _Match:
    """One attempt to meet a pattern: bindings so far, and the first condition that failed."""

    __slots__ = ("bound", "reason", "seen")

    def __init__(self) -> None:
        self.bound: dict[str, Instruction] = {}
        self.seen: list[Instruction] = []
        self.reason: str | None = None

    def meets(self, pattern: Pattern, instruction: Instruction) -> bool:
        if pattern.ops is not None and instruction.op.name not in pattern.ops:
            return False
        if pattern.choices and not self._meets_one(pattern.choices, instruction):
            return False
        if pattern.inputs is not None and not self._meets_inputs(pattern.inputs, instruction):
            return False
        if pattern.structure is not None and not pattern.structure(instruction):
            return False
        name = pattern.binding
        if name is not None and self.bound.setdefault(name, instruction) is not instruction:
            return False
        self.seen.append(instruction)
        self._check(pattern, instruction)
        return True

    def _meets_one(self, choices: tuple[Pattern, ...], instruction: Instruction) -> bool:
        """Meet a choice without a near miss, or else the first one with one."""
        start = self._state()
        near = None
        for choice in choices:
            if self.meets(choice, instruction):
                if self.reason == start[2]:
                    return True
                near = near or self._state()
            self._restore(start)
        if near is not None:
            self._restore(near)
        return near is not None

    def _check(self, pattern: Pattern, instruction: Instruction) -> None:
        for predicate, reason in pattern.conditions:
            if self.reason is None and not predicate(instruction):
                self.reason = f"{instruction.op.name} #{instruction.id}: {reason}"

    def _meets_inputs(self, patterns: tuple[Pattern, ...], instruction: Instruction) -> bool:
        inputs = instruction.inputs
        if len(inputs) != len(patterns):
            return False
        if len(inputs) == 2 and instruction.op.commutative:
            return self._meets_either(patterns, inputs)
        return all(map(self.meets, patterns, inputs))

    def _meets_either(self, patterns: tuple[Pattern, ...], inputs: tuple[Instruction, ...]) -> bool:
        start, near_miss = self._state(), None
        for a, b in (inputs, inputs[::-1]):
            if self.meets(patterns[0], a) and self.meets(patterns[1], b):
                if self.reason == start[2]:
                    return True
                near_miss = near_miss or self._state()
            self._restore(start)
        if near_miss is not None:
            self._restore(near_miss)
        return near_miss is not None

    def _state(self) -> tuple[dict[str, Instruction], list[Instruction], str | None]:
        return dict(self.bound), list(self.seen), self.reason

    def _restore(self, state: tuple[dict[str, Instruction], list[Instruction], str | None]) -> None:
        self.bound, self.seen, self.reason = dict(state[0]), list(state[1]), state[2]


@dataclass(frozen=True, eq=False)
class Rule:
    """A pattern and a small function that builds what replaces its root. Made by ``@rule``."""

    name: str
    law: str
    pattern: Pattern
    function: Callable[..., Instruction | Decline]
    file: str
    line: int
    dynamic: bool = False
    parameters: tuple[str, ...] = ()

    @property
    def roots(self) -> frozenset[str] | None:
        """Names of the operations that the root may have; None for any."""
        return self.pattern.ops

    def match(self, instruction: Instruction) -> dict[str, Instruction] | str | None:
        """The bindings at this root; or the reason of a near miss; or None."""
        found = _Match()
        if not found.meets(self.pattern, instruction):
            return None
        return found.bound if found.reason is None else found.reason

    def apply_at(self, instruction: Instruction) -> Instruction | Decline | None:
        """Apply the rule at one instruction.

        Returns:
            What now stands in its place; a Decline with the reason; None if the pattern is not met.

        Raises:
            RewriteError: The rule raised, or returned something else.
        """
        return _apply(self, instruction, _Match())

    def __repr__(self) -> str:
        """Name and law."""
        return f"<Rule {self.name}: {self.law}>"


def rule(pattern: Pattern, dynamic: bool = False) -> Callable[[Callable[..., Any]], Rule]:
    """Make a rule of a function ``(b, x, y…)`` whose parameters after ``b`` are the pattern's names.

    The docstring's first line is the rule's law, such as ``add(x, 0) → x``. The function builds with
    ``b("mul", x, y)`` and returns the instruction that stands for the root, or ``Decline(reason)``.

    Raises:
        RewriteError: The parameters are not names of the pattern, or there is no law.
    """

    def make(function: Callable[..., Any]) -> Rule:
        wanted = list(inspect.signature(function).parameters)[1:]
        bound = pattern.names()
        if unknown := [w for w in wanted if w not in bound]:
            raise RewriteError(
                f"rule {function.__name__}: pattern binds {bound}, not {unknown[0]!r}"
            )
        return _rule_of(function, pattern, dynamic, tuple(wanted))

    return make


def _rule_of(
    function: Callable[..., Any], pattern: Pattern, dynamic: bool, parameters: tuple[str, ...]
) -> Rule:
    law = (function.__doc__ or "").strip().split("\n")[0]
    if not law:
        raise RewriteError(f"rule {function.__name__}: state its law in a docstring")
    file = re.sub(r".*/(?=workbench/)", "", function.__code__.co_filename)
    line = function.__code__.co_firstlineno
    return Rule(function.__name__, law, pattern, function, file, line, dynamic, parameters)


def law(function: Callable[..., Any]) -> Rule:
    """A rule that only states a law, as the name of edits: ``with program.edit(rule, root)``."""
    return _rule_of(function, Pattern(), True, ())


P = ParamSpec("P")
R = TypeVar("R")


def change(
    function: Callable[Concatenate[Instruction, P], R],
) -> Callable[Concatenate[Instruction, P], R]:
    """Make every call of a function one edit, for passes that find their places themselves.

    Its first argument is the instruction that the edit is about, its docstring's first line the law.
    What it inserts comes from the same source nodes as that instruction.

    Raises:
        RewriteError: There is no law.
    """
    stated = law(function)

    @wraps(function)
    def call(root: Instruction, *args: P.args, **kwargs: P.kwargs) -> R:
        program = root.module.program
        with program.edit(stated, root), program.source(*root.sources):
            return function(root, *args, **kwargs)

    return call


def _apply(rule: Rule, root: Instruction, match: _Match) -> Instruction | Decline | None:
    if root.shape.dims is not None and not rule.dynamic:
        return None
    if not match.meets(rule.pattern, root):
        return None
    program = root.module.program
    answer = _build(rule, root, match) if match.reason is None else Decline(match.reason)
    if isinstance(answer, Decline):
        for listener in program.listeners:
            listener.near_miss(rule, root, answer.reason)
    return answer


def _build(rule: Rule, root: Instruction, match: _Match) -> Instruction | Decline:
    module = root.module
    program = module.program
    sources = _sources(match.seen)
    with program.edit(rule, root), program.source(*sources):
        try:
            answer = rule.function(Rewriter(root), **{n: match.bound[n] for n in rule.parameters})
        except WorkbenchError as error:
            raise RewriteError(
                f"rule {rule.name} ({rule.file}:{rule.line}) at {root!r}: {error}"
            ) from error
        if isinstance(answer, Instruction):
            # A root that the rule moved to another module, a fused body, is replaced already.
            if answer is not root and root.module is module and program.find(root.id) is root:
                module.replace(root, answer)
        elif not isinstance(answer, Decline):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RewriteError(
                f"rule {rule.name} returned {answer!r}; expected an instruction or a Decline"
            )
    return answer


def _sources(seen: Iterable[Instruction]) -> tuple[str, ...]:
    """The source nodes of what was matched, each once, in the order of the program."""
    found: dict[str, None] = {}
    for instruction in sorted(seen, key=lambda i: i.id):
        if instruction.literal is None and instruction.parameter is None:
            found.update(dict.fromkeys(instruction.sources))
    return tuple(found)


class _Worklist:
    """Instructions to look at, each at most once at a time; a listener, so that it learns what is new."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.queue = deque(module)
        self.queued = set(self.queue)

    def push(self, instruction: Instruction) -> None:
        if instruction not in self.queued and instruction.module is self.module:
            self.queued.add(instruction)
            self.queue.append(instruction)

    def push_around(self, instruction: Instruction) -> None:
        """An instruction, its users and their users: what a pattern that contains it can be rooted at."""
        self.push(instruction)
        for user in instruction.users:
            self.push(user)
            for second in user.users:
                self.push(second)

    def pop(self) -> Instruction:
        instruction = self.queue.popleft()
        self.queued.discard(instruction)
        return instruction


class _Fresh:
    """A listener that collects what an edit touches."""

    def __init__(self) -> None:
        self.instructions: dict[Instruction, None] = {}

    def touched(self, instruction: Instruction) -> None:
        self.instructions[instruction] = None

    def removed(self, instruction: Instruction) -> None:
        self.instructions.pop(instruction, None)

    def _ignore(self, *_: Any) -> None:
        pass

    replaced = module_changed = edit_began = near_miss = pass_began = pass_ended = _ignore

    def edit_ended(self) -> None:
        pass


def drive(program: Program, rules: Sequence[Rule], max_edits: int | None = None) -> int:
    """Apply rules to every module that is not a fused body, until none applies any more.

    Work is driven by a list of instructions that may have become matches, not by sweeps. At each one
    the rules are tried in order; the first that applies wins.

    Returns:
        The number of edits made.

    Raises:
        RewriteError: The rules did not come to rest within ``max_edits``; it names the busiest ones.
    """
    limit = max_edits or 1000 + 20 * sum(map(len, program.modules.values()))
    table = _by_root(rules)
    made: Counter[str] = Counter()
    for module in reversed(program.reachable_modules()):
        if not module.bypass:
            _drive_module(module, table, made, limit)
    return made.total()


def _by_root(rules: Sequence[Rule]) -> Callable[[str], list[Rule]]:
    table: dict[str, list[Rule]] = {}

    def rules_for(name: str) -> list[Rule]:
        if name not in table:
            table[name] = [r for r in rules if r.roots is None or name in r.roots]
        return table[name]

    return rules_for


def _drive_module(
    module: Module, table: Callable[[str], list[Rule]], made: Counter[str], limit: int
) -> None:
    program = module.program
    work = _Worklist(module)
    fresh = _Fresh()
    program.listeners.append(fresh)
    try:
        while work.queue:
            root = work.pop()
            if program.find(root.id) is root and root.module is module:
                _try_rules(root, table(root.op.name), work, fresh, made)
            if made.total() > limit:
                busiest = ", ".join(f"{n} ({c} times)" for n, c in made.most_common(3))
                raise RewriteError(
                    f"module {module.name!r}: no end after {limit} edits; rules that undo each other? "
                    f"the busiest are {busiest}"
                )
    finally:
        program.listeners.remove(fresh)


def _try_rules(
    root: Instruction, rules: list[Rule], work: _Worklist, fresh: _Fresh, made: Counter[str]
) -> None:
    program = root.module.program
    for one in rules:
        match = _Match()
        fresh.instructions.clear()
        answer = _apply(one, root, match)
        if isinstance(answer, Instruction):
            made[one.name] += 1
            for touched in [*fresh.instructions, *match.seen, answer]:
                if program.find(touched.id) is touched:
                    work.push_around(touched)
            return
