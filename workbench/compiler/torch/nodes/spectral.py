"""Fourier transforms, and complex numbers: values whose last axis holds the real and the imaginary part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.ir.module import Instruction
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.nodes import movement
from workbench.compiler.torch.nodes.elementwise import add, product, same, sub
from workbench.compiler.torch.registry import complex_op
from workbench.compiler.torch.tensors import type_of

NORMALIZATIONS = (0.0, 0.5, 1.0)
"""The power of the number of elements that results are divided by."""


@complex_op("aten._fft_r2c")
def from_real(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, onesided: bool
) -> Instruction:
    """The transform of real numbers along axes; of the last one, half if it is one-sided."""
    rank, axes = x.shape.ndim, [d % x.shape.ndim for d in dim]
    lens = node.fixed([node.lens(x)[a] for a in axes], "transformed axes")
    found = node.add("dft", node.unsqueeze(x, rank), axis=axes[-1], onesided=onesided)
    for axis in axes[:-1]:
        found = node.add("dft", found, axis=axis)
    return _scaled(node, found, lens, normalization)


@complex_op("aten._fft_c2c")
def between(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, forward: bool
) -> Instruction:
    """The transform of complex numbers along axes, or its inverse."""
    rank = x.shape.ndim - 1
    lens = node.fixed([node.lens(x)[d % rank] for d in dim], "transformed axes")
    found = x
    for axis in dim:
        found = _transformed(node, found, axis % rank, forward)
    return _scaled(node, found, lens, normalization)


@complex_op("aten._fft_c2r")
def to_real(
    node: Context, x: Instruction, dim: Sequence[int], normalization: int, size: Any
) -> Instruction:
    """The inverse transform to real numbers: the other half of the last axis is the mirrored conjugate."""
    rank, length = x.shape.ndim - 1, node.whole(size, "the length")
    axes = [d % rank for d in dim]
    found = x
    for axis in axes[:-1]:
        found = _transformed(node, found, axis, forward=False)
    last = axes[-1]
    lens = node.fixed(node.lens(x), "the input")
    kept = node.slice(found, [last], [0], [length // 2 + 1])
    mirrored = node.slice(found, [last], [1], [(length + 1) // 2])
    mirrored = conjugate(node, node.add("reverse", mirrored, axes=(last,)))
    whole = node.add("concat", kept, mirrored, axis=last) if length > 2 else kept
    whole = _transformed(node, whole, last, forward=False)
    real = node.squeeze(node.slice(whole, [rank], [0], [1]), rank)
    return _scaled(node, real, [*[lens[a] for a in axes[:-1]], length], normalization)


def _transformed(node: Context, x: Instruction, axis: int, forward: bool) -> Instruction:
    """The transform along an axis without a scale, which the operation's inverse has."""
    found = node.add("dft", x, axis=axis, inverse=not forward)
    if forward:
        return found
    length = node.whole(node.lens(x)[axis], "the length")
    return node.apply("mul", found, float(length), type=x.shape.type)


def _scaled(node: Context, x: Instruction, lens: Sequence[int], normalization: int) -> Instruction:
    if not normalization:
        return x
    return node.apply("mul", x, prod(lens) ** -NORMALIZATIONS[normalization], type=x.shape.type)


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
def joined(node: Context, real: Instruction, imaginary: Instruction) -> Instruction:
    """The complex numbers of two parts."""
    parts = [
        node.unsqueeze(node.fit(p, node.out_lens()), len(node.out_lens()))
        for p in (real, imaginary)
    ]
    return node.add("concat", *parts, axis=len(node.out_lens()))


@complex_op("aten._to_copy", "prims.convert_element_type")
def to_copy(node: Context, x: Instruction, *_: Any) -> Instruction:
    """A value in another type; of real numbers complex ones, of complex numbers the real parts."""
    before, after = node.given(0).dtype, node.result().dtype
    type = type_of(after.to_real() if after.is_complex else after)
    rank = x.shape.ndim
    if before.is_complex and not after.is_complex:
        x = node.squeeze(node.slice(x, [rank - 1], [0], [1]), rank - 1)
    elif after.is_complex and not before.is_complex:
        real = node.unsqueeze(node.convert(x, type), rank)
        zeros = node.fit(node.scalar(type, 0), node.lens(real))
        x = node.add("concat", real, zeros, axis=rank)
    return node.add("identity", x) if x.shape.type is type else node.convert(x, type)


def _is_complex(node: Context, *positions: int) -> bool:
    return all(
        getattr(getattr(node.given(p), "dtype", None), "is_complex", False) for p in positions
    )


@complex_op("aten.add.Tensor", "aten.sub.Tensor")
def combined(node: Context, a: Any, b: Any, alpha: float = 1) -> Instruction:
    """A sum or a difference; of complex numbers, that of both parts."""
    plain = add if "add" in str(node.fx.target) else sub
    if not node.result().dtype.is_complex:
        return plain(node, a, b, alpha)
    if not _is_complex(node, 0, 1) or a.shape.ndim != b.shape.ndim or alpha != 1:
        raise node.fail("a sum of complex numbers and others")
    return node.apply(plain.__name__, a, b, type=a.shape.type)


@complex_op("aten.mul.Tensor")
def multiplied(node: Context, a: Any, b: Any) -> Instruction:
    """A product; of complex numbers, ``(ac - bd) + (ad + bc)i``."""
    if not node.result().dtype.is_complex:
        return product(node, a, b)
    if not _is_complex(node, 0, 1):
        raise node.fail("a product of complex numbers and others")
    type = a.shape.type
    (ar, ai), (br, bi) = _parts(node, a), _parts(node, b)
    times = [
        node.apply("mul", p, q, type=type) for p, q in ((ar, br), (ai, bi), (ar, bi), (ai, br))
    ]
    real, imaginary = node.add("sub", *times[:2]), node.add("add", *times[2:])
    rank = real.shape.ndim
    return node.add("concat", *(node.unsqueeze(p, rank) for p in (real, imaginary)), axis=rank)


def _parts(node: Context, x: Instruction) -> tuple[Instruction, Instruction]:
    last = x.shape.ndim - 1
    real, imaginary = (node.squeeze(node.slice(x, [last], [k], [k + 1]), last) for k in (0, 1))
    return real, imaginary


MOVED: dict[Callable[..., Any], tuple[str, ...]] = {
    same: ("aten.clone", "aten.alias", "aten.detach", "aten.detach_copy"),
    movement.view: ("aten.view", "aten._unsafe_view"),
    movement.permute: ("aten.permute",),
    movement.expand: ("aten.expand",),
    movement.squeeze: ("aten.squeeze.dim", "aten.squeeze.dims"),
    movement.unsqueeze: ("aten.unsqueeze",),
    movement.slice_: ("aten.slice.Tensor",),
    movement.select: ("aten.select.int",),
    movement.pad: ("aten.constant_pad_nd",),
    movement.flip: ("aten.flip",),
}
"""Operators that do to complex numbers what they do to their real and imaginary parts."""


def _by_parts(handler: Callable[..., Any]) -> Callable[..., Any]:
    def run(node: Context, x: Instruction, *rest: Any) -> Instruction:
        if not _is_complex(node, 0):
            return handler(node, x, *rest)
        made = [handler(node, part, *rest) for part in _parts(node, x)]
        rank = made[0].shape.ndim
        return node.add("concat", *(node.unsqueeze(p, rank) for p in made), axis=rank)

    return run


for _handler, _names in MOVED.items():
    complex_op(*_names)(_by_parts(_handler))
