"""Kernels separated by reshapes, transposes and broadcasts, moved to dimensions common to both.

Each dimension on either side is a product of common ones. Inputs of the first kernel and the other inputs
of the second are reshaped to these. Then nothing is left between the two kernels, and they can be fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.structure import Choice
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.fused import FusedReduce, PointwiseModule
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.reduce import along_axes
from workbench.compiler.passes.fuse.kernels.pairs import (
    KERNELS,
    LARGEST_BODY,
    Kinds,
    axes_of,
    is_kernel,
    lines,
    listed,
    who,
)
from workbench.compiler.passes.fuse.kernels.sweep import Sweeps
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes
from workbench.compiler.passes.shapes.transform.chains import (
    LINKS,
    build,
    chain_to,
    is_link,
    transform_of,
)
from workbench.compiler.passes.shapes.transform.common_space import Axes, CommonSpace
from workbench.compiler.passes.shapes.transform.descriptor import Descriptor
from workbench.compiler.passes.shapes.transform.normal_form import meaning
from workbench.compiler.passes.shapes.transform.parts import Ints, Transform, Transforms
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.passes.tidy.eliminate_common_subexpression import (
    EliminateCommonSubexpression,
)
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, Rule, rule
from workbench.compiler.rewrite.bodies import parameter_name, unused_name

Staying: TypeAlias = tuple[type[Operation], ...]

STAYING: Staying = (Broadcast, Multibroadcast, Contiguous)
"""Links of a chain that do not move elements to other axes."""


def base_lens(kernel: Instruction) -> Ints:
    """The lens that a kernel iterates over: those of its result, or of a reduction's largest input."""
    if isinstance(kernel.op, FusedReduce):
        return max((i.shape for i in kernel.inputs), key=lambda s: s.elements).lens
    return kernel.shape.lens


def chain_between(
    value: Instruction, producer: Instruction | None = None
) -> tuple[list[Instruction], Instruction] | None:
    """The transforms from a kernel, ``producer`` if given, to ``value``; None if none is a reshape."""
    if not is_link(value):
        return None
    chain = chain_to(value)
    source = chain[0].inputs[0]
    if not is_kernel(source) or producer not in (None, source):
        return None
    moves = any(not isinstance(i.op, STAYING) for i in chain)
    return (chain, source) if moves else None


def behind_moves(value: Instruction, staying: Staying) -> Instruction | None:
    """The source of a chain without other readers; None unless a link is of another kind than ``staying``."""
    moved = False
    while is_link(value) and value.only_user is not None:
        moved = moved or not isinstance(value.op, staying)
        value = value.inputs[0]
    return value if moved and value.only_user is not None else None


def space_obstacle(producer: Instruction, user: Instruction) -> str:
    """The reason why a kernel cannot be fused with another across reshapes; empty if it can."""
    reasons: list[str] = []
    for value in dict.fromkeys(user.inputs):
        if chain_between(value, producer) is not None:
            plan = _plan(user, value)
            if not isinstance(plan, str):
                return ""
            reasons.append(plan)
    return "; ".join(reasons)


def _common_space(
    user: Instruction, chain: list[Instruction], producer: Instruction
) -> CommonSpace | str:
    """The common dimensions of a kernel and the one before a chain, or the reason why there are none."""
    if reason := _obstacle(user, chain, producer):
        return reason
    source, result = base_lens(producer), base_lens(user)
    steps = tuple(transform_of(i) for i in chain if not isinstance(i.op, Contiguous))
    space = _space(producer.shape.lens, steps, source, result, chain[-1].shape.lens)
    if space is None:
        ways = f"from {list(source)} to {list(result)}"
        return f"{listed(chain)} between {who(producer)} and its user goes {ways}: no common dimensions"
    return space


def _obstacle(user: Instruction, chain: list[Instruction], producer: Instruction) -> str:
    for one, following in zip((producer, *chain), (*chain, user), strict=True):
        if others := [u for u in one.users if u is not following]:
            return f"{who(one)} has other users: {listed(others)}"
        if one.module is not user.module:
            return f"{who(one)} is in module {one.module.name!r}, its user in {user.module.name!r}"
    if not (producer.shape.is_tensor and user.shape.is_tensor):
        return f"{who(producer)} or its user has several results"
    source, result, value = base_lens(producer), base_lens(user), chain[-1].shape.lens
    if prod(source) != prod(result) or prod(value) != prod(result):
        return (
            f"{who(producer)} works in {list(source)}, its user in {list(result)}, and "
            f"{who(chain[-1])} between them has {list(value)}: the numbers of elements differ"
        )
    if (parts := lines(producer.modules[0], user.modules[0])) > LARGEST_BODY:
        return f"{who(producer)} and its user would make a body of {parts} lines; at most {LARGEST_BODY}"
    return ""


@lru_cache(maxsize=4096)
def _space(
    lens: Ints, steps: Transforms, source: Ints, result: Ints, end: Ints
) -> CommonSpace | None:
    """The common space of a chain from ``lens``, whose kernels work in ``source`` and ``result``."""
    made = Descriptor.of(lens, steps)
    found = None if made is None else made.rebase(source)
    if found is None or found.elements != prod(result):
        return None
    space = CommonSpace.of(found)
    there, back = space.from_source(lens), space.to_destination()
    from_end = space.from_destination(end)
    if there is None or back is None or from_end is None:
        return None
    whole = _lens_after(source, space.from_source(source))
    if whole != space.dims or _lens_after(result, space.from_destination(result)) != space.dims:
        return None
    spread = (Transform("multibroadcast", space.dims),)
    # The proof: the path through the space equals the chain, and the way there and back is the identity.
    if _same(lens, (*there, *spread, *back), steps) and _same(end, (*from_end, *back), ()):
        return space
    return None


def _lens_after(lens: Ints, steps: Transforms | None) -> Ints | None:
    found = None if steps is None else Descriptor.recorded(lens, steps)
    return None if found is None else found.lens


def _same(lens: Ints, one: Transforms, other: Transforms) -> bool:
    a, b = Descriptor.recorded(lens, one), Descriptor.recorded(lens, other)
    return (
        a is not None and b is not None and a.lens == b.lens and meaning(a.dims) == meaning(b.dims)
    )


def _apply(b: Rewriter, value: Instruction, steps: Iterable[Transform]) -> Instruction:
    for step in steps:
        value = build(b, value, step)
    return value


class _Plan(NamedTuple):
    """A plan to run two kernels in their common dimensions."""

    value: Instruction
    """The input through which the second kernel reads the first."""
    producer: Instruction
    dims: Ints
    axes: tuple[Ints, Ints]
    """The axes that each reduces, in the common space."""
    there: dict[Instruction, Transforms]
    """The transforms that bring the first kernel's inputs to the common space."""
    others: dict[Instruction, Transforms]
    """The transforms that bring the second kernel's other inputs to the common space."""
    back: Transforms


def _plan(user: Instruction, value: Instruction) -> _Plan | str:
    """Plan a kernel and the kernel of an input in common dimensions, or say why there are none."""
    found = chain_between(value)
    if found is None:
        return f"{who(value)} reads no kernel through a reshape or transpose"
    elementwise = all(isinstance(k.op, PointwiseModule) for k in (found[1], user))
    if elementwise and user.shape.elements == 1:
        return _plan_of_one(user, value, *found)
    space = _common_space(user, *found)
    if isinstance(space, str) and elementwise:
        return _plan_before(user, value, *found) or space
    if isinstance(space, str):
        return space
    producer, dims = found[1], space.dims
    axes = _mapped(producer, space.axes_of_source), _mapped(user, space.axes_of_destination)
    for kernel, own in zip((producer, user), axes, strict=True):
        if reason := _body_obstacle(kernel, own, dims):
            return reason
    there = {i: space.from_source(i.shape.lens) for i in producer.inputs}
    others = {i: space.from_destination(i.shape.lens) for i in user.inputs if i is not value}
    back = space.to_destination(_result_lens(user, dims, axes[1]))
    known = [{i: t for i, t in m.items() if t is not None} for m in (there, others)]
    if back is None or list(map(len, known)) != [len(there), len(others)]:
        return f"an input of {who(producer)} or its user cannot be brought to {list(dims)}"
    return _Plan(value, producer, dims, axes, known[0], known[1], back)


def _plan_of_one(
    user: Instruction, value: Instruction, chain: list[Instruction], producer: Instruction
) -> _Plan | str:
    """The plan for one element, which any reshape keeps."""
    if reason := _obstacle(user, chain, producer):
        return reason
    lens = user.shape.lens
    there = dict.fromkeys(producer.inputs, (Transform("reshape", lens),))
    return _Plan(value, producer, lens, ((), ()), there, dict.fromkeys(user.inputs, ()), ())


def _plan_before(
    user: Instruction, value: Instruction, chain: list[Instruction], producer: Instruction
) -> _Plan | None:
    """The plan to move the user before the chain: without common dimensions, but without other operands."""
    if set(user.inputs) != {value} or any(
        isinstance(i.op, Broadcast | Multibroadcast) for i in chain
    ):
        return None
    if _obstacle(user, chain, producer):
        return None
    steps = tuple(transform_of(i) for i in chain if not isinstance(i.op, Contiguous))
    return _Plan(
        value,
        producer,
        producer.shape.lens,
        ((), ()),
        dict.fromkeys(producer.inputs, ()),
        {},
        steps,
    )


def _answer(b: Rewriter, root: Instruction, kinds: Kinds) -> Instruction | Decline:
    """Move the root and the first producer of these kinds that has a common space with it into that space."""
    reasons: list[str] = []
    for value in dict.fromkeys(root.inputs):
        found = chain_between(value)
        if found is not None and isinstance(found[1].op, kinds):
            plan = _plan(root, value)
            if isinstance(plan, _Plan):
                return _in_space(b, root, plan)
            reasons.append(plan)
    return Decline("; ".join(reasons))


def _in_space(b: Rewriter, root: Instruction, plan: _Plan) -> Instruction:
    producer, dims = plan.producer, plan.dims
    old = [m for k in (producer, root) if isinstance(k.op, FusedReduce) for m in k.modules]
    b.before = producer
    inputs = [_apply(b, i, plan.there[i]) for i in producer.inputs]
    made = _kernel(b, producer, inputs, dims, plan.axes[0])
    if made.shape.lens != dims:
        made = b("multibroadcast", made, out_lens=dims)
    b.before = root
    inputs = [made if i is plan.value else _apply(b, i, plan.others[i]) for i in root.inputs]
    result = _apply(b, _kernel(b, root, inputs, dims, plan.axes[1]), plan.back)
    b.module.replace(root, result)
    for module in old:
        b.program.remove_module(module)
    return result


def _mapped(kernel: Instruction, axes: Axes) -> Ints:
    """The axes of the common space that a kernel reduces."""
    return tuple(sorted(new for axis in axes_of(kernel) for new in axes[axis]))


def _result_lens(kernel: Instruction, dims: Ints, axes: Ints) -> Ints:
    """The lens of a kernel's result in the common space."""
    reduced = isinstance(kernel.op, FusedReduce) and kernel.shape.lens != base_lens(kernel)
    return tuple(1 if reduced and i in axes else n for i, n in enumerate(dims))


def _body_obstacle(kernel: Instruction, axes: Ints, dims: Ints) -> str:
    """The reason why a reduction's body cannot run in other dimensions; empty if it can."""
    if not isinstance(kernel.op, FusedReduce):
        return ""
    base = base_lens(kernel)
    small = tuple(1 if i in axes_of(kernel) else n for i, n in enumerate(base))
    for one in kernel.modules[0]:
        if isinstance(one.op, Return):
            continue
        if one.literal is not None or one.shape.lens not in (base, small):
            return f"{who(one)} in {who(kernel)} has lens {list(one.shape.lens)}, not {list(base)}"
        if isinstance(one.op.monoid, Choice) and sum(dims[a] != 1 for a in axes) > 1:
            return (
                f"{who(one)} in {who(kernel)} returns an index along axes to be split: {list(axes)}"
            )
    return ""


def _kernel(
    b: Rewriter, old: Instruction, inputs: list[Instruction], dims: Ints, axes: Ints
) -> Instruction:
    """A kernel in the common space."""
    if isinstance(old.op, PointwiseModule):
        made = b(old.op, *inputs, modules=old.modules)
    else:
        body = _body(old.modules[0], inputs, dims, axes)
        made = b("fused_reduce", *inputs, modules=[body], axes=axes)
    b.module.set_sources(made, old.sources)
    return made


def _body(old: Module, inputs: list[Instruction], dims: Ints, axes: Ints) -> Module:
    """The same body for inputs of other lens."""
    program = old.program
    body = program.create_module(unused_name(program, f"{old.name}_reshape"), bypass=True)
    known: dict[Instruction, Instruction] = {}
    for number, ((_, parameter), value) in enumerate(
        zip(sorted(old.parameters.items()), inputs, strict=True)
    ):
        shape = value.shape.as_standard()
        known[parameter] = body.add_parameter(parameter_name(number), shape)
    for one in old:
        if one.parameter is None and not isinstance(one.op, Return):
            op = _op_in_space(one, dims, axes)
            made = body.add(op, *[known[i] for i in one.inputs], modules=one.modules)
            body.set_sources(made, one.sources)
            known[one] = made
    body.add_return(*[known[o] for o in old.outputs])
    return body


def _op_in_space(one: Instruction, dims: Ints, axes: Ints) -> Operation:
    if isinstance(one.op, Multibroadcast):
        return make("multibroadcast", out_lens=dims)
    if one.op.monoid is None:
        return one.op
    if isinstance(one.op.monoid, Choice):
        axes = next(((a,) for a in axes if dims[a] != 1), axes)
    return along_axes(one.op, axes)


def _reads_across(kinds: Kinds, instruction: Instruction) -> bool:
    for value in instruction.inputs:  # as chain_between finds it: this runs at every attempt
        moves = False
        while is_link(value):
            moves = moves or not isinstance(value.op, STAYING)
            value = value.inputs[0]  # noqa: PLW2901
        if moves and isinstance(value.op, kinds):
            return True
    return False


@rule(
    Pattern(
        frozenset({"pointwise"}),
        binding="root",
        reads=LINKS,
        structure=lambda i: _reads_across((PointwiseModule,), i),
    )
)
def rewrite_pointwise_reshapes(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(g(x…)), y…) → reshape(f(g(reshape(x)…), reshape(y)…)), in common dimensions"""
    return _answer(b, root, (PointwiseModule,))


def _other_pairs(instruction: Instruction) -> Kinds:
    return KERNELS if isinstance(instruction.op, FusedReduce) else (FusedReduce,)


@rule(
    Pattern(
        frozenset(k.name for k in KERNELS),
        binding="root",
        reads=LINKS,
        structure=lambda i: _reads_across(_other_pairs(i), i),
    )
)
def rewrite_reduce_reshapes(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(reshape(g(x…)), y…) → reshape(f(g(reshape(x)…), reshape(y)…)), where f or g is a reduction"""
    return _answer(b, root, _other_pairs(root))


def join_kernels(program: Program, joins: Sequence[Rule], across: Sequence[Rule]) -> None:
    """Merge adjacent kernels, and remove what separates others, in turns, until nothing is merged.

    Args:
        program: The program.
        joins: Rules that merge two adjacent kernels.
        across: Rules that make separated kernels adjacent.
    """
    DeadCodeElimination().apply(program)
    before = program.version
    with Sweeps(program, joins) as joining, Sweeps(program, across) as clearing:
        if clearing.once():
            _tidy(program)
        while joining.once() or clearing.all() or joining.all():
            if clearing.once():
                _tidy(program)
    if program.version != before:
        DeadCodeElimination().apply(program)


def _tidy(program: Program) -> None:
    """Simplify the reshapes around kernels that now work in other dimensions."""
    SimplifyReshapes(depth=1).apply(program)
    EliminateCommonSubexpression().apply(program)
    DeadCodeElimination().apply(program)
