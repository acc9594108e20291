"""Running passes on a program in place."""

from __future__ import annotations

from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.programs import program
from workbench.compiler.ir.tracing import traced
from workbench.compiler.passes.base import Pass, passes_of, run_pass
from workbench.compiler.passes.memory.eliminate_concat import EliminateConcat, NamedModel


@bound
def run_passes(program: program, passes: list[Any]) -> None:
    """Run passes on a program in place.

    Args:
        program: The program to change.
        passes: Names, or names with a dict of options:
            ``["simplify_algebra", ("fuse_pointwise", {"enable_rewrite_broadcasts": True})]``.
            ``eliminate_concat`` takes a target's operations as ``concat_opt``: a dict of the names
            ``concat``, ``allocate`` and ``copy``, and of the lists ``non_packed_output`` and
            ``packed_input_only``.

    Raises:
        Error: There is no such pass or option, or a pass failed.
    """
    core = program.core
    with traced(core, "compile"), program.following():
        for one in passes_of([_named(p) for p in passes]):
            run_pass(one, core)


def _named(one: Any) -> Any:
    if isinstance(one, list):
        one = tuple(cast("list[Any]", one))
    if not isinstance(one, str | tuple | Pass):
        found = type(cast("object", one)).__name__
        raise Error(f"run_passes(): {one!r}: expected a name, or (name, options), found {found}")
    if isinstance(one, tuple) and cast("Any", one)[0] == EliminateConcat.name:
        return (EliminateConcat.name, *map(_with_model, cast("Any", one)[1:]))
    return cast("Any", one)


def _with_model(options: dict[str, Any]) -> dict[str, Any]:
    """The options of ``eliminate_concat``, with the model that ``concat_opt`` describes."""
    given = dict(options)
    names = given.pop("concat_opt", None)
    return given if names is None else given | {"model": _concat_model(names)}


def _concat_model(names: dict[str, Any]) -> NamedModel:
    """The model of a target whose operations have these names."""
    known = ("concat", "allocate", "copy", "non_packed_output", "packed_input_only")
    if unknown := [k for k in names if k not in known]:
        raise Error(f"concat_opt: no key {unknown[0]!r}; it has {', '.join(known)}")
    given = {k: names[k] for k in known[:3] if k in names}
    writers, readers = (tuple(names.get(k, ())) for k in known[3:])
    return NamedModel(**given, writers=writers, packed_input_only=readers)
