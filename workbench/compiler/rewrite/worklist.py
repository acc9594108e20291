"""The driver: applies rules to a program until none applies, using a worklist of possible matches."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from workbench.compiler.errors import RewriteError
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.rewrite.pattern import Match
from workbench.compiler.rewrite.rule import (
    Attempt,
    Decline,
    Rule,
    apply_match,
    attempt,
    first_applied,
)


class Candidates:
    """The rules that may match an instruction, judged by operations and constants, which exclude most."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Choose from these rules, in this order."""
        self.rules = tuple(rules)
        self.rooted = cache(self._rooted)
        """Whether any rule can have its root at an operation of a class, regardless of its inputs."""
        self.find_any = lru_cache(maxsize=64)(self._find_any)
        """Whether any rule finds the operations that it needs among these."""
        self._found: dict[tuple[type[Operation] | bool, ...], tuple[Attempt, ...]] = {}
        """The rules for an operation, and for each input its operation and whether it is constant."""

    def _rooted(self, op: type[Operation]) -> bool:
        return any(r.pattern.may_be(op) for r in self.rules)

    def _find_any(self, operations: frozenset[type[Operation]]) -> bool:
        names = {op.name for op in operations}
        return any(r.pattern.needs <= names for r in self.rules) and any(
            map(self.rooted, operations)
        )

    def at(self, instruction: Instruction) -> tuple[Attempt, ...]:
        """The rules to try here, in order."""
        inputs = instruction.inputs
        if len(inputs) == 2:  # without a loop: this runs at every visit
            one, two = inputs
            key = (
                type(instruction.op), type(one.op), one.constant, type(two.op), two.constant,
            )  # fmt: skip
        elif len(inputs) == 1:
            (one,) = inputs
            key = (type(instruction.op), type(one.op), one.constant)
        else:
            key = (type(instruction.op), *[k for i in inputs for k in (type(i.op), i.constant)])
        try:
            return self._found[key]
        except KeyError:
            given = [(i.op.name, i.constant) for i in inputs]
            rules = [r for r in self.rules if r.pattern.may_fit(type(instruction.op), given)]
            found = self._found[key] = tuple(map(attempt, rules))
            return found


@lru_cache(maxsize=64)
def candidates(rules: tuple[Rule, ...]) -> Candidates:
    """The candidates among these rules, cached because passes run again and again."""
    return Candidates(rules)


class _Worklist:
    """Instructions to visit, each queued at most once; only those that can be the root of some rule."""

    def __init__(self, module: Module, rules: Candidates) -> None:
        self.module = module
        self.candidates = rules
        roots = set(filter(rules.rooted, module.program.operations))
        self.queue = deque(module.of_kinds(roots))
        self.queued: set[Instruction] = set()
        """The same as ``queue``, from the first time on that something is pushed."""
        self.reread: dict[Instruction, None] = {}
        """Values that got or lost a user: rules about all users of a value may match there."""

    def push_around(self, instruction: Instruction) -> None:
        """Push an instruction, its users and their users: the possible roots of patterns that contain it."""
        self._push(instruction.reach)

    def push_reread(self) -> bool:
        """Push the values that got or lost a user, with their users; whether there are any."""
        find = self.module.program.find
        values = [i for i in self.reread if not i.constant and find(i.id) is i]
        values += [i.inputs[0] for i in values if isinstance(i.op, Slice)]
        self.reread.clear()
        around = {i: None for value in values for i in (value, *value.users)}
        self._push(sorted(around, key=lambda i: i.order))
        return bool(self.queue)

    def _push(self, found: Iterable[Instruction]) -> None:
        module, rooted = self.module, self.candidates.rooted
        if not self.queued:
            self.queued.update(self.queue)
        queued = self.queued
        for one in found:
            if one not in queued and one.module is module and rooted(type(one.op)):
                queued.add(one)
                self.queue.append(one)


MAX_GROWTH = 1 << 20
"""Instructions and operands that the edits of one drive may add; networks unrolled over thousands of steps
stay below."""


class _Growth:
    """The growth of a program by the edits of one drive, and its limit."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.limit = MAX_GROWTH + self.size

    @property
    def size(self) -> int:
        """The instructions and operands of the program."""
        return self._program.size + self._program.operands

    @property
    def is_full(self) -> bool:
        """Whether edits have added too much."""
        return self.size > self.limit


def drive(program: Program, rules: Sequence[Rule], max_edits: int | None = None) -> int:
    """Apply rules to every module that is not a fused body, until none applies.

    A worklist holds the instructions that may have become matches, so there are no sweeps. At each one
    the rules are tried in order; the first that applies wins. When edits have made the program grow by
    more than ``MAX_GROWTH``, the rest is left as it is, and near misses say so.

    Returns:
        The number of edits made.

    Raises:
        RewriteError: Rules still applied after ``max_edits``; the message names the most frequent ones.
    """
    among = candidates(tuple(rules))
    if not among.find_any(program.operations):
        return 0
    limit = max_edits or 1000 + 20 * sum(map(len, program.modules.values()))
    made: Counter[str] = Counter()
    growth = _Growth(program)
    for module in reversed(program.reachable_modules()):
        if not module.bypass:
            _drive_module(_Worklist(module, among), made, limit, growth)
    return made.total()


def _drive_module(work: _Worklist, made: Counter[str], limit: int, growth: _Growth) -> None:
    module, find, attempts_at = work.module, work.module.program.find, work.candidates.at
    queue, queued, is_full = work.queue, work.queued, growth.is_full

    def apply(rule: Rule, root: Instruction, match: Match) -> Instruction | Decline:
        answer = _applied(rule, root, match, work)
        if isinstance(answer, Instruction):
            made[rule.name] += 1
        return answer

    while queue or work.push_reread():
        root = queue.popleft()
        queued.discard(root)
        attempts = attempts_at(root)
        if not attempts or root.module is not module or find(root.id) is not root:
            continue
        if is_full:
            _leave(attempts, root, growth)
            continue
        if first_applied(attempts, root, apply) is not None:
            _check_rest(module, made, limit)
            is_full = growth.is_full


LEFT = "what is left stays as it is"
"""The end of the reason of a near miss where rewriting stopped."""


def _leave(attempts: Sequence[Attempt], root: Instruction, growth: _Growth) -> None:
    """Say of the rules that would be tried at a root why none is: edits have added too much already."""
    reason = (
        f"edits have made the program grow to {growth.size} instructions and operands, "
        f"more than {growth.limit}; {LEFT}"
    )
    for _, one in attempts:
        if one.match(root) is not None:
            for listener in root.module.program.listeners:
                listener.near_miss(one, root, reason)


def _applied(rule: Rule, root: Instruction, match: Match, work: _Worklist) -> Instruction | Decline:
    """Apply a rule to its match, or decline; push what may have become a match."""
    operands, program = root.inputs, work.module.program
    program.edited = {}
    answer = apply_match(rule, root, match)
    if not isinstance(answer, Instruction):
        return answer
    find, reread = program.find, work.reread
    for touched in {**program.edited, answer: None}:
        if find(touched.id) is touched:
            work.push_around(touched)
            for given in touched.inputs:
                reread[given] = None
    for seen in (*match.seen, *match.bound.values(), *operands):
        reread[seen] = None
        # Rules at other roots depend on the number of its users only if one user is left.
        if seen.only_user is not None and find(seen.id) is seen:
            work.push_around(seen)
    return answer


def _check_rest(module: Module, made: Counter[str], limit: int) -> None:
    if made.total() > limit:
        busiest = ", ".join(f"{n} ({c} times)" for n, c in made.most_common(3))
        raise RewriteError(
            f"module {module.name!r}: no end after {limit} edits; rules that undo each other? "
            f"the most frequent are {busiest}"
        )
