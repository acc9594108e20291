"""Groups of fused work: one kernel around their product, or else kernels part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.fused import Group, PointwiseModule
from workbench.compiler.ops.movement import Concat, Pad, Reverse
from workbench.compiler.report.result import kernel_text
from workbench.gpu.emit.tensors import has_value
from workbench.gpu.kernels.attention import attention
from workbench.gpu.kernels.contraction import Result, launches, product_maker
from workbench.gpu.kernels.elementwise import elementwise
from workbench.gpu.kernels.kernel import Launch, Place, scheduled
from workbench.gpu.kernels.schedules import schedule, schedule_of
from workbench.gpu.kernels.sources import sources
from workbench.gpu.lowering.places import parts_of, viewed

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering


@schedule(Group)
def group(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a group: those for its tag if there are any, otherwise those of its body."""
    op = instruction.op
    made = None
    if isinstance(op, Group) and op.is_attention:
        made = attention(lowering, instruction)
    return lower_body(lowering, instruction) if made is None else scheduled(made, attention)


def lower_body(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a body: one if it is a single product with elementwise work around it.

    Otherwise everything that is not elementwise gets its own kernels, with memory between them, and
    elementwise work is inlined into its readers.

    Args:
        lowering: Holds the places of values; those of the body's values are added.
        instruction: Has one body, whose parameters in the order of their names are its inputs.

    Returns:
        The kernels, or None if no kernel computes a part.
    """
    _bind(lowering, instruction)
    made = _around_product(lowering, instruction)
    return made if made is not None else _Parts(lowering, instruction).launches()


def _bind(lowering: Lowering, instruction: Instruction) -> None:
    """Bind a body's parameters and tables to places, and views of them too."""
    body = instruction.modules[0]
    names = sorted(body.parameters)
    given = dict(zip(names, instruction.inputs, strict=True))
    for one in body:
        for part in range(len(parts_of(one.shape))):
            lowering.places.pop((one.id, part), None)
    for one in body:
        if one.parameter is not None:
            _alias(lowering, one, given[one.parameter])
        elif one.literal is not None and one.shape.elements != 1:
            place = lowering.constant(one, 0, one.literal.numpy())
            lowering.places[one.id, 0] = Place(place.root, Shape(one.shape.type, one.shape.lens))
        elif one.inputs and not lowering.is_folded(one):
            _view(lowering, one)


def _alias(lowering: Lowering, parameter: Instruction, given: Instruction) -> None:
    for part in range(len(parts_of(given.shape))):
        lowering.places[parameter.id, part] = lowering.place(given, part)


def _view(lowering: Lowering, one: Instruction) -> None:
    """Bind a view to its source's memory, if the source has the layout that the body assumes."""
    source = one.inputs[0]
    known = lowering.places.get((source.id, 0))
    if known is None or not source.shape.is_tensor or known.shape != source.shape:
        return
    found = viewed(one, lowering.places)
    for part, place in enumerate(found or ()):
        lowering.places[one.id, part] = place


def is_inlined(instruction: Instruction) -> bool:
    """Whether readers of a value recompute it instead of reading it from memory."""
    op = instruction.op
    simple = op.pointwise or op.family is Family.VIEW or isinstance(op, PointwiseModule)
    moves = op.rearranges is Rearrangement.RELAID or isinstance(op, Reverse | Concat | Pad)
    return (simple or moves) and has_value(instruction) and schedule_of(instruction.op) is None


# Around one product


def _around_product(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a body with one product, and elementwise work before and after it."""
    body = instruction.modules[0]
    hearts = [i for i in body if product_maker(i.op)]
    if len(hearts) != 1:
        return None
    heart = hearts[0]
    known = lowering.places
    if not all(
        i is heart or i.name.startswith("@") or (i.id, 0) in known or is_inlined(i) for i in body
    ):
        return None
    ways = _ways(heart)
    views = [v for o in body.outputs if (v := ways.get(o)) is not None]
    if len(views) < len(body.outputs):
        return None
    outputs = lowering.outputs(instruction)
    make = product_maker(heart.op)
    product = make(lowering, heart) if make is not None else None
    if make is None or product is None:
        return _by_element(lowering, heart, body.outputs, outputs)
    ends = zip(body.outputs, outputs, views, strict=True)
    made = launches(lowering, product, [Result(*end) for end in ends])
    return scheduled(made, make)


def _ways(heart: Instruction) -> dict[Instruction, tuple[Instruction, ...] | None]:
    """The views between a product and each value computed from it; None if they are not one to one."""
    found: dict[Instruction, tuple[Instruction, ...] | None] = {heart: ()}
    for one in heart.module:
        ways = {found[i] for i in one.inputs if i in found}
        if ways:
            found[one] = _way(one, ways)
    return found


def _way(
    one: Instruction, ways: set[tuple[Instruction, ...] | None]
) -> tuple[Instruction, ...] | None:
    way = ways.pop()
    if way is None or ways:
        return None
    if one.op.pointwise or isinstance(one.op, PointwiseModule | GetTupleElem):
        return way
    return (*way, one) if one.op.rearranges is Rearrangement.RELAID else None


def _by_element(
    lowering: Lowering, heart: Instruction, results: Sequence[Instruction], outputs: Sequence[Place]
) -> list[Launch] | None:
    """Kernels whose work items compute whole sums, for products too small for tiles."""
    if not has_value(heart):
        return None
    return [_computed(lowering, r, [p]) for r, p in zip(results, outputs, strict=True)]


def _computed(lowering: Lowering, one: Instruction, outputs: Sequence[Place]) -> Launch:
    """A kernel that computes a value element by element, from values in memory."""
    read = sources(lowering, one.inputs)
    return elementwise(lowering.dialect, kernel_text(one), one, read, outputs)


# Part by part


class _Parts:
    """Lowers a body part by part."""

    def __init__(self, lowering: Lowering, instruction: Instruction) -> None:
        self.lowering, self.instruction = lowering, instruction
        self.body = instruction.modules[0]
        self.targets = dict(zip(self.body.outputs, lowering.outputs(instruction), strict=True))
        """The places of results; for one that is returned twice, the last."""
        self.scratch = 0

    def launches(self) -> list[Launch] | None:
        """The kernels of all parts; None if no kernel computes one of them."""
        made: list[Launch] = []
        kept = self._kept()
        for one in self.body:
            if one.name.startswith("@") or (one.id, 0) in self.lowering.places or one not in kept:
                continue
            parts = self._part(one)
            if parts is None:
                return None
            made += parts
        return made + self._copies()

    def _kept(self) -> set[Instruction]:
        """Values that need memory: results, values that are not elementwise, and the inputs of those."""
        found = set(self.body.outputs)
        for one in self.body:
            if one.name.startswith("@") or is_inlined(one) or self.lowering.is_folded(one):
                continue
            found.add(one)
            if not product_maker(one.op):
                found.update(i for i in one.inputs if not self.lowering.is_folded(i))
        return found

    def _part(self, one: Instruction) -> list[Launch] | None:
        """The kernels of one part, whose result is stored in its own memory or in the group's."""
        lowering, places = self.lowering, self._places(one)
        by_element = schedule_of(one.op) is None and has_value(one)
        launch = _computed(lowering, one, places) if by_element else None
        for part, place in enumerate(places):
            lowering.places[one.id, part] = place
        return [launch] if launch is not None else lowering.launches(one)

    def _places(self, one: Instruction) -> list[Place]:
        if one in self.targets and one.shape.is_tensor:
            return [self.targets[one]]
        found: list[Place] = []
        for shape in parts_of(one.shape):
            found.append(self.lowering.scratch(self.instruction, self.scratch, shape))
            self.scratch += 1
        return found

    def _copies(self) -> list[Launch]:
        """Copies for results that are computed elsewhere: parameters, constants, results returned twice."""
        lowering = self.lowering
        made: list[Launch] = []
        ends = zip(self.body.outputs, lowering.outputs(self.instruction), strict=True)
        for one, target in ends:
            place = lowering.places.get((one.id, 0))
            if place != target:
                read = [] if place is None else [(one, place)]
                made.append(elementwise(lowering.dialect, "copy", one, read, [target]))
        return made
