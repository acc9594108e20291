"""Elementwise arithmetic: one operator where ONNX has it, else a few, in the type in which it is done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.nodes.elementwise import BINARY, FOLDED, UNARY
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.protos import takes
from workbench.compiler.onnx.write.registry import writes
from workbench.compiler.ops.elementwise import working_type

_OWN = {"not", "isnan", "neg", "identity", "lrn", "leaky_relu", "elu", "add", "logical_and", "logical_or",
        "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip
"""Operations of the importer's tables that are more than one operator, or not arithmetic."""

_NATIVE = {op: onnx for onnx, op in (FOLDED | UNARY | BINARY).items() if op not in _OWN}
_NATIVE["pow"] = "Pow"
"""The operators that the importer makes one operation of, read backwards."""

_ROUNDING = {"ceil", "floor", "nearbyint"}


def work_of(call: Call) -> DType:
    """The type in which the arithmetic of an operation is done."""
    return DType.of(working_type(call.type.numpy, call.op.exact))


@writes(*_NATIVE)
def native(call: Call) -> str:
    """The operator that the importer makes this operation of."""
    return elementwise(call, _NATIVE[call.op.name])


def elementwise(call: Call, op_type: str) -> str:
    """One operator, in the operands' type if ONNX has it for that, else in the type of the arithmetic."""
    own = call.type
    if call.op.name in _ROUNDING and not own.is_float:
        return call.inputs[0]
    if call.op.name == "relu" and own.format.kind == "unsigned":
        return call.inputs[0]  # there are no negative ones
    first = own if own.is_float or call.op.exact else work_of(call)
    return call.within(op_type, first, work_of(call), DType.INT64)


@writes("leaky_relu", "elu")
def sloped(call: Call) -> str:
    """LeakyRelu or Elu; in float64, where ONNX's attribute would round the slope, with a product."""
    op_type = {"leaky_relu": "LeakyRelu", "elu": "Elu"}[call.op.name]
    work, alpha = work_of(call), call.op.alpha
    if work is not DType.DOUBLE or float(np.float32(alpha)) == alpha:
        first = call.type if call.type.is_float else work
        return call.within(op_type, first, work, alpha=alpha)
    x = call.cast(call.inputs[0], call.type, work)
    below = call.add("Elu", x) if op_type == "Elu" else x
    above = call.add("Greater", x, call.constant(0.0, work))
    made = call.add("Where", above, x, call.add("Mul", below, call.constant(alpha, work)))
    return call.cast(made, work, call.type)


@writes("neg")
def neg(call: Call) -> str:
    """Neg; for unsigned integers, which ONNX does not negate, the difference from 0."""
    if takes("Neg", 0, work_of(call)):
        return call.within("Neg", call.type, work_of(call))
    return call.add("Sub", call.constant(0, call.type), call.inputs[0])


@writes("mod", "fmod")
def remainder(call: Call) -> str:
    """Mod, whose sign is the divisor's for integers only; for floats it is made so."""
    work = work_of(call)
    x, y = (call.cast(v, call.type, work) for v in call.repeated)
    towards_zero = call.op.name == "fmod"
    if towards_zero or not work.is_float:
        made = call.add("Mod", x, y, fmod=int(towards_zero))
        return call.cast(made, work, call.type)
    rest, zero = call.add("Mod", x, y, fmod=1), call.constant(0, work)
    below = call.add("Less", y, zero)
    differs = call.add("Xor", call.add("Less", rest, zero), below)
    moved = call.add("Where", differs, call.add("Add", rest, y), rest)
    none = call.add("Where", below, call.constant(-0.0, work), zero)
    made = call.add("Where", call.add("Equal", rest, zero), none, moved)
    return call.cast(made, work, call.type)


@writes("clip")
def clip(call: Call) -> str:
    """Max and Min, as ONNX's Clip takes single bounds only."""
    own, (x, low, high) = call.type, call.repeated
    type = call.taken("Max", own, work_of(call))
    x, low, high = (call.cast(v, own, type) for v in (x, low, high))
    return call.cast(call.add("Min", call.add("Max", x, low), high), type, own)


# Several operators, in the type in which the arithmetic is done


@dataclass(frozen=True)
class _Work:
    """The nodes of a formula, all in one type."""

    call: Call
    type: DType

    def add(self, op_type: str, *inputs: str) -> str:
        """Add a node; gives the name of its output."""
        return self.call.add(op_type, *inputs)

    def number(self, value: float) -> str:
        """The name of a constant of the type."""
        return self.call.constant(np.array(value).astype(self.type.numpy))


_Formula = Callable[[_Work, list[str]], str]


def _in_work(formula: _Formula) -> Callable[[Call], str]:
    """A writer that converts operands to the type of the arithmetic, and the result back."""

    def write(call: Call) -> str:
        work = work_of(call)
        inputs = [call.cast(v, call.type, work) for v in call.repeated]
        return call.cast(formula(_Work(call, work), inputs), work, call.type)

    return write


def _rsqrt(w: _Work, inputs: list[str]) -> str:
    return w.add("Reciprocal", w.add("Sqrt", *inputs))


def _sqdiff(w: _Work, inputs: list[str]) -> str:
    difference = w.add("Sub", *inputs)
    return w.add("Mul", difference, difference)


def _log2(w: _Work, inputs: list[str]) -> str:
    return w.add("Div", w.add("Log", *inputs), w.number(math.log(2)))


def _affine(w: _Work, inputs: list[str]) -> str:
    op = w.call.op
    return w.add("Add", w.add("Mul", inputs[0], w.number(op.alpha)), w.number(op.beta))


def _hard_sigmoid(w: _Work, inputs: list[str]) -> str:
    return w.add("Min", w.add("Max", _affine(w, inputs), w.number(0)), w.number(1))


def _scaled_tanh(w: _Work, inputs: list[str]) -> str:
    curve = w.add("Tanh", w.add("Mul", inputs[0], w.number(w.call.op.beta)))
    return w.add("Mul", curve, w.number(w.call.op.alpha))


def _thresholded_relu(w: _Work, inputs: list[str]) -> str:
    above = w.add("Greater", inputs[0], w.number(w.call.op.alpha))
    return w.add("Where", above, inputs[0], w.number(0))


def _softsign(w: _Work, inputs: list[str]) -> str:
    return w.add("Div", inputs[0], w.add("Add", w.number(1), w.add("Abs", *inputs)))


def _softplus(w: _Work, inputs: list[str]) -> str:
    return w.add("Softplus", *inputs)


def _atan2(w: _Work, inputs: list[str]) -> str:
    """The angle of the point in the first quadrant, mirrored to where it is."""
    zero = w.number(0)
    y, x = (w.add("Abs", v) for v in inputs)
    ratio = w.add("Where", w.add("Equal", y, x), w.number(1), w.add("Div", y, x))
    angle = w.add("Atan", w.add("Where", w.add("Equal", y, zero), zero, ratio))
    turned = w.add("Sub", w.number(math.pi), angle)
    angle = w.add("Where", _is_negative(w, inputs[1]), turned, angle)
    unknown = w.add("Or", w.add("IsNaN", inputs[0]), w.add("IsNaN", inputs[1]))
    angle = w.add("Where", unknown, w.number(math.nan), angle)
    return w.add("Where", _is_negative(w, inputs[0]), w.add("Neg", angle), angle)


def _is_negative(w: _Work, value: str) -> str:
    """Whether a number is below 0, or −0."""
    zero = w.number(0)
    shown = w.add("Where", w.add("Equal", value, zero), w.add("Reciprocal", value), value)
    return w.add("Less", shown, zero)


_FORMULAS: dict[str, _Formula] = {
    "rsqrt": _rsqrt, "sqdiff": _sqdiff, "log2": _log2, "affine": _affine, "atan2": _atan2,
    "hard_sigmoid": _hard_sigmoid, "scaled_tanh": _scaled_tanh, "softsign": _softsign,
    "thresholded_relu": _thresholded_relu, "softplus": _softplus,
}  # fmt: skip

for _name, _formula in _FORMULAS.items():
    writes(_name)(_in_work(_formula))
