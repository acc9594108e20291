"""Running passes on a program in place."""

from __future__ import annotations

from typing import Any, cast

from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.programs import program
from workbench.compiler.ir.tracing import traced
from workbench.compiler.passes.base import Pass, passes_of, run_pass
from workbench.compiler.passes.memory.eliminate_concat import EliminateConcat, NamedModel

_DEFAULTS: dict[str, dict[str, Any]] = {"simplify_qdq": {"drop_fake_quantization": True}}


@bound
def run_passes(program: program, passes: list[Any]) -> None:
    """Run passes on a program in place; ``simplify_qdq`` drops fake quantization unless told not to.

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
    if isinstance(one, Pass):
        return one
    name, *rest = cast("Any", (one,) if isinstance(one, str) else one)
    if len(rest) > 1 or not all(isinstance(options, dict) for options in rest):
        return cast("Any", one)
    return with_migraphx_options(name, rest[0] if rest else {})


def with_migraphx_options(name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A pass with MIGraphX's defaults, where ours keeps numbers that MIGraphX changes."""
    if name == EliminateConcat.name:
        options = _with_model(options)
    return name, _DEFAULTS.get(name, {}) | options


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
