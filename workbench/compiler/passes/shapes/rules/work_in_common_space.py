"""The rule that joins elementwise work and reductions on both ends of a chain of transforms.

Both ends are moved to common dimensions, so that the chain no longer separates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.structure import Choice
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.movement import Contiguous, Layout
from workbench.compiler.ops.reduce import along_axes, axes_along, is_reduction, reduced_axes
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.passes.shapes.rules.canonical_chains import as_users_need
from workbench.compiler.passes.shapes.transform.chains import (
    LINKS,
    apply,
    chain_to,
    is_link,
    transform_of,
    words_of,
)
from workbench.compiler.passes.shapes.transform.common_space import Axes, CommonSpace
from workbench.compiler.passes.shapes.transform.descriptor import Descriptor, equal
from workbench.compiler.passes.shapes.transform.parts import Ints, Transform, Transforms
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, rule

_FEW_AXES = 8
"""Beyond so many common dimensions none of length 1 are added: pairs that meet again would add ever more."""


def _works(instruction: Instruction) -> bool:
    """Whether an instruction is elementwise work or a reduction of static tensors."""
    elementwise = instruction.op.pointwise or isinstance(instruction.op, Layout)
    if not (elementwise or is_reduction(instruction)) or not instruction.inputs:
        return False
    values = (instruction, *instruction.inputs)
    return all(v.shape.is_tensor and v.shape.dims is None for v in values)


def _scalar(instruction: Instruction) -> bool:
    return not any(instruction.shape.strides)


@dataclass(frozen=True)
class _Pair:
    """Work at the end of a chain, the chain, and the work at its start."""

    root: Instruction
    chain: list[Instruction]
    x: Instruction

    @property
    def value(self) -> Instruction:
        """The chain's last value, an input of the root."""
        return self.chain[-1]


def _pair(root: Instruction) -> _Pair | None:
    """The first input of ``root`` that reads other work through a chain with a reshape or transpose."""
    if not _works(root) or _scalar(root):
        return None
    for value in root.inputs:
        if not is_link(value):
            continue
        chain = chain_to(value)
        x = chain[0].inputs[0]
        moves = any(not isinstance(i.op, Broadcast | Multibroadcast | Contiguous) for i in chain)
        if moves and x.module is root.module and _works(x) and not _scalar(x):
            return _Pair(root, chain, x)
    return None


def _descriptor(pair: _Pair) -> Descriptor | str:
    """The chain's effect on the axes that ``x`` iterates over; or the reason why there is no descriptor."""
    x, words = pair.x, words_of(pair.chain)
    made = Descriptor.of(x.shape.lens, words)
    if made is None:
        return f"the chain from {who(x)} splits axes so that there are no common dimensions"
    if not is_reduction(x):
        same = made.elements == x.shape.elements
        return made if same else f"the chain from {who(x)} repeats elements"
    found = _of_reduction(pair, words, made)
    if found is None:
        return f"the chain does not map the axes that {who(x)} reduces"
    if isinstance(x.op.monoid, Choice):
        return found
    axes = frozenset(a for a in reduced_axes(x) if x.inputs[0].shape.lens[a] != 1)
    if found.hidden_axes != axes:
        return f"the chain broadcasts axes other than {who(x)} reduces"
    return found


def _of_reduction(pair: _Pair, words: Transforms, made: Descriptor) -> Descriptor | None:
    source = pair.x.inputs[0].shape
    if (found := made.rebase(source.lens, broadcast=True)) is not None:
        return found
    if made.elements not in (source.elements, pair.x.shape.elements):
        plain = made.rebase(source.lens)
        return made if plain is not None and plain.elements == source.elements else None
    broadcast = _broadcast_behind(pair.root)
    if broadcast is None or pair.root.shape.lens != pair.value.shape.lens:
        return None
    longer = Descriptor.of(pair.x.shape.lens, (*words, transform_of(broadcast)))
    return None if longer is None else longer.rebase(source.lens, broadcast=True)


def _broadcast_behind(root: Instruction) -> Instruction | None:
    """The first instruction of other lens along the only users of ``root``, if it is a broadcast."""
    user = root.only_user
    while user is not None and user.shape.is_tensor and user.shape.lens == root.shape.lens:
        user = user.only_user
    return user if user is not None and isinstance(user.op, Broadcast | Multibroadcast) else None


def who(instruction: Instruction) -> str:
    """The name of an instruction in reasons."""
    return f"{instruction.name} #{instruction.id}"


def _obstacle(pair: _Pair, space: CommonSpace) -> str:
    """The reason to leave the pair alone; empty if there is none."""
    root, x = pair.root, pair.x
    if root.shape.ndim == len(space.dims):
        near = _near(x)
        if near is not None:
            return f"{who(near)} reads {who(x)} directly, and would be separated from it instead"
    if any(
        is_link(i) and chain_to(i)[0].inputs[0] is x for i in root.inputs if i is not pair.value
    ):
        return f"{who(root)} reads {who(x)} along another chain, too, which would separate them in turn"
    lens = (x.shape.lens, pair.value.shape.lens, space.dims)
    same = len({tuple(n for n in v if n != 1) for v in lens}) == 1
    if same and len(space.dims) > max(map(len, lens[:2])):
        return f"the chain from {who(x)} only moves axes of length 1"
    ends = max(v.shape.lens.count(1) for v in (x, pair.value, *x.inputs))
    if len(space.dims) > _FEW_AXES and space.dims.count(1) > ends:
        return f"there would be more axes of length 1 than {who(x)} and {who(root)} have"
    if is_reduction(root) and len(x.inputs) == 1 and x.inputs[0].literal is not None:
        return f"{who(x)} is constant, and stays next to its literal"
    for value in x.inputs:
        if isinstance(value.op, Slice) and _is_split(value, x.op.name):
            return f"{who(value)} is one of several slices that feed {x.op.name}: another rule merges those"
    return ""


def _near(x: Instruction) -> Instruction | None:
    """Work that reads ``x`` directly or, if ``x`` was itself moved behind a chain, through a broadcast.

    Otherwise two such users with different axes would take it from each other forever.
    """
    users = list(x.users)
    if any(is_link(i) for i in x.inputs):
        users += [
            u
            for spread in x.users
            if isinstance(spread.op, Broadcast | Multibroadcast)
            for u in spread.users
        ]
    return next((u for u in users if _works(u)), None)


def _is_split(cut: Instruction, name: str) -> bool:
    """Whether a value has several slices that all feed operations of one name."""
    cuts = [u for u in cut.inputs[0].users if isinstance(u.op, Slice)]
    return len(cuts) > 1 and all(any(u.op.name == name for u in c.users) for c in cuts)


def _inside(instruction: Instruction, space: Axes, rank: int) -> Operation | str:
    """The operation in ``rank`` common dimensions; ``space`` maps its axes to these."""
    op = instruction.op
    if isinstance(op, Layout):
        old: Ints = op.attributes()["permutation"]
        order = [k for a in old for k in space[a]]
        new = [k for k in range(rank) if k not in order]  # of length 1
        return replace(op, permutation=(*new, *order))
    if not is_reduction(instruction):
        return op
    axes = reduced_axes(instruction)
    found = tuple(sorted(k for a in axes for k in space[a]))
    if isinstance(op.monoid, Choice) and len(found) != 1:
        return f"{op.name} returns an index along axis {axes[0]}, which is {len(found)} common dimensions"
    return along_axes(op, found)


def _lens_inside(op: Operation, lens: Ints) -> Ints:
    """The lens of an operation's result in the common dimensions."""
    if op.monoid is None:
        return lens
    axes = axes_along(op)
    return tuple(1 if i in axes else n for i, n in enumerate(lens))


def _lens_after(lens: Ints, words: Transforms | None) -> Ints | None:
    found = None if words is None else Descriptor.recorded(lens, words)
    return None if found is None else found.lens


@dataclass
class _Plan:
    """The replacements of both ends of a pair in the common dimensions."""

    into: Mapping[Instruction, Transforms]
    """The transforms of the first work's inputs to the common dimensions."""
    first: Operation
    source: Transforms
    """The transforms of the first work's result back to its own axes."""
    spread: Transforms
    others: dict[Instruction, Transforms]
    """The transforms of the second work's other inputs to the common dimensions."""
    second: Operation
    destination: Transforms


def _plan(pair: _Pair, space: CommonSpace) -> _Plan | str:
    """The plan for a pair, proven to keep every value; or the reason why there is none."""
    x, root = pair.x, pair.root
    rank = len(space.dims)
    first = _inside(x, space.axes_of_source, rank)
    second = _inside(root, space.axes_of_destination, rank)
    if isinstance(first, str) or isinstance(second, str):
        return first if isinstance(first, str) else str(second)
    into = {i: _into(space, i) for i in x.inputs}
    lens = {_lens_after(i.shape.lens, words) for i, words in into.items()}
    given = lens.pop()
    if lens or given is None:
        return f"inputs of {who(x)} have no form, or different lens, in the common dimensions"
    into = {i: words or () for i, words in into.items()}
    inner = _lens_inside(first, given)
    spread: Transforms = ()
    if prod(inner) != pair.value.shape.elements:
        spread = (Transform("multibroadcast", space.dims),)
    wide = space.dims if spread else inner
    others = {i: _other(space, i, wide) for i in root.inputs if i is not pair.value}
    outer = _lens_inside(second, wide)
    source, destination = space.to_source(inner), space.to_destination(outer)
    if source is None or destination is None or None in others.values():
        return f"an input of {who(root)} or a result has no form in the common dimensions"
    found = {i: words for i, words in others.items() if words is not None}
    plan = _Plan(into, first, source, spread, found, second, destination)
    if _lens_after(outer, destination) != root.shape.lens:
        return f"the common dimensions do not lead to lens {list(root.shape.lens)}"
    if not _proven(pair, space, plan, given, inner):
        return "the path through the common dimensions is not proven equal to the chain"
    return plan


def _proven(pair: _Pair, space: CommonSpace, plan: _Plan, given: Ints, inner: Ints) -> bool:
    """Whether each input survives the way there and back, and the path through the space equals the chain."""
    wide = space.dims if plan.spread else inner
    home, away = space.to_source(given), space.to_destination(wide)
    if home is None or away is None:
        return False
    end = pair.value.shape.lens
    return (
        all(
            _returns(i.shape.lens, (*words, *home), pair.x.inputs[0].shape.lens)
            for i, words in plan.into.items()
        )
        and equal(inner, (*plan.source, *words_of(pair.chain)), (*plan.spread, *away))
        and all(_returns(i.shape.lens, (*words, *away), end) for i, words in plan.others.items())
    )


def _returns(lens: Ints, words: Transforms, end: Ints) -> bool:
    """Whether a chain is the identity, or a broadcast to the lens ``end``."""
    return equal(lens, words, () if lens == end else (Transform("multibroadcast", end),))


def _into(space: CommonSpace, value: Instruction) -> Transforms | None:
    """The chain from an input of the first work to the common dimensions, without broadcasts."""
    if value.shape.ndim == 1 and _scalar(value):
        return (Transform("multibroadcast", (1,) * len(space.dims)),)
    return space.from_source(value.shape.lens, no_broadcast=True)


def _other(space: CommonSpace, value: Instruction, wanted: Ints) -> Transforms | None:
    """The chain from another input of the second work to ``wanted`` lens; None if there is none."""
    found = space.from_destination(value.shape.lens, no_broadcast=True)
    if value.shape.ndim == 1 and _scalar(value):
        found = (Transform("multibroadcast", (1,) * len(space.dims)),)
    made = _lens_after(value.shape.lens, found)
    if found is None or made is None or made == wanted:
        return found
    fits = all(n in (m, 1) for n, m in zip(made, wanted, strict=True))
    return (*found, Transform("multibroadcast", wanted)) if fits else None


@rule(Pattern(binding="root", reads=LINKS, structure=lambda i: _pair(i) is not None))
def find_op_shape_transform_op(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """g(chain(f(x)), y) → chain(g(f(x), y)) with f and g in dimensions common to both"""
    pair = _pair(root)
    found = "there is no work before the chain" if pair is None else _descriptor(pair)
    if pair is None or isinstance(found, str):
        return Decline(str(found))
    space = CommonSpace.of(found)
    if reason := _obstacle(pair, space):
        return Decline(reason)
    plan = _plan(pair, space)
    if isinstance(plan, str):
        return Decline(plan)
    return _build(b, pair, plan)


def _build(b: Rewriter, pair: _Pair, plan: _Plan) -> Instruction:
    """Build the first work before its old place, and the second before the root."""
    x, root, given = pair.x, pair.root, pair.root.inputs
    b.before = x
    with b.module.program.source(*x.sources):
        made = b(plan.first, *(apply(b, i, plan.into[i]) for i in x.inputs))
        back = apply(b, made, plan.source)
        value = apply(b, made, plan.spread)
        back = as_users_need(b, x, back)
    b.module.replace(x, back)
    b.before = root
    inputs = [
        value if i is pair.value else apply(b, back if i is x else i, plan.others[i]) for i in given
    ]
    return as_users_need(b, root, apply(b, b(plan.second, *inputs), plan.destination))
