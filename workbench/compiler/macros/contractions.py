"""Macros of matrix products and normalisation, and the shift of uint8 operands to int8."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import broadcast_lens
from workbench.compiler.macros import compositions
from workbench.compiler.macros.emit import Emit
from workbench.compiler.macros.table import macro


@macro("gemm", least=2, most=3)
def gemm(
    emit: Emit,
    inputs: list[Instruction],
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,  # noqa: N803  # the option's own name
    transB: bool = False,  # noqa: N803
) -> Instruction:
    """``alpha * A @ B + beta * C`` with either matrix transposed."""
    a, b, c = [*inputs, None][:3]
    assert a is not None and b is not None  # noqa: PT018  # there are two inputs at least
    return compositions.gemm(emit, a, b, c, alpha, beta, (transA, transB))


@macro("dot", "quant_dot", least=2, most=4)
def dot(emit: Emit, inputs: list[Instruction]) -> Instruction:
    """A matrix product whose leading dimensions broadcast.

    Two further inputs, if given, are multiplied instead if the first two need no broadcast.
    """
    if len(inputs) == 3:
        raise emit.fail("3 inputs; expected 2 or 4")
    a, b = inputs[:2]
    if a.shape.ndim < 2 or b.shape.ndim < 2:
        raise emit.fail(f"{a.shape} and {b.shape}; expected matrices or stacks of matrices")
    if dims_of(a.shape)[:-2] == dims_of(b.shape)[:-2]:
        return emit.add(emit.name, *inputs[-2:])
    if a.shape.is_dynamic or b.shape.is_dynamic:
        left, right = emit.add("broadcast_for_dot", a, b), emit.add("broadcast_for_dot", b, a)
        return emit.add(emit.name, left, right)
    outer = broadcast_lens(a.shape.lens[:-2], b.shape.lens[:-2])
    operands = [
        given if x.shape.lens[:-2] == outer else emit.fit(x, (*outer, *x.shape.lens[-2:]))
        for x, given in ((a, inputs[-2]), (b, inputs[-1]))
    ]
    return emit.add(emit.name, *operands)


@macro("batchnorm", least=5, most=5)
def batchnorm(emit: Emit, inputs: list[Instruction], *, epsilon: float = 1e-5) -> Instruction:
    """Batch normalisation: inputs are a value, its scale, bias, mean and variance."""
    if not inputs[0].shape.ndim:
        raise emit.fail(f"input {inputs[0].shape}; expected one dimension or more")
    return compositions.batchnorm(emit, inputs[0], inputs[1:], epsilon)


@macro("mean_variance_normalization", least=1, most=1)
def mean_variance_normalization(
    emit: Emit, inputs: list[Instruction], *, axes: tuple[int, ...] = (0, 2, 3)
) -> Instruction:
    """The value minus its mean, divided by its deviation."""
    rank = inputs[0].shape.ndim
    if len(axes) != rank - 1:
        raise emit.fail(f"axes {list(axes)} for {rank} dimensions; expected {rank - 1} axes")
    return compositions.mean_variance_normalization(emit, inputs[0], axes)


def shifted(emit: Emit, value: Instruction, shift: Instruction) -> Instruction:
    """A uint8 value plus a shift, as int8; added in half, which is exact here."""
    moved = emit.common("add", emit.convert(value, DType.HALF), shift)
    return emit.convert(moved, DType.INT8)


@macro("bias_uint8", least=2, most=2)
def bias_uint8(
    emit: Emit, inputs: list[Instruction], *, has_bias: bool = False
) -> list[Instruction]:
    """A value as int8, for uint8 minus 128; and that value minus its zero point, shifted likewise."""
    x, zero = inputs
    if x.shape.type is DType.UINT8:
        shift = emit.scalar(DType.HALF, -128)
        x = shifted(emit, x, shift)
        zero = shifted(emit, zero, shift) if has_bias else x
    return [x, emit.common("sub", x, zero) if has_bias else zero]
