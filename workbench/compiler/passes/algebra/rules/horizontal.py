"""Rules that merge several dots or convolutions: of one input, added, or concatenated."""

from __future__ import annotations

from dataclasses import replace

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.convolve import Convolution
from workbench.compiler.ops.movement import Concat
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.passes.broadcasting import moving
from workbench.compiler.passes.shapes.rules.concats import axis_of
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, constant, op, rule


@rule(
    op(
        "add",
        op("convolution", moving("x"), constant("w"), name="one").once,
        op("convolution", moving("y"), constant("v"), name="two").once,
    )
)
def find_add_convs(
    b: Rewriter,
    x: Instruction,
    w: Instruction,
    one: Instruction,
    y: Instruction,
    v: Instruction,
    two: Instruction,
) -> Instruction | Decline:
    """add(convolution(x, w), convolution(y, v)) → convolution(concat(x, y), concat(w, v))"""
    steps = _strides_apart(one, two)
    if isinstance(steps, str):
        return Decline(steps)
    first, second = steps
    op = two.op if first > 1 else one.op
    inputs = _stepped(b, x, first), _stepped(b, y, second)
    return b(op, b("concat", *inputs, axis=1), b("concat", w, v, axis=1))


def _strides_apart(one: Instruction, two: Instruction) -> tuple[int, int] | str:
    """The steps over both inputs with which two convolutions merge; or the reason why they do not."""
    a, c = one.op.attributes(), two.op.attributes()
    if a["group"] != 1 or c["group"] != 1:
        return "the convolutions are grouped"
    kernel = one.inputs[1].shape.lens[2:]
    if kernel != two.inputs[1].shape.lens[2:]:
        return "the kernels differ in size"
    if any(a[k] != c[k] for k in ("padding", "dilation", "padding_mode")):
        return "the convolutions differ in padding or dilation"
    if a["stride"] == c["stride"]:
        same = one.inputs[0].shape.lens[2:] == two.inputs[0].shape.lens[2:]
        return (1, 1) if same else "the inputs differ in size"
    return _steps(
        a["stride"], c["stride"], one.inputs[0].shape.lens[2:], two.inputs[0].shape.lens[2:], kernel
    )


def _steps(
    s: tuple[int, ...],
    t: tuple[int, ...],
    m: tuple[int, ...],
    n: tuple[int, ...],
    kernel: tuple[int, ...],
) -> tuple[int, int] | str:
    if (
        set(kernel) != {1}
        or len(set(s)) != 1
        or len(set(t)) != 1
        or max(s[0], t[0]) % min(s[0], t[0])
    ):
        return "the strides differ, and the kernels are not 1 × 1 or the strides not multiples"
    first, second = max(1, s[0] // t[0]), max(1, t[0] // s[0])
    left, right = [-(-k // first) for k in m], [-(-k // second) for k in n]
    return (first, second) if left == right else "the inputs differ in size after the step"


def _stepped(b: Rewriter, value: Instruction, step: int) -> Instruction:
    axes = tuple(range(2, value.shape.ndim))
    return value if step == 1 else b("step", value, axes=axes, steps=(step,) * len(axes))


def _others_of_its_input(root: Instruction) -> bool:
    """Whether another dot or convolution by constants reads the same input."""
    for user in root.inputs[0].users:  # noqa: SIM110 (a loop is faster)
        if user is not root and _product_of(root, user):
            return True
    return False


def _product_of(root: Instruction, user: Instruction) -> bool:
    """Whether ``user`` is the same operation as ``root`` on the same input, by constants."""
    return (
        user.inputs[0] is root.inputs[0]
        and len(user.inputs) == 2
        and user.inputs[1].constant
        and user.module is root.module
        and user.op == root.op
    )


@rule(
    Pattern(
        frozenset({"dot", "quant_dot", "convolution"}),
        (moving("x"), constant("w")),
        structure=_others_of_its_input,
    ).where(lambda i: i.op.attributes().get("group", 1) == 1, "it is grouped")
)
def find_conv_dot_horiz_fusion(
    b: Rewriter, x: Instruction, w: Instruction
) -> Instruction | Decline:
    """dot(x, a); dot(x, b)… → slices of dot(x, concat(a, b…)), for constants; convolutions alike"""
    root = b.root
    along, across = (0, 1) if isinstance(root.op, Convolution) else (w.shape.ndim - 1,) * 2
    wanted = _off_axis(w, across)
    members = [u for u in x.users if _product_of(root, u)]
    members = [u for u in members if _off_axis(u.inputs[1], across) == wanted]
    if len(members) < 2:
        return Decline(
            f"the weights of other users of #{x.id} differ in lens outside axis {across}"
        )
    with b.program.source(*dict.fromkeys(s for u in members for s in u.sources)):
        return _merged(b, members, along, across)


def _merged(b: Rewriter, members: list[Instruction], along: int, across: int) -> Instruction:
    """Replace several operations by one on concatenated weights; the slice that replaces the root."""
    x, weights = b.root.inputs[0], [u.inputs[1] for u in members]
    here = x.module is b.module
    place = b.before = x if here else min(members, key=lambda u: u.order)
    done: set[Instruction] = set()
    for one in weights:
        _move_ahead(one, place, done)
    joined = b(Concat(axis=along), *weights)
    b.before = x.following if here else place
    return _sliced(b, b(b.root.op, x, joined), members, across)


def _off_axis(weights: Instruction, axis: int) -> tuple[int, ...]:
    lens = weights.shape.lens
    return (*lens[:axis], *lens[axis + 1 :])


def _move_ahead(value: Instruction, place: Instruction, done: set[Instruction]) -> None:
    """Move a constant and its producers right before ``place``, unless a user comes earlier."""
    if value in done or value.module is not place.module:
        return
    done.add(value)
    for needed in value.inputs:
        _move_ahead(needed, place, done)
    late = value.order >= place.order
    if late or all(u.module is place.module and u.order >= place.order for u in value.users):
        value.module.move(value, place)


def _sliced(b: Rewriter, whole: Instruction, members: list[Instruction], axis: int) -> Instruction:
    """Replace each member by its slice of the whole; the root's slice."""
    start, answer = 0, whole
    for member in members:
        end = start + member.shape.lens[axis]
        b.before = member
        part = b(Slice(axes=(axis,), starts=(start,), ends=(end,)), whole)
        if member is b.root:
            answer = part
        else:
            b.module.replace(member, part)
        start = end
    return answer


def _side_by_side(concat: Instruction) -> bool:
    """Whether a concat joins two or more convolutions."""
    return len(concat.inputs) > 1 and all(isinstance(i.op, Convolution) for i in concat.inputs)


@rule(Pattern(frozenset({"concat"}), binding="root", structure=_side_by_side))
def find_concat_conv(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(convolution(x, w), convolution(y, v)…) → convolution(concat(x, y…), concat(w, v…))"""
    axis, first = axis_of(root), root.inputs[0]
    if axis != 1:
        return Decline(f"it concatenates along axis {axis}, not along the channels")
    for one in root.inputs:
        if one.only_user is None:
            return Decline(f"convolution #{one.id}: its value has other users")
        if one.inputs[0].inputs and not one.has_one_use:  # in a chain, work doubles at every level
            return Decline(f"convolution #{one.id}: it is joined twice, and so would its input be")
        if (one.op, _operands(one)) != (first.op, _operands(first)):
            return Decline(f"#{first.id} and #{one.id} differ in attributes or lens")
    inputs, weights = zip(*[i.inputs for i in root.inputs], strict=True)
    assert isinstance(first.op, Convolution)
    made = replace(first.op, group=first.op.group * len(inputs))
    return b(made, b("concat", *inputs, axis=1), b("concat", *weights, axis=0))


def _operands(conv: Instruction) -> tuple[tuple[int, ...], ...]:
    return tuple(i.shape.lens for i in conv.inputs)
