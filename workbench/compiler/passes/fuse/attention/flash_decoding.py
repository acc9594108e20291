"""Flash decoding: attention to parts of the keys in parallel, combined by their log-sum-exp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.compare import Where
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import Group
from workbench.compiler.ops.reduce import ReduceMax, ReduceSum
from workbench.compiler.passes.broadcasting import spread
from workbench.compiler.passes.fuse.attention.recognition import softmax_input
from workbench.compiler.rewrite import Decline, Rewriter, Rule, op, rule
from workbench.compiler.rewrite.bodies import unused_name

_FACTORS = (2, 3, 5, 7, 11)
_KNOWN = (Param, Literal, Return, Dot, Multibroadcast)


def number_of_parts(length: int, min_chunk_size: int, max_splits: int) -> int:
    """The number of equal parts of a length: divided until the parts are small or many enough."""
    parts = 1
    while length > min_chunk_size and parts < max_splits:
        factor = next((f for f in _FACTORS if length % f == 0), None)
        if factor is None:
            break
        length, parts = length // factor, parts * factor
    return parts


@dataclass(frozen=True)
class Splitting:
    """Options of flash decoding; ``fuse_attention`` documents them."""

    num_splits: int = 0
    threshold: int = 32
    max_splits: int = 16
    min_chunk_size: int = 32

    def parts(self, length: int) -> int | Decline:
        """The number of parts that ``length`` keys are split into, or the reason why they are not."""
        parts = self.num_splits
        if parts == 1:
            return Decline("flash_decoding_num_splits=1 splits nothing")
        if not parts and length < self.threshold:
            return Decline(f"{length} keys; fewer than the threshold, {self.threshold}")
        parts = parts or number_of_parts(length, self.min_chunk_size, self.max_splits)
        if parts == 1:
            return Decline(
                f"{length} keys do not divide into equal parts of {self.min_chunk_size} or more"
            )
        if length % parts:
            return Decline(
                f"{length} keys do not divide into {parts} equal parts, and padding would change the sums"
            )
        return parts


def flash_decoding(splitting: Splitting) -> Rule:
    """The rule for these options."""

    @rule(op("group", name="root").when(_is_attention))
    def find_flash_decoding(b: Rewriter, root: Instruction) -> Instruction | Decline:
        """group[tag=attention](q, k, v) → Σ group[tag=attention](q, part of k, part of v) · weight"""
        found = _operands(root)
        if isinstance(found, Decline):
            return found
        parts = splitting.parts(found[1].shape.lens[-1])
        if isinstance(parts, Decline):
            return parts
        return _split(b, root, found, parts)

    return find_flash_decoding


def _is_attention(group: Instruction) -> bool:
    return isinstance(group.op, Group) and group.op.tag == "attention"


# What can be split

Operands = tuple[Instruction, Instruction, Instruction]


def _operands(root: Instruction) -> Operands | Decline:
    """The queries, keys and values among a group's parameters, or the reason why it is not split."""
    body = root.modules[0]
    products = [i for i in body if isinstance(i.op, Dot)]
    if not root.shape.is_tensor:
        return Decline("the group already returns its log-sum-exp")
    if len(products) != 2:
        return Decline(f"{len(products)} products in {body.name!r}; expected two")
    first, second = products
    found = first.inputs[0], first.inputs[1], second.inputs[1]
    for value in found:
        who = f"{value.name} #{value.id}"
        if value.parameter is None:
            return Decline(f"{who} is computed in {body.name!r}; expected a parameter")
        if value.only_user is None:
            return Decline(f"{who} of {body.name!r} has users other than its product")
    if len(set(found)) < 3 or len(body.parameters) > 3:
        return Decline("the group has inputs other than one each of queries, keys and values")
    if found[0].shape.ndim < 3:
        return Decline(f"queries {found[0].shape} have no batch axis")
    strange = _strange(body, first, second)
    return Decline(strange) if strange else found


def _strange(body: Module, first: Instruction, second: Instruction) -> str:
    """The reason why a body is more than scores, their softmax and the second product; empty if it is not."""
    weights = second.inputs[0]
    weights = weights.inputs[0] if isinstance(weights.op, Convert) else weights
    if softmax_input(weights) is None or body.outputs != (second,):
        return f"the result of {body.name!r} is not a product of a softmax"
    if len([i for i in body if isinstance(i.op, ReduceMax | ReduceSum)]) != 2:
        return f"{body.name!r} has reductions besides those of the softmax"
    for one in body:
        wide = one.literal is not None and one.shape.elements != 1
        if wide or isinstance(one.op, Where):
            return f"{one.name} #{one.id} may mask all keys of a part: its softmax would be NaN"
        if isinstance(one.op, ReduceMax | ReduceSum):
            axes = one.op.attributes()["axes"]
            if tuple(axes) not in ((-1,), (one.shape.ndim - 1,)):
                return f"{one.name} #{one.id} reduces axes {list(axes)}, not the last one"
        elif isinstance(one.op, Multibroadcast) and one.shape.lens != first.shape.lens:
            return f"multibroadcast #{one.id} has lens other than the scores'"
        elif not (one.op.pointwise or isinstance(one.op, _KNOWN)):
            return f"{one.name} #{one.id} is neither elementwise nor part of a softmax"
    return ""


# Splitting


def _split(b: Rewriter, root: Instruction, operands: Operands, parts: int) -> Instruction:
    old = root.modules[0]
    shapes = _split_shapes([o.shape for o in operands], parts)
    new = b.program.create_module(unused_name(b.program, f"{old.name}_flash_decoding"), bypass=True)
    _rebuild(new, old, dict(zip(operands, shapes, strict=True)))
    named = dict(zip(sorted(old.parameters), root.inputs, strict=True))
    given = [named[o.parameter or ""] for o in operands]
    made = dict(zip(operands, _split_inputs(b, given, shapes), strict=True))
    inputs = [made[old.parameters[name]] for name in sorted(old.parameters)]
    group = b("group", *inputs, modules=[new], tag="attention")
    output = _joined(b, *[b("get_tuple_elem", group, index=i) for i in (0, 1)])
    b.module.replace(root, output)
    b.program.remove_module(old)
    return output


def _split_shapes(shapes: Sequence[Shape], parts: int) -> list[Shape]:
    """Queries, keys and values with an axis of parts before the last two."""
    lead = shapes[0].lens[:-2]
    (m, k), (_, n), (_, d) = (s.lens[-2:] for s in shapes)
    size = n // parts
    lens = [(m, k), (k, size), (size, d)]
    return [Shape(s.type, (*lead, parts, *own)) for s, own in zip(shapes, lens, strict=True)]


def _split_inputs(
    b: Rewriter, values: Sequence[Instruction], shapes: Sequence[Shape]
) -> list[Instruction]:
    queries, keys, values_ = values
    rank = queries.shape.ndim
    lens = shapes[1].lens
    apart = b.reshape(keys, (*lens[:-3], lens[-2], lens[-3], lens[-1]))
    turned = (*range(rank - 2), rank - 1, rank - 2, rank)
    return [
        spread(b, b("unsqueeze", queries, axes=(rank - 2,)), shapes[0].lens),
        b("transpose", apart, permutation=turned),
        b.reshape(values_, shapes[2].lens),
    ]


def _rebuild(new: Module, old: Module, shapes: dict[Instruction, Shape]) -> None:
    """Rebuild the old body for the new shapes; it also returns the log-sum-exp."""
    made = {p: new.add_parameter(p.parameter or "", s) for p, s in shapes.items()}
    queries, keys, _ = shapes.values()
    scores = (*queries.lens[:-1], keys.lens[-1])
    reduced: dict[str, Instruction] = {}
    for one in old:
        inputs = [made[i] for i in one.inputs]
        if one.literal is not None:
            made[one] = new.add_literal(one.literal)
        elif isinstance(one.op, ReduceMax | ReduceSum):
            made[one] = reduced[one.name] = new.add(one.name, *inputs, axes=(len(scores) - 1,))
        elif isinstance(one.op, Multibroadcast):
            made[one] = new.add(one.name, *inputs, out_lens=scores)
        elif not isinstance(one.op, Param | Return):
            made[one] = new.add(one.op, *inputs)
    total = new.add("add", reduced["reduce_max"], new.add("log", reduced["reduce_sum"]))
    new.add_return(made[old.outputs[0]], total)


def _joined(b: Rewriter, output: Instruction, total: Instruction) -> Instruction:
    """The sum of the outputs of all parts, each weighted by its share of the exponentials."""
    axis = output.shape.ndim - 3
    top = spread(b, b("reduce_max", total, axes=(axis,)), total.shape.lens)
    power = b("exp", b("sub", total, top))
    whole = spread(b, b("reduce_sum", power, axes=(axis,)), total.shape.lens)
    weights = spread(b, b("div", power, whole), output.shape.lens)
    weights = b("convert", weights, target_type=output.shape.type)
    summed = b("reduce_sum", b("mul", output, weights), axes=(axis,))
    return b("squeeze", summed, axes=(axis,))
