"""Chains of elementwise work: the kernel that a chain becomes, worked out before anything is moved.

If kernels are merged two at a time, the order of the merges decides the order of inputs, lines and source
nodes. A plan follows the same order, so what becomes a kernel in one edit is the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.passes.fuse.kernels.pairs import LARGEST_BODY
from workbench.compiler.rewrite import change
from workbench.compiler.rewrite.bodies import Body, keeps_shape, prune_all

Constants = Mapping[Instruction, Argument | None]
"""The inputs of an instruction, each with its element if it is a scalar constant."""


class _Known(NamedTuple):
    """A scalar constant in the body, for one of the instructions that read it."""

    part: Instruction
    value: Instruction
    element: Argument


class Kernel:
    """A kernel to be: its instructions, and what they read."""

    def __init__(self, x: Instruction, constants: Constants) -> None:
        """The kernel of one instruction."""
        self.parts = [x]
        self.inputs: dict[Instruction, tuple[str, ...]] = {}
        """The values that it reads, in the order of its parameters, and each parameter's source nodes."""
        self.above: list[_Known] = []
        """The literals above the parameters, in order."""
        self.below: list[_Known] = []
        """The literals below them."""
        for value, element in constants.items():
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
        self, producer: Kernel, through: Sequence[Instruction] = (), anew: bool = False
    ) -> None:
        """Put a kernel that this one reads before it.

        Args:
            producer: The other kernel.
            through: What is between the two.
            anew: Whether all parameters are made now, and have the source nodes of this kernel.
        """
        sources, within = self.sources, {producer.parts[-1], *through}
        inputs = dict.fromkeys(producer.inputs, sources) if anew else dict(producer.inputs)
        for value in self.inputs:
            if value not in within:
                inputs.setdefault(value, sources)
        self.inputs = inputs
        self.above = [*reversed([*self.above, *self.below]), *producer.above]
        self.below = producer.below
        self.parts = [*producer.parts, *through, *self.parts]


def joined(parts: Iterable[tuple[Instruction, Constants]]) -> Kernel | None:
    """The kernel that a chain becomes if each instruction takes one kernel that it reads, in turns.

    Args:
        parts: The instructions in order, each used only by a later one, with the constants that they read.

    Returns:
        The kernel; None if it may get too long, or a merge may change the shape of a result.
    """
    rest = {x: Kernel(x, constants) for x, constants in parts}
    if sum([len(k.inputs) + len(k.above) + len(k.below) + 2 for k in rest.values()]) > LARGEST_BODY:
        return None
    while len(rest) > 1:
        for x in list(rest):
            kernel = rest[x]
            before = [*kernel.inputs]
            if (read := next((value for value in before if value in rest), None)) is not None:
                kernel.take(rest.pop(read))
                if not _keeps_shape(x, before, [*kernel.inputs]):
                    return None
    return next(iter(rest.values()))


def _keeps_shape(x: Instruction, before: list[Instruction], inputs: list[Instruction]) -> bool:
    """Whether a kernel's result surely has the same shape with other inputs."""
    return [i.shape for i in before] == [i.shape for i in inputs] or keeps_shape(x.shape, inputs)


@change
def wrap_chain(root: Instruction, kernel: Kernel, name: str) -> Instruction:
    """g(f(x…), y…) → pointwise(x…, y…), [g after f]"""
    module = root.module.program.create_module(name, bypass=True)
    body = Body(module, scalars=True)
    inside: dict[Instruction, list[tuple[Instruction, Instruction]]] = {}
    _add_literals(module, kernel.below, inside)
    for value, sources in kernel.inputs.items():
        with module.program.source(*sources):
            body.inner(value)
    _add_literals(module, kernel.above, inside)
    for part in kernel.parts:
        for value, literal in inside.get(part, ()):
            body.know(value, literal)
        if part is not root:
            body.take(part)
    made = body.stand_for(root, "pointwise", root.shape)
    module.reinfer(root)  # parts that it reads have one element inside
    if (end := module.last) is not None and end.sources != kernel.parts[0].sources:
        module.set_sources(end, kernel.parts[0].sources)
    prune_all([known.value for known in (*kernel.above, *kernel.below)])
    return made


def _add_literals(
    module: Module,
    literals: Sequence[_Known],
    inside: dict[Instruction, list[tuple[Instruction, Instruction]]],
) -> None:
    """Put literals at the front of a body, the first one last, and note for which instruction each is."""
    for part, value, element in reversed(literals):
        with module.program.source(*part.sources):
            inside.setdefault(part, []).append((value, module.add_literal(element)))
