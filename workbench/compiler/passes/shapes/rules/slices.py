"""Rules about slices: of one another, and of transposes."""

from __future__ import annotations

from collections import Counter

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Transpose, Unsqueeze
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, op, rule, var


def slice_of(instruction: Instruction) -> Slice | None:
    """The operation of a slice with constant bounds, normalised to count from the front; otherwise None."""
    if len(instruction.inputs) != 1 or instruction.inputs[0].shape.dims is not None:
        return None
    cut = instruction.op.normalized([instruction.inputs[0].shape])
    return cut if isinstance(cut, Slice) else None


@rule(op("slice", op("slice", var("x"), name="inner"), name="root"))
def find_nested_slice(
    b: Rewriter, root: Instruction, inner: Instruction, x: Instruction
) -> Instruction | Decline:
    """slice(slice(x)) → slice(x)"""
    first, second = slice_of(inner), slice_of(root)
    if first is None or second is None:
        return Decline("a bound is computed while the program runs")
    ranges = {a: (s, e) for a, s, e in zip(first.axes, first.starts, first.ends, strict=True)}
    for axis, start, end in zip(second.axes, second.starts, second.ends, strict=True):
        offset = ranges[axis][0] if axis in ranges else 0
        ranges[axis] = (offset + start, offset + end)
    axes = tuple(sorted(ranges))
    return b(
        "slice",
        x,
        axes=axes,
        starts=[ranges[a][0] for a in axes],
        ends=[ranges[a][1] for a in axes],
    )


def _slices_of_axis(value: Instruction) -> list[tuple[Instruction, Slice]] | None:
    """The users of a value, if all of them are slices along the same axis."""
    users = value.users
    for user in users:  # a loop: this runs at every attempt
        if not isinstance(user.op, Slice):
            return None
    found = [(u, cut) for u in users if (cut := slice_of(u))]
    if len(found) != len(users) or len({cut.axes for _, cut in found}) != 1:
        return None
    return found if len(found[0][1].axes) == 1 else None


@rule(
    Pattern(
        frozenset({"transpose"}),
        (var("x"),),
        "root",
        structure=lambda i: _slices_of_axis(i) is not None,
    )
)
def find_transpose_slice(b: Rewriter, root: Instruction, x: Instruction) -> Instruction | Decline:
    """slices of transpose(x) along one axis → squeezed slices of it along a new first axis"""
    slices = _slices_of_axis(root) or []
    axis, permutation = slices[0][1].axes[0], root.op.attributes()["permutation"]
    lengths = {cut.ends[0] - cut.starts[0] for _, cut in slices}
    if len(lengths) > 1:
        return Decline(f"the slices have different lengths {sorted(lengths)}")
    n, length = root.shape.lens[axis], lengths.pop()
    if not length or n % length or any(cut.starts[0] % length for _, cut in slices):
        return Decline(f"axis {axis} of length {n} is not sliced into equal parts of {length}")
    if n == length:
        return Decline(f"slice #{slices[0][0].id} is the whole of axis {axis}")
    if any(u.module is not root.module for u, _ in slices):
        return Decline("a slice is in another module")
    if all(d == 1 for d in root.shape.lens[:axis]):
        return Decline(
            f"no axis before axis {axis} is longer than 1, so the slices are already contiguous"
        )
    place = permutation[axis]
    if length == 1 and _is_split_off(x, place):
        return Decline(f"axis {place} of {x.name} #{x.id} is already split off")
    split = b("unsqueeze", x, axes=(place,), steps=(n // length,))
    order = [place, *[p + (p >= place) for p in permutation]]
    turned = b("transpose", split, permutation=order)
    for user, cut in slices:
        start = cut.starts[0] // length
        piece = b("slice", turned, axes=(0,), starts=(start,), ends=(start + 1,))
        b.module.replace(user, b("squeeze", piece, axes=(0,)))
    return turned


def _is_split_off(x: Instruction, axis: int) -> bool:
    """Whether a reshape already split off an axis, as this rule would do again."""
    lens = x.shape.lens
    return isinstance(x.op, Unsqueeze | Reshape) and axis + 1 < len(lens) and lens[axis + 1] == 1


def _turned_slices(x: Instruction) -> list[tuple[Instruction, Instruction]]:
    """The slices of a value whose only user is a transpose, with that transpose."""
    found: list[tuple[Instruction, Instruction]] = []
    for user in x.users:
        turned = user.only_user
        if (
            isinstance(user.op, Slice)
            and turned is not None
            and isinstance(turned.op, Transpose)
            and slice_of(user)
        ):
            found.append((user, turned))
    return found


@rule(
    Pattern(
        frozenset({"transpose"}),
        (op("slice", var("x")),),
        structure=lambda i: len(_turned_slices(i.inputs[0].inputs[0])) > 1,
    )
)
def find_slice_transpose(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """transposes of slices of x → slices of transpose(x)"""
    pairs = _turned_slices(x)
    counts = Counter(_permutation(turned) for _, turned in pairs)
    common = min(counts, key=lambda p: (-counts[p], p))
    if len({u.module for pair in pairs for u in pair} | {x.module}) > 1:
        return Decline("the slices are in different modules")
    b.before = x.following
    whole = b("transpose", x, permutation=common)
    for cut, turned in pairs:
        b.before = turned
        moved = slice_of(cut) or Slice()
        axes = [common.index(a) for a in moved.axes]
        value = b("slice", whole, axes=axes, starts=moved.starts, ends=moved.ends)
        if (own := _permutation(turned)) != common:
            value = b("transpose", value, permutation=[common.index(a) for a in own])
        b.module.replace(turned, value)
    return b.root


def _permutation(instruction: Instruction) -> tuple[int, ...]:
    return instruction.op.permutation if isinstance(instruction.op, Transpose) else ()
