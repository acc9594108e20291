"""Running passes on a program in place."""

from __future__ import annotations

from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.programs import program
from workbench.compiler.ir.tracing import traced
from workbench.compiler.passes.base import Pass, passes_of, run_pass

_DEFAULTS: dict[str, dict[str, Any]] = {"simplify_qdq": {"drop_fake_quantization": True}}


@bound
def run_passes(program: program, passes: list[Any]) -> None:
    """Run passes on a program in place; ``simplify_qdq`` drops fake quantization unless told not to.

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
    match one:
        case str() as name:
            return with_migraphx_options(name, {})
        case (str() as name, dict()):
            return with_migraphx_options(name, cast("dict[str, Any]", one[1]))
        case tuple() | list():
            return tuple(cast("list[Any]", one))
        case Pass():
            return one
        case _:
            found = type(one).__name__
            raise Error(
                f"run_passes(): {one!r}: expected a name, or (name, options), found {found}"
            )


def with_migraphx_options(name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A pass with what MIGraphX does by default, where ours keeps numbers that MIGraphX changes."""
    return name, _DEFAULTS.get(name, {}) | options
