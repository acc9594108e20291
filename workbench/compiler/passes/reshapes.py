"""Simplification of reshapes, transposes, broadcasts, slices and concatenations."""

from __future__ import annotations

from typing import ClassVar

from workbench.compiler.ir import Instruction
from workbench.compiler.operation import make
from workbench.compiler.ops.view import Squeeze, Transpose, Unsqueeze
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.concats import (
    find_concat_multibroadcasts,
    find_concat_reshape,
    find_concat_slice,
    find_concat_transpose,
    find_nested_concat,
)
from workbench.compiler.passes.shape_transform import Transform, shortest
from workbench.compiler.passes.slices import (
    find_nested_slice,
    find_slice_transpose,
    find_transpose_slice,
)
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, Rule, constant, op, rule, var

TRANSFORMS = frozenset(
    {"flatten", "reshape", "squeeze", "unsqueeze", "transpose", "broadcast", "multibroadcast"}
)
"""Operations that only say anew where the elements of one value are."""

_BROADCASTS = frozenset({"broadcast", "multibroadcast"})
_NOPS = TRANSFORMS | {"contiguous", "as_shape", "concat", "convert", "pad", "slice", "step"}
_REDUCES = frozenset({"reduce_mean", "reduce_max", "reduce_min", "reduce_sum", "reduce_prod"})


def is_transform(instruction: Instruction) -> bool:
    """Whether an instruction is a transform of one value with a known shape."""
    return (
        instruction.op.name in TRANSFORMS
        and len(instruction.inputs) == 1
        and instruction.shape.dims is None
        and instruction.inputs[0].shape.dims is None
    )


def chain_to(end: Instruction) -> list[Instruction]:
    """The transforms (and ``contiguous``) that lead to ``end``, in order; it is the last of them."""
    found: list[Instruction] = []
    current = end
    while is_transform(current) or (current.name == "contiguous" and current.shape.dims is None):
        found.append(current)
        current = current.inputs[0]
    return found[::-1]


def transform_of(instruction: Instruction) -> Transform:
    """The descriptor's word for an instruction."""
    op = instruction.op.normalized([i.shape for i in instruction.inputs])
    source, lens = instruction.inputs[0].shape.lens, instruction.shape.lens
    if isinstance(op, Transpose):
        return Transform("transpose", op.permutation)
    if isinstance(op, Squeeze):
        ones = tuple(i for i, n in enumerate(source) if n == 1)
        axes = tuple(sorted(op.axes)) or ones
        if len(source) - len(axes) == len(lens):  # a scalar still has one length
            return Transform("squeeze", axes)
    if isinstance(op, Unsqueeze) and not op.steps and len(source) + len(op.axes) == len(lens):
        return Transform("unsqueeze", tuple(sorted(op.axes)))
    if op.name in _BROADCASTS:
        return Transform(op.name, lens, getattr(op, "axis", 0))
    return Transform("reshape", lens)


def build(b: Rewriter, source: Instruction, transform: Transform) -> Instruction:
    """The instruction for a word of the descriptor."""
    kind, values, axis = transform
    if kind == "broadcast":
        return b(kind, source, axis=axis, out_lens=values)
    keys = {"transpose": "permutation", "multibroadcast": "out_lens", "reshape": "dims"}
    return b(make(kind, **{keys.get(kind, "axes"): values}), source)


def _shorter(end: Instruction) -> tuple[list[Instruction], tuple[Transform, ...]] | None:
    """The chain that ends here and its shortest equal, if that is another one."""
    user = end.only_user
    while user is not None and user.name == "contiguous":
        user = user.only_user
    if (user is not None and is_transform(user)) or not is_transform(end):
        return None
    if not (is_transform(end.inputs[0]) or end.inputs[0].name == "contiguous"):
        return None
    chain = chain_to(end)
    while chain[0].name == "contiguous":
        chain = chain[1:]
    steps = tuple(transform_of(i) for i in chain if i.name != "contiguous")
    if len(steps) < 2:
        return None
    best = shortest(chain[0].inputs[0].shape.lens, steps)
    return None if best == steps and len(steps) == len(chain) else (chain, best)


def _changes_nothing(instruction: Instruction) -> bool:
    source = instruction.inputs[0].shape
    if instruction.name in _REDUCES:
        same = (source.type, source.lens) == (instruction.shape.type, instruction.shape.lens)
        return same and len(instruction.inputs) == 1
    return source == instruction.shape


@rule(Pattern(_NOPS | _REDUCES, binding="x", structure=_changes_nothing))
def find_nop_reshapes(b: Rewriter, x: Instruction) -> Instruction:  # noqa: ARG001
    """f(x) → x where f keeps the shape: strides too, or, of a reduction, the lens"""
    return x.inputs[0]


@rule(op("flatten", var("x"), name="root"))
def find_flatten(b: Rewriter, root: Instruction, x: Instruction) -> Instruction | Decline:
    """flatten(x) → reshape(x)"""
    if 0 in root.shape.lens:
        return Decline("a length is 0, which a reshape would take for the input's own length")
    return b("reshape", x, dims=root.shape.lens)


@rule(Pattern(TRANSFORMS, binding="end", structure=lambda i: _shorter(i) is not None))
def find_nested_shape_transforms(b: Rewriter, end: Instruction) -> Instruction | Decline:
    """a chain of reshapes, transposes and broadcasts → the shortest chain that does the same"""
    found = _shorter(end)
    if found is None:
        return Decline("the chain is the shortest already")
    chain, best = found
    kept = next((i for i in reversed(chain[:-1]) if i.only_user is None), None)
    freed = len(chain) if kept is None else len(chain) - 1 - chain.index(kept)
    if kept is not None and len(best) > freed:
        return Decline(
            f"{kept.name} #{kept.id} in the chain has other users, so it stays; "
            f"{len(best)} operations would replace {freed}"
        )
    value = chain[0].inputs[0]
    for transform in best:
        value = build(b, value, transform)
    return value


def _is_unary_behind_chain(instruction: Instruction) -> bool:
    if len(instruction.inputs) != 1 or not instruction.op.pointwise or instruction.name == "layout":
        return False
    return is_transform(instruction.inputs[0])


def _computes(instruction: Instruction) -> bool:
    """Whether fusion will want this beside its neighbour: elementwise work or a reduction."""
    return instruction.op.pointwise or instruction.name.startswith("reduce_")


def _leads_to(root: Instruction) -> list[Instruction]:
    """The chain of transforms behind ``root`` up to elementwise work or a reduction; empty without one."""
    found: list[Instruction] = []
    user = root.only_user
    while user is not None and (is_transform(user) or user.name == "contiguous"):
        found.append(user)
        user = user.only_user
    return found if user is not None and _computes(user) and user.module is root.module else []


@rule(Pattern(binding="root", structure=_is_unary_behind_chain))
def find_unary_shape_transforms(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(x)) → reshape(f(x)), towards the work that f can be fused with"""
    chain = chain_to(root.inputs[0])
    source, user = chain[0].inputs[0], root.only_user
    if user is None:
        return Decline("its value has other users")
    if user.op.pointwise:
        return Decline(f"its user {user.name} #{user.id} is elementwise already")
    behind = _leads_to(root)
    if source.literal is not None or _computes(source):
        shared = next((i for i in chain if i.only_user is None), None)
        if shared is not None:
            return Decline(
                f"{shared.name} #{shared.id} before it has other users, so it would be done twice"
            )
        value = b(root.op, source)
        for one in chain:
            value = b(one.op, value)
        return value
    if not behind or any(i.name in _BROADCASTS for i in behind):
        why = (
            "a broadcast follows"
            if behind
            else "no elementwise work or reduction is before or behind it"
        )
        return Decline(f"{why}, so moving it brings nothing")
    b.before, value = behind[-1].following, root.inputs[0]
    for one in behind:
        value = b(one.op, value)
    moved = b(root.op, value)
    b.module.replace(behind[-1], moved)
    return moved


def _is_reshape_of_view(value: Instruction) -> bool:
    if value.name != "reshape" or len(value.inputs) != 1:
        return False
    source = value.inputs[0]
    while source.name == "contiguous":
        source = source.inputs[0]
    return not source.shape.standard


def _meets_reshape(instruction: Instruction) -> bool:
    inputs = instruction.inputs
    if not instruction.op.pointwise or len(inputs) != 2 or inputs[0] is inputs[1]:
        return False
    return _is_reshape_of_view(inputs[0]) != _is_reshape_of_view(inputs[1])


@rule(Pattern(binding="root", structure=_meets_reshape))
def find_reshape_cont(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(x), y) → reshape(f(x, reshape(y))) where x is a transposed or broadcast view"""
    side = 0 if _is_reshape_of_view(root.inputs[0]) else 1
    reshape, other = root.inputs[side], root.inputs[1 - side]
    source = reshape.inputs[0]
    while source.name == "contiguous":
        source = source.inputs[0]
    if root.shape.ndim > source.shape.ndim:
        return Decline(f"the view has {source.shape.ndim} axes, the result {root.shape.ndim}")
    if reshape.only_user is None:
        return Decline(f"reshape #{reshape.id} has other users")
    if root.shape.ndim == source.shape.ndim and not other.shape.standard:
        return Decline(f"{other.name} #{other.id} is a view too: its reshape would lead back here")
    inputs = [b("reshape", other, dims=source.shape.lens)]
    inputs.insert(side, source)
    return b("reshape", b(root.op, *inputs), dims=root.shape.lens)


def _feeds_dot(instruction: Instruction) -> bool:
    user = instruction.only_user
    while user is not None and user.name == "transpose":
        user = user.only_user
    return user is not None and user.name == "dot"


@rule(
    Pattern(
        frozenset({"transpose"}),
        (op("mul|add", constant("c"), var("y"), name="inner").once,),
        "root",
        structure=_feeds_dot,
    )
)
def find_mul_add_shape_op_dot(
    b: Rewriter, root: Instruction, inner: Instruction, c: Instruction, y: Instruction
) -> Instruction | Decline:
    """transpose(mul(c, y)) → mul(transpose(y), transpose(c)) before a dot, for a constant c"""
    if y.is_constant:
        return Decline("both operands are constant: they are folded")
    return b(inner.op, b(root.op, y), b(root.op, c))


@register
class SimplifyReshapes(RewritePass):
    """Any chain of reshapes, transposes and broadcasts becomes its shortest; slices and concats cancel."""

    name: ClassVar[str] = "simplify_reshapes"
    rules: ClassVar[tuple[Rule, ...]] = (
        find_nop_reshapes,
        find_flatten,
        find_reshape_cont,
        find_nested_shape_transforms,
        find_concat_slice,
        find_concat_transpose,
        find_concat_reshape,
        find_concat_multibroadcasts,
        find_nested_slice,
        find_nested_concat,
        find_transpose_slice,
        find_slice_transpose,
        find_unary_shape_transforms,
        find_mul_add_shape_op_dot,
    )
