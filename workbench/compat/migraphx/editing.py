"""Running passes on a program in place."""

from __future__ import annotations

from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.programs import program
from workbench.compiler.ir.tracing import traced
from workbench.compiler.passes.base import Pass, passes_of, run_pass


@bound
def run_passes(program: program, passes: list[Any]) -> None:
    """Run passes on a program in place.

    Args:
        program: The program to change.
        passes: Names, or names with a dict of options:
            ``["simplify_algebra", ("fuse_pointwise", {"enable_rewrite_broadcasts": True})]``.

    Raises:
        Error: There is no such pass or option, or a pass failed.
    """
    core = program.core
    with traced(core, "compile"):
        for one in passes_of([_named(p) for p in passes]):
            run_pass(one, core)


def _named(one: Any) -> Any:
    if isinstance(one, list):
        return tuple(cast("list[Any]", one))
    if not isinstance(one, str | tuple | Pass):
        found = type(cast("object", one)).__name__
        raise Error(f"run_passes(): {one!r}: expected a name, or (name, options), found {found}")
    return cast("Any", one)
