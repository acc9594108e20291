"""Elementwise operations, in place and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.op import SAME, Meaning, record
from workbench.compat.popart.ir.ops.checks import axes_of, check, check_same_type
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

OfOne = Callable[[Value], Value]
OfTwo = Callable[[Value, Value], Value]


def _binary(
    op_type: str, lhs: Tensor, rhs: Tensor, meaning: OfTwo, in_place: bool = False
) -> Tensor:
    check(lhs=lhs, rhs=rhs)
    check_same_type(op_type, lhs, rhs)
    return _made(op_type, [lhs, rhs], meaning, in_place)


def _unary(
    op_type: str, t: Tensor, meaning: OfOne, in_place: bool = False, **attributes: Any
) -> Tensor:
    check(t=t)
    return _made(op_type, [t], meaning, in_place, attributes)


def _made(
    op_type: str, inputs: list[Tensor], meaning: Meaning, in_place: bool,
    attributes: dict[str, Any] | None = None,
) -> Tensor:  # fmt: skip
    memory: dict[str, Any] = {"modifies": (0,), "view": SAME} if in_place else {}
    return record(op_type, inputs, meaning, attributes=attributes, **memory).outputs[0]


def _applied(name: str) -> Callable[..., Value]:
    return lambda *values: values[0].apply(name, *values[1:])


@api
def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs + rhs``."""
    return _binary("Add", lhs, rhs, _applied("add"))


@api
def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs + rhs``, in the memory of ``lhs``."""
    return _binary("AddLhsInplace", lhs, rhs, _applied("add"), True)


@api
def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs - rhs``."""
    return _binary("Sub", lhs, rhs, _applied("sub"))


@api
def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs * rhs``."""
    return _binary("Mul", lhs, rhs, _applied("mul"))


@api
def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs / rhs``, rounded down for integers."""
    return _binary("Div", lhs, rhs, lambda a, b: a / b if a.dtype.is_float else a // b)


@api
def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The remainder of ``lhs / rhs``, with the sign of ``lhs``."""
    return _binary("Fmod", lhs, rhs, _applied("fmod"))


@api
def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether elements are equal."""
    return _binary("Equal", lhs, rhs, lambda a, b: a == b)


@api
def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether both are true; other types are cast to bool."""
    return _logical("And", lhs, rhs, lambda a, b: a & b)


@api
def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Whether one is true; other types are cast to bool."""
    return _logical("Or", lhs, rhs, lambda a, b: a | b)


def _logical(op_type: str, lhs: Tensor, rhs: Tensor, meaning: OfTwo) -> Tensor:
    check(lhs=lhs, rhs=rhs)
    return _made(op_type, [_truth(lhs), _truth(rhs)], meaning, False)


@api
def logical_not(t: Tensor) -> Tensor:
    """Whether an element is false; other types are cast to bool."""
    check(t=t)
    return _unary("Not", _truth(t), lambda x: ~x)


def _truth(t: Tensor) -> Tensor:
    return t if t.dtype is dtypes.bool else cast(t, dtypes.bool)


@api
def negate(t: Tensor) -> Tensor:
    """``-t``."""
    return _unary("Neg", t, _applied("neg"))


@api
def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """``lhs`` where the condition is true, ``rhs`` elsewhere; other types of conditions are cast to bool."""
    check(condition=condition, lhs=lhs, rhs=rhs)
    check_same_type("Where", lhs, rhs)

    def meaning(c: Value, a: Value, b: Value) -> Value:
        return c.apply("where", a, b)

    return _made("Where", [_truth(condition), lhs, rhs], meaning, False)


@api
def relu(t: Tensor) -> Tensor:
    """``max(t, 0)``."""
    return _unary("Relu", t, _applied("relu"))


@api
def relu_(t: Tensor) -> Tensor:
    """``max(t, 0)``, in place."""
    return _unary("ReluInplace", t, _applied("relu"), True)


@api
def gelu(t: Tensor) -> Tensor:
    """GELU by the hyperbolic tangent, as PopART's hardware computes it."""
    return _unary("Gelu", t, _applied("gelu_tanh"))


@api
def gelu_(t: Tensor) -> Tensor:
    """GELU by the hyperbolic tangent, in place."""
    return _unary("GeluInplace", t, _applied("gelu_tanh"), True)


@api
def softmax(t: Tensor, axis: int) -> Tensor:
    """Exponentials divided by their sum along an axis."""
    check(t=t)
    (at,) = axes_of(t, axis)
    return _unary("Softmax", t, lambda x: x.apply("softmax", axis=at), axis=at)


@api
def cast(t: Tensor, data_type: dtype) -> Tensor:
    """The elements in another type."""
    name = data_type.as_numpy().__name__
    return _unary("Cast", t, lambda x: x.astype(_core(name)), to=data_type)


def _same(x: Value) -> Value:
    return x


def _core(name: str) -> str:
    return name.rstrip("_")


@api
def detach(t: Tensor) -> Tensor:
    """The same value, through which no gradient flows."""
    return _unary("Detach", t, _applied("identity"))


@api
def detach_(t: Tensor) -> Tensor:
    """The same memory, through which no gradient flows."""
    check(t=t)
    return record("DetachInplace", [t], _same, view=SAME).outputs[0]


@api
def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """``(t + increment) % modulus``."""
    return _increment("IncrementMod", t, increment, modulus, False)


@api
def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """``(t + increment) % modulus``, in place."""
    return _increment("IncrementModInplace", t, increment, modulus, True)


def _increment(op_type: str, t: Tensor, step: float, modulus: float, in_place: bool) -> Tensor:
    def meaning(x: Value) -> Value:
        kind = x.dtype.numpy.type
        return ((x + kind(step).item()) % kind(modulus).item()).astype(x.dtype)

    return _unary(op_type, t, meaning, in_place, increment=step, modulus=modulus)


@api
def scaled_add(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """``a * X + b * Y`` without broadcasting.

    Raises:
        ValueError: The shapes differ.
    """
    return _scaled_add("ScaledAdd", X, Y, a, b, False)


@api
def scaled_add_(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """``a * X + b * Y`` in the memory of ``X``.

    Raises:
        ValueError: The shapes differ.
    """
    return _scaled_add("ScaledAddLhsInplace", X, Y, a, b, True)


def _scaled_add(
    op_type: str, x: Tensor, y: Tensor, a: float | Tensor, b: float | Tensor, in_place: bool
) -> Tensor:
    scales = {n: s for n, s in (("a", a), ("b", b)) if isinstance(s, Tensor)}
    check(X=x, Y=y, **scales)
    check_same_type(op_type, x, y)
    if x.shape != y.shape:
        raise ValueError(f"{op_type}: X is {x!r} and Y is {y!r}; expected equal shapes")
    numbers = {n: s for n, s in (("a", a), ("b", b)) if not isinstance(s, Tensor)}

    def meaning(u: Value, v: Value, *given: Value) -> Value:
        factors = numbers | dict(zip(scales, given, strict=True))
        return scaled(u, factors["a"], u.dtype) + scaled(v, factors["b"], u.dtype)

    return _made(op_type, [x, y, *scales.values()], meaning, in_place, dict(numbers))


def scaled(x: Value, factor: Any, type: Any) -> Value:
    """A value times a number or another value, in a type; itself times 1."""
    if not isinstance(factor, Value) and factor == 1:
        return x.astype(type)
    return (x * factor).astype(type)
