"""Operators that slice a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.registry import tf_op


@tf_op("Slice")
def slice_(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """A part of given lens; −1 means up to the end."""
    node.expect(inputs, 3)
    starts, sizes = (
        node.constant_ints(v, what) for v, what in zip(inputs[1:], ("begin", "size"), strict=True)
    )
    lens = node.lens(inputs[0])
    if not len(starts) == len(sizes) == len(lens):
        raise node.fail(f"begin {list(starts)} and size {list(sizes)}; expected {len(lens)} each")
    ends = tuple(n if m == -1 else s + m for s, m, n in zip(starts, sizes, lens, strict=True))
    if any(not 0 <= s <= e <= n for s, e, n in zip(starts, ends, lens, strict=True)):
        raise node.fail(
            f"begin {list(starts)} and size {list(sizes)} are out of range for {list(lens)}"
        )
    x = node.standard(inputs[0])
    if not lens:
        return x
    return node.add("slice", x, axes=tuple(range(len(lens))), starts=starts, ends=ends)


@tf_op("Split", "SplitV")
def split(node: NodeContext, inputs: list[Instruction]) -> list[Instruction]:
    """The parts of a value along an axis: equal ones, or of given lengths."""
    is_v = node.op_type == "SplitV"
    node.expect(inputs, 3 if is_v else 2)
    x, given = (inputs[0], inputs[2]) if is_v else (inputs[1], inputs[0])
    lens = node.lens(x)
    axis = node.axis(node.constant_int(given, "the axis"), len(lens))
    parts = _given_parts(node, inputs[1], lens[axis]) if is_v else _equal_parts(node, lens[axis])
    if len(parts) == 1:
        return [node.add("identity", x)]
    places = [0, *accumulate(parts)]
    found: list[Instruction] = []
    for start, end in pairwise(places):
        starts, ends = [0] * len(lens), list(lens)
        starts[axis], ends[axis] = start, end
        axes = tuple(range(len(lens)))
        found.append(node.add("slice", x, axes=axes, starts=tuple(starts), ends=tuple(ends)))
    return found


def _equal_parts(node: NodeContext, length: int) -> list[int]:
    count = node.integer("num_split", 1)
    if not 1 <= count <= max(length, 1) or length % count:
        raise node.fail(f"{count} parts of a length of {length}; expected a divisor")
    return [length // count] * count


def _given_parts(node: NodeContext, value: Instruction, length: int) -> list[int]:
    parts = list(node.constant_ints(value, "the lengths of the parts"))
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = length - sum(parts) - 1
    if not parts or min(parts) < 0 or sum(parts) != length:
        raise node.fail(f"parts of {parts}; expected them to sum to {length}")
    return parts


@dataclass
class _Cut:
    """The effect of a strided slice on the axes of its input."""

    axes: list[int] = field(default_factory=list[int])
    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    steps: dict[int, int] = field(default_factory=dict[int, int])
    dropped: list[int] = field(default_factory=list[int])
    """Axes that are removed, because a single index was given."""
    added: list[int] = field(default_factory=list[int])
    """Positions of new axes in the result."""


@tf_op("StridedSlice")
def strided_slice(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The slice ``x[a:b:c, …]`` of Python."""
    node.expect(inputs, 3, 4)
    begin, end = (
        node.constant_ints(v, what) for v, what in zip(inputs[1:3], ("begin", "end"), strict=True)
    )
    steps = node.constant_ints(inputs[3], "strides") if len(inputs) == 4 else (1,) * len(begin)
    if not len(begin) == len(end) == len(steps) or 0 in steps:
        raise node.fail(
            f"begin {list(begin)}, end {list(end)} and strides {list(steps)}; "
            "expected as many of each, and no stride of 0"
        )
    lens = node.lens(inputs[0])
    cut = _read(node, begin, end, steps, lens)
    made = _apply(node, inputs[0], cut)
    if cut.dropped:
        made = node.squeeze(made, *cut.dropped)
    if not cut.added:
        return made
    if not node.rank(made):
        return node.reshape(made, *(1 for _ in cut.added))
    return node.unsqueeze(made, *cut.added)


def _apply(node: NodeContext, x: Instruction, cut: _Cut) -> Instruction:
    made = x
    if cut.axes:
        made = node.add(
            "slice", x, axes=tuple(cut.axes), starts=tuple(cut.starts), ends=tuple(cut.ends)
        )
    backwards = tuple(a for a, s in cut.steps.items() if s < 0)
    if backwards:
        made = node.add("reverse", made, axes=backwards)
    wide = {a: abs(s) for a, s in cut.steps.items() if abs(s) > 1}
    if wide:
        made = node.add("step", made, axes=tuple(wide), steps=tuple(wide.values()))
    return made


def _read(
    node: NodeContext,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    steps: tuple[int, ...],
    lens: tuple[int, ...],
) -> _Cut:
    """The effect of all entries in order: new axes, the ellipsis, single indices, ranges."""
    masks = {
        name: node.integer(f"{name}_mask", 0)
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    own = sum(1 for i in range(len(begin)) if not (masks["new_axis"] | masks["ellipsis"]) >> i & 1)
    if own > len(lens):
        raise node.fail(f"{own} entries for rank {len(lens)}; expected at most {len(lens)}")
    cut, axis, out = _Cut(), 0, 0
    for i in range(len(begin)):
        is_set = {name: bool(mask >> i & 1) for name, mask in masks.items()}
        if is_set["ellipsis"]:
            axis, out = axis + len(lens) - own, out + len(lens) - own
        elif is_set["new_axis"]:
            cut.added.append(out)
            out += 1
        else:
            shrinks = _entry(node, cut, axis, lens[axis], (begin[i], end[i], steps[i]), is_set)
            axis, out = axis + 1, out + (not shrinks)
    return cut


def _entry(
    node: NodeContext,
    cut: _Cut,
    axis: int,
    length: int,
    entry: tuple[int, int, int],
    is_set: dict[str, bool],
) -> bool:
    """Record the effect of one entry on an axis; returns whether the axis is removed."""
    start, end, step = entry
    cut.axes.append(axis)
    if is_set["shrink_axis"]:
        if not is_set["begin"]:
            start = node.axis(start, length, "index")
        cut.dropped.append(axis)
        cut.starts.append(0 if is_set["begin"] else start)
        cut.ends.append(cut.starts[-1] + 1)
        return True
    if step > 0:
        cut.starts.append(0 if is_set["begin"] else start)
        cut.ends.append(length if is_set["end"] else end)
    else:
        picked = range(length)[
            None if is_set["begin"] else start : None if is_set["end"] else end : step
        ]
        cut.starts.append(picked[-1] if picked else 0)
        cut.ends.append(picked[0] + 1 if picked else 0)
    if step != 1:
        cut.steps[axis] = step
    return False
