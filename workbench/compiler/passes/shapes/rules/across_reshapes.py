"""Rules that move work across reshapes, transposes and broadcasts, towards work that it can fuse with."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import FusedReduce, SplitFusedReduce
from workbench.compiler.ops.movement import Layout
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.ops.view import Transpose
from workbench.compiler.passes.shapes.transform.chains import (
    LINKS,
    behind_contiguous,
    chain_to,
    is_link,
    is_transform,
    next_user,
)
from workbench.compiler.rewrite import (
    Decline,
    Pattern,
    Rewriter,
    behind_broadcasts,
    constant,
    is_pointwise,
    op,
    rule,
    var,
)


def _is_behind_chain(instruction: Instruction) -> bool:
    return is_transform(behind_contiguous(instruction.inputs[0]))


def _elementwise(instruction: Instruction) -> bool:
    return instruction.op.pointwise or isinstance(instruction.op, Layout)


def _computes(instruction: Instruction) -> bool:
    """Whether a unary operation can be fused with this: elementwise work or a reduction."""
    op = instruction.op
    reduces = op.monoid is not None or isinstance(op, FusedReduce | SplitFusedReduce)
    return reduces or _elementwise(instruction)


def _chain_from(root: Instruction) -> tuple[list[Instruction], Instruction | None]:
    """The transforms after ``root``, each the only user of the previous one; and the user after them."""
    found: list[Instruction] = []
    user = root.only_user
    while user is not None and is_link(user) and user.only_user is not None:
        found.append(user)
        user = user.only_user
    return found, user


@rule(
    Pattern(
        inputs=(Pattern(),),
        binding="root",
        kind=is_pointwise,
        reads=LINKS,
        structure=_is_behind_chain,
    )
)
def find_unary_shape_transforms(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(x)) → reshape(f(x)), towards work that f can be fused with"""
    if root.only_user is None:
        return Decline("its value has other users" if root.users else "it is the module's result")
    user = next_user(root)
    if user is not None and _elementwise(user):
        return Decline(f"its user {user.name} #{user.id} is already elementwise")
    chain = chain_to(root.inputs[0])
    source = chain[0].inputs[0]
    behind, last = _chain_from(root)
    up = source.literal is not None or _computes(source)
    down = last is not None and _computes(last)
    if behind:
        return _moved_down(b, root, behind) if down and not up else _moved_up(b, root, chain)
    if last is not None and down and source.literal is None:
        return Decline(f"{last.name} #{last.id} follows directly")
    if not up:
        return Decline("there is no work before the chain that it could be fused with")
    return _moved_up(b, root, chain)


def _moved_up(b: Rewriter, root: Instruction, chain: list[Instruction]) -> Instruction:
    value = b(root.op, chain[0].inputs[0])
    for one in chain:
        value = b(one.op, value)
    return value


def _moved_down(b: Rewriter, root: Instruction, behind: list[Instruction]) -> Instruction | Decline:
    wider = next((i for i in behind if isinstance(i.op, Broadcast | Multibroadcast)), None)
    if wider is not None:
        return Decline(
            f"{wider.name} #{wider.id} follows: after it, there are more elements to compute"
        )
    end = behind[-1]
    if end.module is not root.module:
        return Decline(f"{end.name} #{end.id}, which follows, is in another module")
    value = root.inputs[0]
    for one in behind:
        value = b(one.op, value)
    b.before = end
    moved = b(root.op, value)
    b.module.replace(end, moved)
    return moved


def _is_reshape_of_view(value: Instruction) -> bool:
    """Whether a value is a reshape of a transposed or broadcast view."""
    return (
        isinstance(value.op, Reshape)
        and len(value.inputs) == 1
        and not behind_contiguous(value.inputs[0]).shape.standard
    )


def _meets_reshape(instruction: Instruction) -> bool:
    inputs = instruction.inputs
    if len(inputs) != 2:
        return False
    return _is_reshape_of_view(inputs[0]) or _is_reshape_of_view(inputs[1])


@rule(
    Pattern(
        binding="root",
        kind=is_pointwise,
        reads=frozenset({"reshape"}),
        structure=_meets_reshape,
    )
)
def find_reshape_cont(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(x), y) → reshape(f(x, reshape(y))) where x is a transposed or broadcast view"""
    reshape = next(i for i in root.inputs if _is_reshape_of_view(i))
    source = behind_contiguous(reshape.inputs[0])
    if root.shape.ndim > source.shape.ndim:
        return Decline(
            f"{source.name} #{source.id} has {source.shape.ndim} axes, the result {root.shape.ndim}"
        )
    view = next((i for i in root.inputs if i is not reshape and not i.shape.standard), None)
    if view is not None and root.shape.ndim == source.shape.ndim:
        return Decline(
            f"{view.name} #{view.id} is also a view: reshaping it would match this rule again"
        )
    if view is not None and view.shape.broadcasted:
        return Decline(
            f"{view.name} #{view.id} repeats elements: reshaping it would copy every repetition"
        )
    inputs = [source if i is reshape else b.reshape(i, source.shape.lens) for i in root.inputs]
    return b.reshape(b(root.op, *inputs), root.shape.lens)


def _feeds_dot(instruction: Instruction) -> bool:
    user = instruction.only_user
    while user is not None and isinstance(user.op, Transpose | Convert):
        user = user.only_user
    return user is not None and isinstance(user.op, Dot)


@rule(
    Pattern(
        frozenset({"transpose", "convert"}),
        (op("mul|add", constant("c"), var("y"), name="inner"),),
        "root",
        structure=_feeds_dot,
    )
)
def find_mul_add_shape_op_dot(
    b: Rewriter, root: Instruction, inner: Instruction, c: Instruction, y: Instruction
) -> Instruction | Decline:
    """transpose(mul(c, y)) → mul(transpose(y), transpose(c)) before a dot, for a constant c"""
    if isinstance(root.op, Convert):
        return Decline(f"the {inner.name} would be rounded to another type")
    return b(inner.op, b(root.op, y), b(root.op, c))


@rule(
    Pattern(
        frozenset({"dot"}),
        binding="root",
        reads=frozenset({"reshape"}),
    )
)
def find_reshape_dot(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """dot(reshape(x), reshape(y)) → reshape(dot(x, y)); one side may be a matrix repeated over the batch"""
    if root.only_user is None and root.users:
        return Decline("its value has other users")
    side = 0 if isinstance(root.inputs[0].op, Reshape) else 1
    reshape, operand = root.inputs[side], root.inputs[1 - side]
    if len(reshape.inputs) != 1:
        return Decline(f"the lens of reshape #{reshape.id} are computed while the program runs")
    x = reshape.inputs[0]
    if x.shape.is_dynamic:
        return Decline(f"{x.name} #{x.id} has dynamic dimensions")
    if x.shape.ndim < 2 or 0 in root.shape.lens:
        return Decline(f"{x.name} #{x.id} is not a batch of nonempty matrices")
    answer = _matching(root, side) if isinstance(operand.op, Reshape) else _repeated(b, root, side)
    if isinstance(answer, Decline):
        return answer
    inputs = (x, answer) if side == 0 else (answer, x)
    return b.reshape(b(root.op, *inputs), root.shape.lens)


def _matching(root: Instruction, side: int) -> Instruction | Decline:
    """The source of the other operand, which is also a reshape."""
    x, y = (root.inputs[i].inputs[0].shape.lens for i in (side, 1 - side))
    for reshape in root.inputs:
        kept = reshape.inputs[0].shape.lens[-2:] == reshape.shape.lens[-2:]
        if len(reshape.inputs) != 1 or not kept:
            return Decline(f"reshape #{reshape.id} changes the last two axes, its matrices")
    if len(x) != len(y) or x[:-2] != y[:-2]:
        return Decline(
            f"before the reshapes, the batches differ: {list(x[:-2])} and {list(y[:-2])}"
        )
    return root.inputs[1 - side].inputs[0]


def _repeated(b: Rewriter, root: Instruction, side: int) -> Instruction | Decline:
    """The other operand, one matrix broadcast over the batch, broadcast to the batch before the reshape."""
    reshape, operand = root.inputs[side], root.inputs[1 - side]
    lens = reshape.inputs[0].shape.lens
    kept = (
        -1 if side == 0 else slice(-2, None)
    )  # the left side may regroup rows, the right side may not
    if lens[kept] != reshape.shape.lens[kept]:
        return Decline(
            f"reshape #{reshape.id} changes the axis that is summed over, or its matrices"
        )
    operand = behind_contiguous(operand)
    source = behind_broadcasts(operand)
    if isinstance(source.op, Reshape):
        return Decline(f"{operand.name} #{operand.id} broadcasts a reshape")
    if source.shape.ndim > 2:
        return Decline(
            f"{source.name} #{source.id} has {source.shape.ndim} axes; expected a matrix"
        )
    batch = zip(operand.shape.lens[:-2], operand.shape.strides[:-2], strict=True)
    if any(stride and n != 1 for n, stride in batch):
        return Decline(f"{operand.name} #{operand.id} varies over the batch")
    return _laid_anew(b, source, operand, (*lens[:-2], *operand.shape.lens[-2:]))


def _laid_anew(
    b: Rewriter, source: Instruction, operand: Instruction, lens: tuple[int, ...]
) -> Instruction | Decline:
    """A matrix or vector broadcast to these lens, along the axes that it has in ``operand``."""
    if source.shape.ndim == 1 and source.shape.elements > 1:
        along = [i for i, stride in enumerate(operand.shape.strides) if stride]
        if len(along) != 1:
            return Decline(f"{source.name} #{source.id} does not lie along one axis")
        return b(Broadcast(axis=len(lens) - operand.shape.ndim + along[0], out_lens=lens), source)
    tail = operand.shape.lens[-2:]
    fits = source.shape.ndim < 2 or _is_tail(source, operand)
    if not fits:
        return Decline(
            f"{source.name} #{source.id} is not broadcast along the last two axes {list(tail)}"
        )
    return source if source.shape.lens == lens else b("multibroadcast", source, out_lens=lens)


def _is_tail(source: Instruction, operand: Instruction) -> bool:
    """Whether every broadcast of a matrix keeps its axes last."""
    while operand is not source:
        shape = operand.inputs[0].shape
        if isinstance(operand.op, Broadcast) and operand.op.axis != operand.shape.ndim - shape.ndim:
            return False
        operand = operand.inputs[0]
    return True
