"""Instructions whose lens are known only at run time: reshapes, broadcasts, slices and ranges."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.ranges import broadcast_dim, dims_of, intersection, quotient, same_length
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx.lengths import Span
from workbench.compiler.onnx.sizes import Length, Size, dim_of, known, origin, source_of, vector


def expected(module: Module, value: Instruction, dims: Sequence[Dim]) -> Instruction:
    """The value with tighter dimensions than its shape has."""
    own = dims_of(value.shape)
    if len(own) != len(dims):
        raise ShapeError(f"a value of shape {value.shape}; expected {len(dims)} dimensions")
    both = [intersection(want, has) or want for want, has in zip(dims, own, strict=True)]
    tighter = any(a != b or a.name != b.name for a, b in zip(both, own, strict=True))
    return module.add("expect_dims", value, out_dyn_dims=tuple(both)) if tighter else value


def reshaped(
    module: Module,
    value: Instruction,
    lens: Sequence[Length],
    given: Instruction | None = None,
    allowzero: bool = True,
) -> Instruction:
    """The value reshaped to other lens, some of which are unknown; one may be -1.

    Args:
        module: The module to append to.
        value: The value.
        lens: The lens.
        given: A vector that holds the lens, if there is one.
        allowzero: Whether a 0 in that vector is a length; otherwise it copies the value's own.
    """
    own, wanted = dims_of(value.shape), _wanted(value, lens)
    if len(own) == len(wanted) and all(map(same_length, own, wanted)):
        return value
    op = make("reshape", dims=_static(own, lens, wanted))
    if op.attributes()["dims"]:
        found = dims_of(op.shape_by(module.program.shape_rules, [value.shape]))
        if all(map(same_length, found, wanted)):
            return module.add(op, value)
    holds = vector(module, lens) if given is None else given
    return module.add(
        "reshape_with_dims", value, holds, out_dyn_dims=tuple(wanted), allowzero=allowzero
    )


def _wanted(value: Instruction, lens: Sequence[Length]) -> list[Dim]:
    """The dimensions of a reshape; -1 is the quotient of the total and the others."""
    others = [dim_of(n) for n in lens if isinstance(n, Size) or n >= 0]
    left = quotient(dims_of(value.shape), others) if len(others) < len(lens) else None
    return [left if left is not None and _is_rest(n) else dim_of(n) for n in lens]


def _is_rest(length: Length) -> bool:
    return isinstance(length, int) and length == -1


def _static(own: Sequence[Dim], lens: Sequence[Length], wanted: Sequence[Dim]) -> tuple[int, ...]:
    """The ``dims`` of a plain reshape to these lens; empty if a plain reshape cannot express them."""
    if 0 in [n for n in lens if isinstance(n, int)]:
        return ()
    found: list[int] = []
    for i, (n, dim) in enumerate(zip(lens, wanted, strict=True)):
        if dim.is_fixed:
            found.append(dim.min)
        elif isinstance(n, Size) and i < len(own) and same_length(own[i], dim):
            found.append(0)
        else:
            found.append(-1)
    return tuple(found) if found.count(-1) < 2 else ()


def spread(module: Module, value: Instruction, lens: Sequence[Length]) -> Instruction:
    """The value broadcast to lens; the lens or the value's own may be dynamic."""
    own, wanted = dims_of(value.shape), [dim_of(n) for n in lens]
    if len(own) == len(wanted) and all(map(same_length, own, wanted)):
        return value
    source = source_of(lens)
    if source is not None:
        return module.add("multibroadcast", value, source, out_dyn_dims=tuple(wanted))
    made = module.add("broadcast_with_dims", value, vector(module, lens))
    return expected(module, made, wanted)


def aligned(module: Module, inputs: Sequence[Instruction]) -> list[Instruction]:
    """Inputs, some with dimensions that are ranges, broadcast to their common lens.

    An input that is known to have the common lens is not broadcast. A strict program broadcasts every
    input, the first against all and the others against the first.
    """
    dims = [dims_of(i.shape) for i in inputs]
    wanted = common_dims(dims)
    full = next((i for i, d in zip(inputs, dims, strict=True) if _is_full(d, wanted)), None)
    if full is None or (module.program.strict and len(inputs) > 1):
        first = module.add("multibroadcast", *inputs, out_dyn_dims=wanted)
        rest = [module.add("multibroadcast", i, first, out_dyn_dims=wanted) for i in inputs[1:]]
        return [first, *rest]
    return [
        i
        if _is_full(d, wanted)
        else module.add("multibroadcast", i, origin(full), out_dyn_dims=dims_of(full.shape))
        for i, d in zip(inputs, dims, strict=True)
    ]


def _is_full(dims: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    return len(dims) == len(wanted) and all(map(same_length, dims, wanted))


def common_dims(every: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The dimensions that several shapes broadcast to.

    Raises:
        ValueError: Two ranges have no length in common, and neither allows 1.
    """
    rank = max(map(len, every), default=0)
    found = [Dim(1, 1)] * rank
    for dims in every:
        for axis, dim in enumerate(dims, rank - len(dims)):
            one = broadcast_dim(found[axis], dim)
            if one is None:
                raise ValueError(f"dimensions {found[axis]} and {dim} do not broadcast")
            found[axis] = one
    return tuple(found)


def sliced(
    module: Module,
    value: Instruction,
    axes: Sequence[int],
    starts: Sequence[Length],
    ends: Sequence[Length],
) -> Instruction:
    """A slice with bounds, some of which are unknown; those must not be negative."""
    low, high = known(starts), known(ends)
    if low is not None and high is not None:
        return module.add("slice", value, axes=tuple(axes), starts=low, ends=high)
    op = make("slice", axes=tuple(axes), starts=low or (), ends=high or ())
    bounds = [vector(module, v) for v, fixed in ((starts, low), (ends, high)) if fixed is None]
    made = module.add(op, value, *bounds)
    dims = list(dims_of(made.shape))
    for axis, start, end in zip(axes, starts, ends, strict=True):
        dims[axis] = between(_span(start), _span(end), dims_of(value.shape)[axis])
    return expected(module, made, dims)


def _span(length: Length) -> Span:
    if isinstance(length, int):
        return Span(length, length)
    return Span(length.dim.min, length.dim.max, length.dim.name)


def between(start: Span, end: Span, whole: Dim) -> Dim:
    """The lengths of a slice from a start to an end of a dimension."""
    if start.low < 0 or end.low < 0:
        return Dim(0, whole.max)
    span = Span(whole.min, whole.max, whole.name)
    stops = end if end.high <= whole.min or (end.name and end.name == whole.name) else None
    if end.low >= whole.max:
        stops = span
    if stops is not None and start.high <= stops.low:
        return (stops - start).dim
    if stops is not None and start.name and start.name == stops.name:
        return Dim(0, 0)
    high = max(0, min(end.high, whole.max) - start.low)
    return Dim(max(0, min(end.low, whole.min) - min(start.high, whole.max)), high)


def cut_out(
    module: Module, value: Instruction, axis: int, start: Length, size: Length
) -> Instruction:
    """``size`` elements of an axis, which is known to have them."""
    made = sliced(module, value, [axis], [start], [start + size])
    dims = list(dims_of(made.shape))
    dims[axis] = dim_of(size)
    return expected(module, made, dims)


def counted(module: Module, type: DType, count: Size) -> Instruction:
    """0, 1, 2… up to a count that is known only at run time."""
    zero, one = vector(module, [0]), vector(module, [1])
    made = module.add("dynamic_range", zero, count.value, one)
    made = expected(module, made, [count.dim])
    return made if type is DType.INT64 else module.add("convert", made, target_type=type)
