"""Fusion of concatenations with the elementwise work before and after them."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.ops.movement import Concat
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Pattern, Rewriter, drive, op, rule
from workbench.compiler.rewrite.bodies import parameter_name, unused_name

_AROUND, _BEFORE = "noop around", "noop before"
"""Number series for noop bodies: odd numbers with work after the concat, even ones without."""


def obstacle(producer: Instruction, user: Instruction) -> str:
    """The reason why a concatenation and work before or after it cannot be one kernel; empty if they can."""
    if producer not in user.inputs:
        return f"{user.name} #{user.id} does not use {producer.name} #{producer.id}"
    if isinstance(user.op, Concat):
        return _obstacle(producer, user)
    if not isinstance(producer.op, Concat) or not isinstance(user.op, PointwiseModule):
        return f"{producer.name} #{producer.id} and {user.name} #{user.id} are not a concat and its work"
    return _obstacle_after(producer, user)


def _pieces(concat: Instruction) -> list[Instruction]:
    """Inputs of a concatenation that are elementwise work without other users."""
    return [i for i in dict.fromkeys(concat.inputs) if not _obstacle(i, concat)]


def _obstacle(piece: Instruction, concat: Instruction) -> str:
    """The reason why the work that computes a piece cannot join the concatenation; empty if it can."""
    who = f"{piece.name} #{piece.id}"
    if not isinstance(piece.op, PointwiseModule) or not piece.shape.is_tensor:
        return f"{who} is not a pointwise kernel with one result"
    if piece.module is not concat.module:
        return f"{who} is in module {piece.module.name!r}, its user in {concat.module.name!r}"
    if rest := [u for u in piece.users if u is not concat]:
        return f"{who} has other users: " + ", ".join(f"{u.name} #{u.id}" for u in rest)
    if concat.inputs.count(piece) > 1:
        return f"{who} is a piece more than once"
    return ""


def _concats(root: Instruction) -> list[Instruction]:
    """Inputs of ``root`` that concatenate elementwise work."""
    made = [i for i in dict.fromkeys(root.inputs) if isinstance(i.op, Concat)]
    return [i for i in made if any(isinstance(p.op, PointwiseModule) for p in i.inputs)]


def _obstacle_after(concat: Instruction, root: Instruction) -> str:
    """The reason why the work after a concatenation cannot join it; empty if it can."""
    who = f"concat #{concat.id}"
    if not root.shape.is_tensor:
        return f"pointwise #{root.id} has several results"
    if rest := [u for u in concat.users if u is not root]:
        return f"{who} has other users: " + ", ".join(f"{u.name} #{u.id}" for u in rest)
    if root.inputs.count(concat) > 1 or concat.module is not root.module:
        return f"pointwise #{root.id} reads {who} twice, or from another module"
    if not _pieces(concat):
        return "; ".join(_obstacle(i, concat) for i in dict.fromkeys(concat.inputs))
    return ""


@rule(Pattern(frozenset({"pointwise"}), binding="root", structure=lambda i: bool(_concats(i))))
def find_pointwise_concat_pointwise(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """f(concat(g(x), h(y)), z…) → fused_concat(x, y, z…), [g, h, f]"""
    reasons = {c: _obstacle_after(c, root) for c in _concats(root)}
    concat = next((c for c, reason in reasons.items() if not reason), None)
    if concat is None:
        return Decline("; ".join(reasons.values()))
    after = root.modules[0]
    fed = sorted(after.parameters)[root.inputs.index(concat)]
    after.rename(unused_name(b.program, f"{after.name}:concat"))
    after.rename_parameter(after.parameters[fed], f"!{fed}")
    rest = [i for i in root.inputs if i is not concat]
    return _fused(b, concat, after, rest, _AROUND)


@rule(
    op("concat", name="root").when(
        lambda i: any(isinstance(p.op, PointwiseModule) for p in i.inputs)
    )
)
def find_pointwise_concat(b: Rewriter, root: Instruction) -> Instruction | Decline:
    """concat(g(x), h(y)) → fused_concat(x, y), [g, h, noop]"""
    pieces = _pieces(root)
    if not pieces:
        return Decline("; ".join(_obstacle(i, root) for i in dict.fromkeys(root.inputs)))
    if len(root.users) > 1:
        listed = ", ".join(f"{u.name} #{u.id}" for u in root.users)
        return Decline(f"concat #{root.id} has several users: {listed}")
    left = len(root.inputs) - len(pieces)
    if left > (most := max(1, len(root.inputs) // 4)):
        return Decline(
            f"{left} of {len(root.inputs)} pieces are not elementwise work; at most {most}"
        )
    return _fused(b, root, None, [], _BEFORE)


def _fused(
    b: Rewriter, concat: Instruction, after: Module | None, rest: list[Instruction], series: str
) -> Instruction:
    fusable, inputs, modules = set(_pieces(concat)), list[Instruction](), list[Module]()
    for piece in concat.inputs:
        if piece in fusable:
            body = piece.modules[0]
            body.rename(unused_name(b.program, f"concat:{body.name}"))
            inputs += piece.inputs
        else:
            body = _noop(b.program, "concat:noop", series, piece.shape, parameter_name(0))
            inputs.append(piece)
        modules.append(body)
    if after is None:
        after = _noop(b.program, "noop:concat", series, concat.shape, f"!{parameter_name(0)}")
    axis = concat.op.attributes()["axis"]
    return b("fused_concat", *inputs, *rest, modules=[*modules, after], axis=axis)


def _noop(program: Program, stem: str, series: str, shape: Shape, parameter: str) -> Module:
    """A body that returns its parameter."""
    number = program.numbers[series] + (series == _AROUND)
    program.numbers[series] += 2
    body = program.create_module(unused_name(program, f"{stem}{number}"), bypass=True)
    body.add_return(body.add_parameter(parameter, Shape.scalar(shape.type)))
    return body


@register
class FuseConcat(RewritePass):
    """A concatenation becomes one kernel with the elementwise work before it, and after it.

    A piece that is not elementwise work passes through an empty body.
    """

    name = "fuse_concat"
    rules = (find_pointwise_concat_pointwise, find_pointwise_concat)

    def apply(self, program: Program) -> None:
        """Fuse concatenations with work on both sides, then those with work before them."""
        program.numbers.clear()
        for one in self.active:
            drive(program, (one,))
