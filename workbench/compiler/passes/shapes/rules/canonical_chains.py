"""Rules that rewrite chains of reshapes, transposes and broadcasts to their canonical form."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.ops.view import Unsqueeze
from workbench.compiler.passes.shapes.rules.slices import slice_of
from workbench.compiler.passes.shapes.transform.chains import (
    LINKS,
    TRANSFORMS,
    apply,
    chain_to,
    is_link,
    is_transform,
    next_user,
    words_of,
)
from workbench.compiler.passes.shapes.transform.descriptor import (
    Descriptor,
    canonical,
    cost,
    simplified_chain,
)
from workbench.compiler.passes.shapes.transform.parts import Ints, Part, Transform, Transforms
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, rule, var


def _wanted(end: Instruction, source: Instruction, words: Transforms) -> Transforms | None:
    """The canonical replacement of a chain; None if it cannot be described."""
    lens, out = source.shape.lens, end.shape.lens
    scalar = source.shape.elements == 1 and not any(source.shape.strides)
    if end.shape.elements == 1:
        return _one_element(end, scalar and len(out) >= len(lens))
    if not scalar or len(out) < len(lens):
        return canonical(lens, words)
    return (Transform("multibroadcast", out),)


def _one_element(end: Instruction, scalar: bool) -> Transforms | None:
    """The operation from one element to one with the same strides, which later views depend on."""
    if all(end.shape.strides):
        return (Transform("reshape", end.shape.lens),)
    zero = scalar and not any(end.shape.strides)
    return (Transform("multibroadcast", end.shape.lens),) if zero else None


def _ends_nested_chain(end: Instruction) -> bool:
    """Whether a chain of several transforms ends here and differs from its canonical form."""
    below = end.inputs[0] if end.inputs else end
    if not is_link(below) or not is_transform(end):
        return False
    user = next_user(end)
    if user is not None and is_transform(user):
        return False
    chain = chain_to(end)
    known = [k for i in chain for k in (i.op, i.shape)]
    key = (chain[0].inputs[0].shape, *known)
    found = _differing.get(key)
    if found is None:
        if len(_differing) > _MOST_KEPT:
            _differing.clear()
        found = _differing[key] = _differs(end, chain)
    return found


_MOST_KEPT = 4096
_differing: dict[tuple[Operation | Shape, ...], bool] = {}
"""What ``_differs`` said of chains of the same operations on the same shapes."""


def _differs(end: Instruction, chain: list[Instruction]) -> bool:
    """Whether a chain has several transforms and differs from its canonical form."""
    words = words_of(chain)
    if len(words) < 2:
        return False
    wanted = _wanted(end, chain[0].inputs[0], words)
    return wanted is not None and (wanted != words or _splits(chain))


def _splits(chain: list[Instruction]) -> bool:
    """Whether an unsqueeze of the chain splits an axis of a row-major value, as a reshape would."""
    found = [i for i in chain if isinstance(i.op, Unsqueeze) and i.op.steps]
    return any(i.inputs[0].shape.standard for i in found)


@rule(Pattern(TRANSFORMS, (var("below"),), "end", structure=_ends_nested_chain, reads=LINKS))
def find_nested_shape_transforms(b: Rewriter, end: Instruction) -> Instruction | Decline:
    """a chain of reshapes, transposes and broadcasts → its canonical chain"""
    chain = chain_to(end)
    source, words = chain[0].inputs[0], words_of(chain)
    lens = source.shape.lens
    wanted = _wanted(end, source, words) or ()
    if len(wanted) > 1:
        wanted = simplified_chain(lens, words)
    if wanted == words and not _splits(chain):
        return Decline(_costlier(lens, words, canonical(lens, words) or ()))
    shared = [i for i in chain[:-1] if i.only_user is None]
    if shared:
        kept = shared[-1]
        freed = words_of(chain[chain.index(kept) + 1 :])
        if cost(lens, wanted) > cost(kept.shape.lens, freed):
            return Decline(
                f"{kept.name} #{kept.id} in the chain has other users, so it stays; "
                f"{listed(wanted)} would replace {listed(freed)}"
            )
    for one in shared:  # its other users may now bypass it as well
        b.program.tell_touched(one)
    return as_users_need(b, end, apply(b, source, wanted))


def listed(words: Transforms) -> str:
    """The names of a chain's operations, for a message."""
    return ", ".join(w.kind for w in words) or "nothing"


def _costlier(lens: Ints, words: Transforms, wanted: Transforms) -> str:
    (copied, count), (now, few) = cost(lens, wanted), cost(lens, words)
    if copied > now:
        return f"its canonical form {listed(wanted)} would copy {copied} elements, now {now}"
    return f"its canonical form {listed(wanted)} has {count} operations, now {few}"


def _slice_below(end: Instruction) -> tuple[Instruction, list[Instruction]] | None:
    """The slice before ``end`` if its input has no other user, with the transforms from it to ``end``."""
    cut = end
    while is_link(cut):
        cut = cut.inputs[0]
    if cut is end or not isinstance(cut.op, Slice) or cut.constant:
        return None
    if cut.inputs[0].only_user is not cut or any(is_link(u) for u in end.users):
        return None
    scalar = not any(end.shape.strides) or (end.shape.elements == 1 and 0 in end.shape.strides)
    known = not scalar and 0 not in end.shape.lens and slice_of(cut) is not None
    return (cut, chain_to(end)) if known else None


def _before_slice(cut: Instruction, words: Transforms) -> tuple[Transforms, Ints] | None:
    """The chain for the whole value, and the slice's axes after it; None unless each stays whole."""
    made = Descriptor.of(cut.shape.lens, words)
    op = slice_of(cut)
    if made is None or op is None:
        return None
    if any(p.path and p.path[0] >= made.rank for p in made.parts):
        return None  # for one element, dimensions may be inserted that the slice does not have
    dims = [list(dim) for dim in made.dims]
    axes: list[int] = []
    for axis in op.axes:
        places = [d for d, dim in enumerate(dims) for p in dim if p.path[:1] == (axis,)]
        if len(places) != 1 or len(dims[places[0]]) != 1 or dims[places[0]][0].hidden:
            return None
        dims[places[0]] = [Part(cut.inputs[0].shape.lens[axis], (axis,))]
        axes.append(places[0])
    return Descriptor.made(made.rank, dims).generate(), tuple(axes)


def _changes_behind_slice(end: Instruction) -> bool:
    found = _slice_below(end)
    if found is None:
        return False
    cut, chain = found
    words = words_of(chain)
    if not words:
        return False
    if _before_slice(cut, words) is not None:
        return True
    wanted = canonical(cut.shape.lens, words)
    return wanted is not None and not _same_kinds(wanted, words)


def _same_kinds(one: Transforms, other: Transforms) -> bool:
    """Whether two chains have the same operations; which axes of length 1 these name may differ."""
    return [w.kind for w in one] == [w.kind for w in other]


@rule(
    Pattern(
        LINKS,
        (var("below"),),
        "end",
        structure=_changes_behind_slice,
        reads=LINKS | {"slice"},
    )
)
def find_slice_shape_transforms(b: Rewriter, end: Instruction) -> Instruction | Decline:
    """a chain on slice(x) → slice(the chain on x); where an axis is split or joined, its canonical chain"""
    cut, chain = _slice_below(end) or (end, [end])
    words, lens = words_of(chain), cut.shape.lens
    shared = next((i for i in (cut, *chain[:-1]) if i.only_user is None), None)
    if shared is not None:
        return Decline(f"{shared.name} #{shared.id} has other users, so it stays")
    moved = _before_slice(cut, words)
    if moved is None:
        wanted = simplified_chain(lens, words)
        if _same_kinds(wanted, words):
            return Decline(_costlier(lens, words, canonical(lens, words) or ()))
        return as_users_need(b, end, apply(b, cut, wanted))
    wanted, axes = moved
    op, x = slice_of(cut), cut.inputs[0]
    same = canonical(lens, words)
    if op is not None and (joined := _joined_below(cut, words, wanted)) is not None:
        x, wanted = joined
    elif op is None or same is None or cost(lens, same) > cost(lens, words):
        return Decline(_costlier(lens, words, same or wanted))
    value = b("slice", apply(b, x, wanted), axes=axes, starts=op.starts, ends=op.ends)
    return as_users_need(b, end, value)


def _joined_below(
    cut: Instruction, words: Transforms, moved: Transforms
) -> tuple[Instruction, Transforms] | None:
    """The moved chain as one with the transforms below the slice, from their source, if that costs less."""
    x = cut.inputs[0]
    if not is_transform(x):
        return None
    chain = [i for i in chain_to(x) if is_transform(i)]
    source, below = chain[0].inputs[0], words_of(chain)
    if source.shape.elements == 1 or any(i.only_user is None for i in chain_to(x)):
        return None
    lens = [source.shape.lens, *(i.shape.lens for i in chain)]
    ways = [(*below[:k], *simplified_chain(n, (*below[k:], *moved))) for k, n in enumerate(lens)]
    joined = min(ways, key=lambda w: cost(lens[0], w))
    now = zip(cost(lens[0], below), cost(cut.shape.lens, words), strict=True)
    return (source, joined) if cost(lens[0], joined) < tuple(map(sum, now)) else None


def as_users_need(b: Rewriter, end: Instruction, value: Instruction) -> Instruction:
    """The replacement of ``end``, copied to row-major order if a user needs that or treats scalars apart."""
    scalar = b.program.shape_rules.is_scalar(value.shape) and value.shape != end.shape
    lost = scalar or (end.shape.standard and not value.shape.standard)
    if lost and any(_demands(u.op, scalar) for u in end.users):
        return b("contiguous", value)
    return value


def _demands(op: Operation, scalar: bool) -> bool:
    return op.needs_standard or (scalar and isinstance(op, Unsqueeze))
