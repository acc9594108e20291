"""Conversions between element types, and quantization."""

from __future__ import annotations

from functools import reduce

from workbench.compiler.ir.dtypes import FP8, HELD_FORMATS, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.onnx.tensors import CODES
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.protos import first_version, takes
from workbench.compiler.onnx.write.registry import writes
from workbench.compiler.ops.elementwise import working_type

_ELEMENTS = {str(t.numpy): t.format.onnx for t in FP8} | {
    str(f.numpy): f.onnx for f in HELD_FORMATS
}


@writes("convert")
def convert(call: Call) -> str:
    """Cast."""
    return call.cast(call.inputs[0], call.type, call.op.target_type)


@writes("bit_cast")
def bit_cast(call: Call) -> str:
    """BitCast."""
    return call.add("BitCast", call.inputs[0], to=CODES[call.op.target_type])


@writes("cast_to")
def cast_to(call: Call) -> str:
    """Two casts: to the element type, then to the type in which the program holds it."""
    op = call.op
    mode = op.round_mode if op.element == "float8_e8m0fnu" else None
    code = _ELEMENTS[op.element]
    call.block.shared.need(first_version("Cast", code))
    made = call.add(
        "Cast", call.inputs[0], to=code, saturate=None if op.saturate else 0, round_mode=mode
    )
    return made if code == CODES.get(op.target) else call.add("Cast", made, to=CODES[op.target])


# Quantization


def _axis_of(instruction: Instruction) -> tuple[Instruction, int | None] | None:
    """The vector or the one element that a value repeats, and the vector's axis; else None."""
    shape = instruction.shape
    if not instruction.inputs or shape.dims is not None:
        return None
    x = instruction.inputs[0]
    if x.shape.dims is not None or not x.shape.is_tensor:
        return None
    if instruction.name in {"multibroadcast", "scalar", "broadcast"} and x.shape.elements == 1:
        return x, None
    if instruction.name == "broadcast" and x.shape.ndim == 1:
        return x, instruction.op.attributes()["axis"]
    if instruction.name == "multibroadcast":
        wide = [i for i, n in enumerate(x.shape.lens, shape.ndim - x.shape.ndim) if n > 1]
        return (x, wide[0]) if len(wide) == 1 else None
    return None


def _parameters(call: Call) -> tuple[list[str], dict[str, int]]:
    """Scales and zero points as ONNX has them: single, along an axis, or one for each element."""
    given = call.operands[1:]
    rank = call.shapes[0].ndim
    if not rank:
        return call.inputs[1:], {}
    found = [_axis_of(i) for i in given]
    if all(f is not None and f[1] == (found[0] or f)[1] for f in found):
        axis = (found[0] or (None, None))[1]
        sources = [f[0] for f in found if f is not None]
        names = [str(call.block.value(i)) for i in sources]
        dims = call.constant([] if axis is None else [-1])
        kept = [i.shape.ndim == (axis is not None) for i in sources]
        plain = [n if k else call.add("Reshape", n, dims) for n, k in zip(names, kept, strict=True)]
        return plain, {} if axis is None else {"axis": axis}
    return call.inputs[1:], {"axis": rank - 1, "block_size": 1}


def _fits(call: Call, op_type: str) -> bool:
    """Whether ONNX's operator takes these types; an element of a fused body has no axis for its scales."""
    types = [i.shape.type for i in call.operands]
    return not call.block.elementwise and all(takes(op_type, i, t) for i, t in enumerate(types))


@writes("quantizelinear")
def quantize(call: Call) -> str:
    """QuantizeLinear; its arithmetic step by step for types that it does not take."""
    type = call.shape.type
    if takes("QuantizeLinear", 2, type) and _fits(call, "QuantizeLinear"):
        inputs, attributes = _parameters(call)
        code = CODES[type] if len(inputs) == 1 else None
        return call.add("QuantizeLinear", call.inputs[0], *inputs, output_dtype=code, **attributes)
    work = DType.of(working_type(call.type.numpy, exact=False))
    made = call.add("Div", *(call.cast(v, call.type, work) for v in call.inputs[:2]))
    if not type.is_float:
        made = call.add("Round", made)
    if len(call.inputs) == 3:
        wide = type.is_integral and type.size > 2
        work, before = (DType.DOUBLE if wide else work), work
        made = call.cast(made, before, work)
        made = call.add("Add", made, call.cast(call.inputs[2], type, work))
    if type.is_integral and type.size <= 2:  # ONNX leaves open what Cast does beyond
        low, high = (call.constant(n, work) for n in type.format.limits)
        made = call.add("Min", call.add("Max", made, low), high)
    return call.cast(made, work, type)


@writes("dequantizelinear")
def dequantize(call: Call) -> str:
    """DequantizeLinear; its arithmetic step by step for types that it does not take."""
    own, scale = call.type, call.shapes[1].type
    if _fits(call, "DequantizeLinear") and not (own is DType.INT32 and len(call.inputs) == 3):
        inputs, attributes = _parameters(call)
        return call.add("DequantizeLinear", call.inputs[0], *inputs, **attributes)
    work = DType.of(working_type(scale.numpy, exact=False))
    if own.is_integral and own.size > 2:
        work = DType.DOUBLE
    values = [call.cast(v, own, work) for v in (call.inputs[0], *call.inputs[2:])]
    made = reduce(lambda a, b: call.add("Sub", a, b), values)
    made = call.add("Mul", made, call.cast(call.inputs[1], scale, work))
    return call.cast(made, work, scale)
