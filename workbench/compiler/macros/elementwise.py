"""Elementwise macros: broadcasting operations, activations, clip and tile."""

from __future__ import annotations

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.builtin import Undefined
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim
from workbench.compiler.macros import compositions
from workbench.compiler.macros.emit import Emit
from workbench.compiler.macros.table import macro


@macro(
    "add", "div", "logical_and", "logical_or", "logical_xor", "bitwise_and", "mul", "pow", "prelu",
    "sqdiff", "sub", least=2, most=2,
)  # fmt: skip
def pointwise(
    emit: Emit, inputs: list[Instruction], *, broadcasted_axis: int | None = None
) -> Instruction:
    """An operation on two inputs that are broadcast, or of which the shorter is placed along an axis."""
    a, b = inputs
    if broadcasted_axis is None:
        return emit.common(emit.name, a, b)
    short, long = (a, b) if a.shape.ndim < b.shape.ndim else (b, a)
    if a.shape.is_dynamic or b.shape.is_dynamic:
        raise emit.fail(f"broadcasted_axis with {a.shape} and {b.shape}; expected fixed lengths")
    spread = emit.add("broadcast", short, axis=broadcasted_axis, out_lens=long.shape.lens)
    return emit.add(emit.name, long, spread)


@macro("celu", least=1, most=1)
def celu(emit: Emit, inputs: list[Instruction], *, alpha: float = 1.0) -> Instruction:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    if inputs[0].shape.type is not DType.FLOAT:
        raise emit.fail(f"input {inputs[0].shape}; expected float_type")
    return compositions.celu(emit, inputs[0], alpha)


@macro("clip", least=1, most=3)
def clip(emit: Emit, inputs: list[Instruction]) -> Instruction:
    """A value clamped to a lower and an upper bound, either of which may be omitted."""
    x, low, high = [*inputs, None, None][:3]
    assert x is not None  # there is at least one input
    low, high = (None if v is None or isinstance(v.op, Undefined) else v for v in (low, high))
    if low is not None and high is not None:
        return emit.common("clip", x, low, high)
    if high is not None:
        return emit.common("min", x, high)
    return emit.add("identity", x) if low is None else emit.common("max", x, low)


@macro("gelu_quick", least=1, most=1)
def gelu_quick(emit: Emit, inputs: list[Instruction], *, alpha: float = 1.0) -> Instruction:
    """GELU approximated by the logistic function: ``x * sigmoid(alpha * x)``."""
    return compositions.gelu_quick(emit, inputs[0], alpha)


@macro("gelu_erf", least=1, most=1)
def gelu_erf(emit: Emit, inputs: list[Instruction]) -> Instruction:
    """GELU by the error function."""
    return compositions.gelu_erf(emit, inputs[0])


@macro("gelu_tanh", least=1, most=1)
def gelu_tanh(emit: Emit, inputs: list[Instruction], *, fast: bool = False) -> Instruction:
    """GELU by the hyperbolic tangent."""
    return compositions.gelu_tanh(emit, inputs[0], fast)


@macro("gelu_split", least=1, most=1)
def gelu_split(emit: Emit, inputs: list[Instruction]) -> Instruction:
    """The left half of the last dimension times GELU of the right half."""
    x = inputs[0]
    last = dims_of(x.shape)[-1:]
    n = last[0].min if last and last[0].is_fixed else 0
    if n < 2 or n % 2:
        raise emit.fail(f"input {x.shape}; expected an even last dimension of at least 2")
    left, right = emit.slice(x, -1, 0, n // 2), emit.slice(x, -1, n // 2, n)
    return emit.common("mul", left, compositions.gelu_erf(emit, right))


@macro("tile", least=1, most=1)
def tile(emit: Emit, inputs: list[Instruction], *, repeats: tuple[int, ...] = ()) -> Instruction:
    """The value repeated along each axis."""
    x, rank = inputs[0], inputs[0].shape.ndim
    if len(repeats) != rank or min(repeats, default=0) < 0:
        raise emit.fail(f"repeats {list(repeats)}; expected {rank} numbers, none negative")
    split = emit.unsqueeze(x, *range(0, 2 * rank, 2))
    if x.shape.is_dynamic:
        return _tile_ranges(emit, x, split, repeats)
    pairs = [n for pair in zip(repeats, x.shape.lens, strict=True) for n in pair]
    dims = [r * n for r, n in zip(repeats, x.shape.lens, strict=True)]
    return emit.reshape(emit.multibroadcast(split, pairs), *dims)


def _tile_ranges(
    emit: Emit, x: Instruction, split: Instruction, repeats: tuple[int, ...]
) -> Instruction:
    own = dims_of(x.shape)
    dims = [d for r, n in zip(repeats, own, strict=True) for d in (Dim(r, r), n)]
    spread = emit.add("multibroadcast", split, split, out_dyn_dims=tuple(dims))
    lens = [r * d.min if d.is_fixed else -1 for r, d in zip(repeats, own, strict=True)]
    if lens.count(-1) > 1:
        raise ShapeError(f"macro tile: {x.shape}; expected at most one dimension that is a range")
    return emit.reshape(spread, *lens)
