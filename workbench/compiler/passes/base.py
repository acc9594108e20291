"""What a pass is, how passes run, and the table of all passes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from workbench.compiler.errors import OperationError, RewriteError, WorkbenchError
from workbench.compiler.ir import Module
from workbench.compiler.program import Program
from workbench.compiler.rewrite import Rule, drive


@dataclass(frozen=True)
class Pass:
    """A transformation of a program. A subclass is a frozen dataclass: its fields are its options.

    It knows nothing of recording, timing or printing: whoever listens to the program learns what it did.
    """

    name: ClassVar[str] = ""
    rests: ClassVar[bool] = False
    """Whether it finds nothing to do on its own result, so that a pipeline need not run it again."""

    def apply(self, program: Program) -> None:
        """Transform the program in place."""
        raise OperationError(f"pass {self.name!r} does nothing: it declares no apply")

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
        drive(program, self.active)

    @property
    def active(self) -> tuple[Rule, ...]:
        """The rules that are not left out.

        Raises:
            OperationError: A rule that is to be left out does not exist.
        """
        names = [r.name for r in self.rules]
        if unknown := [n for n in self.without if n not in names]:
            raise OperationError(
                f"pass {self.name} has no rule {unknown[0]!r}; it has {', '.join(names)}"
            )
        return tuple(r for r in self.rules if r.name not in self.without)


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes in order; ``repeat`` runs them again while they change something, at most that often."""

    label: str = "pipeline"
    passes: tuple[Pass, ...] = ()
    repeat: int = 1

    def apply(self, program: Program) -> None:
        """Run the passes; a nested pipeline is run pass by pass.

        A pass that found nothing to do is left out as long as nothing has changed since.
        """
        self._repeat(program, {})

    def _repeat(self, program: Program, rested: dict[Pass, int]) -> None:
        for _ in range(self.repeat):
            before = program.version
            self._once(program, rested)
            if program.version == before:
                break

    def _once(self, program: Program, rested: dict[Pass, int]) -> None:
        """Run the passes; ``rested`` holds the program's version at which each came to rest."""
        for one in self.passes:
            if isinstance(one, Pipeline):
                one._repeat(program, rested)
            elif rested.get(one) != program.version:
                before = program.version
                run_pass(one, program)
                if one.rests or program.version == before:
                    rested[one] = program.version

    def __str__(self) -> str:
        """The label and its passes."""
        times = f" up to {self.repeat} times" if self.repeat > 1 else ""
        return f"{self.label}{times}: {', '.join(map(str, self.passes))}"


def run_pass(pass_: Pass, program: Program) -> None:
    """Run a pass, and tell the program's listeners when it begins and ends.

    Raises:
        RewriteError: The pass raised something that is no error of the workbench.
    """
    if isinstance(pass_, Pipeline):
        pass_.apply(program)
        return
    listeners = list(program.listeners)
    for listener in listeners:
        listener.pass_began(pass_)
    try:
        pass_.apply(program)
    except WorkbenchError:
        raise
    except Exception as error:  # whatever a pass raises is named with it
        raise RewriteError(f"pass {pass_}: {type(error).__name__}: {error}") from error
    finally:
        for listener in listeners:
            listener.pass_ended(pass_)


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
    package = importlib.import_module("workbench.compiler.passes")
    for family in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{family.name}")
    return dict(sorted(PASSES.items()))


def pass_named(name: str, **options: Any) -> Pass:
    """A pass by name.

    Raises:
        OperationError: There is no such pass, or it has no such option.
    """
    known = all_passes()
    if name not in known:
        raise OperationError(f"unknown pass {name!r}; passes are {', '.join(known)}")
    try:
        return known[name](**options)
    except TypeError as error:
        has = ", ".join(f.name for f in fields(known[name])) or "none"
        raise OperationError(f"pass {name}: {error}; its options are {has}") from error


def passes_of(
    wanted: Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]],
) -> list[Pass]:
    """Passes from passes, names, and names with options; or from one pass or name.

    Raises:
        OperationError: There is no such pass or option, or something else was given.
    """
    return list(map(_pass_of, [wanted] if isinstance(wanted, Pass | str) else wanted))


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
                f"{one!r} is no pass: expected a pass, a name, or a name with a dict of options{made}"
            )
