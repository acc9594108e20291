"""Lint of a program or a build: every kind of finding, or some of them."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.lint.finding import kinds
from workbench.compiler.lint.report import LintReport
from workbench.compiler.lint.subject import Subject
from workbench.compiler.report.result import Result


def lint(
    subject: Program | Build, result: Result | None = None, *, only: Iterable[str] = ()
) -> LintReport:
    """Find what a program does needlessly or at a risk: each with its cost, its reason and its remedy.

    Of a build, the compiled program is inspected, with the near misses of its recording and the lowering of
    its target. A program is inspected as it stands, and what needs a compilation is not found.

    Args:
        subject: A program, or a build.
        result: The result of a profiled run of the build, for measured milliseconds.
        only: Names of the kinds to look for; by default all (docs/lint.md).

    Raises:
        OperationError: It is neither a program nor a build, the result is of another program, or there is no
            such kind.
    """
    if not isinstance(subject, Program | Build):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperationError(f"lint: expected a program or a build; found {type(subject).__name__}")
    known = kinds()
    wanted = [only] if isinstance(only, str) else list(only)
    if unknown := [name for name in wanted if name not in known]:
        raise OperationError(f"no kind of finding {unknown[0]!r}; expected {', '.join(known)}")
    seen = Subject(subject, result)
    if result is not None and result.program is not seen.program:
        raise OperationError("the result is of another program; run this build with profile=True")
    chosen = [known[name] for name in wanted or known]
    found = [finding for one in chosen for finding in one.check(seen)]
    return LintReport(found, seen.program.name)
