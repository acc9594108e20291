"""Fusion of products and convolutions with the elementwise work after them and on their operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import names_where
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.fused import Group, PointwiseModule
from workbench.compiler.ops.quant import Dequantizelinear
from workbench.compiler.ops.slicing import Slice
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.passes.fuse.attention.recognition import is_relaid, is_shaped
from workbench.compiler.passes.fuse.kernels.pairs import LARGEST_BODY
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, drive, rule
from workbench.compiler.rewrite.bodies import Body, prune_all, unused_name

PRODUCTS = names_where(lambda cls: cls.contraction)

_CHEAP = (Param, Literal, Return, Dequantizelinear)

_NAMED = 3
"""The most users that a reason names; it counts the rest."""

# From a product to its user


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a matrix product or a convolution."""
    return instruction.op.contraction is not None


def _tag(product: Instruction) -> str:
    """The tag of the group around a product."""
    assert product.op.contraction is not None
    return product.op.contraction.tag


def _ways(user: Instruction) -> Iterator[list[Instruction]]:
    """Each path to an input of ``user``: the producer that is not a view, and the views after it."""
    for value in dict.fromkeys(user.inputs):
        way = [value]
        while is_relaid(way[0]):
            way.insert(0, way[0].inputs[0])
        yield way


def _from_products(user: Instruction) -> Iterator[list[Instruction]]:
    return (way for way in _ways(user) if is_product(way[0]))


def _follows_product(user: Instruction) -> bool:
    return any(True for _ in _from_products(user))


def is_attention(instruction: Instruction) -> bool:
    """Whether an instruction is a group with all of attention in its body."""
    return isinstance(instruction.op, Group) and instruction.op.is_attention


def _is_closed(producer: Instruction) -> bool:
    """Whether a producer is the group of a product without work after it."""
    if not isinstance(producer.op, Group) or is_attention(producer):
        return False
    return is_product(producer.modules[0].outputs[0])


def obstacle(producer: Instruction, user: Instruction) -> str:
    """The reason why a product and elementwise work around it cannot be one kernel; empty if they can."""
    who = f"{producer.name} #{producer.id}"
    if isinstance(producer.op, PointwiseModule) and (
        is_product(user) or isinstance(user.op, Group)
    ):
        before = dict(_work_before(user, through_views=True))
        if producer in before:
            return _why_outside(producer, before[producer], user)
        return f"{user.name} #{user.id} does not read {who} directly or through views alone"
    if not (is_product(producer) or _is_closed(producer)):
        return f"{who} is not one of {', '.join(PRODUCTS)}"
    if not isinstance(user.op, PointwiseModule):
        return f"{user.name} #{user.id} is not a pointwise kernel"
    way = next((w for w in _ways(user) if w[0] is producer), None)
    if way is None:
        return f"{user.name} #{user.id} does not read {who} directly or through views alone"
    return _obstacle(way, user)


def _obstacle(way: list[Instruction], user: Instruction) -> str:
    if reason := _way_obstacle(way, user):
        return reason
    if (lines := len(user.modules[0])) > LARGEST_BODY:
        return f"{user.name} #{user.id} has a body of {lines} lines; at most {LARGEST_BODY}"
    return ""


def _way_obstacle(way: list[Instruction], user: Instruction) -> str:
    """The reason why a producer, the views after it and their user cannot have one body."""
    producer = way[0]
    who = f"{producer.name} #{producer.id}"
    if producer.module is not user.module:
        return f"{who} is in module {producer.module.name!r}, its user in {user.module.name!r}"
    if producer.shape.is_dynamic or user.shape.is_dynamic:
        return f"{who} has dynamic dimensions; a body has static ones"
    if not (producer.shape.is_tensor and user.shape.is_tensor):
        return f"{user.name} #{user.id} has several results"
    for value, following in zip(way, [*way[1:], user], strict=True):
        if reason := _other_users(value, following):
            return reason
    return ""


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=_follows_product))
def find_gemm_pointwise(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """pointwise(dot(x, y), z…) → group[tag=dot](x, y, z…)"""
    reasons: list[str] = []
    for way in _from_products(root):
        reason = _obstacle(way, root)
        if not reason:
            return _with_work_after(b.program, way, root)
        reasons.append(reason)
    return Decline("; ".join(dict.fromkeys(reasons)))


def _with_work_after(program: Program, way: list[Instruction], root: Instruction) -> Instruction:
    producer = way[0]
    name = f"{_numbered(program, producer)}:{root.modules[0].name}"
    body = Body(program.create_module(unused_name(program, name), bypass=True))
    _take_operand_views(body, producer)
    for value in way:
        body.take(value)
    return body.stand_for(root, "group", tag=_tag(producer))


def _numbered(program: Program, producer: Instruction) -> str:
    """``<module>:dot<n>``, with the next number of the pass."""
    series = f"{producer.module.name}:{producer.name}"
    name, number = f"{series}{program.numbers[series]}", program.numbers[series]
    program.numbers[series] = number + 1
    return name


def _take_operand_views(body: Body, producer: Instruction) -> None:
    """Take the views on a product's operands that only it uses, in the order of the operands."""
    _take_all(body, {i: _own_views(i, producer)[0] for i in producer.inputs})


def _take_all(body: Body, views_of: dict[Instruction, list[Instruction]]) -> None:
    """Take the views that lead to operands; an operand without any becomes a parameter."""
    for operand, views in views_of.items():
        # Work that was taken before may also read a view: that view is an input then.
        start = max((i + 1 for i, v in enumerate(views) if body.knows(v)), default=0)
        for view in views[start:]:
            body.take(view)
        if not views:
            body.inner(operand)


# From attention to the reshape after it


def _ends_attention(root: Instruction) -> bool:
    moves = is_relaid(root) and len(root.inputs) == 1 and _copies(root)
    return moves and any(is_attention(way[0]) for way in _ways(root))


@rule(Pattern(frozenset({"reshape"}), binding="root", structure=_ends_attention))
def find_attention_reshape(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """reshape(transpose(group[tag=attention](q…))) → group[tag=attention](q…)"""
    (way,) = _ways(root)
    if reason := _way_obstacle(way, root):
        return Decline(reason)
    producer = way[0]
    (old,) = producer.modules
    name = unused_name(b.program, f"{old.name}:{root.name}")
    body = Body(b.program.create_module(name, bypass=True))
    (result,) = body.absorb(old, producer.inputs)
    body.know(producer, result)
    for value in way[1:]:
        body.take(value)
    new = body.stand_for(root, "group", tag=producer.op.attributes()["tag"])
    prune_all([producer])
    b.program.remove_module(old)
    body.module.rename(old.name)
    return new


# Views on operands


def _is_view(value: Instruction) -> bool:
    viewed = is_shaped(value) or isinstance(value.op, Slice)
    return viewed and len(value.inputs) == 1


def _views_behind(operand: Instruction) -> Iterator[Instruction]:
    """The views that lead to an operand, from the operand on."""
    while _is_view(operand):
        yield operand
        operand = operand.inputs[0]


def _own_views(operand: Instruction, user: Instruction) -> tuple[list[Instruction], str]:
    """The views on an operand that only its user needs, outermost first; and why there are no more."""
    views: list[Instruction] = []
    for view in _views_behind(operand):
        if reason := _view_obstacle(view, user):
            return views, reason
        views.insert(0, view)
        user = view
    return views, ""


def _view_obstacle(view: Instruction, user: Instruction) -> str:
    """The reason why a view cannot go into the kernel of its user; empty if it can."""
    who = f"{view.name} #{view.id}"
    if view.module is not user.module:
        return f"{who} is in module {view.module.name!r}, its user in {user.module.name!r}"
    if view.shape.is_dynamic or view.inputs[0].shape.is_dynamic:
        return f"{who} has dynamic dimensions; a body has static ones"
    return "" if view.only_user is user else _other_users(view, user)


def _other_users(value: Instruction, user: Instruction) -> str:
    rest = [u for u in value.users if u is not user]
    listed = ", ".join(f"{u.name} #{u.id}" for u in rest[:_NAMED])
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return f"{value.name} #{value.id} has other users: {listed}{more}" if rest else ""


def _copies(view: Instruction) -> bool:
    """Whether a view copies elements, as a reshape of a value that is not row-major does."""
    moves = view.op.alias is None and not view.inputs[0].shape.standard
    return moves and not view.constant


def _is_wanted(root: Instruction, views: Iterable[Instruction]) -> bool:
    """Whether views on an operand are worth being part of a kernel."""
    if is_attention(root):
        return any(True for _ in views)
    return any(map(_copies, views))


def _reads_views(root: Instruction) -> bool:
    return any(_is_wanted(root, _views_behind(i)) for i in root.inputs)


def _wanted_views(root: Instruction) -> dict[Instruction, list[Instruction]] | Decline:
    """The views on each operand that go into the kernel of an operation; or the reason why none do."""
    found = {i: _own_views(i, root) for i in dict.fromkeys(root.inputs)}
    wanted = {i: views if _is_wanted(root, views) else [] for i, (views, _) in found.items()}
    if any(wanted.values()):
        return wanted
    missed = [i for i in found if _is_wanted(root, _views_behind(i))]
    return Decline("; ".join(dict.fromkeys(found[i][1] for i in missed)))


@rule(Pattern(frozenset({"group"}), binding="root", structure=_reads_views))
def find_view_group(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """group(view(x), y…) → group(x, y…)"""
    wanted = _wanted_views(root)
    if isinstance(wanted, Decline):
        return wanted
    old, inputs, name = root.modules[0], root.inputs, root.modules[0].name
    body = Body(b.program.create_module(unused_name(b.program, f"{name}:views"), bypass=True))
    _take_all(body, wanted)
    body.close(*body.absorb(old, inputs))
    body.attach(root)
    body.module.rename(name)
    return root


@rule(Pattern(frozenset(PRODUCTS), binding="root", structure=_reads_views))
def find_view_gemm(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """dot(reshape(x), y) → group[tag=dot](x, y)"""
    wanted = _wanted_views(root)
    if isinstance(wanted, Decline):
        return wanted
    name = unused_name(b.program, _numbered(b.program, root))
    body = Body(b.program.create_module(name, bypass=True))
    _take_operand_views(body, root)
    return body.stand_for(root, "group", tag=_tag(root))


# Before a product


def _work_before(
    root: Instruction, through_views: bool
) -> Iterator[tuple[Instruction, list[Instruction]]]:
    """Elementwise work on operands, each with the views between it and ``root``."""
    for value in dict.fromkeys(root.inputs):
        views = [*_views_behind(value)][::-1] if through_views else []
        source = views[0].inputs[0] if views else value
        if isinstance(source.op, PointwiseModule):
            yield source, views


def _takes_work(root: Instruction) -> bool:
    known = is_product(root) or isinstance(root.op, Group)
    return known and any(True for _ in _work_before(root, is_product(root)))


def _obstacle_before(source: Instruction, views: list[Instruction], root: Instruction) -> str:
    who = f"pointwise #{source.id}"
    if source.module is not root.module:
        return f"{who} is in module {source.module.name!r}, its user in {root.module.name!r}"
    if root.shape.is_dynamic or source.shape.is_dynamic:
        return f"{who} or its user has dynamic dimensions; a body has static ones"
    if not (source.shape.is_tensor and root.shape.is_tensor):
        return f"{who} or its user has several results"
    for value, following in zip([source, *views], [*views, root], strict=True):
        if reason := _other_users(value, following):
            return reason
    cheap = all(isinstance(i.op, _CHEAP) for i in source.modules[0])
    if len(source.inputs) > 1 and not cheap:
        return f"{who} reads {len(source.inputs)} inputs, and every tile of a product would read them again"
    return ""


def _why_outside(source: Instruction, views: list[Instruction], user: Instruction) -> str:
    """The reason why work before a product or group stays outside; empty if there is none."""
    reason = _obstacle_before(source, views, user)
    if reason or is_product(user) or not views:
        return reason
    view = f"{views[-1].name} #{views[-1].id}"
    return f"group #{user.id} reads pointwise #{source.id} through {view}, which stays outside"


@rule(Pattern(frozenset({*PRODUCTS, "group"}), binding="root", structure=_takes_work))
def find_pointwise_gemm(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """dot(pointwise(x), y) → group[tag=dot](x, y)"""
    found, reasons = list(_work_before(root, is_product(root))), list[str]()
    wanted: list[Instruction] = []
    for source, views in found:
        reason = _obstacle_before(source, views, root)
        reasons.append(reason)
        if not reason:
            wanted.append(source)
    if not wanted:
        return Decline("; ".join(dict.fromkeys(reasons)))
    prefix = "".join(f"{w.modules[0].name}:" for w in wanted)
    inner = root.modules[0].name if root.modules else _numbered(b.program, root)
    name = unused_name(b.program, f"{prefix}{inner}")
    body = Body(b.program.create_module(name, bypass=True))
    for source in wanted:
        body.take(source)
    if root.modules:
        body.close(*body.absorb(root.modules[0], root.inputs))
        return body.attach(root)
    _take_operand_views(body, root)
    return body.stand_for(root, "group", tag=_tag(root))


@register
class FuseGemmEpilogue(RewritePass):
    """Products and convolutions become one kernel with the elementwise work after and before them.

    Bias, residual, activation and dequantisation go into the kernel of the product that they follow; so do
    views on its operands, and elementwise work on one input. Attention also takes views on its operands, and
    the reshape after it, so that it stores elements where the product that follows reads them in order. A
    value with a second user stays outside. A product without such work is left alone, unless a reshape
    would copy one of its operands: a fused kernel reads the elements in place.
    """

    name = "fuse_gemm_epilogue"
    rules = (
        find_gemm_pointwise,
        find_pointwise_gemm,
        find_view_group,
        find_view_gemm,
        find_attention_reshape,
    )

    def apply(self, program: Program) -> None:
        """Fuse the work after products into their kernels, then the remaining work before them."""
        program.numbers.clear()
        after = [one for one in self.active if one in (find_gemm_pointwise, find_attention_reshape)]
        before = [one for one in self.active if one not in after]
        drive(program, after)
        drive(program, before)
