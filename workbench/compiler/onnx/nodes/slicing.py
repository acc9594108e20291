"""Slice and Split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.compiler.dtypes import DType
from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op

_MAX32, _MAX64 = (1 << 31) - 1, (1 << 63) - 1


@dataclass
class _Cut:
    """What is known of a slice at import; the rest are operands."""

    starts: list[int] | None = None
    ends: list[int] | None = None
    axes: list[int] | None = None
    steps: tuple[int, ...] = ()


@onnx_op("Slice")
def slice_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A range of each axis; negative steps run backwards."""
    node.expect(inputs, 1, 5)
    cut, operands = _read(node, inputs)
    if cut.axes is None and not operands.get("axes"):
        count = len(cut.starts or cut.ends or range(inputs[0].shape.ndim))
        cut.axes = list(range(count))
    stepped = any(s != 1 for s in cut.steps)
    if stepped and (operands or cut.axes is None):
        raise node.fail("steps with bounds that are computed at run time are not supported")
    backwards = _turn(cut) if stepped else []
    known: dict[str, Any] = {
        name: tuple(value)
        for name in ("axes", "starts", "ends")
        if (value := getattr(cut, name)) is not None
    }
    result = node.add("slice", inputs[0], *operands.values(), **known)
    if backwards:
        result = node.add("reverse", result, axes=tuple(backwards))
    if any(abs(s) != 1 for s in cut.steps):
        steps = tuple(abs(s) for s in cut.steps)
        result = node.add("step", result, axes=tuple(cut.axes or ()), steps=steps)
    return result


def _read(node: NodeContext, inputs: list[Instruction]) -> tuple[_Cut, dict[str, Instruction]]:
    cut, operands = _Cut(), dict[str, Instruction]()
    for index, name in enumerate(("starts", "ends", "axes"), 1):
        given = node.optional(inputs, index)
        if given is None:
            if node.has(name) or (len(inputs) == 1 and name != "axes"):
                setattr(cut, name, list(node.integers(name)))
            continue
        known = node.constant(given)
        if known is None:
            operands[name] = given
        else:
            setattr(cut, name, [int(v) for v in known.reshape(-1)])
    steps = node.optional(inputs, 4)
    if steps is not None:
        cut.steps = node.constant_ints(steps, "the list of steps")
    _check(node, cut)
    return cut, operands


def _check(node: NodeContext, cut: _Cut) -> None:
    counts = {len(v) for v in (cut.starts, cut.ends, cut.axes, cut.steps or None) if v is not None}
    if len(counts) > 1:
        raise node.fail("starts, ends, axes and steps are of different lengths")
    if 0 in cut.steps:
        raise node.fail("a step of 0; expected another one")


def _turn(cut: _Cut) -> list[int]:
    """Make slices with negative steps forward ones; returns the axes to reverse."""
    axes, starts, ends = cut.axes or [], cut.starts or [], cut.ends or []
    backwards: list[int] = []
    for i, step in enumerate(cut.steps):
        if step < 0:
            low = ends[i] + 1 if ends[i] != -1 else _MAX32
            high = starts[i] + 1 if starts[i] != -1 else _MAX32
            starts[i], ends[i] = low, high
            backwards.append(axes[i])
    return backwards


@onnx_op("Split")
def split(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Pieces of a value along an axis."""
    node.expect(inputs, 1, 2)
    x = inputs[0]
    axis = node.axis(node.integer("axis", 0), x.shape.ndim)
    dims = x.shape.dims
    if dims is not None and not dims[axis].is_fixed:
        return _split_dynamic(node, inputs, axis)
    length = dims[axis].max if dims is not None else x.shape.lens[axis]
    sizes = _sizes(node, inputs, length)
    if sum(sizes) != length or min(sizes) < 0:
        raise node.fail(f"pieces of {list(sizes)} of a length of {length}; expected that sum")
    pieces: list[Instruction] = []
    start = 0
    for size in sizes:
        pieces.append(node.slice(x, [axis], [start], [start + size]))
        start += size
    return pieces


def _sizes(node: NodeContext, inputs: list[Instruction], length: int) -> tuple[int, ...]:
    given = node.optional(inputs, 1)
    if given is not None:
        return node.constant_ints(given, "the list of sizes")
    if node.has("split"):
        return node.integers("split")
    count = node.integer("num_outputs", node.output_count)
    if count != node.output_count or count < 1:
        raise node.fail(f"num_outputs={count}; expected the number of outputs, {node.output_count}")
    size = -(-length // count)
    last = length - size * (count - 1)
    return (*[size] * (count - 1), last)


def _split_dynamic(node: NodeContext, inputs: list[Instruction], axis: int) -> list[Instruction]:
    if len(inputs) > 1 or node.has("split"):
        raise node.fail("sizes for an axis of dynamic length are not supported")
    x, count = inputs[0], node.output_count

    def number(value: int) -> Instruction:
        return node.scalar(DType.INT64, value)

    length = node.add("dimensions_of", x, start=axis, end=axis + 1)
    counted, rest = number(count), number(count - 1)
    chunk = node.common("div", node.common("add", length, rest), counted)
    pieces: list[Instruction] = []
    for i in range(count - 1):
        start = node.common("mul", chunk, number(i))
        end = node.common("mul", chunk, number(i + 1))
        pieces.append(node.add("slice", x, start, end, axes=(axis,)))
    start = node.common("mul", chunk, number(count - 1))
    pieces.append(node.add("slice", x, start, axes=(axis,), ends=(_MAX64,)))
    return pieces
