"""Updates in place that accumulate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import SAME, Meaning, record
from workbench.compat.popart.ir.ops.checks import axes_of, check
from workbench.compat.popart.ir.ops.elementwise import scaled
from workbench.compat.popart.ir.ops.gathering import scattered
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

Factor = float | Tensor | None


@api
def accumulate_(t: Tensor, X: Tensor, f: Factor = None) -> Tensor:  # noqa: N803 - PopART's name
    """``t += f * X``; ``f`` is 1 by default."""
    one = 1.0 if f is None else f
    return _accumulated("Add", t, X, one, lambda a, x, k: a + scaled(x, k, a.dtype))


@api
def accumulate_square_(t: Tensor, X: Tensor, f: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """``t += f * X ** 2``."""
    return _accumulated(
        "DampenedAddSquare", t, X, f, lambda a, x, k: a + scaled(_square(x, a), k, a.dtype)
    )


@api
def accumulate_mean_(t: Tensor, X: Tensor, step: float | Tensor) -> Tensor:  # noqa: N803
    """The mean of ``step`` values in ``t`` and one more: ``t * step / (step + 1) + X / (step + 1)``."""

    def meaning(a: Value, x: Value, k: Any) -> Value:
        share = (
            k.astype("float") / (k.astype("float") + 1.0) if isinstance(k, Value) else k / (k + 1)
        )
        return scaled(a, share, a.dtype) + scaled(x, 1.0 - share, a.dtype)

    return _accumulated("Mean", t, X, step, meaning)


@api
def accumulate_moving_average_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """``f * t + (1 - f) * X``."""

    def meaning(a: Value, x: Value, k: Any) -> Value:
        return scaled(a, k, a.dtype) + scaled(x, 1.0 - k, a.dtype)

    return _accumulated("MovingAverage", t, X, f, meaning)


@api
def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """``f * t + (1 - f) * X ** 2``."""

    def meaning(a: Value, x: Value, k: Any) -> Value:
        return scaled(a, k, a.dtype) + scaled(_square(x, a), 1.0 - k, a.dtype)

    return _accumulated("MovingAverageSquare", t, X, f, meaning)


def _square(x: Value, like: Value) -> Value:
    """The square, in the type of the accumulator, which may be wider."""
    wide = x.astype(like.dtype)
    return wide * wide


def _accumulated(
    kind: str,
    t: Tensor,
    x: Tensor,
    factor: float | Tensor,
    meaning: Callable[[Value, Value, Any], Value],
) -> Tensor:
    check_fits("Accumulate", t, x)
    return update("Accumulate", [t, x], factor, meaning, accumulation_type=kind)


def check_fits(op_type: str, t: Tensor, x: Tensor) -> None:
    """Check that an update has the shape of the tensor.

    Raises:
        popart_exception: It does not.
    """
    check(t=t, X=x)
    if t.shape != x.shape:
        raise popart_exception(
            f"{op_type}: the update is {x!r} and the tensor {t!r}; expected equal shapes"
        )


def update(
    op_type: str, inputs: Sequence[Tensor], factor: float | Tensor, meaning: Callable[..., Value],
    **attributes: Any,
) -> Tensor:  # fmt: skip
    """Record an update of the first input; its factor is an attribute, or one more input."""
    given = list(inputs)
    made: Meaning = meaning
    if isinstance(factor, Tensor):
        check(factor=factor)
        given.append(factor)
    else:
        attributes["factor"] = factor
        made = lambda *values: meaning(*values, factor)  # noqa: E731

    def typed(*values: Value) -> Value:
        found = made(*values)
        assert isinstance(found, Value)
        return found.astype(values[0].dtype)

    memory: dict[str, Any] = {"modifies": (0,), "view": SAME}
    outputs = [(given[0].shape, given[0].dtype)]
    return record(op_type, given, typed, outputs=outputs, attributes=attributes, **memory).outputs[
        0
    ]


@api
def accumulator_scale_(t: Tensor, f: float | Tensor) -> Tensor:
    """``t *= f``; 0 gives zeros for all elements."""
    check(t=t)

    def meaning(a: Value, k: Any) -> Value:
        if isinstance(k, Value) or k != 0:
            return a * k
        zero = a.builder.constant(np.zeros((), a.dtype.numpy))
        return zero.broadcast_to(*a.shape) if a.ndim else zero  # pyright: ignore[reportArgumentType]

    return update("AccumulatorScale", [t], f, meaning)


@api
def accumulator_zero_(t: Tensor) -> Tensor:
    """``t = 0``."""
    return accumulator_scale_(t, 0.0)


@api
def sparse_accumulate_(
    t: Tensor,
    X: Tensor,  # noqa: N803 - PopART's name
    indices: Tensor,
    axis: int = 0,
    f: Factor = None,
    W: Tensor | None = None,  # noqa: N803 - PopART's name
) -> Tensor:
    """Add slices of ``f * X`` to the slices of ``t`` that the indices choose along an axis.

    Args:
        t: The tensor.
        X: The slices, as `gather` gives them for these indices.
        indices: Integers.
        axis: The axis that they count along.
        f: The factor; 1 by default.
        W: Recorded; a tensor whose layout the hardware takes.
    """
    given = {"W": W} if W is not None else {}
    check(t=t, X=X, indices=indices, **given)

    def meaning(a: Value, x: Value, where: Value, *rest: Any) -> Value:
        (at,) = axes_of(t, axis)
        lens = (*t.shape[:at], indices.nelms, *t.shape[at + 1 :])
        new = scaled(x.reshape(lens), rest[-1], a.dtype)
        return scattered(a, "scatter_add", where.reshape(-1).astype("int64"), new, at)

    inputs = [t, X, indices, *given.values()]
    return update("PopartSparseAccumulate", inputs, 1.0 if f is None else f, meaning, axis=axis)
