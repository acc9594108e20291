"""Operations from Python: ``custom_op`` declares one by functions of the drop-in's shapes and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compat.migraphx.arguments import argument, as_argument, of_array, of_parts
from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.operations import op
from workbench.compat.migraphx.shapes import from_core, shape
from workbench.compat.migraphx.values import read
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops import custom

if TYPE_CHECKING:
    from workbench.compat.migraphx.modules import module
    from workbench.compiler.ir.module import Module

Function = Callable[..., Any]


@bound
def custom_op(
    name: str,
    attributes: dict[str, Any] | None = None,
    compute_shape: Function | None = None,
    compute: Function | None = None,
    output_alias: Function | None = None,
    context_free: bool = False,
    op_attributes: dict[str, Any] | None = None,
    normalizes: bool = False,
) -> op:
    """Declare an operation; afterwards ``op(name, ...)`` makes it like any other.

    A function with a parameter ``attributes`` is passed the operation's attributes by name;
    ``compute`` may have a parameter ``modules``: functions that run the module arguments on buffers.

    Args:
        name: Its name. A second declaration of a name replaces the first.
        attributes: Its attributes with their defaults.
        compute_shape: ``f(shapes, modules)``: the shape of the result.
        compute: ``f(output_shape, arguments)``: the result as an argument or a buffer; None if it was
            written into the argument that ``output_alias`` names. Without it the operation cannot run.
        output_alias: ``f(shapes)``: a list with the index of the input whose memory the result shares,
            or of several if it may be any of them, or None.
        context_free: Whether equal inputs always give equal results, so that it may be folded.
        op_attributes: Properties for passes: ``pointwise``, ``commutative``, ``normalize_axes``.
        normalizes: Whether its functions get negative axes counted from the front.

    Raises:
        Error: The name is taken, or the type of an attribute is not supported.
    """
    if compute_shape is None:
        raise TypeError(f"custom_op(): {name}: compute_shape is missing; it is f(shapes, modules)")
    given = {k: read(v) for k, v in (attributes or {}).items()}
    alias = None if output_alias is None else _Alias(output_alias)
    made = custom.operation(
        name=name,
        attributes={k: _core(v) for k, v in given.items()},
        compute_shape=_shape_rule(name, compute_shape),
        compute=None if compute is None else _meaning(name, compute),
        output_alias=alias,
        context_free=context_free,
        op_attributes=_axes_by_flags(op_attributes or {}),
        normalizes=normalizes,
    )
    type(made).may_share = alias is not None and alias.names_several
    return op.of(made)


def _axes_by_flags(op_attributes: dict[str, Any]) -> dict[str, Any]:
    """The properties for passes, where −rank is out of range for axes without ``include_min``."""
    axes = op_attributes.get("normalize_axes")
    if axes is None:
        return op_attributes
    open_ended = {
        k: [*flags] if "include_min" in flags else [*flags, "exclude_min"]
        for k, flags in axes.items()
    }
    return {**op_attributes, "normalize_axes": open_ended}


def _core(value: Any) -> Any:
    """The core's form of an attribute's default."""
    if isinstance(value, list):
        return [_core(v) for v in cast("list[Any]", value)]
    return getattr(value, "core", value)


def _shape_rule(name: str, function: Function) -> Function:
    def rule(shapes: Sequence[Shape], modules: Sequence[Module], *, attributes: Any) -> Shape:
        """Call the user's function."""
        values = [from_core(s) for s in shapes], [_handle(m) for m in modules]
        found = custom.call(function, values, {"attributes": attributes})
        if not isinstance(found, shape):
            raise Error(f"{name}: compute_shape returned {found!r}; expected a migraphx.shape")
        return found.core

    return rule


def _handle(core: Module) -> module:
    """The drop-in's handle of a module."""
    from workbench.compat.migraphx.modules import module  # noqa: PLC0415
    from workbench.compat.migraphx.programs import program  # noqa: PLC0415

    return module(program.of(core.program), core.name)


def _meaning(name: str, function: Function) -> Function:
    def meaning(core: Shape, values: Sequence[Value], *, attributes: Any, modules: Any) -> Any:
        """Call the user's function."""
        given = from_core(core), [_argument(v) for v in values]
        bodies = [_runs(m) for m in modules]
        found = custom.call(function, given, {"attributes": attributes, "modules": bodies})
        if found is None:
            return None
        return as_argument(found, f"{name}: compute").value

    return meaning


def _runs(body: Function) -> Function:
    def run(*buffers: Any) -> list[argument]:
        """The results of a module argument for these buffers."""
        values = [as_argument(b, f"input {i} of a module").value for i, b in enumerate(buffers)]
        return [_argument(v) for v in body(*values)]

    return run


def _argument(value: Value) -> argument:
    """The argument that shares the memory of a value."""
    if isinstance(value, tuple):
        parts = [_argument(v) for v in value]
        return of_parts(Shape.tuple_of([p.core for p in parts]), parts)
    return of_array(np.asarray(value))


class _Alias:
    """The input that a result shares memory with; None if it may be any of several."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.names_several = any(len(self._named(n)) > 1 for n in range(2, 9))

    def __call__(self, shapes: Sequence[Shape]) -> Sequence[int] | None:
        """Call the user's function."""
        found = self._function([from_core(s) for s in shapes])
        if not self.names_several:
            return found
        if any(not 0 <= k < len(shapes) for k in found or ()):
            raise Error(f"output_alias returned {found} for {len(shapes)} inputs")
        return None

    def _named(self, count: int) -> Sequence[int]:
        """The answer for so many inputs of a common shape; none if the function rejects them."""
        try:
            return self._function([shape(lens=[1])] * count) or ()
        except Exception:  # whatever a user's function raises
            return ()
