"""Operators on signals, and determinants."""

from __future__ import annotations

import numpy as np

from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import check_size
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_MEL = 2595 / np.log(10)
"""Mel of a factor e: the mel of a frequency f is ``_MEL * log(1 + f / 700)``."""


@onnx_op("Det")
def det(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The determinants of matrices."""
    node.expect(inputs, 1)
    return node.add("det", inputs[0])


def _number(node: NodeContext, value: Instruction, what: str) -> int:
    found = node.constant_ints(value, what)
    if len(found) != 1:
        raise node.fail(f"{what} has {len(found)} elements; expected one")
    return found[0]


@onnx_op("DFT")
def dft(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A discrete Fourier transform; the axis is an attribute before opset 20."""
    node.expect(inputs, 1, 3)
    x, given, where = inputs[0], node.optional(inputs, 1), node.optional(inputs, 2)
    if node.version < 20:
        axis = node.integer("axis", 1)
    else:
        axis = -2 if where is None else _number(node, where, "the axis")
    length = None if given is None else _number(node, given, "the length")
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    return node.add("dft", x, axis=axis, length=length, inverse=inverse, onesided=onesided)


@onnx_op("STFT")
def stft(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Fourier transforms of the windowed, possibly overlapping frames of a signal."""
    node.expect(inputs, 2, 4)
    signal, window, given = inputs[0], node.optional(inputs, 2), node.optional(inputs, 3)
    if signal.shape.ndim == 2:
        signal = node.unsqueeze(signal, 2)
    if signal.shape.ndim != 3:
        raise node.fail(f"signal {signal.shape}; expected a batch, a length and 1 or 2 parts")
    step, total = _number(node, inputs[1], "the frame step"), node.lens(signal)[1]
    length = node.lens(window)[0] if window is not None else total
    if given is not None:
        length = _number(node, given, "the frame length")
    if not isinstance(total, int) or not isinstance(length, int):
        raise node.fail(
            f"signal {signal.shape}; expected fixed lengths of the signal and the window"
        )
    if step < 1 or not 1 <= length <= total:
        raise node.fail(
            f"frames of {length} at a step of {step} in a signal of {total}; expected a step of 1 "
            f"or more, and frames of 1 to {total}"
        )
    if window is not None and node.lens(window) != (length,):
        raise node.fail(f"window {window.shape}; expected {length} elements")
    starts = node.counting(range(0, total - length + 1, step))
    check_size(Shape(DType.INT64, (len(starts), length)), node.op_type)
    frames = node.add("gather", signal, node.literal(starts[:, None] + np.arange(length)), axis=1)
    if window is not None:
        frames = node.add("mul", frames, node.broadcast(window, 2, node.lens(frames)))
    return node.add("dft", frames, axis=2, onesided=node.flag("onesided", True))


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Triangular filters at equal distances on the mel scale, as a literal."""
    node.expect(inputs, 5)
    bins, length, rate = (
        _number(node, v, what)
        for v, what in zip(inputs, ("num_mel_bins", "dft_length", "sample_rate"), strict=False)
    )
    low, high = (
        float(node.element(node.required_constant(v, what), what))
        for v, what in zip(inputs[3:], ("lower_edge_hertz", "upper_edge_hertz"), strict=True)
    )
    if bins < 1 or length < 1 or rate < 1 or not 0 <= low <= high:
        raise node.fail(
            f"{bins} bins of {low} to {high} Hz for {length} samples at {rate} Hz; expected "
            "positive numbers, and edges in ascending order"
        )
    type = node.element_type("output_datatype", DType.FLOAT)
    check_size(Shape(DType.DOUBLE, (length // 2 + 1, bins)), node.op_type)
    edges = _MEL * np.log1p(np.array([low, high]) / 700)
    mels = edges[0] + np.arange(bins + 2) * ((edges[1] - edges[0]) / (bins + 2))
    marks = np.floor((length + 1) * 700 * np.expm1(mels / _MEL) / rate)
    return node.literal(_triangles(marks, length // 2 + 1).astype(type.numpy))


def _triangles(marks: Array, count: int) -> Array:
    """A column per three adjacent marks: a ramp from 0 at the first to 1 at the second, and back to 0."""
    left, centre, right = marks[:-2], marks[1:-1], marks[2:]
    rows: Array = np.arange(count)[:, None]
    with np.errstate(all="ignore"):
        rising: Array = np.where(centre > left, (rows - left) / (centre - left), 1)
        falling: Array = (right - rows) / (right - centre)
    weights: Array = np.where((rows >= left) & (rows <= centre), rising, 0)
    return np.where((rows >= centre) & (rows < right), falling, weights)
