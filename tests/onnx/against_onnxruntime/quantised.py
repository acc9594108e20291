"""Generators of quantisation, and of operators on quantised values."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.elementwise import code
from tests.onnx.against_onnxruntime.pick import FP8, NUMPY, Example, Pick, covers, limits
from tests.onnx.against_onnxruntime.windows import image, scale, window

BYTES = ["int8", "uint8"]


def spread(pick: Pick, lens: tuple[int, ...]) -> tuple[dict[str, int], tuple[int, ...]]:
    """The layout of scales over an array, and their number: one, one per axis, or one per block."""
    kind = pick.integer(0, 2) if pick.opset >= 21 and not pick.domain else pick.integer(0, 1)
    if not kind or not lens or (pick.opset < 13 and not pick.domain):
        return {}, ()
    axis = pick.axis(len(lens))
    place = axis % len(lens)
    if kind == 1:
        return {"axis": axis}, (lens[place],)
    block = pick.integer(1, lens[place])
    blocks = (*lens[:place], -(-lens[place] // block), *lens[place + 1 :])
    if blocks == (1,):  # which onnxruntime takes for one scale for all
        return {}, ()
    return {"axis": axis, "block_size": block}, blocks


def scales(pick: Pick, lens: tuple[int, ...], type: str) -> Any:
    """Powers of 2, so that halves are exact."""
    return np.exp2(pick.array("int8", lens, -2, 1).astype(np.float32)).astype(NUMPY[type])


@covers("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize_linear(pick: Pick) -> Example:
    if pick.domain:
        source, target = pick.types("T1", "T2")
        target = pick.type("T2", BYTES) if target in {"int4", "uint4"} else target
    elif pick.opset >= 13:
        source, target = pick.types("T1", "T3" if pick.opset >= 23 else "T2")
    else:
        source, target = pick.type("T1"), pick.type("T2")
    if source == "int32":
        source = "float"
    lens = pick.lens(0, 3, empty=False)
    attributes, own = spread(pick, lens)
    x = pick.array(source, lens, -40, 40)
    if target in FP8:
        x = pick.array(source, lens, -4, 4)
    zero = pick.array(target, own, 0, 5) if target not in FP8 else np.zeros(own, NUMPY[target])
    given: list[Any] = [x, scales(pick, own, source if pick.opset >= 19 else "float")]
    if target in FP8 and not pick.domain and pick.opset >= 19:
        attributes |= pick.some(saturate=pick.integer(0, 1))
    if pick.opset >= 21 and not pick.domain and pick.flag():
        return Example(given, attributes | {"output_dtype": code(target)})
    return Example([*given, zero], attributes)


@covers("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize_linear(pick: Pick) -> Example:
    if pick.domain or pick.opset >= 19:
        source, target = pick.types("T1", "T2")
    else:
        source, target = pick.type("T"), "float"
    lens = pick.lens(0, 3, empty=False)
    attributes, own = spread(pick, lens)
    x = pick.array(source, lens, -100, 100)
    given: list[Any] = [x, scales(pick, own, target)]
    if source == "int32" or source in FP8 or pick.flag():
        return Example(given, attributes)
    return Example([*given, pick.array(source, own, 0, 5)], attributes)


@covers("DynamicQuantizeLinear")
def dynamic_quantize_linear(pick: Pick) -> Example:
    x = pick.array("float", pick.lens(1, empty=False))
    return Example([x * np.float32(not pick.rarely())], outputs=3)


def quantised(pick: Pick, type: str, lens: tuple[int, ...]) -> list[Any]:
    """A quantised value with its scale and zero point."""
    return [pick.array(type, lens, *limits(NUMPY[type])), scale(pick), pick.scalar(type, 0, 9)]


def result(pick: Pick, type: str) -> list[Any]:
    """The scale and zero point of a result."""
    # Nothing falls between two numbers, where it matters whether the zero point is added before.
    return [np.float32(0.2571), pick.scalar(type, 0, 9)]


@covers("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def qlinear_binary(pick: Pick) -> Example:
    type = pick.type("T", BYTES)
    a, b = pick.together(2, empty=False)
    return Example([*quantised(pick, type, a), *quantised(pick, type, b), *result(pick, type)])


@covers("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu")
def qlinear_unary(pick: Pick) -> Example:
    type = pick.type("T", BYTES)
    attributes = pick.some(alpha=pick.number(0.1, 0.5)) if "Leaky" in pick.op else {}
    out = [np.float32(1 / 256), pick.scalar(type, 0, 9)] if "Sig" in pick.op else result(pick, type)
    return Example([*quantised(pick, type, pick.lens(1, empty=False)), *out], attributes)


@covers("com.microsoft.QLinearConcat")
def qlinear_concat(pick: Pick) -> Example:
    type, lens = pick.one_of(BYTES), list(pick.lens(1, 3, empty=False))
    axis = pick.axis(len(lens))
    given = result(pick, type)
    for _ in range(pick.integer(1, 3)):
        lens[axis] = pick.integer(1, 3)
        given += quantised(pick, type, tuple(lens))
    return Example(given, {"axis": axis}, fixed=(0, 1))


@covers("com.microsoft.QLinearAveragePool")
def qlinear_average_pool(pick: Pick) -> Example:
    type, sides = pick.one_of(BYTES), image(pick, 1, 2)
    attributes = window(pick, sides, dilated=False)
    # Not both: past the padding at the end, it counts what ONNX does not.
    attributes |= pick.one_of([{}, {"count_include_pad": 1}, {"ceil_mode": 1}])
    lens = (pick.integer(1, 2), pick.integer(1, 2), *sides)
    if pick.flag():
        lens, attributes = (lens[0], *sides, lens[1]), attributes | {"channels_last": 1}
    return Example([*quantised(pick, type, lens), *result(pick, type)], attributes)


@covers("com.microsoft.QLinearGlobalAveragePool")
def qlinear_global_average_pool(pick: Pick) -> Example:
    type = pick.one_of(BYTES)
    lens = (pick.integer(1, 2), pick.integer(1, 3), *image(pick, 1, 2))
    attributes = pick.some(channels_last=pick.integer(0, 1))
    return Example([*quantised(pick, type, lens), *result(pick, type)], attributes)
