"""Complex numbers: values whose last axis holds the real and the imaginary part."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.builders import dot
from workbench.compiler.torch.context import Context, Handler, Operand
from workbench.compiler.torch.nodes import (
    creation,
    elementwise,
    indexing,
    matrix,
    movement,
    reduction,
)
from workbench.compiler.torch.nodes.norms import vector_norm
from workbench.compiler.torch.registry import complex_op, registered
from workbench.compiler.torch.tensors import type_of

LOADED = (creation, elementwise, indexing, matrix, movement, reduction)
"""The files whose handlers of real numbers are those of both parts."""

BY_PARTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((
        "aten.clone", "aten.alias", "aten.detach", "aten.detach_copy", "aten.lift_fresh_copy", "aten.view",
        "aten._unsafe_view", "aten.view_copy", "aten.permute", "aten.expand", "aten.squeeze.dim",
        "aten.squeeze.dims", "aten.unsqueeze", "aten.slice.Tensor", "aten.select.int", "aten.flip",
        "aten.repeat", "aten.diagonal", "aten.split_with_sizes", "aten.index_select", "aten.index.Tensor",
        "aten.gather", "aten.sum", "aten.sum.dim_IntList", "aten.mean", "aten.mean.dim", "aten.cumsum",
        "aten.neg", "aten.empty.memory_format", "aten.new_empty", "aten.zeros", "aten.empty_like",
        "aten.empty_permuted", "aten.empty_strided", "aten.permute_copy", "aten.unfold",
    ), ()),
    "aten.cat": (0,), "aten.where.self": (1, 2), "aten.full": (1,), "aten.full_like": (1,),
    "aten.fill.Scalar": (1,), "aten.constant_pad_nd": (2,), "aten.copy": (1,), "aten.slice_scatter": (1,),
    "aten.select_scatter": (1,), "aten.scalar_tensor": (0,), "aten.index_put": (2,),
}  # fmt: skip
"""Operators that do to complex numbers what they do to both parts.

The positions are those of operands beside the first: where one is real, its imaginary part is 0.
"""


@dataclass(frozen=True)
class Number:
    """An operand: both parts, of which a real one has no second."""

    real: Any
    imaginary: Any = None


def is_complex(known: Any) -> bool:
    """Whether an argument of a node is complex: a tensor, or a number of Python's."""
    value = known.meta.get("val") if hasattr(known, "meta") else known
    return isinstance(value, complex) or bool(
        getattr(getattr(value, "dtype", None), "is_complex", False)
    )


def parts(node: Context, x: Instruction) -> tuple[Instruction, Instruction]:
    """The real and the imaginary part of a value."""
    last = x.shape.ndim - 1
    real, imaginary = (node.squeeze(node.slice(x, [last], [k], [k + 1]), last) for k in (0, 1))
    return real, imaginary


def joined(node: Context, real: Operand, imaginary: Operand) -> Instruction:
    """The complex numbers of two parts, in the type and the lens of the result."""
    return _stacked(
        node, [node.fit(node.operand(p, node.dtype()), node.out_lens()) for p in (real, imaginary)]
    )


def _stacked(node: Context, both: list[Instruction]) -> Instruction:
    rank = both[0].shape.ndim
    return node.add("concat", *(node.unsqueeze(p, rank) for p in both), axis=rank)


def _number(node: Context, known: Any, value: Any) -> Number:
    if isinstance(value, complex):
        return Number(value.real, value.imag)
    return Number(*parts(node, value)) if is_complex(known) else Number(value)


# Both parts alike


def _by_parts(plain: Handler | None, zeros: tuple[int, ...]) -> Handler:
    assert plain is not None, "a handler of real numbers"

    def run(node: Context, *values: Any) -> Any:
        known = node.arguments
        if not is_complex(node.fx) and not any(map(_has_complex, known)):
            return plain(node, *values)
        both = [_flat(plain(node, *_part(node, known, values, k, zeros))) for k in (0, 1)]
        found = [_stacked(node, list(pair)) for pair in zip(*both, strict=True)]
        return found if isinstance(node.fx.meta["val"], list | tuple) else found[0]

    return run


def _flat(found: Any) -> list[Instruction]:
    return cast("list[Instruction]", found) if isinstance(found, list) else [found]


def _has_complex(known: Any) -> bool:
    listed = cast("list[Any]", known) if isinstance(known, list | tuple) else [known]
    return any(map(is_complex, listed))


def _part(node: Context, known: Any, values: Any, k: int, zeros: tuple[int, ...]) -> list[Any]:
    """The arguments for one part: 0 for real and 1 for imaginary."""
    return [
        _taken(node, known[at], value, k, is_value=at in zeros) for at, value in enumerate(values)
    ]


def _taken(node: Context, known: Any, value: Any, k: int, *, is_value: bool) -> Any:
    if isinstance(value, list):
        pairs = zip(known, cast("list[Any]", value), strict=True)
        return [_taken(node, *p, k, is_value=is_value) for p in pairs]
    number = _number(node, known, value)
    if k == 0 or (number.imaginary is None and not is_value):
        return number.real
    if number.imaginary is not None:
        return number.imaginary
    if isinstance(value, Instruction):
        return node.fit(node.scalar(value.shape.type, 0), node.lens(value))
    return 0


for _name, _zeros in BY_PARTS.items():
    complex_op(_name)(_by_parts(registered(_name), _zeros))


# Arithmetic


def _arithmetic(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of numbers as the handler where something is complex.

    It returns both parts of a complex result, or a real one.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            complex_op(name)(partial(_computed, function, registered(name)))
        return function

    return register


def _computed(
    function: Callable[..., Any], plain: Handler | None, node: Context, *values: Any
) -> Any:
    known = node.arguments
    if plain is not None and not is_complex(node.fx) and not any(map(is_complex, known)):
        return plain(node, *values)
    found = function(node, *(_number(node, *p) for p in zip(known, values, strict=True)))
    return joined(node, *cast("Any", found)) if isinstance(found, tuple) else found


def _type(node: Context) -> DType:
    """The type of the parts of the result, or of the operand where that is a bool."""
    return node.promoted(0) if node.dtype() is DType.BOOL else node.dtype()


def _apply(node: Context, op: str, a: Any, b: Any) -> Any:
    """An operation on two parts; one that is not there is 0."""
    if op == "mul":
        return None if a is None or b is None else node.apply(op, a, b, type=_type(node))
    if b is None:
        return a
    if a is None:
        return b if op == "add" else node.apply("sub", 0, b, type=_type(node))
    return node.apply(op, a, b, type=_type(node))


def _times(node: Context, a: Number, b: Number) -> tuple[Any, Any]:
    """``(ac - bd) + (ad + bc)i``."""
    mul = partial(_apply, node, "mul")
    real = _apply(node, "sub", mul(a.real, b.real), mul(a.imaginary, b.imaginary))
    imaginary = _apply(node, "add", mul(a.real, b.imaginary), mul(a.imaginary, b.real))
    return real, 0 if imaginary is None else imaginary


def _squared(node: Context, x: Number) -> Any:
    """``|x|²``."""
    return _apply(
        node, "add", *(_apply(node, "mul", p, p) for p in (x.real, x.imaginary))
    )  # fmt: skip


@_arithmetic("aten.mul.Tensor", "aten.mul.Scalar")
def times(node: Context, a: Number, b: Number) -> tuple[Any, Any]:
    """A product."""
    return _times(node, a, b)


@_arithmetic("aten.div.Tensor", "aten.div.Scalar")
def over(node: Context, a: Number, b: Number) -> tuple[Any, Any]:
    """A quotient: the product with the conjugate, by the square of the size."""
    if b.imaginary is None:
        found, size = (a.real, 0 if a.imaginary is None else a.imaginary), b.real
    else:
        found = _times(node, a, Number(b.real, _apply(node, "sub", None, b.imaginary)))
        size = _squared(node, b)
    real, imaginary = (node.apply("div", p, size, type=_type(node)) for p in found)
    return real, imaginary


@_arithmetic("aten.reciprocal")
def inverse(node: Context, x: Number) -> tuple[Any, Any]:
    """1 divided by a number."""
    return over(node, Number(1), x)


@_arithmetic("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def combined(node: Context, a: Number, b: Number, alpha: Number | None = None) -> tuple[Any, Any]:
    """A sum or a difference."""
    op = "add" if "aten.add" in str(node.fx.target) else "sub"
    if alpha is not None and alpha.real != 1:
        b = Number(*(_apply(node, "mul", p, alpha.real) for p in (b.real, b.imaginary)))
    real, imaginary = (_apply(node, op, *p) for p in ((a.real, b.real), (a.imaginary, b.imaginary)))
    return real, 0 if imaginary is None else imaginary


@_arithmetic("aten.pow.Tensor_Scalar")
def power(node: Context, x: Number, exponent: Number) -> tuple[Any, Any]:
    """A power with a small whole exponent, by products.

    Raises:
        ModelError: The exponent is another one.
    """
    times = exponent.real
    if exponent.imaginary is not None or times not in range(1, 9):
        raise node.fail("a power of complex numbers; expected a whole exponent from 1 to 8")
    found = (x.real, x.imaginary)
    for _ in range(int(times) - 1):
        found = _times(node, Number(*found), x)
    return found


@_arithmetic("aten.abs")
def size(node: Context, x: Number) -> Instruction:
    """``√(a² + b²)``, by the larger part, so that no square is too large."""
    type = node.dtype()
    both = [node.add("abs", p) for p in (x.real, x.imaginary)]
    most, least = node.add("max", *both), node.add("min", *both)
    ratio = node.apply("div", least, most, type=type)
    ratio = node.choose(node.test("equal", least, 0, type=type), 0.0, ratio, type)
    root = node.add("sqrt", node.apply("add", 1, node.add("mul", ratio, ratio), type=type))
    is_open = node.convert(node.add("isinf", most), DType.BOOL)
    return node.choose(is_open, most, node.add("mul", most, root), type)


@_arithmetic("aten.linalg_vector_norm")
def norm(node: Context, x: Number, *rest: Number) -> Instruction:
    """The norm of the sizes."""
    return vector_norm(node, size(node, x), *(r.real for r in rest))


@_arithmetic("aten.sqrt")
def root(node: Context, x: Number) -> tuple[Any, Any]:
    """The root of the size, and half the angle."""
    half = node.apply("mul", angle(node, x), 0.5, type=node.dtype())
    return _polar(node, node.add("sqrt", size(node, x)), half)


@_arithmetic("aten.angle")
def angle(node: Context, x: Number) -> Instruction:
    """The angle from the real axis; of a real number 0 or π."""
    if x.imaginary is None:
        type = node.dtype()
        return node.choose(node.test("less", x.real, 0, type=type), math.pi, 0.0, type)
    return node.add("atan2", x.imaginary, x.real)


@_arithmetic("aten.exp")
def exponential(node: Context, x: Number) -> tuple[Any, Any]:
    """``eᵃ (cos b + i sin b)``."""
    return _polar(node, node.add("exp", x.real), x.imaginary)


@_arithmetic("aten.log")
def logarithm(node: Context, x: Number) -> tuple[Any, Any]:
    """``log |x| + i angle(x)``."""
    return node.add("log", size(node, x)), angle(node, x)


@_arithmetic("aten.polar")
def polar(node: Context, length: Number, turn: Number) -> tuple[Any, Any]:
    """The numbers of a size and an angle."""
    return _polar(node, length.real, turn.real)


def _polar(node: Context, length: Any, turn: Any) -> tuple[Any, Any]:
    real, imaginary = (
        node.apply("mul", length, node.add(f, turn), type=node.dtype()) for f in ("cos", "sin")
    )
    return real, imaginary


@_arithmetic("aten.eq.Tensor", "aten.eq.Scalar", "aten.ne.Tensor", "aten.ne.Scalar")
def equal(node: Context, a: Number, b: Number) -> Instruction:
    """Whether both parts are equal, or whether one differs."""
    type = node.promoted(0)
    same = [
        node.test("equal", 0 if p is None else p, 0 if q is None else q, type=type)
        for p, q in ((a.real, b.real), (a.imaginary, b.imaginary))
    ]
    found = node.apply("logical_and", *same, type=DType.BOOL)
    return found if "aten.eq" in str(node.fx.target) else node.add("not", found)


@_arithmetic("aten.mm", "aten.bmm")
def product(node: Context, a: Number, b: Number) -> tuple[Any, Any]:
    """A product of matrices, by four of their parts."""
    return _dots(node, a, b)


@_arithmetic("aten.addmm", "aten.baddbmm")
def product_plus(
    node: Context, c: Number, a: Number, b: Number, beta: Number, alpha: Number
) -> tuple[Any, Any]:
    """``beta · c + alpha · a · b``."""
    found = _times(node, Number(*_dots(node, a, b)), alpha)
    real, imaginary = (
        _apply(node, "add", *p) for p in zip(found, _times(node, c, beta), strict=True)
    )
    return real, imaginary


def _dots(node: Context, a: Number, b: Number) -> tuple[Any, Any]:
    def times(x: Any, y: Any) -> Any:
        return None if x is None or y is None else dot(node, x, y)

    real = _apply(node, "sub", times(a.real, b.real), times(a.imaginary, b.imaginary))
    return real, _apply(node, "add", times(a.real, b.imaginary), times(a.imaginary, b.real))


# Between real and complex numbers


@complex_op("aten._conj", "aten._conj_physical", "aten.conj_physical")
def conjugate(node: Context, x: Instruction) -> Instruction:
    """The value with the sign of its imaginary part turned."""
    return node.apply(
        "mul", x, node.literal(np.array([1, -1], x.shape.type.numpy)), type=x.shape.type
    )


@complex_op(
    "aten.view_as_real", "aten.view_as_complex", "aten.resolve_conj", "aten.view_as_real_copy"
)
def seen(node: Context, x: Instruction) -> Instruction:
    """Both parts along the last axis, which is how complex numbers are held."""
    return node.add("identity", x)


@complex_op("aten.complex")
def of_parts(node: Context, real: Instruction, imaginary: Instruction) -> Instruction:
    """The complex numbers of two parts."""
    return joined(node, real, imaginary)


@complex_op("aten._to_copy", "prims.convert_element_type")
def to_copy(node: Context, x: Instruction, *_: Any) -> Instruction:
    """A value in another type; of real numbers complex ones, of complex numbers the real parts."""
    before, after = node.given(0).dtype, node.result().dtype
    if after.is_complex and not before.is_complex:
        return joined(node, x, 0)
    if before.is_complex and not after.is_complex:
        x, _imaginary = parts(node, x)
    type = type_of(after.to_real() if after.is_complex else after)
    return node.add("identity", x) if x.shape.type is type else node.convert(x, type)
