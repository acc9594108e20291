"""Rules about splits: adjacent slices that together cover a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

from workbench.compiler.ir.module import Instruction, captured
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.ops.reduce import Reduction, reduced_axes
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.passes.shapes.rules.concats import axis_of
from workbench.compiler.passes.shapes.rules.slices import slice_of
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, Rule, op, rule, var
from workbench.compiler.text.printing import instruction_text


def splits_of(value: Instruction) -> list[Instruction] | str:
    """All slices of a value in order, if they are adjacent and cover it; or the reason why not."""
    cuts = {u: cut for u in value.users if isinstance(u.op, Slice) and (cut := slice_of(u))}
    if len(cuts) < 2:
        return f"{value.name} #{value.id} has no second slice"
    slices = sorted(cuts, key=lambda s: cuts[s].starts)
    first, last = cuts[slices[0]], cuts[slices[-1]]
    if other := next((s for s in slices if cuts[s].axes != first.axes), None):
        return f"slices #{slices[0].id} and #{other.id} are along different axes"
    for one, following in pairwise(slices):
        if cuts[one].ends != cuts[following].starts:
            return f"slice #{following.id} does not begin where slice #{one.id} ends"
    whole = tuple(value.shape.lens[a] for a in first.axes)
    if any(first.starts) or last.ends != whole:
        return f"the slices of {value.name} #{value.id} do not cover it"
    return slices


def _is_first_split(instruction: Instruction) -> bool:
    """Whether a slice begins where its source begins, so that it may be the first of its splits."""
    cut = slice_of(instruction)
    return cut is not None and not any(cut.starts)


# One operation on all splits


_ELEMENTWISE = (Layout, PointwiseModule)


def elementwise(instruction: Instruction) -> bool:
    """Whether each result element depends only on the operands' elements at the same index."""
    return instruction.op.pointwise or isinstance(instruction.op, _ELEMENTWISE)


def _joins(instruction: Instruction) -> bool:
    """Whether an operation on each split may become one on the whole value."""
    op = instruction.op
    few = len(instruction.inputs) in (1, 2) or isinstance(op, PointwiseModule)
    return (few and elementwise(instruction)) or isinstance(op, Reduction)


def _feeds_work(instruction: Instruction) -> bool:
    if not _is_first_split(instruction):
        return False
    slices = [u for u in instruction.inputs[0].users if isinstance(u.op, Slice)]
    if len(slices) < 2:
        return False
    for one in slices:  # loops: this runs at every attempt
        for user in one.users:
            if _joins(user):
                return True
    return False


@rule(Pattern(frozenset({"slice"}), (var("x"),), "root", structure=_feeds_work))
def find_splits(b: Rewriter, root: Instruction, x: Instruction) -> Instruction | Decline:
    """f(slice(x)), f(slice(x))… over all of x → slices of f(x)"""
    splits = splits_of(x)
    if isinstance(splits, str):
        return Decline(splits)
    groups = _groups(splits)
    if isinstance(groups, str):
        return Decline(groups)
    joined, reason = False, ""
    for group in groups:
        if refused := _joined_reason(x, splits, group):
            reason = reason or refused
            continue
        operands = _operands(x, splits, group)
        if isinstance(operands, str):
            reason = reason or operands
            break
        _join(b, x, splits, group, *operands)
        joined = True
    return root if joined else Decline(reason)


def _groups(splits: Sequence[Instruction]) -> list[list[Instruction]] | str:
    """Groups of equal operations, one member per split; or the reason why there are none."""
    groups: list[list[Instruction]] = []
    taken: set[Instruction] = set()
    reason = "no operation is applied to every split"
    for one in min(splits, key=lambda s: len(s.users)).users:
        if isinstance(one.op, Slice):
            continue
        same = [next((u for u in s.users if _same_work(u, one)), None) for s in splits]
        group = [u for u in same if u is not None]
        if len(group) < len(splits) or not taken.isdisjoint(group):
            continue
        if len(set(group)) < len(group):
            reason = f"{one.name} #{one.id} uses several splits"
        elif _depends(group, group):
            reason = f"the {one.name} of one split depends on that of another"
        else:
            groups.append(group)
            taken.update(group)
    for group in groups:
        if _depends(group, [m for other in groups if other is not group for m in other]):
            return f"the {group[0].name} of the splits depends on other operations on them"
    return groups or reason


def _same_work(one: Instruction, other: Instruction) -> bool:
    if one.op != other.op or len(one.inputs) != len(other.inputs):
        return False
    return one.modules == other.modules or (
        isinstance(one.op, PointwiseModule) and _body(one) == _body(other)
    )


def _body(instruction: Instruction) -> list[str]:
    """The lines of a fused body, without its name."""
    found: list[str] = []
    named: dict[int, str] = {}
    for position, line in enumerate(instruction.modules[0]):
        named[line.id] = line.parameter or f"@{position}"
        found.append(instruction_text(line, named))
    return found


def _depends(group: Sequence[Instruction], on: Sequence[Instruction]) -> bool:
    """Whether a member of a group depends on one of ``on``; all are in one module."""
    if not on:
        return False
    wanted, module = set(on), group[0].module
    oldest = min(i.order for i in on)
    seen: set[Instruction] = set()
    stack = [n for i in group for n in _needed(i)]
    while stack:
        current = stack.pop()
        if current in wanted:
            return True
        if current.module is module and current.order > oldest and current not in seen:
            seen.add(current)
            stack += _needed(current)
    return False


def _needed(instruction: Instruction) -> list[Instruction]:
    """The values that an instruction is computed from: its inputs, and captures of its modules."""
    return [*instruction.inputs, *(c for m in instruction.modules for c in captured(m))]


def _joined_reason(
    x: Instruction, splits: Sequence[Instruction], group: Sequence[Instruction]
) -> str:
    """The reason why operations on the splits cannot be one on the whole, whatever their operands."""
    first = group[0]
    if any(i.module is not x.module for i in group):
        return f"{first.name} #{first.id} and {x.name} #{x.id} are in different modules"
    if isinstance(first.op, Reduction) and len(first.inputs) == 1:
        reduced = set(reduced_axes(first))
        cut = slice_of(splits[0]) or Slice()
        if not reduced or reduced & set(cut.axes):
            return f"{first.name} #{first.id} reduces an axis of the slices"
        return ""
    if not elementwise(first):
        return f"{first.name} #{first.id} is neither elementwise nor a reduction"
    if len(first.inputs) > 2:
        return f"{first.name} #{first.id} has {len(first.inputs)} inputs"
    return ""


def _operands(
    x: Instruction, splits: Sequence[Instruction], group: Sequence[Instruction]
) -> tuple[int, list[Instruction]] | str:
    """The index of the split operand, and the others by split; or the reason not to join them."""
    first = group[0]
    if len(first.inputs) == 1:
        return 0, []
    index = next(k for k, i in enumerate(first.inputs) if i in splits)
    alike = all(m.inputs[index] in splits for m in group)
    if not alike and not first.op.commutative:
        return f"the splits are different operands of {first.name} #{first.id} and its counterparts"
    index = index if alike else 0
    others: list[Instruction] = []
    for member, split in zip(group, splits, strict=True):
        pair = member.inputs if member.inputs[index] in splits else member.inputs[::-1]
        if pair[index] is not split:
            return f"{member.name} #{member.id} uses several splits"
        others.append(pair[1 - index])
    if moving := next((o for o in others if not o.constant), None):
        return f"operand {moving.name} #{moving.id} is not constant"
    if len((slice_of(splits[0]) or Slice()).axes) > 1:
        return f"slice #{splits[0].id} is along several axes, so the operands cannot be joined"
    if len({o.shape.type for o in others}) > 1:
        return f"the operands of {first.name} #{first.id} and its counterparts differ in type"
    if spread := _spread(others, (slice_of(splits[0]) or Slice()).axes[0]):
        return f"operand {spread.name} #{spread.id} repeats along the axis of the slices"
    if any(x in (i, *_before(i, x)) for i in others):
        return f"an operand is computed from {x.name} #{x.id}"
    return index, others


def _spread(operands: Sequence[Instruction], axis: int) -> Instruction | None:
    """An operand that joined with others would no longer repeat along an axis; scalars may."""
    if all(o.shape.is_scalar for o in operands):
        return None
    return next((o for o in operands if o.shape.strides[axis] == 0), None)


def _before(value: Instruction, place: Instruction) -> list[Instruction]:
    """The producers of a value, transitively, that are not before ``place``."""
    found: dict[Instruction, None] = {}
    stack = [value]
    while stack:
        current = stack.pop()
        for i in current.inputs:
            if i.module is place.module and i.order >= place.order and i not in found:
                found[i] = None
                stack.append(i)
    return list(found)


def _join(
    b: Rewriter,
    x: Instruction,
    splits: Sequence[Instruction],
    group: Sequence[Instruction],
    index: int,
    others: Sequence[Instruction],
) -> None:
    """Replace a group by one operation on the whole value, and a slice of that for each member."""
    inputs = [x]
    if others:
        move_before(x, others)
        b.before = x
        axis = (slice_of(splits[0]) or Slice()).axes[0]
        inputs.insert(1 - index, b("concat", *others, axis=axis))
    cuts = [s.op for s in splits]
    b.before = x.following
    whole = b(group[0].op, *inputs, modules=group[0].modules)
    come_from(whole, group)
    bodies = dict.fromkeys(m for member in group for m in member.modules)
    for member, cut in zip(group, cuts, strict=True):
        b.before = member
        b.module.replace(member, b(cut, whole))
    if len(bodies) > 1:
        called = set(b.program.reachable_modules())
        for body in bodies:
            if body not in called:
                b.program.remove_module(body)


def come_from(made: Instruction, group: Iterable[Instruction]) -> None:
    """Give an instruction the source nodes of all instructions that it replaces."""
    made.module.set_sources(made, (s for i in group for s in (*made.sources, *i.sources)))


def move_before(place: Instruction, values: Iterable[Instruction]) -> None:
    """Move values and their producers before ``place``, which none of them depends on."""
    module = place.module
    late = [v for v in dict.fromkeys(values) if v.module is module and v.order > place.order]
    moved = dict.fromkeys(i for v in late for i in (v, *_before(v, place)))
    for instruction in sorted(moved, key=lambda i: i.order):
        module.move(instruction, place)


# Splits that are joined, reshaped or transposed again


@rule(
    Pattern(
        frozenset({"concat"}),
        binding="root",
        structure=lambda i: sum(isinstance(x.op, Slice) for x in i.inputs) > 1,
    )
)
def find_split_concat(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(slice(x), slice(x)…, y) → concat(x, y), where the slices are all of x in order"""
    args, reason = list(root.inputs), ""
    for x in dict.fromkeys(i.inputs[0] for i in args if isinstance(i.op, Slice)):
        found = _place_of_splits(x, root, args)
        if isinstance(found, str):
            reason = reason or found
        else:
            args[found[0] : found[1]] = [x]
    if args == list(root.inputs):
        return Decline(reason)
    return args[0] if len(args) == 1 else b(root.op, *args)


def _place_of_splits(
    x: Instruction, root: Instruction, args: Sequence[Instruction]
) -> tuple[int, int] | str:
    """The range of a concat's arguments that are all splits of a value; or the reason why there is none."""
    splits = splits_of(x)
    if isinstance(splits, str):
        return splits
    if other := next((s for s in splits if s.only_user is not root), None):
        return f"slice #{other.id} has other users"
    cut, axis = slice_of(splits[0]) or Slice(), axis_of(root)
    if cut.axes != (axis,):
        return f"the slices of {x.name} #{x.id} are not along axis {axis} alone"
    start = args.index(splits[0])
    if list(args[start : start + len(splits)]) != splits:
        return f"the slices of {x.name} #{x.id} are not in order, or others are between them"
    return start, start + len(splits)


@rule(op("reshape", op("contiguous", op("slice", var("x"), name="cut"), name="copy"), name="root"))
def find_split_reshape(
    b: Rewriter, root: Instruction, cut: Instruction, x: Instruction
) -> Instruction | Decline:
    """reshape(contiguous(slice(x)))… → slices of reshape(x)"""
    splits = splits_of(x)
    if isinstance(splits, str):
        return Decline(splits)
    first = slice_of(cut) or Slice()
    if len(first.axes) != 1:
        return Decline(f"slice #{cut.id} is along several axes")
    alike = [
        u
        for s in splits
        for copy in s.users
        if isinstance(copy.op, Contiguous) and copy.module is x.module
        for u in copy.users
        if u.op == root.op and len(u.inputs) == 1 and u.module is x.module
    ]
    if len(alike) < 2 or root not in alike:
        return Decline("no other split is reshaped like this one")
    plan = _split_reshape(root, cut, first.axes[0], alike)
    if isinstance(plan, str):
        return Decline(plan)
    lens, axis, bounds = plan
    b.before = x.following
    whole = b.reshape(x, lens)
    come_from(whole, alike)
    for one, (start, end) in zip(alike, bounds, strict=True):
        b.before = one
        b.module.replace(one, b("slice", whole, axes=(axis,), starts=(start,), ends=(end,)))
    return root


Reshaped = tuple[tuple[int, ...], int, list[tuple[int, int]]]


def _split_reshape(
    root: Instruction, cut: Instruction, axis: int, alike: Sequence[Instruction]
) -> Reshaped | str:
    """The lens of the whole reshape, the axis to slice it along, and the slices; or the reason why not."""
    x, lens = cut.inputs[0], root.shape.lens
    inner = prod(x.shape.lens[axis + 1 :])
    tail = cut.shape.lens[axis] * inner
    at = next((k for k in range(len(lens)) if prod(lens[k:]) == tail), None)
    if at is None or not tail:
        return f"no axis of {list(lens)} begins where axis {axis} of the slice begins"
    step = prod(lens[at + 1 :])
    length = x.shape.lens[axis] * inner
    if length % step:
        return f"{length} elements from axis {axis} on are not a multiple of {step}"
    bounds: list[tuple[int, int]] = []
    for one in alike:
        own = slice_of(one.inputs[0].inputs[0]) or Slice()
        start, end = own.starts[0] * inner, own.ends[0] * inner
        expected = (*lens[:at], (end - start) // step, *lens[at + 1 :])
        if start % step or end % step or one.shape.lens != expected:
            return f"slice #{one.inputs[0].inputs[0].id} does not begin or end with a whole row"
        bounds.append((start // step, end // step))
    return (*lens[:at], length // step, *lens[at + 1 :]), at, bounds


@rule(op("transpose", op("slice", var("x"), name="cut").when(_is_first_split), name="root"))
def find_split_transpose(
    b: Rewriter, root: Instruction, cut: Instruction, x: Instruction
) -> Instruction | Decline:
    """transpose(slice(x)), transpose(slice(x))… over all of x → slices of transpose(x)"""
    splits = splits_of(x)
    if isinstance(splits, str):
        return Decline(splits)
    cuts = [slice_of(s) or Slice() for s in splits]
    if len(cuts[0].axes) != 1:
        return Decline(f"slice #{cut.id} is along several axes")
    turned: list[Instruction] = []
    for split in splits:
        user = split.only_user
        if user is None or user.op != root.op:
            return Decline(f"slice #{split.id} has users other than a transpose like this one")
        if user.module is not x.module:
            return Decline(f"transpose #{user.id} is in another module")
        turned.append(user)
    permutation: tuple[int, ...] = root.op.attributes()["permutation"]
    axis = permutation.index(cuts[0].axes[0])
    b.before = x.following
    whole = b(root.op, x)
    come_from(whole, turned)
    for one, own in zip(turned, cuts, strict=True):
        b.before = one
        piece = b("slice", whole, axes=(axis,), starts=own.starts, ends=own.ends)
        b.module.replace(one, piece)
    return root


SPLIT_RULES: tuple[Rule, ...] = (
    find_split_concat,
    find_splits,
    find_split_reshape,
    find_split_transpose,
)
