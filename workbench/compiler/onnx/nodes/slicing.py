"""Slice and Split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.dynamic import between, cut_out, expected, reshaped, sliced
from workbench.compiler.onnx.lengths import ANYTHING, Span
from workbench.compiler.onnx.registry import onnx_op
from workbench.compiler.onnx.sizes import Length, lengths

_MAX32 = (1 << 31) - 1


@dataclass
class _Cut:
    """The bounds of a slice that are known at import; the rest are operands."""

    starts: list[int] | None = None
    ends: list[int] | None = None
    axes: list[int] | None = None
    steps: tuple[int, ...] = ()


@onnx_op("Slice")
def slice_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A range of each axis; negative steps run backwards."""
    node.expect(inputs, 1, 5)
    cut, operands = _read(node, inputs)
    missing = [n for n in ("starts", "ends") if getattr(cut, n) is None and n not in operands]
    if missing:
        raise node.fail(f"{' and '.join(missing)} omitted; the operator requires them")
    if [] in (cut.starts, cut.ends):
        return inputs[0]
    if cut.axes is None and "axes" not in operands:
        bounds = cut.starts or cut.ends or range(_count(node, operands["starts"]))
        cut.axes = list(range(len(bounds)))
    backwards = _turn(node, inputs[0], cut) if any(s < 0 for s in cut.steps) else []
    known: dict[str, Any] = {
        name: tuple(value)
        for name in ("axes", "starts", "ends")
        if (value := getattr(cut, name)) is not None
    }
    result = node.add("slice", inputs[0], *operands.values(), **known)
    if operands and cut.axes is not None:
        result = node.expected(result, _dims(node, inputs, cut, operands))
    if backwards:
        result = node.add("reverse", result, axes=tuple(backwards))
    if any(abs(s) != 1 for s in cut.steps):
        steps = tuple(abs(s) for s in cut.steps)
        result = node.add("step", result, axes=tuple(cut.axes or ()), steps=steps)
    return result


def _dims(
    node: NodeContext, inputs: list[Instruction], cut: _Cut, operands: dict[str, Instruction]
) -> list[Dim]:
    """The dimensions of a slice, as far as its bounds are known."""

    def spans(name: str, known: list[int] | None) -> Sequence[Span]:
        found = None if name not in operands else node.spans(operands[name])
        return found or [Span(n, n) for n in known or ()] or [ANYTHING] * len(cut.axes or ())

    dims = list(dims_of(inputs[0].shape))
    bounds = zip(spans("starts", cut.starts), spans("ends", cut.ends), strict=True)
    for a, (start, end) in zip(cut.axes or (), bounds, strict=True):
        axis = node.axis(a, len(dims))
        dims[axis] = between(start, end, dims[axis])
    return dims


def _count(node: NodeContext, bounds: Instruction) -> int:
    """The length of a list of bounds that is computed at run time."""
    if bounds.shape.is_dynamic or bounds.shape.ndim != 1:
        raise node.fail(f"starts {bounds.shape}; expected a list of known length")
    return bounds.shape.lens[0]


def _read(node: NodeContext, inputs: list[Instruction]) -> tuple[_Cut, dict[str, Instruction]]:
    """The known bounds of the slice, and the operands for the rest; all steps must be known."""
    cut, operands = _Cut(), dict[str, Instruction]()
    steps = node.optional(inputs, 4)
    if steps is not None:
        cut.steps = node.constant_ints(steps, "the list of steps")
    backwards, stepped = any(s < 0 for s in cut.steps), any(s != 1 for s in cut.steps)
    for index, name in enumerate(("starts", "ends", "axes"), 1):
        given = node.optional(inputs, index)
        if given is None:
            if node.has(name) or (len(inputs) == 1 and name != "axes"):
                setattr(cut, name, list(node.integers(name)))
            continue
        known = node.constant(given)
        is_needed = backwards or (stepped and name == "axes")
        if known is None and not is_needed:
            operands[name] = given
        else:
            setattr(cut, name, list(node.constant_ints(given, f"the list of {name}")))
    _check(node, cut)
    return cut, operands


def _check(node: NodeContext, cut: _Cut) -> None:
    counts = {len(v) for v in (cut.starts, cut.ends, cut.axes, cut.steps or None) if v is not None}
    if len(counts) > 1:
        raise node.fail("starts, ends, axes and steps have different lengths; expected one length")
    if 0 in cut.steps:
        raise node.fail("a step of 0; expected a nonzero step")


def _turn(node: NodeContext, x: Instruction, cut: _Cut) -> list[int]:
    """Make slices with negative steps forward ones; returns the axes to reverse."""
    axes, starts, ends = cut.axes or [], cut.starts or [], cut.ends or []
    backwards: list[int] = []
    for i, step in enumerate(cut.steps):
        if step < 0:
            low = ends[i] + 1 if ends[i] != -1 else _MAX32
            length = node.lens(x)[node.axis(axes[i], x.shape.ndim)]
            start = max(starts[i], -length) if isinstance(length, int) else starts[i]
            high = start + 1 if start != -1 else _MAX32
            starts[i], ends[i] = low, high
            backwards.append(axes[i])
    return backwards


@onnx_op("Split")
def split(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """Pieces of a value along an axis."""
    node.expect(inputs, 1, 2)
    x = inputs[0]
    axis = node.axis(node.integer("axis", 0), x.shape.ndim)
    length = node.lens(x)[axis]
    sizes = _sizes(node, inputs, length)
    known = all(isinstance(n, int) for n in (length, *sizes))
    if (known and sum(sizes) != length) or any(n < 0 for n in sizes):
        raise node.fail(
            f"pieces of {list(sizes)} of a length of {length}; expected sizes that sum to the length"
        )
    pieces: list[Instruction] = []
    start: Length = 0
    computed = not known and node.optional(inputs, 1) is not None
    for i, size in enumerate(sizes, 1):
        cut = _rest if computed and i == len(sizes) else cut_out
        pieces.append(cut(node.module, x, axis, start, size))
        start += size
    return pieces


def _rest(module: Module, x: Instruction, axis: int, start: Length, size: Length) -> Instruction:
    """The rest of an axis; a run fails if it is not of this size."""
    lens = list(lengths(module, x))
    left = sliced(module, x, [axis], [start], [lens[axis]])
    lens[axis] = size
    return expected(module, reshaped(module, left, lens), dims_of(left.shape))


def _sizes(node: NodeContext, inputs: list[Instruction], length: Length) -> tuple[Length, ...]:
    given = node.optional(inputs, 1)
    if given is not None:
        given = node.expected(given, [Dim(node.output_count, node.output_count)])
        return node.lengths_in(given, "sizes")
    if node.has("split"):
        return node.integers("split")
    count = piece_count(node)
    size = (length + (count - 1)) // count
    last = length - size * (count - 1)
    return (*[size] * (count - 1), last)


def piece_count(node: NodeContext) -> int:
    """The number of pieces of nearly equal size that a node asks for."""
    count = node.integer("num_outputs", node.output_count)
    if count != node.output_count or count < 1:
        raise node.fail(f"num_outputs={count}; expected the number of outputs, {node.output_count}")
    return count
