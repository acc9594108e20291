"""Kernels to be: what chains of elementwise work become, worked out before anything is moved.

If kernels are merged two at a time, the order of the merges decides the order of inputs, lines and source
nodes. A plan follows the same order, so what becomes a kernel in one edit is the same kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ops.fused import PointwiseModule
from workbench.compiler.passes.fuse.kernels.common_space import STAYING, Staying, behind_moves
from workbench.compiler.passes.fuse.kernels.pairs import BETWEEN, LARGEST_BODY, lines
from workbench.compiler.passes.shapes.transform.chains import is_link
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.bodies import Body, keeps_shape, prune_all

Constants = Mapping[Instruction, Argument | None]
"""The inputs of an instruction, each with its element if it is a scalar constant."""


class _Known(NamedTuple):
    """A scalar constant in the body, for one of the instructions that read it."""

    part: Instruction
    value: Instruction
    element: Argument

    @property
    def entry(self) -> tuple[Instruction, Argument, tuple[str, ...]]:
        """The value, its element, and the source nodes of the literal."""
        return self.value, self.element, self.part.sources


class Kernel:
    """A kernel to be: its instructions, and what they read."""

    def __init__(self, x: Instruction, constants: Constants | None) -> None:
        """The kernel of one instruction; no input counts as a constant if none are given."""
        self.parts = [x]
        self.inputs: dict[Instruction, tuple[str, ...]] = {}
        """The values that it reads, in the order of its parameters, and each parameter's source nodes."""
        self.above: list[_Known] = []
        """The literals above the parameters, in order."""
        self.below: list[_Known] = []
        """The literals below them."""
        if constants is None:
            self.inputs = dict.fromkeys(x.inputs, x.sources)
        self.lines = 2 + len(constants or self.inputs)
        """The number of lines of its body, besides those of bodies inside."""
        for value, element in constants.items() if constants else ():
            if element is None:
                self.inputs[value] = x.sources
            else:
                side = self.above if self.inputs else self.below
                side.insert(0, _Known(x, value, element))

    @property
    def sources(self) -> tuple[str, ...]:
        """The source nodes of the kernel, in the order of its lines."""
        each = dict.fromkeys([*self.inputs.values(), *[part.sources for part in self.parts]])
        return tuple(dict.fromkeys([name for sources in each for name in sources]))

    def take(
        self,
        producer: Kernel,
        through: Sequence[Instruction] = (),
        anew: tuple[str, ...] | None = None,
    ) -> None:
        """Put a kernel that this one reads before it.

        Args:
            producer: The other kernel.
            through: What is between the two.
            anew: The source nodes of all parameters, if they are made now.
        """
        inputs = dict(producer.inputs) if anew is None else dict.fromkeys(producer.inputs, anew)
        if len(self.inputs) > 1:
            within = {producer.parts[-1], *through}
            others = [v for v in self.inputs if v not in within and v not in inputs]
            if others:
                inputs.update(dict.fromkeys(others, self.sources if anew is None else anew))
        self.inputs = inputs
        if self.above or self.below:
            self.above = [*self.below[::-1], *self.above[::-1], *producer.above]
        else:
            self.above = producer.above
        self.below = producer.below
        self.parts = [*producer.parts, *through, *self.parts]
        literals = len(self.above) + len(self.below)
        self.lines = len(inputs) + literals + len(self.parts) + 1


class Node:
    """A kernel to be, among all kernels of a module."""

    def __init__(self, place: int, x: Instruction, constants: Constants | None = None) -> None:
        """The kernel of one instruction, or that which an instruction is already."""
        self.place = place
        self.root = x
        self.constants = constants or {}
        self.kernel = Kernel(x, constants)
        self.inside = lines(*x.modules) if x.modules else 0
        """The lines of bodies that are there."""
        self.is_fixed = bool(x.modules)
        """Whether it is made by rules, one by one, as others of them may have a part in it."""

    @property
    def lines(self) -> int:
        """The number of lines of its body."""
        return self.inside or self.kernel.lines


POINTWISE = PointwiseModule()

NodeType = TypeVar("NodeType", bound=Node)


class Nodes(Generic[NodeType]):
    """The kernels of a module, merged in the order in which rules would merge them one by one."""

    def __init__(self) -> None:
        """No kernels."""
        self.of: dict[Instruction, NodeType] = {}
        """The kernel that an instruction is a part of."""
        self.all: list[NodeType] = []

    def add(self, node: NodeType) -> None:
        """Add a kernel behind the others."""
        self.of[node.root] = node
        self.all.append(node)

    def fix_beside_views(self, staying: Staying = STAYING) -> None:
        """Leave alone the kernels that rules may move into other dimensions, as only views part them."""
        of = self.of
        for node in self.all:
            for value in node.root.inputs:
                if value not in of and value.literal is None and is_link(value):
                    source = behind_moves(value, staying)
                    other = None if source is None else of.get(source)
                    if other is not None and self.may_move(other, node):
                        other.is_fixed = node.is_fixed = True

    def merge(self) -> list[NodeType]:
        """Go through the kernels until none can be merged; those of several instructions, unless fixed."""
        waiting = self.first_places()
        while waiting:
            queue = sorted(waiting)
            again: set[int] = set()
            while queue:
                place = heappop(queue)
                node = self.all[place]
                waiting.discard(place)
                if self.of[node.root] is node and self.merge_one(node):
                    self.of.update(dict.fromkeys(node.kernel.parts, node))
                    again.add(place)
                    for reader in self.readers(node.root):
                        if reader.place not in waiting:
                            waiting.add(reader.place)
                            heappush(queue, reader.place)
            waiting = again
        alone = [n for n in self.all if self.of[n.root] is n and not n.is_fixed]
        return [n for n in alone if len(n.kernel.parts) > 1]

    def first_places(self) -> set[int]:
        """The places of kernels that may take others before any has done so."""
        reads_none = self.of.keys().isdisjoint
        return {node.place for node in self.all if not reads_none(node.kernel.inputs)}

    def may_move(self, producer: NodeType, reader: NodeType) -> bool:
        """Whether there are rules for two such kernels with views between them."""
        return True

    def merge_one(self, node: NodeType) -> bool:
        """Let a kernel take the first one that it can; whether there was one."""
        raise NotImplementedError

    def others_read(self, values: Collection[Instruction], node: NodeType) -> bool:
        """Whether any of some values, each read by a kernel or by another of them, has other readers."""
        for value in values:
            if value.only_user is not None:
                continue
            for user in value.users:
                if self.of.get(user) is not node and user not in values:
                    return True
        return False

    def readers(self, value: Instruction) -> Iterator[NodeType]:
        """The kernels that read a value, perhaps through a broadcast."""
        for user in value.users:
            if user in self.of:
                yield self.of[user]
            elif isinstance(user.op, BETWEEN):
                yield from self.readers(user)


class Chains(Nodes[Node]):
    """Kernels of elementwise work, merged as by ``fuse_chain``."""

    def merge_one(self, node: Node) -> bool:
        """Let a kernel take the first one that only it reads; one whose result may change shape is fixed."""
        kernel, of = node.kernel, self.of
        for value in kernel.inputs:
            producer = of.get(value)
            if producer is None:
                continue
            if value.only_user is None and not self._only_reads(node, value):
                continue
            if producer.lines + node.lines <= LARGEST_BODY:
                before = kernel.inputs
                kernel.take(producer.kernel)
                if not (node.is_fixed or keeps_shape(node.root.shape, kernel.inputs)):
                    shapes = [i.shape for i in kernel.inputs]
                    node.is_fixed |= shapes != [i.shape for i in before]
                node.is_fixed |= producer.is_fixed
                return True
        return False

    def _only_reads(self, node: Node, value: Instruction) -> bool:
        """Whether a kernel alone reads a value."""
        for user in value.users:  # noqa: SIM110 (a loop is faster)
            if self.of.get(user) is not node:
                return False
        return True


@change
def wrap_chain(
    root: Instruction, kernel: Kernel, name: str, made: Mapping[Instruction, Instruction]
) -> Instruction:
    """g(f(x…), y…) → pointwise(x…, y…), [g after f]"""
    module = root.module.program.create_module(name, bypass=True)
    body = Body(module, scalars=True)
    literals = _filled(body, kernel, made)
    fused = body.stand_for_all(kernel.parts, POINTWISE, root.shape, kernel.sources, literals)
    if (end := module.last) is not None and end.sources != kernel.parts[0].sources:
        module.set_sources(end, kernel.parts[0].sources)
    if literals:
        prune_all([known.value for known in (*kernel.above, *kernel.below)])
    return fused


def _filled(
    body: Body, kernel: Kernel, made: Mapping[Instruction, Instruction]
) -> dict[Instruction, dict[Instruction, Instruction]]:
    """Fill a body with what a kernel reads; returns the literals for each part, by what they represent."""
    inputs = [(made.get(v, v), None, sources) for v, sources in kernel.inputs.items()]
    literals: dict[Instruction, dict[Instruction, Instruction]] = {}
    if not (kernel.above or kernel.below):
        body.fill(inputs)
        return literals
    below, above = kernel.below[::-1], kernel.above[::-1]
    filled = body.fill([*[k.entry for k in below], *inputs, *[k.entry for k in above]])
    del filled[len(below) : len(below) + len(inputs)]
    for known, literal in zip([*below, *above], filled, strict=True):
        literals.setdefault(known.part, {})[known.value] = literal
    return literals
