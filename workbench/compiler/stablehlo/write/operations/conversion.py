"""Conversions of element types, and quantization."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ops.elementwise import working_type
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor
from workbench.compiler.stablehlo.write.registry import writes


def cast(to: Lines, x: Tensor, type: DType) -> Tensor:
    """A value in another type by the rules of ONNX: floats truncate and saturate, NaN gives 0."""
    if type is DType.BOOL or x.type is type or not x.type.is_float:
        return to.convert(x, type)
    if type in FP8:
        return _to_fp8(to, x, type)
    if type.is_float:
        return to.convert(x, type)
    wide = x if x.type in {DType.FLOAT, DType.DOUBLE} else to.convert(x, DType.FLOAT)
    low, high = type.format.limits
    plain = to.select(to.compare("NE", wide, wide), to.like(wide, 0), wide)
    above = to.compare("GE", plain, to.like(wide, float(high)))
    below = to.compare("LE", plain, to.like(wide, float(low)))
    both = to.add("or", above, below)
    inside = to.convert(to.select(both, to.like(wide, 0), plain), type)
    found = to.select(above, to.like(inside, high), inside)
    return to.select(below, to.like(inside, low), found)


def _to_fp8(to: Lines, x: Tensor, type: DType) -> Tensor:
    """Floats of 8 bits, which saturate; NaN stays NaN."""
    wide = x if x.type in {DType.FLOAT, DType.DOUBLE} else to.convert(x, DType.FLOAT)
    limit = float(type.format.limits[1])
    bound = to.add("minimum", to.add("maximum", wide, to.like(wide, -limit)), to.like(wide, limit))
    return to.convert(bound, type)


@writes("convert")
def convert(call: Call) -> Tensor:
    """A conversion."""
    return cast(call.to, call.x, call.op.target_type)


@writes("bit_cast")
def bit_cast(call: Call) -> Tensor:
    """The same bits as another type."""
    return call.to.add("bitcast_convert", call.x, type=call.op.target_type)


def _work(type: DType) -> DType:
    return DType.of(working_type(type.numpy, exact=False))


def _sum(work: DType, type: DType) -> DType:
    """The type in which integers are added: double if float is not exact for them."""
    return DType.DOUBLE if type.is_integral and type.size > 2 else work


@writes("quantizelinear")
def quantize(call: Call) -> Tensor:
    """x / scale, rounded, plus the zero point, saturated."""
    to, work = call.to, _work(call.x.type)
    x, scale, *zero = call.inputs
    made = to.add("divide", to.convert(x, work), to.convert(scale, work))
    type = call.shape.type
    if not type.is_float:
        made = to.add("round_nearest_even", made)
    return cast(to, _moved(to, made, zero, "add", _sum(work, type)), type)


@writes("dequantizelinear")
def dequantize(call: Call) -> Tensor:
    """(x - zero point) · scale."""
    x, scale, *zero = call.inputs
    work = _sum(_work(scale.type), x.type)
    moved = _moved(call.to, call.to.convert(x, work), zero, "subtract", work)
    return call.to.convert(call.to.add("multiply", moved, call.to.convert(scale, work)), scale.type)


def _moved(to: Lines, value: Tensor, zero: Sequence[Tensor], op: str, work: DType) -> Tensor:
    if not zero:
        return value
    return to.add(op, to.convert(value, work), to.convert(zero[0], work))
