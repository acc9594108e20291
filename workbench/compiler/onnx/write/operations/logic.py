"""Comparison, logic, bits and selection: ONNX's truth values are bools, a program's of any type."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import FP8, DType, NaN
from workbench.compiler.onnx.nodes.elementwise import BINARY, COMPARED
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.protos import takes
from workbench.compiler.onnx.write.registry import writes

_COMPARED = {op: onnx for onnx, op in COMPARED.items()}
_LOGICAL = {op: onnx for onnx, op in BINARY.items() if op.startswith("logical")}
_BITWISE = {op: onnx for onnx, op in BINARY.items() if op.startswith("bitwise")}
_UNSIGNED = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32, 8: DType.UINT64}


def _comparable(call: Call, op_type: str) -> list[str]:
    """The operands in a type in which they are compared exactly."""
    type = call.taken(op_type, call.type, DType.FLOAT if call.type.is_float else DType.INT32)
    return [call.cast(v, call.type, type) for v in call.repeated]


@writes(*_COMPARED)
def compared(call: Call) -> str:
    """A comparison. In types with a single code for NaN, equality compares codes, so NaN equals itself."""
    op_type = _COMPARED[call.op.name]
    inputs = _comparable(call, op_type)
    found = call.add(op_type, *inputs)
    if op_type == "Equal" and call.type in FP8 and call.type.format.nan is NaN.FNUZ:
        both = call.add("And", *(call.add("IsNaN", v) for v in inputs))
        found = call.add("Or", found, both)
    return call.cast(found, DType.BOOL, call.type)


def truth(call: Call, at: int) -> str:
    """The operand of this index as a bool."""
    return call.cast(call.repeated[at], call.shapes[at].type, DType.BOOL)


@writes(*_LOGICAL)
def logical(call: Call) -> str:
    """A connective of the operands as bools."""
    found = call.add(_LOGICAL[call.op.name], truth(call, 0), truth(call, 1))
    return call.cast(found, DType.BOOL, call.type)


@writes("not")
def negation(call: Call) -> str:
    """The negation of the operand as a bool."""
    return call.cast(call.add("Not", truth(call, 0)), DType.BOOL, call.type)


@writes("isnan", "isinf")
def special(call: Call) -> str:
    """A property that only floats have."""
    op_type = {"isnan": "IsNaN", "isinf": "IsInf"}[call.op.name]
    if call.type.is_float:
        type = call.taken(op_type, call.type, DType.FLOAT)
        return call.add(op_type, call.cast(call.inputs[0], call.type, type))
    return call.add("Not", call.add("Equal", call.inputs[0], call.inputs[0]))


@writes(*_BITWISE)
def bitwise(call: Call) -> str:
    """An operator on bits; on bools, the connective."""
    op_type = _BITWISE[call.op.name]
    if call.type is DType.BOOL:
        op_type = op_type.removeprefix("Bitwise")
    return call.add(op_type, *call.repeated)


@writes("bitwise_not")
def inverted(call: Call) -> str:
    """BitwiseNot."""
    return call.add("BitwiseNot", *call.inputs)


@writes("shift_left", "shift_right")
def shifted(call: Call) -> str:
    """BitShift, which takes unsigned integers and no distance past their width."""
    own, bits = call.type, call.type.format.bits
    type, left = _UNSIGNED[own.size], call.op.name == "shift_left"
    x, distance = call.repeated
    zero = call.constant(0, own)
    below = call.add("Less", x, zero) if own.format.kind == "signed" and not left else ""
    if below:
        x = call.add("Where", below, call.add("BitwiseNot", x), x)
    fits = call.add("Less", distance, call.constant(bits, own))
    if own.format.kind == "signed":
        fits = call.add("And", fits, call.add("Not", call.add("Less", distance, zero)))
    kept = call.add("Where", fits, distance, zero)
    parts = [call.cast(v, own, type) for v in (x, kept)]
    made = call.add("BitShift", *parts, direction="LEFT" if left else "RIGHT")
    made = call.add("Where", fits, call.cast(made, type, own), zero)
    return call.add("Where", below, call.add("BitwiseNot", made), made) if below else made


@writes("where")
def where(call: Call) -> str:
    """A Where, whose condition is a scalar if it has one element."""
    condition, shape = truth(call, 0), call.shapes[0]
    one = shape.dims is None and shape.elements == 1 and shape.ndim > call.shapes[1].ndim
    if one and not call.block.elementwise:
        condition = call.add("Reshape", condition, call.constant([]))
    own = call.shapes[1].type
    type = own if takes("Where", 1, own) else DType.FLOAT
    values = [call.cast(v, own, type) for v in call.repeated[1:]]
    return call.cast(call.add("Where", condition, *values), type, own)
