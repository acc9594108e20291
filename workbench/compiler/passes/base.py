"""Passes: the base classes, how passes run, and the table of all passes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher, get_close_matches
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, dataclass_transform

from workbench.compiler.discovery import import_modules
from workbench.compiler.errors import OperationError, RewriteError, WorkbenchError
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.rewrite import Rule, drive
from workbench.knobs import knobs

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.record.recording import Recording


@dataclass(frozen=True)
class Pass:
    """A transformation of a program. A subclass is a frozen dataclass: its fields are its options.

    A pass does not record, time or print: listeners of the program observe what it does.
    """

    name: ClassVar[str] = ""
    rests: ClassVar[bool] = False
    """Whether the pass is idempotent: a pipeline need not run it again on its own result."""
    once: ClassVar[str] = ""
    """Why a second run may change the result of the first; empty if it cannot."""
    apart: ClassVar[str] = ""
    """Why no target's default pipeline includes the pass, and where it runs; empty if one does."""

    def apply(self, program: Program) -> None:
        """Transform the program in place."""
        raise OperationError(f"pass {self.name!r} has no apply(): override it in the subclass")

    def run(self, program: Program, edits: int | None = None) -> Recording:
        """Run on a program in place and record it; ``undo`` of the recording takes it back.

        Args:
            program: The program to transform.
            edits: The number of edits to stop after; by default run to the end.

        Returns:
            The recording, with one step for each pass that ran.
        """
        from workbench.compiler.passes.stepping import run_recorded  # noqa: PLC0415

        return run_recorded(self, program, edits)

    def would_change(self, program: Program) -> DataFrame:
        """The edits that the pass could make now, one at a time; the program is not changed.

        Returns:
            A row for each place where a rule applies, or for each edit of a pass without rules:
            the instruction's id and text, the rule, its law and its source line.
        """
        from workbench.compiler.passes.stepping import possible_changes  # noqa: PLC0415

        return possible_changes(self, program)

    @property
    def options(self) -> dict[str, Any]:
        """The pass's options by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (type(self).__doc__ or "").strip().split("\n")[0]

    def __str__(self) -> str:
        """The name, with the options that are not at their default."""
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name


def open_modules(program: Program) -> list[Module]:
    """The modules that passes work on, called ones before their callers: all but fused bodies."""
    return [m for m in reversed(program.reachable_modules()) if not m.bypass]


@dataclass(frozen=True)
class RewritePass(Pass):
    """A pass that is a list of rules, applied until none applies any more.

    Args:
        without: Names of rules to leave out.
    """

    rests: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = ()
    without: tuple[str, ...] = ()

    def apply(self, program: Program) -> None:
        """Apply the rules."""
        self.drive(program, self.rules)

    def drive(self, program: Program, rules: Sequence[Rule]) -> int:
        """Apply the given rules, except those left out; the number of edits made."""
        active = self.active
        return drive(program, [r for r in rules if r in active])

    @property
    def active(self) -> tuple[Rule, ...]:
        """The rules that are not left out.

        Raises:
            OperationError: A rule that is to be left out does not exist.
        """
        if not self.without:
            return self.allowed
        names = [r.name for r in self.rules]
        if unknown := [n for n in self.without if n not in names]:
            raise OperationError(
                f"pass {self.name} has no rule {unknown[0]!r}; it has {', '.join(names)}"
            )
        return tuple(r for r in self.allowed if r.name not in self.without)

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options allow."""
        return self.rules


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes in order, run up to ``repeat`` times while they still change the program."""

    label: str = "pipeline"
    passes: tuple[Pass, ...] = ()
    repeat: int = 1

    def apply(self, program: Program) -> None:
        """Run the passes; a nested pipeline is run pass by pass.

        A pass that found nothing to do is skipped until something changes.
        """
        self._repeat(program, {})

    def _repeat(self, program: Program, rested: dict[Pass, int]) -> None:
        for _ in range(self.repeat):
            before = program.version
            self._once(program, rested)
            if program.version == before:
                break

    def _once(self, program: Program, rested: dict[Pass, int]) -> None:
        """Run the passes; ``rested`` maps each to the program version at which it had nothing left to do."""
        for one in self.passes:
            if isinstance(one, Pipeline):
                one._repeat(program, rested)
            elif rested.get(one) != program.version:
                before = program.version
                run_pass(one, program)
                if one.rests or program.version == before:
                    rested[one] = program.version

    # Reading and editing

    def names(self) -> list[str]:
        """Names of all passes in order, those of nested pipelines included."""
        return [n for one in self.passes for n in _names(one)]

    def table(self) -> DataFrame:
        """One row per pass: its options, the pipelines that it is in, and what it does."""
        import pandas as pd  # noqa: PLC0415

        rows = [(p.name, _options_text(p), within, p.summary) for p, within in self._flat("")]
        columns = pd.Index(["pass", "options", "within", "what it does"])
        return pd.DataFrame(rows, columns=columns)

    def _flat(self, within: str) -> list[tuple[Pass, str]]:
        here = f"{within} / {self._title}" if within else self._title
        return [
            pair
            for one in self.passes
            for pair in (one._flat(here) if isinstance(one, Pipeline) else [(one, here)])
        ]

    @property
    def _title(self) -> str:
        return f"{self.label} ×{self.repeat}" if self.repeat > 1 else self.label

    def without(self, *names: str) -> Pipeline:
        """This pipeline without some passes, nested pipelines, or rules (``"pass.rule"``).

        Raises:
            OperationError: The pipeline has no such pass, or the pass no such rule.
        """
        found = self
        for name in names:
            found = found._without(name)
        return found

    def _without(self, name: str) -> Pipeline:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._expect(name, "be left out")
        owner, _, rule_name = name.partition(".")
        self._expect(owner, "be left out")
        if rule_name:
            return self._edited(owner, lambda p: (_without_rule(p, rule_name),))
        return self._edited(owner, lambda _: ())

    def before(self, name: str, *passes: Pass | str) -> Pipeline:
        """This pipeline with passes inserted before every pass of that name.

        Raises:
            OperationError: The pipeline has no such pass, or a new one does not exist.
        """
        self._expect(name, "have a pass before it")
        made = tuple(passes_of(passes))
        return self._edited(name, lambda p: (*made, p))

    def after(self, name: str, *passes: Pass | str) -> Pipeline:
        """This pipeline with passes inserted after every pass of that name.

        Raises:
            OperationError: The pipeline has no such pass, or a new one does not exist.
        """
        self._expect(name, "have a pass after it")
        made = tuple(passes_of(passes))
        return self._edited(name, lambda p: (p, *made))

    def replaced(self, name: str, *passes: Pass | str) -> Pipeline:
        """This pipeline with every pass of that name replaced by others.

        Raises:
            OperationError: The pipeline has no such pass, or a new one does not exist.
        """
        self._expect(name, "be replaced")
        made = tuple(passes_of(passes))
        return self._edited(name, lambda _: made)

    def _expect(self, name: str, what: str) -> None:
        known = [*self.names(), *self._labels()]
        if name not in known:
            listed = ", ".join(dict.fromkeys(known))
            raise OperationError(f"{name!r} cannot {what}: {self.label} runs {listed}")

    def _labels(self) -> list[str]:
        inner = [p for p in self.passes if isinstance(p, Pipeline)]
        return [label for p in inner for label in (p.label, *p._labels())]

    def _edited(self, name: str, edit: Callable[[Pass], tuple[Pass, ...]]) -> Pipeline:
        passes: list[Pass] = []
        for one in self.passes:
            own = one.label if isinstance(one, Pipeline) else one.name
            if own == name:
                passes += edit(one)
            else:
                passes.append(one._edited(name, edit) if isinstance(one, Pipeline) else one)
        return replace(self, passes=tuple(passes))

    def compare(self, other: Pipeline) -> DataFrame:
        """The passes of two pipelines side by side: ``=`` in both, ``-`` only here, ``+`` only there."""
        import pandas as pd  # noqa: PLC0415

        ours, theirs = ([str(p) for p, _ in one._flat("")] for one in (self, other))
        rows: list[tuple[str, str, str]] = []
        for tag, i, j, k, n in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if tag == "equal":
                rows += [("=", a, b) for a, b in zip(ours[i:j], theirs[k:n], strict=True)]
            else:
                rows += [("-", a, "") for a in ours[i:j]] + [("+", "", b) for b in theirs[k:n]]
        theirs_label = f"{other.label} (other)" if other.label == self.label else other.label
        return pd.DataFrame(rows, columns=pd.Index(["change", self.label, theirs_label]))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table()
        return {"text/plain": self.tree(), "text/html": table.to_html(border=0)}

    def tree(self) -> str:
        """The passes line by line, nested pipelines indented."""
        lines = [self._title]
        for one in self.passes:
            text = one.tree() if isinstance(one, Pipeline) else str(one)
            lines += [f"  {line}" for line in text.split("\n")]
        return "\n".join(lines)

    def __str__(self) -> str:
        """The label and its passes."""
        times = f" up to {self.repeat} times" if self.repeat > 1 else ""
        return f"{self.label}{times}: {', '.join(map(str, self.passes))}"


def _names(pass_: Pass) -> list[str]:
    return pass_.names() if isinstance(pass_, Pipeline) else [pass_.name]


def _options_text(pass_: Pass) -> str:
    return str(pass_).removeprefix(pass_.name).strip("()")


def _without_rule(pass_: Pass, rule_name: str) -> Pass:
    if not isinstance(pass_, RewritePass):
        raise OperationError(f"pass {pass_} has no rules, so {rule_name!r} cannot be left out")
    made = replace(pass_, without=(*pass_.without, rule_name))
    _ = made.active  # raises if the pass has no such rule
    return made


def run_pass(pass_: Pass, program: Program) -> None:
    """Run a pass, and tell the program's listeners when it begins and ends.

    Skip it if an option disables it.

    Raises:
        RewriteError: The pass raised an exception that is not a ``WorkbenchError``.
    """
    if isinstance(pass_, Pipeline):
        pass_.apply(program)
        return
    if is_disabled(pass_.name):
        return
    listeners = list(program.listeners)
    for listener in listeners:
        listener.pass_began(pass_)
    error: BaseException | None = None
    try:
        _apply(pass_, program)
    except BaseException as raised:
        error = raised
        raise
    finally:
        for listener in listeners:
            listener.pass_ended(pass_, error)


def _apply(pass_: Pass, program: Program) -> None:
    try:
        pass_.apply(program)
    except WorkbenchError:
        raise
    except Exception as error:  # any other exception is reported with the name of the pass
        raise RewriteError(f"pass {pass_}: {type(error).__name__}: {error}") from error


def is_disabled(name: str) -> bool:
    """Whether options disable the pass of that name."""
    switch = _SWITCHES.get(name)
    return name in knobs.disable_passes or (switch is not None and switch())


_SWITCHES: dict[str, Callable[[], bool]] = {
    "fuse_pointwise": lambda: knobs.disable_pointwise_fusion,
    "fuse_reduce": lambda: knobs.disable_reduce_fusion,
    "schedule": lambda: knobs.disable_schedule_pass,
}
"""The options that disable a single pass, by its name."""


PASSES: dict[str, type[Pass]] = {}

T = TypeVar("T", bound=Pass)


@dataclass_transform(frozen_default=True)
def register(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass and list it among the passes by its ``name``."""
    made = dataclass(frozen=True)(cls)
    if made.name in PASSES:
        raise OperationError(f"pass {made.name!r} is declared twice")
    PASSES[made.name] = made
    return made


def all_passes() -> dict[str, type[Pass]]:
    """Every registered pass by name."""
    import_modules("workbench.compiler.passes")
    return dict(sorted(PASSES.items()))


def pass_named(name: str, **options: Any) -> Pass:
    """A pass by name.

    Raises:
        OperationError: There is no such pass or option, or a switch is given a value that is not a bool.
    """
    known = all_passes()
    made = known.get(name) or pipeline_makers().get(name)
    if made is None:
        names = [*known, *pipeline_makers()]
        near = get_close_matches(name, names, 3)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise OperationError(
            f"unknown pass {name!r}; {hint}passes and pipelines are {', '.join(names)}"
        )
    if options:
        defaults = {k: p.default for k, p in signature(made).parameters.items()}
        for key, value in options.items():
            if isinstance(defaults.get(key), bool) and value not in (True, False):
                raise OperationError(f"pass {name}: {key}={value!r}; expected True or False")
    try:
        return made(**options)
    except TypeError as error:
        has = ", ".join(signature(made).parameters) or "none"
        raise OperationError(f"pass {name}: {error}; its options are {has}") from error


def pipeline_makers() -> dict[str, Callable[..., Pipeline]]:
    """Functions that make the named pipelines; their parameters are the pipelines' options."""
    return importlib.import_module("workbench.compiler.passes.pipelines").MAKERS


def passes_of(
    wanted: Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]],
) -> list[Pass]:
    """Passes from passes, names, and names with options; or from one pass or name.

    Raises:
        OperationError: There is no such pass or option, or something else was given.
    """
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        return [_pass_of(wanted)]
    return list(map(_pass_of, wanted))


def _pass_of(one: Any) -> Pass:
    match one:
        case Pass():
            return one
        case str():
            return pass_named(one)
        case (str() as name, dict()):
            return pass_named(name, **cast("dict[str, Any]", one[1]))
        case _:
            made = f"; make one with {one.__name__}()" if isinstance(one, type) else ""
            raise OperationError(
                f"{one!r} is not a pass: expected a pass, a name, or a name with a dict of options{made}"
            )
