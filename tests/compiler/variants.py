"""Operands made from an operation's samples: other types, layouts, ranks, lens; what is checked of each."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Family, Operation, all_operations
from workbench.compiler.ir.sampling import Edge, edges
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.buffers import Written
from workbench.compiler.ops.elementwise import cast

OPERATIONS = all_operations()

TYPES = [t for t in DType if t not in {DType.TUPLE, DType.FP4X2}]


class Operand(NamedTuple):
    """An array, and the element type that it stands for: ``fp4x2`` lies in bytes."""

    array: np.ndarray
    type: DType

    @property
    def shape(self) -> Shape:
        return Argument.of(self.array).shape.with_type(self.type)

    def with_array(self, array: np.ndarray) -> "Operand":
        return Operand(array, self.type)


Case = tuple[Operation, list[Operand]]
Variant = tuple[str, list[Operand]]


def cases(name: str) -> list[Case]:
    """The samples of an operation."""
    found = [(op, [operand(x) for x in operands]) for op, operands in OPERATIONS[name].samples()]
    assert found, f"{name} has no samples; give the class a samples() method"
    return found


def operand(x: Any) -> Operand:
    array = x.numpy() if isinstance(x, Argument) else x
    return Operand(array, x.shape.type if isinstance(x, Argument) else DType.of(array.dtype))


def shapes(operands: Sequence[Operand]) -> list[Shape]:
    return [x.shape for x in operands]


def said(op: Operation, operands: Sequence[Operand]) -> str:
    return f"{op}({'; '.join(str(x.shape) for x in operands)})"


# What is checked


def computed(
    op: Operation, operands: Sequence[Operand], shape: Shape | None = None
) -> list[np.ndarray]:
    """The results; no operand may be written to, but a buffer, and no warning may leak."""
    inputs = [x.array.view() for x in operands]
    if isinstance(op, Written):
        inputs[-1] = inputs[-1].copy(order="K")
    for x in inputs[:-1] if isinstance(op, Written) else inputs:
        x.flags.writeable = False
    before = [x.tobytes() for x in inputs if not x.flags.writeable]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = parts(op.compute(*inputs) if shape is None else op.compute_as(shape, *inputs))
    after = [x.tobytes() for x in inputs if not x.flags.writeable]
    assert before == after, f"{said(op, operands)} wrote to an input"
    return found


def parts(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [p for v in value for p in parts(v)]
    # NumPy makes a number of what has rank 0: so does an operation, and the interpreters make it an array.
    return [np.asarray(value) if isinstance(value, np.generic) else value]


def inferred(op: Operation, found: Sequence[Shape]) -> Shape | None:
    """The shape of the result; None if the shape rule refuses the inputs, as it should: by name."""
    try:
        shape = op.compute_shape(found)
        op.normalized(found)
    except ShapeError as error:
        expect_named(op, error)
        return None
    assert isinstance(shape, Shape)
    return shape


def expect_named(op: Operation, error: Exception) -> None:
    if op.name.rstrip(":") not in str(error):
        raise AssertionError(f"the refusal does not name it: {error}") from error


def checked(op: Operation, operands: Sequence[Operand]) -> list[np.ndarray] | None:
    """The results, which are what the shape rule says; None where it or the operation refuses."""
    shape = inferred(op, shapes(operands))
    if shape is None:
        return None
    try:
        results = computed(op, operands)
    except EvaluationError as error:
        expect_named(op, error)
        return None
    whole = parts_of(shape)
    assert len(whole) == len(results), f"{len(results)} results for {shape}"
    for one, result in zip(whole, results, strict=True):
        assert isinstance(result, np.ndarray), type(result)
        assert result.dtype == one.type.numpy, f"{result.dtype} for {one}"
        expect_fits(one, result)
    if not any(s.is_dynamic for s in whole):
        counts = op.flops(shapes(operands), shape), op.bytes(shapes(operands), shape)
        assert all(isinstance(n, int) and n >= 0 for n in counts), counts
    return results


def parts_of(shape: Shape) -> list[Shape]:
    return list(shape.subs) if shape.subs is not None else [shape]


def expect_fits(shape: Shape, result: np.ndarray) -> None:
    if shape.dims is None:
        assert result.shape == shape.array_lens, f"{result.shape} for {shape}"
        return
    assert len(shape.dims) == result.ndim, f"{result.shape} for {shape}"
    lens = zip(shape.dims, result.shape, strict=True)
    assert all(d.min <= n <= d.max for d, n in lens), f"{result.shape} for {shape}"


def expect_close(found: np.ndarray, wanted: np.ndarray, type: Any, what: str) -> None:
    """Equal up to a few roundings of ``type``, where the value fits the type."""
    assert found.shape == wanted.shape, what
    kind = DType.of(type)
    if not kind.is_float:
        np.testing.assert_array_equal(found, wanted, what)
        return
    info: Any = ml_dtypes.finfo(kind.numpy)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        fits = ~(np.abs(b) > float(info.max))
    eps, least = float(info.eps), float(info.smallest_subnormal)
    rtol = max(2 * eps, 1e-5 if eps > 1e-10 else 1e-12)
    np.testing.assert_allclose(a[fits], b[fits], rtol, max(rtol, least), err_msg=what)


def expect_same(op: Operation, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Equal bits; close, where the order of a sum or NumPy's choice of a kernel follows the layout."""
    sums = op.family in {Family.CONTRACTION, Family.REDUCE}
    for a, b in zip(found, wanted, strict=True):
        if sums or not getattr(op, "exact", True):
            expect_close(a, b, a.dtype, "")
        else:
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes(), f"{a} is not {b}"


def expect_as_in_float64(
    op: Operation, operands: Sequence[Operand], found: Sequence[np.ndarray]
) -> None:
    """The values of the same operation on doubles, truncated where they are integers.

    Only the first operand's type is widened, with those of the same type; values that the narrow
    type cannot hold, and bools, are another matter.
    """
    type = operands[0].type if operands else DType.BOOL
    if type is DType.BOOL:
        return
    wide = [Operand(x.array.astype(np.float64), DType.DOUBLE) if x.type is type else x
            for x in operands]  # fmt: skip
    shape = inferred(op, shapes(wide))
    if shape is None or shape == inferred(op, shapes(operands)):
        return
    for one, result, wanted in zip(parts_of(shape), found, computed(op, wide), strict=True):
        same = result.shape == wanted.shape and result.dtype == type.numpy
        if same and one.type is DType.DOUBLE:
            expect_held(result, wanted)


def expect_held(found: np.ndarray, wanted: np.ndarray) -> None:
    """Doubles as a narrower type holds them; those that it cannot hold may be anything."""
    kind = DType.of(found.dtype)
    if kind.is_float:
        expect_close(found, wanted, found.dtype, "")
        return
    info = np.iinfo(found.dtype)
    with np.errstate(invalid="ignore"):
        held = (wanted >= float(info.min)) & (wanted <= float(info.max) / 2)
    np.testing.assert_array_equal(found[held], np.trunc(wanted[held]))


def problems(variants: Iterator[Variant], check: Callable[[list[Operand]], object]) -> list[str]:
    """The problems of each variant."""
    found: list[str] = []
    for label, operands in variants:
        try:
            check(operands)
        except Exception as error:  # whatever it is, it is no ShapeError
            inputs = "; ".join(str(x.shape) for x in operands)
            found.append(f"{label} ({inputs}): {type(error).__name__}: {error}")
    return found


# Other types


def retyped(operands: Sequence[Operand]) -> Iterator[Variant]:
    """All operands of one type in every other type, and one operand alone."""
    groups = [
        [i for i, x in enumerate(operands) if x.type is t] for t in {x.type for x in operands}
    ]
    alone = [[i] for i in range(len(operands)) if [i] not in groups]
    for group in groups + alone:
        for type in TYPES:
            yield (
                f"operands {group} as {type.name}",
                [as_type(x, type) if i in group else x for i, x in enumerate(operands)],
            )


def as_type(x: Operand, type: DType) -> Operand:
    """The values in another type, kept within its bounds."""
    if x.type is type:
        return x
    array = x.array
    if type.is_integral and x.type.is_float:
        array = np.nan_to_num(array.astype(np.float64), posinf=3, neginf=-3)
    if type.is_integral and type is not DType.BOOL:
        low = np.iinfo(type.numpy).min
        array = np.abs(array) if low == 0 and array.dtype != np.bool_ else array
    return Operand(cast(array, type.numpy), type)


# Other layouts


def contiguous(operands: Sequence[Operand]) -> list[Operand]:
    return [x.with_array(np.ascontiguousarray(x.array).reshape(x.array.shape)) for x in operands]


def turned(x: np.ndarray) -> np.ndarray:
    """The same values with the axes in memory the other way around."""
    return np.asfortranarray(x)


def gappy(x: np.ndarray) -> np.ndarray:
    """The same values with a gap after each."""
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


def sliced(x: np.ndarray) -> np.ndarray:
    """The same values within a larger array."""
    large = np.zeros([n + 3 for n in x.shape], x.dtype)
    inside = tuple(slice(1, n + 1) for n in x.shape)
    large[inside] = x
    return large[inside]


def backwards(x: np.ndarray) -> np.ndarray:
    """The same values with strides that go backwards."""
    return np.ascontiguousarray(x[::-1])[::-1] if x.ndim else x


def repeated(x: np.ndarray) -> np.ndarray:
    """The first slice along the first axis, repeated with stride 0."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim else x


def flat(x: np.ndarray) -> np.ndarray:
    """The first element, repeated everywhere."""
    return np.broadcast_to(x.reshape(-1)[:1].reshape((1,) * x.ndim), x.shape) if x.size else x


LAYOUTS = [turned, gappy, sliced, backwards, repeated, flat]


def laid_out(operands: Sequence[Operand]) -> Iterator[Variant]:
    """Every layout for all operands, and for each alone."""
    count = len(operands)
    groups = [set(range(count)), *[{i} for i in range(count) if count > 1]]
    for layout in LAYOUTS:
        for group in groups:
            yield (
                f"{layout.__name__} {sorted(group)}",
                [
                    x.with_array(layout(x.array)) if i in group else x
                    for i, x in enumerate(operands)
                ],
            )


# Values at the edges of types


def edged(op: Operation, operands: Sequence[Operand]) -> Iterator[Variant]:
    """Every third element of each operand at one kind of edge of its type.

    Elsewhere than in elementwise work, integers count and point, and the largest numbers may be summed to
    infinity or not, by the order.
    """
    apart = set() if op.family is Family.POINTWISE else {Edge.ENDS, Edge.LARGE}
    for edge in [e for e in Edge if e not in apart]:
        if any(edges(x.type).get(edge) for x in operands):
            yield f"at {edge.value}", [_edged(x, edge, k) for k, x in enumerate(operands)]


def _edged(x: Operand, edge: Edge, start: int) -> Operand:
    """An operand of the same layout, so that the same kernel takes it."""
    values, dtype, shape = edges(x.type).get(edge, ()), x.array.dtype, x.shape
    flat = np.zeros(shape.element_space, f"u{dtype.itemsize}")
    strides = [s * dtype.itemsize for s in shape.strides]
    array = np.lib.stride_tricks.as_strided(flat, x.array.shape, strides).view(dtype)
    array[...] = x.array
    for k, at in enumerate(np.ndindex(array.shape)):
        if values and (k + start) % 3 == 0:
            array[at] = np.array(values[k // 3 % len(values)]).astype(dtype)
    return x.with_array(array)


# Other lens


def emptied(operands: Sequence[Operand]) -> Iterator[Variant]:
    """A length that becomes 0 wherever it stands, and in one axis alone."""
    for n in {n for x in operands for n in x.array.shape}:
        yield f"length {n} as 0", [x.with_array(_emptied(x.array, n)) for x in operands]
    for i, x in enumerate(operands):
        for axis in range(x.array.ndim):
            cut = x.array[(slice(None),) * axis + (slice(0),)]
            yield f"axis {axis} of {i} as 0", [*operands[:i], x.with_array(cut), *operands[i + 1 :]]


def _emptied(x: np.ndarray, n: int) -> np.ndarray:
    return x[tuple(slice(0) if m == n else slice(None) for m in x.shape)]


def reranked(operands: Sequence[Operand]) -> Iterator[Variant]:
    """An axis more or less, a length less, one element: of all operands, and of each alone."""
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "one axis more": lambda x: x[None],
        "one axis less": lambda x: x[0] if x.ndim > 1 and x.shape[0] else x,
        "flat": lambda x: x.reshape(-1),
        "one element": lambda x: x.reshape(-1)[:1],
        "shorter": lambda x: x[..., :-1],
        "scalar": lambda x: x.reshape(-1)[0] if x.size else x,
    }
    for label, change in changes.items():
        for group in [set(range(len(operands))), *[{i} for i in range(len(operands))]]:
            yield (
                f"{label} {sorted(group)}",
                [x.with_array(np.asarray(change(x.array))) if i in group else x
                 for i, x in enumerate(operands)],
            )  # fmt: skip


def odd_shapes(found: Sequence[Shape]) -> Iterator[list[Shape]]:
    """Tuples, sequences, shapes without dimensions, packed types and ranges in place of each operand."""
    for i, shape in enumerate(found):
        for odd in (
            Shape.tuple_of([shape, shape]),
            Shape.sequence_of(shape),
            Shape(shape.type),
            Shape.scalar(shape.type),
            shape.with_type(DType.FP4X2),
            ranged(shape, 0, 2),
            Shape.dynamic(shape.type, [Dim(0, 9)]),
        ):
            yield [*found[:i], odd, *found[i + 1 :]]


def ranged(shape: Shape, less: int, more: int) -> Shape:
    """Dimensions that allow the shape's own lens and others."""
    return Shape.dynamic(shape.type, [Dim(max(0, n - less), n + more) for n in shape.lens])
