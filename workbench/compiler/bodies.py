"""Bodies of fused operations: how work moves into them, every instruction keeping its id."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.errors import GraphError
from workbench.compiler.ir import Instruction, Module
from workbench.compiler.operation import Operation
from workbench.compiler.ops.builtin import Return
from workbench.compiler.program import Program
from workbench.compiler.shape import Shape


def parameter_name(number: int) -> str:
    """``x0`` to ``x9``, then ``x:00010``: names that sort as text the way their numbers do."""
    return f"x{number}" if number < 10 else f"x:{number:05}"


def numbered_name(program: Program, stem: str, start: int) -> tuple[str, int]:
    """The first unused module name ``stem<n>`` with ``n >= start``, and its number."""
    while f"{stem}{start}" in program.modules:
        start += 1
    return f"{stem}{start}", start


def unused_name(program: Program, name: str) -> str:
    """A module name: this one, with a number behind it if it is taken."""
    return name if name not in program.modules else numbered_name(program, f"{name}_", 1)[0]


class Body:
    """A body under construction: the module, and the outer value that each parameter stands for.

    Args:
        module: The body. It may have parameters and work already.
        inputs: The outer values of the parameters that it has, in the order of their sorted names.
        scalars: Whether a parameter is one element of its value (pointwise) or all of it (reduce).
    """

    def __init__(
        self, module: Module, inputs: Sequence[Instruction] = (), scalars: bool = False
    ) -> None:
        """Open the body; what it returns is said anew by ``close``."""
        self.module = module
        self.scalars = scalars
        self.results = module.outputs
        """What the body returned when it was opened."""
        parameters = [p for _, p in sorted(module.parameters.items())]
        self._outer = dict(zip(parameters, inputs, strict=True))
        self._inner: dict[Instruction, Instruction] = {}
        for parameter, outer in self._outer.items():
            self._inner.setdefault(outer, parameter)

    @property
    def inputs(self) -> list[Instruction]:
        """The outer values, in the order in which the operation's inputs bind to the parameters."""
        named = sorted(self._outer, key=lambda p: p.parameter or "")
        return [self._outer[p] for p in named]

    def know(self, outer: Instruction, inner: Instruction) -> None:
        """Inside, ``inner`` is what ``outer`` is outside."""
        self._inner[outer] = inner

    def inner(self, outer: Instruction) -> Instruction:
        """What stands for an outer value inside: something known, or else a parameter."""
        found = self._inner.get(outer)
        if found is None:
            names = self.module.parameters
            number = len(names)
            while (name := parameter_name(number)) in names:
                number += 1
            shape = Shape.scalar(outer.shape.type) if self.scalars else outer.shape.as_standard()
            found = self._inner[outer] = self.module.add_parameter(name, shape)
            self._outer[found] = outer
        return found

    def take(self, instruction: Instruction, keep_shape: bool = False) -> Instruction:
        """Move an outer instruction to the end of the body."""
        self.module.take(instruction, [self.inner(i) for i in instruction.inputs], keep_shape)
        self._inner[instruction] = instruction
        return instruction

    def absorb(self, other: Module, inputs: Sequence[Instruction]) -> list[Instruction]:
        """Move all work of another body to the end of this one.

        Args:
            other: The other body; only its parameters and its ``@return`` stay in it.
            inputs: The outer values of its parameters.

        Returns:
            What it returned.
        """
        parameters = [p for _, p in sorted(other.parameters.items())]
        known = {p: self.inner(i) for p, i in zip(parameters, inputs, strict=True)}
        returned = [known.get(o, o) for o in other.outputs]
        for instruction in other:
            if instruction.parameter is None and not isinstance(instruction.op, Return):
                self.module.take(instruction, [known.get(i, i) for i in instruction.inputs])
        return returned

    def close(self, *results: Instruction) -> None:
        """Let the body return these values."""
        if self.module.has_return and (last := self.module.last) is not None:
            self.module.set_inputs(last, results)
        else:
            self.module.add_return(*results)

    def stand_for(self, old: Instruction, op: Operation | str, **attributes: object) -> Instruction:
        """Take ``old`` into the body as its result; a new operation with this body stands where it stood."""
        outer, following, before = old.module, old.following, old.inputs
        if outer is self.module:
            raise GraphError(f"{old!r} is in the body {self.module.name!r} already")
        if self.module.has_return and (last := self.module.last) is not None:
            self.module.remove(last)
        self.take(old, keep_shape=True)
        new = outer.insert(following, op, *self.inputs, modules=[self.module], **attributes)
        outer.replace(old, new)
        self.module.reinfer(old)
        self.close(old)
        new.sources = self._sources(new)
        prune_all(before)
        return new

    def attach(self, instruction: Instruction) -> Instruction:
        """Make this the body of an operation that has another one, which is gone afterwards."""
        (old,), before = instruction.modules, instruction.inputs
        outer, inputs = instruction.module, self.inputs
        if _keeps_shape(instruction.shape, inputs):
            outer.connect(instruction, inputs)
            outer.set_modules(instruction, [self.module])
        else:
            outer.set_modules(instruction, [self.module])
            outer.set_inputs(instruction, inputs)
        prune_all(before)
        if old is not self.module:
            outer.program.remove_module(old)
        instruction.sources = self._sources(instruction)
        return instruction

    def _sources(self, fused: Instruction) -> tuple[str, ...]:
        """The source nodes of what is in the body, and the operation's own."""
        parts = [i for i in self.module if i.literal is None]
        return tuple(dict.fromkeys(s for i in (*parts, fused) for s in i.sources))


def prune_all(instructions: Sequence[Instruction]) -> None:
    """Remove those that nobody uses any more."""
    for instruction in dict.fromkeys(instructions):
        alive = instruction.module.program.find(instruction.id) is instruction
        if alive and not instruction.users:
            instruction.module.prune(instruction)


def _keeps_shape(result: Shape, inputs: Sequence[Instruction]) -> bool:
    """Whether the result is row-major because every input is row-major or broadcast."""
    return result.standard and all(i.shape.standard or i.shape.broadcasted for i in inputs)
