"""Generators of what slides a window over an image."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers


def window(pick: Pick, lens: tuple[int, ...], *, dilated: bool = True) -> dict[str, Any]:
    """A kernel that fits into an image, with strides and padding."""
    rank = len(lens)
    found: dict[str, Any] = {}
    dilations = [pick.integer(1, 2) if dilated else 1 for _ in lens]
    kernel = [
        min(pick.integer(1, 3), (n - 1) // d + 1) for n, d in zip(lens, dilations, strict=True)
    ]
    found |= pick.some(strides=[pick.integer(1, 3) for _ in lens])
    if any(d > 1 for d in dilations):
        found["dilations"] = dilations
    if pick.flag():
        # Padding as large as the kernel would make windows of padding alone.
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        found["pads"] = [
            pick.integer(0, min(reach[i % rank], kernel[i % rank] - 1)) for i in range(2 * rank)
        ]
    elif pick.flag():
        found["auto_pad"] = pick.one_of(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        if found["auto_pad"].startswith("SAME"):
            # onnxruntime refuses dilations here, or ignores them, and some strides as well.
            found.pop("dilations", None)
            found.pop("strides", None) if min(kernel) < 3 else None
    return found | {"kernel_shape": kernel}


def image(pick: Pick, low: int = 1, high: int = 3) -> tuple[int, ...]:
    """The lengths of an image's sides, in one to three dimensions."""
    return tuple(pick.integer(2, 6) for _ in range(pick.integer(low, high)))


@covers("Conv")
def conv(pick: Pick) -> Example:
    type, sides = pick.type(), image(pick)
    attributes = window(pick, sides)
    group = pick.integer(1, 3)
    inner, outer = pick.integer(1, 2), pick.integer(1, 2) * group
    if "pads" in attributes and pick.rarely():
        attributes["pads"] = [pick.integer(0, 4) for _ in attributes["pads"]]
    x = pick.array(type, (pick.integer(1, 2), inner * group, *sides))
    weights = pick.array(type, (outer, inner, *attributes["kernel_shape"]))
    if pick.flag():
        del attributes["kernel_shape"]
    if group > 1:
        attributes["group"] = group
    bias = pick.array(type, (outer,)) if pick.flag() else None
    return Example([x, weights, bias], attributes, summed=True)


@covers("ConvTranspose")
def conv_transpose(pick: Pick) -> Example:
    type, sides = pick.type(), image(pick, 1, 2)
    rank, group = len(sides), pick.integer(1, 2)
    inner, outer = pick.integer(1, 2) * group, pick.integer(1, 2)
    kernel = [pick.integer(1, 3) for _ in sides]
    strides, dilations = ([pick.integer(1, 2) for _ in sides] for _ in range(2))
    attributes: dict[str, Any] = {"group": group, "strides": strides}
    if pick.flag():
        attributes["dilations"] = dilations
    else:
        dilations = [1] * rank
    kind = pick.integer(0, 3)
    if kind == 1:
        attributes["pads"] = [pick.integer(0, (kernel[i % rank] - 1) // 2) for i in range(2 * rank)]
    elif kind == 2:
        attributes["auto_pad"] = pick.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif kind == 3:
        full = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(sides, strides, kernel, dilations, strict=True)
        ]
        attributes["output_shape"] = [n - pick.integer(0, min(n - 1, 2)) for n in full]
    if pick.flag() and kind < 3:
        # ONNX allows for as much as the dilation, too; onnxruntime does not.
        attributes["output_padding"] = [pick.integer(0, s - 1) for s in strides]
    x = pick.array(type, (pick.integer(1, 2), inner, *sides))
    weights = pick.array(type, (inner, outer, *kernel))
    bias = pick.array(type, (outer * group,)) if pick.flag() else None
    return Example([x, weights, bias], attributes, summed=True)


@covers("ConvInteger")
def conv_integer(pick: Pick) -> Example:
    sides = image(pick, 1, 2)
    a, b = pick.types("T1", "T2")
    attributes = window(pick, sides)
    group, outer = pick.integer(1, 2), pick.integer(1, 2)
    x = pick.array(a, (pick.integer(1, 2), group, *sides), -128, 255)
    weights = pick.weights(b, (outer * group, 1, *attributes["kernel_shape"]))
    attributes["group"] = group
    zeros = [pick.scalar(t, 0, 9) if pick.flag() else None for t in (a, b)]
    return Example([x, weights, *zeros], attributes)


@covers("MaxPool")
def max_pool(pick: Pick) -> Example:
    type, sides = pick.type(), image(pick)
    attributes = window(pick, sides, dilated=pick.opset >= 10)
    indices = pick.opset >= 8 and pick.flag()
    if indices:
        attributes |= pick.some(storage_order=pick.integer(0, 1))
    attributes |= pick.some(ceil_mode=pick.integer(0, 1)) if pick.opset >= 10 else {}
    x = pick.array(type, (pick.integer(1, 2), pick.integer(1, 2), *sides))
    return Example([x], attributes, outputs=2 if indices else 1)


@covers("AveragePool")
def average_pool(pick: Pick) -> Example:
    type, sides = pick.type(), image(pick)
    attributes = window(pick, sides, dilated=pick.opset >= 19)
    attributes |= pick.some(count_include_pad=pick.integer(0, 1))
    attributes |= pick.some(ceil_mode=pick.integer(0, 1)) if pick.opset >= 10 else {}
    x = pick.array(type, (pick.integer(1, 2), pick.integer(1, 2), *sides))
    return Example([x], attributes, summed=True)


@covers("LpPool")
def lp_pool(pick: Pick) -> Example:
    type, sides = pick.type(), image(pick)
    attributes = window(pick, sides, dilated=pick.opset >= 18)
    attributes |= pick.some(p=pick.integer(1, 3))
    attributes |= pick.some(ceil_mode=pick.integer(0, 1)) if pick.opset >= 18 else {}
    x = pick.array(type, (pick.integer(1, 2), pick.integer(1, 2), *sides))
    return Example([x], attributes, summed=True)


@covers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(pick: Pick) -> Example:
    x = pick.array(pick.type(), (pick.integer(1, 2), pick.integer(1, 3), *image(pick)))
    attributes = pick.some(p=pick.integer(1, 3)) if pick.op == "GlobalLpPool" else {}
    return Example([x], attributes, summed=True)


@covers("LRN")
def lrn(pick: Pick) -> Example:
    # onnxruntime has a kernel for images of two dimensions alone.
    x = pick.array(pick.type(), (pick.integer(1, 2), pick.integer(1, 6), *image(pick, 2, 2)))
    attributes = pick.some(
        alpha=pick.number(0.1, 1), beta=pick.number(0.3, 1), bias=pick.number(1, 2)
    )
    return Example([x], attributes | {"size": pick.one_of([1, 3, 5])}, summed=True)


@covers("QLinearConv", "com.microsoft.QLinearConv")
def qlinear_conv(pick: Pick) -> Example:
    sides = image(pick, 1, 2)
    a, b, c = pick.types("T1", "T2", "T3")
    attributes = window(pick, sides)
    group, outer = pick.integer(1, 2), pick.integer(1, 2)
    attributes["group"] = group
    outer *= group
    x = pick.array(a, (pick.integer(1, 2), group, *sides), -128, 255)
    weights = pick.weights(b, (outer, 1, *attributes["kernel_shape"]))
    per_channel = pick.flag()
    lens = (outer,) if per_channel else ()
    zeros = np.full(lens, pick.scalar(b, 0, 9))
    inputs = [x, scale(pick), pick.scalar(a, 0, 9), weights, scale(pick, lens), zeros]
    inputs += [np.float32(0.5), pick.scalar(c, 0, 9)]
    if pick.flag():
        inputs.append(pick.array("int32", (outer,), -50, 50))
    if pick.domain and pick.flag():
        inputs[0], attributes = np.moveaxis(x, 1, -1), attributes | {"channels_last": 1}
    return Example(inputs, attributes)


def scale(pick: Pick, lens: tuple[int, ...] = ()) -> Any:
    """Scales that are powers of 2, so that nothing is rounded before the end."""
    return np.exp2(pick.array("int8", lens, -5, -3).astype(np.float32))
