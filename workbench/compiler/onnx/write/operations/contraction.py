"""Matrix products, convolutions, and windows that slide in the same way: poolings."""

from __future__ import annotations

from typing import Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.operations.arithmetic import elementwise
from workbench.compiler.onnx.write.protos import takes
from workbench.compiler.onnx.write.registry import writes
from workbench.compiler.ops.broadcast import Broadcast
from workbench.compiler.ops.spectral import Dft
from workbench.compiler.ops.windows import doubled

_EIGHT = {DType.INT8, DType.UINT8}


@writes("dot")
def dot(call: Call) -> str:
    """MatMul. Narrow integers are multiplied in 64 bits, and the result keeps the low bits."""
    return call.within("MatMul", call.type, _wide(call.type))


def _wide(type: DType) -> DType:
    return DType.FLOAT if type.is_float else DType.INT64


def _scaled(call: Call) -> list[str]:
    """Both operands as floats, times their scales if there are any."""
    values = [call.cast(v, call.type, DType.FLOAT) for v in call.inputs[:2]]
    if len(call.inputs) == 2:
        return values
    scales = [call.cast(v, call.shapes[2].type, DType.FLOAT) for v in call.inputs[2:]]
    return [call.add("Mul", v, s) for v, s in zip(values, scales, strict=True)]


@writes("quant_dot")
def quant_dot(call: Call) -> str:
    """MatMulInteger, or MatMul of the scaled operands."""
    if len(call.inputs) == 2 and call.type in _EIGHT:
        return call.add("MatMulInteger", *call.inputs)
    made = call.add("MatMul", *_scaled(call))
    return call.cast(made, DType.FLOAT, call.shape.type)


_AUTO = {1: "SAME_LOWER", 2: "SAME_UPPER"}


def _window(call: Call, dilations: str = "dilation") -> dict[str, Any]:
    """The attributes of a sliding window."""
    op, rank = call.op, call.shapes[0].ndim - 2
    auto = _AUTO.get(int(getattr(op, "padding_mode", 0)))
    return {
        "pads": None if auto else doubled(op.padding, rank),
        "auto_pad": auto,
        "strides": op.stride,
        "dilations": getattr(op, dilations),
    }


def _kernel(call: Call) -> tuple[int, ...] | None:
    """The lens of a kernel, which automatic padding needs."""
    w = call.shapes[1]
    return w.lens[2:] if w.dims is None else None


def _convolved(call: Call, op_type: str) -> str:
    own = call.type
    type = call.taken(op_type, own, DType.FLOAT if own.is_float else DType.DOUBLE)
    inputs = [call.cast(v, own, type) for v in call.inputs]
    shared = {"group": call.op.group, "kernel_shape": _kernel(call)} | _window(call)
    return call.cast(call.add(op_type, *inputs, **shared), type, own)


_CONVOLUTIONS = {"convolution": "Conv", "convolution_backwards": "ConvTranspose"}


@writes(*_CONVOLUTIONS)
def convolution(call: Call) -> str:
    """A convolution; of integers in float64."""
    return _convolved(call, _CONVOLUTIONS[call.op.name])


@writes("add")
def add(call: Call) -> str:
    """Add, or the bias of a convolution if it adds to the channels of one that has no other user."""
    for conv, bias in (call.operands, call.operands[::-1]):
        op_type = _CONVOLUTIONS.get(conv.name, "")
        read_here = op_type and len(conv.users) == 1 and not call.block.elementwise
        if read_here and takes(op_type, 0, call.type) and _is_of_channels(bias):
            operands = [*conv.inputs, bias.inputs[0]]
            return _convolved(Call(call.block, conv, conv.op, operands), op_type)
    return elementwise(call, "Add")


def _is_of_channels(value: Instruction) -> bool:
    """Whether a value repeats a vector along the channels."""
    op = value.op
    return isinstance(op, Broadcast) and op.axis == 1 and value.inputs[0].shape.ndim == 1


@writes("quant_convolution")
def quant_convolution(call: Call) -> str:
    """ConvInteger, or Conv of the scaled operands."""
    shared = {"group": call.op.group, "kernel_shape": _kernel(call)} | _window(call)
    if len(call.inputs) == 2 and call.type in _EIGHT:
        return call.add("ConvInteger", *call.inputs, **shared)
    return call.add("Conv", *_scaled(call), **shared)


@writes("deform_convolution")
def deform_convolution(call: Call) -> str:
    """DeformConv, which takes a bias before the factors of the taps."""
    own, op = call.type, call.op
    type = call.taken("DeformConv", own, DType.FLOAT)
    inputs = [call.cast(v, own, type) for v in call.inputs]
    if len(inputs) == 4:
        inputs.insert(3, "")
    made = call.add("DeformConv", *inputs, group=op.group, offset_group=op.offset_group,
                    kernel_shape=_kernel(call), **_window(call))  # fmt: skip
    return call.cast(made, type, own)


_POOLS = {"average": "AveragePool", "max": "MaxPool", "lpnorm": "LpPool"}


@writes("pooling")
def pooling(call: Call) -> str:
    """A pooling operator; types that it does not support are pooled in float."""
    op = call.op
    op_type, own = _POOLS[op.mode], call.type
    power = {"p": op.lp_order} if op_type == "LpPool" else {}
    type = call.taken(op_type, own, DType.FLOAT if own.is_float else DType.DOUBLE)
    x = call.cast(call.inputs[0], own, type)
    if op.dyn_global or _covers_all(call):
        return call.cast(call.add(f"Global{op_type}", x, **power), type, own)
    counts = {"count_include_pad": int(op.count_include_pad)} if op_type == "AveragePool" else {}
    made = call.add(op_type, x, kernel_shape=op.lengths, ceil_mode=int(op.ceil_mode),
                    **power, **counts, **_window(call, "dilations"))  # fmt: skip
    return call.cast(made, type, own)


def _covers_all(call: Call) -> bool:
    """Whether the one window of a pool is its whole input: runtimes add it up in another order."""
    op, shape = call.op, call.shapes[0]
    lens = () if shape.dims is not None else shape.lens[2:]
    return bool(lens) and tuple(op.lengths) == tuple(lens) and not any(op.padding)


@writes("max_pool_indices")
def max_pool_indices(call: Call) -> str:
    """The second output of MaxPool."""
    op, own = call.op, call.type
    type = call.taken("MaxPool", own, DType.FLOAT if own.is_float else DType.DOUBLE)
    x = call.cast(call.inputs[0], own, type)
    return call.several("MaxPool", 2, x, kernel_shape=op.lengths, ceil_mode=int(op.ceil_mode),
                        storage_order=int(op.column_major), **_window(call, "dilations"))[1]  # fmt: skip


@writes("lrn")
def lrn(call: Call) -> str:
    """LRN."""
    return call.within("LRN", call.type, DType.FLOAT, **call.op.attributes())


@writes("det")
def det(call: Call) -> str:
    """Det."""
    return call.within("Det", call.type, DType.FLOAT if call.type.is_float else DType.DOUBLE)


@writes("dft")
def dft(call: Call) -> str:
    """DFT."""
    own, op = call.type, cast("Dft", call.op)
    type = call.taken("DFT", own, DType.FLOAT)
    x = call.cast(call.inputs[0], own, type)
    shape, axis = call.shapes[0], op.axis % call.shapes[0].ndim
    length = "" if op.length is None else call.constant(op.length)
    whole = shape.dims is None and shape.lens[-1] == 2 and op.onesided and not op.inverse
    made = call.add("DFT", x, length, call.constant(op.axis),
                    inverse=int(op.inverse), onesided=int(op.onesided and not whole))  # fmt: skip
    if whole:  # ONNX leaves out half of the frequencies of real numbers only
        kept = (op.length or shape.lens[axis]) // 2 + 1
        made = call.add("Slice", made, *(call.constant([n]) for n in (0, kept, axis)))
    return call.cast(made, type, own)
