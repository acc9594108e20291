"""Rules with their laws, declines with their reasons, and edits made by functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np

from workbench.compiler.errors import EvaluationError, RewriteError, WorkbenchError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.ir.shape import Shape
from workbench.compiler.rewrite.pattern import (
    Match,
    Pattern,
    Predicate,
)


@dataclass(frozen=True)
class Decline:
    """A rule's answer if its pattern matches but it does not apply; the user sees the reason."""

    reason: str


class Rewriter:
    """The builder that a rule gets: new instructions are inserted before the root of the match."""

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
        operation = op if isinstance(op, Operation) else make(op, **attributes)
        return self.module.insert_as(None, self.before, operation, inputs, modules)

    def reshape(self, x: Instruction, lens: Sequence[int]) -> Instruction:
        """A value with these lens; without elements a literal, as ``reshape`` copies a length for 0."""
        if 0 in lens and x.shape.dims is None:
            return self.literal(
                Argument(Shape(x.shape.type, lens), np.empty(0, x.shape.type.numpy))
            )
        return self("reshape", x, dims=tuple(lens))

    def literal(self, value: Any) -> Instruction:
        """Add a literal to the module."""
        return self.module.add_literal(value)

    def scalar(self, value: float, type: DType) -> Instruction:
        """Add a literal of rank 0."""
        return self.module.add_literal(scalar_argument(value, type))


def scalar_argument(value: float, type: DType) -> Argument:
    """One value of a type, of rank 0."""
    return Argument(Shape(type), np.array(value).astype(type.numpy))


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """A pattern and a small function that builds the replacement of its root. Made by ``@rule``."""

    name: str
    law: str
    pattern: Pattern
    function: Callable[..., Instruction | Decline]
    file: str
    line: int
    dynamic: bool = False
    parameters: tuple[str, ...] = ()
    except_at: frozenset[Edge] = frozenset()
    """The edges of types at which the law does not hold, as is known and wanted."""

    @property
    def roots(self) -> frozenset[str] | None:
        """The operations, by name, that the root may have; None for any."""
        return self.pattern.ops

    def match(self, instruction: Instruction) -> dict[str, Instruction] | str | None:
        """The bindings for this root; the reason of a near miss; or None."""
        found = Match()
        if not found.meets(self.pattern, instruction):
            return None
        return found.bound if found.reason is None else found.reason

    def apply_at(self, instruction: Instruction) -> Instruction | Decline | None:
        """Apply the rule at one instruction.

        Returns:
            The replacement; a Decline with the reason; None if the pattern does not match.

        Raises:
            RewriteError: The rule raised, or returned something else.
        """
        inputs = [(i.op.name, i.constant) for i in instruction.inputs]
        if not self.pattern.may_fit(type(instruction.op), inputs):
            return None
        match = matched(self, instruction)
        return None if match is None else apply_match(self, instruction, match)

    def __repr__(self) -> str:
        """Name and law."""
        return f"<Rule {self.name}: {self.law}>"


def rule(
    pattern: Pattern, dynamic: bool = False, except_at: Collection[Edge] = ()
) -> Callable[[Callable[..., Any]], Rule]:
    """Make a rule from a function ``(b, x, y…)`` whose parameters after ``b`` are names in the pattern.

    The docstring's first line is the rule's law, such as ``add(x, 0) → x``. The function builds with
    ``b("mul", x, y)`` and returns the instruction that replaces the root, or ``Decline(reason)``.

    Args:
        pattern: What the rule is tried on.
        dynamic: Whether it takes values whose dimensions are ranges.
        except_at: The edges of types at which the law does not hold, and need not: ``check_rule`` leaves
            them out, and the page of passes names them.

    Raises:
        RewriteError: A parameter is not a name in the pattern, or there is no law.
    """

    def make(function: Callable[..., Any]) -> Rule:
        wanted = list(inspect.signature(function).parameters)[1:]
        bound = pattern.names()
        if unknown := [w for w in wanted if w not in bound]:
            raise RewriteError(
                f"rule {function.__name__}: pattern binds {bound}, not {unknown[0]!r}"
            )
        return _rule_of(function, pattern, dynamic, tuple(wanted), frozenset(except_at))

    return make


def _rule_of(
    function: Callable[..., Any],
    pattern: Pattern,
    dynamic: bool,
    parameters: tuple[str, ...],
    except_at: frozenset[Edge] = frozenset(),
) -> Rule:
    law = (function.__doc__ or "").strip().split("\n")[0]
    if not law:
        raise RewriteError(f"rule {function.__name__}: state its law in a docstring")
    file = re.sub(r".*/(?=workbench/)", "", function.__code__.co_filename)
    line = function.__code__.co_firstlineno
    name = function.__name__
    return Rule(name, law, pattern, function, file, line, dynamic, parameters, except_at)


def law(function: Callable[..., Any]) -> Rule:
    """A rule that only states a law; it names edits: ``with program.edit(rule, root)``."""
    return _rule_of(function, Pattern(), True, ())


CHANGES: dict[Callable[..., Any], Rule] = {}
"""What every function made by ``change`` states."""

P = ParamSpec("P")
R = TypeVar("R")


def change(
    function: Callable[Concatenate[Instruction, P], R],
) -> Callable[Concatenate[Instruction, P], R]:
    """Make every call of a function one edit, for passes that search for matches themselves.

    Its first argument is the instruction that the edit is about; its docstring's first line is the law.
    Instructions that it inserts get that instruction's source nodes. A returned Decline is reported
    as a near miss.

    Raises:
        RewriteError: There is no law.
    """
    stated = law(function)

    @wraps(function)
    def call(root: Instruction, *args: P.args, **kwargs: P.kwargs) -> R:
        program = root.module.program
        before = program.begin_edit(stated, root, root.sources)
        try:
            answer = function(root, *args, **kwargs)
        finally:
            program.end_edit(before)
        if isinstance(answer, Decline):
            for listener in program.listeners:
                listener.near_miss(stated, root, answer.reason)
        return answer

    CHANGES[call] = stated
    return call


Attempt: TypeAlias = tuple[Predicate | None, Rule]
"""A rule to try, and the test of the root that decides whether it matches; None if operands decide, too.

Most attempts end with the test, before anything is called or made for them.
"""


def attempt(rule: Rule) -> Attempt:
    """The rule to try at instructions that it is a candidate for."""
    return rule.pattern.structure if rule.pattern.is_tested_first else None, rule


def match_of(rule: Rule, root: Instruction) -> Match | None:
    """The match of a rule at an instruction that has passed the test of its attempt; None if it is none."""
    match, pattern = Match(), rule.pattern
    meets = match.meets_tested if pattern.is_tested_first else match.meets_within
    if not meets(pattern, root):
        return None
    return match if rule.dynamic or not _is_dynamic(root, *match.bound.values()) else None


def matched(rule: Rule, root: Instruction) -> Match | None:
    """The match of a rule at an instruction that it is a candidate for; None if its pattern does not fit."""
    test, _ = attempt(rule)
    if root.shape.dims is not None and not rule.dynamic:
        return None
    return match_of(rule, root) if test is None or test(root) else None


Apply: TypeAlias = Callable[[Rule, Instruction, Match], Instruction | Decline]
"""Applies a rule to its match, or declines."""


def first_applied(
    attempts: Sequence[Attempt], root: Instruction, apply: Apply | None = None
) -> Instruction | None:
    """The result of the first of some candidates that applies at an instruction.

    Args:
        attempts: The candidates.
        root: The instruction.
        apply: Applies one; by default ``apply_match``.
    """
    apply = apply or apply_match
    is_dynamic = root.shape.dims is not None
    for test, one in attempts:
        if (is_dynamic and not one.dynamic) or (test is not None and not test(root)):
            continue
        match = match_of(one, root)
        if match is not None:
            answer = apply(one, root, match)
            if isinstance(answer, Instruction):
                return answer
    return None


def apply_match(rule: Rule, root: Instruction, match: Match) -> Instruction | Decline:
    """Apply a rule to its match, or decline where a condition failed; listeners hear of near misses."""
    program = root.module.program
    answer = _build(rule, root, match) if match.reason is None else Decline(match.reason)
    if isinstance(answer, Decline):
        for listener in program.listeners:
            listener.near_miss(rule, root, answer.reason)
    return answer


def _is_dynamic(*values: Instruction) -> bool:
    """Whether a value, or one that it is computed from, has dimensions that are ranges."""
    for value in values:  # loops: this runs at every match
        if value.shape.dims is not None:
            return True
        for given in value.inputs:
            if given.shape.dims is not None:
                return True
    return False


def _build(rule: Rule, root: Instruction, match: Match) -> Instruction | Decline:
    """The answer of a rule, which replaces its root; all of it is one edit."""
    program = root.module.program
    before = program.begin_edit(rule, root, _sources(match.seen, root))
    try:
        return _replaced(rule, root, match)
    finally:
        program.end_edit(before)


def _replaced(rule: Rule, root: Instruction, match: Match) -> Instruction | Decline:
    module = root.module
    try:
        answer = rule.function(Rewriter(root), **{n: match.bound[n] for n in rule.parameters})
    except EvaluationError as error:  # the run reports it, if it gets there
        answer = Decline(f"a constant is not computed before a run: {error}")
    except Exception as error:  # a rule may raise anything; the error names it and its location
        kind = "" if isinstance(error, WorkbenchError) else f"{type(error).__name__}: "
        raise RewriteError(f"{_place(rule)} at {root!r}: {kind}{error}") from error
    if isinstance(answer, Instruction):
        # A root that the rule moved into a fused body has been replaced already.
        gone = root.module is not module or module.program.find(root.id) is not root
        if answer is not root and not gone:
            _expect_shape(rule, root, answer)
            module.replace(root, answer)
    elif not isinstance(answer, Decline):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RewriteError(
            f"{_place(rule)} returned {answer!r}; expected an instruction or a Decline"
        )
    return answer


def _place(rule: Rule) -> str:
    return f"rule {rule.name} ({rule.file}:{rule.line})"


def _expect_shape(rule: Rule, root: Instruction, answer: Instruction) -> None:
    """Raise a RewriteError unless the answer has the root's type and lens; its strides may differ."""
    want, found = root.shape, answer.shape
    if want.is_dynamic or found.is_dynamic or not (want.is_tensor and found.is_tensor):
        return
    if (want.type, want.lens) != (found.type, found.lens):
        raise RewriteError(
            f"{_place(rule)} at {root!r}: its answer {answer!r} has another type or lens; "
            f"expected {want.type.type_name}, {list(want.lens)}"
        )


def _sources(seen: Sequence[Instruction], root: Instruction) -> tuple[str, ...]:
    """The source nodes of the root and the matched instructions, each once, in program order."""
    others = [i for i in seen if i is not root]
    if not others:
        return () if root.literal is not None or root.parameter is not None else root.sources
    found: dict[str, None] = {}
    for instruction in sorted({*others, root}, key=_id_of):
        if instruction.literal is None and instruction.parameter is None:
            found.update(dict.fromkeys(instruction.sources))
    return tuple(found)


def _id_of(instruction: Instruction) -> int:
    return instruction.id
