"""Generators of signals, matrices, and images taken apart and put together."""

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.onnx.against_onnxruntime.elementwise import code
from tests.onnx.against_onnxruntime.pick import FLOATS, INTEGERS, NUMPY, Example, Pick, covers, ints
from tests.onnx.against_onnxruntime.windows import image, window


@covers("DFT")
def dft(pick: Pick) -> Example:
    type = pick.type("T1", ["float", "double"])
    lens = (pick.integer(1, 2), *[pick.integer(2, 6) for _ in range(pick.integer(1, 2))])
    rank, inverse = len(lens) + 1, pick.flag()
    axis = pick.integer(1, rank - 2)
    onesided = not inverse and pick.flag()
    parts = 1 if onesided else pick.integer(1, 2)
    x = pick.array(type, (*lens, parts))
    attributes: dict[str, Any] = {"inverse": int(inverse), "onesided": int(onesided)}
    length = np.array(pick.integer(2, 7)) if pick.flag() else None
    if pick.opset < 20:
        return Example([x, length], attributes | {"axis": axis}, fixed=(1,), summed=True, slack=20)
    return Example([x, length, np.array(axis)], attributes, fixed=(1, 2), summed=True, slack=20)


@covers("STFT")
def stft(pick: Pick) -> Example:
    type = pick.type("T1", ["float", "double"])
    length, step = pick.integer(6, 12), pick.integer(1, 3)
    size = pick.one_of([2, 4, 6])
    x = pick.array(type, (pick.integer(1, 2), length, 1))
    window_ = pick.array(type, (size,), 0, 1)
    inputs = [x, np.array(step), window_, np.array(size)]
    return Example(
        inputs, pick.some(onesided=pick.integer(0, 1)), fixed=(1, 3), summed=True, slack=20
    )


@covers("MelWeightMatrix")
def mel_weight_matrix(pick: Pick) -> Example:
    rate = pick.one_of([8000, 16000])
    given = [pick.integer(4, 8), pick.one_of([16, 32, 64]), rate]
    inputs: list[Any] = [np.array(v, np.int64) for v in given]
    inputs += [np.array(v, np.float32) for v in (pick.number(0, 200), pick.number(2000, rate / 2))]
    attributes = {"output_datatype": pick.one_of([TensorProto.FLOAT, TensorProto.DOUBLE])}
    return Example(inputs, attributes if pick.flag() else {}, fixed=tuple(range(5)), summed=True)


@covers("Det")
def det(pick: Pick) -> Example:
    size = pick.integer(1, 4)
    return Example(
        [pick.array(pick.type(), (*pick.lens(0, 2, empty=False), size, size))],
        summed=True,
        slack=20,
    )


@covers("Col2Im")
def col2im(pick: Pick) -> Example:
    sides = image(pick, 2, 2)
    made = window(pick, sides)
    made.pop("auto_pad", None)
    kernel, rank = made.pop("kernel_shape"), len(sides)
    strides = made.get("strides", [1] * rank)
    dilations = made.get("dilations", [1] * rank)
    pads = made.get("pads", [0] * 2 * rank)
    blocks = [
        (n + pads[i] + pads[i + rank] - (k - 1) * d - 1) // s + 1
        for i, (n, k, s, d) in enumerate(zip(sides, kernel, strides, dilations, strict=True))
    ]
    lens = (pick.integer(1, 2), pick.integer(1, 2) * int(np.prod(kernel)), int(np.prod(blocks)))
    return Example(
        [pick.array(pick.type(), lens), ints(*sides), ints(*kernel)],
        made,
        fixed=(1, 2),
        summed=True,
    )


@covers("CenterCropPad")
def center_crop_pad(pick: Pick) -> Example:
    type = pick.type("T", [*INTEGERS, *FLOATS[:2], "bool"])
    lens = pick.lens(1, 3, empty=False)
    axes = pick.axes(len(lens), 1)
    if pick.flag():
        sizes = ints(*[pick.integer(1, 6) for _ in lens])
        return Example([pick.array(type, lens), sizes], fixed=(1,))
    sizes = ints(*[pick.integer(1, 6) for _ in axes])
    return Example([pick.array(type, lens), sizes], {"axes": axes}, fixed=(1,))


@covers("Compress")
def compress(pick: Pick) -> Example:
    lens = pick.lens(1, empty=False)
    axis = pick.axis(len(lens)) if pick.flag() else None
    if pick.opset < 11 and axis is not None:
        axis %= len(lens)
    length = int(np.prod(lens)) if axis is None else lens[axis]
    condition = pick.array("bool", (pick.integer(1, length),))
    return Example(
        [pick.array(pick.type(), lens), condition], {} if axis is None else {"axis": axis}
    )


@covers("CumProd")
def cumprod(pick: Pick) -> Example:
    x = pick.array(pick.type(), pick.lens(1, empty=False), -2, 2)
    attributes = pick.some(exclusive=pick.integer(0, 1), reverse=pick.integer(0, 1))
    return Example([x, np.array(pick.axis(x.ndim))], attributes, fixed=(1,), summed=True)


@covers("BitCast")
def bit_cast(pick: Pick) -> Example:
    source = pick.type("T1", [*INTEGERS, *FLOATS])
    width = NUMPY[source].itemsize
    target = pick.type("T2", [t for t in (*INTEGERS, *FLOATS) if NUMPY[t].itemsize == width])
    return Example([pick.array(source, pick.lens(), 1, 4)], {"to": code(target)})


@covers("MaxUnpool")
def max_unpool(pick: Pick) -> Example:
    sides = (pick.integer(1, 3), pick.integer(1, 3))
    lens = (1, pick.integer(1, 2), *sides)
    full = [n * 2 for n in sides]
    count = int(np.prod(lens))
    places = pick.generator().permutation(lens[1] * full[0] * full[1])[:count].reshape(lens)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = pick.array(pick.type("T1"), lens)
    inputs = [x, places.astype(np.int64)]
    # Of a larger output_shape, onnxruntime takes the indices as places in that, against ONNX's tests.
    if pick.flag():
        inputs.append(ints(*lens[:2], *full))
    return Example(inputs, attributes, fixed=(2,))


@covers("MaxRoiPool")
def max_roi_pool(pick: Pick) -> Example:
    type, batch = pick.type(), pick.integer(1, 2)
    x = pick.array(type, (batch, pick.integer(1, 2), 5, 6))
    count = pick.integer(1, 3)
    corners = pick.generator().integers(0, 3, (count, 2))
    ends = corners + pick.generator().integers(0, 3, (count, 2))
    index = pick.generator().integers(0, batch, (count, 1))
    rois = np.concatenate([index, corners, ends], axis=1).astype(x.dtype)
    return Example(
        [x, rois],
        {"pooled_shape": [pick.integer(1, 3), pick.integer(1, 3)]}
        | pick.some(spatial_scale=pick.one_of([0.5, 2.0])),
    )


@covers("DeformConv")
def deform_conv(pick: Pick) -> Example:
    type = pick.type("T", ["float", "double"])
    kernel, group = [pick.integer(1, 2), pick.integer(1, 3)], pick.integer(1, 2)
    channels, sides = group * pick.integer(1, 2), [pick.integer(3, 5), pick.integer(3, 5)]
    strides, dilations = ([pick.integer(1, 2) for _ in kernel] for _ in range(2))
    pads = [pick.integer(1, 2) for _ in range(4)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    out = [(sides[i] + pads[i] + pads[i + 2] - reach[i]) // strides[i] + 1 for i in range(2)]
    batch, count = pick.integer(1, 2), int(np.prod(kernel))
    offset_group = pick.one_of([1, channels])
    x = pick.array(type, (batch, channels, *sides))
    weights = pick.array(type, (group * 2, channels // group, *kernel))
    offsets = pick.array(type, (batch, offset_group * count * 2, *out), -1, 1)
    bias = pick.array(type, (group * 2,)) if pick.flag() else None
    mask = pick.array(type, (batch, offset_group * count, *out), 0, 1) if pick.flag() else None
    attributes = {"group": group, "offset_group": offset_group, "strides": strides, "pads": pads}
    attributes["dilations"] = dilations
    return Example(
        [x, weights, offsets, bias, mask],
        attributes | {"kernel_shape": kernel},
        summed=True,
        slack=10,
    )
