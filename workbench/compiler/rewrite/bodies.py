"""Bodies of fused operations: moving instructions into them without changing their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Param, Return
from workbench.compiler.ir.filling import Entry, fill, take_all
from workbench.compiler.ir.module import Instruction, Module, infer
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import keeps_scalars
from workbench.compiler.ops.fused import PointwiseModule


@lru_cache(maxsize=1 << 10)
def parameter_name(number: int) -> str:
    """``x0`` to ``x9``, then ``x:00010``: names whose text order is their numeric order."""
    return f"x{number}" if number < 10 else f"x:{number:05}"


def numbered_name(program: Program, stem: str, start: int) -> tuple[str, int]:
    """The first unused module name ``stem<n>`` with ``n >= start``, and its number."""
    while f"{stem}{start}" in program.modules:
        start += 1
    return f"{stem}{start}", start


def unused_name(program: Program, name: str) -> str:
    """A module name: ``name``, with a number appended if it is taken."""
    return name if name not in program.modules else numbered_name(program, f"{name}_", 1)[0]


_ENDS = (Param, Return)
_value_of = itemgetter(0)
_NONE: Mapping[Instruction, Mapping[Instruction, Instruction]] = {}

Sources: TypeAlias = tuple[str, ...]
"""The model nodes that an instruction comes from."""


class Body:
    """A body under construction: the module, and the outer value that each parameter represents.

    Args:
        module: The body. It may already have parameters and instructions.
        inputs: The outer values of its existing parameters, in the order of their sorted names.
        scalars: Whether a parameter is one element of its value (pointwise) or all of it (reduce).
    """

    def __init__(
        self, module: Module, inputs: Sequence[Instruction] = (), scalars: bool = False
    ) -> None:
        """Open the body; ``close`` sets its results again."""
        self.module = module
        self.scalars = scalars
        self.results = module.outputs
        """The results of the body when it was opened."""
        self._outer: dict[str, Instruction] = {}
        """The outer value of each parameter, by the parameter's name."""
        self._inner: dict[Instruction, Instruction] = {}
        self._relaid: set[Instruction] = set()
        """Taken instructions whose shape differs from the one they had outside."""
        if module.last is None and not inputs:
            return
        named = sorted(module.parameters.items())
        for (name, parameter), outer in zip(named, inputs, strict=True):
            self._outer[name] = outer
            self._inner.setdefault(outer, parameter)

    @property
    def inputs(self) -> list[Instruction]:
        """The outer values, in the order in which the operation's inputs bind to the parameters."""
        return [self._outer[name] for name in sorted(self._outer)]

    def know(self, outer: Instruction, inner: Instruction) -> None:
        """Record that ``inner`` represents ``outer`` inside the body."""
        self._inner[outer] = inner

    def knows(self, outer: Instruction) -> bool:
        """Whether an outer value is already represented inside."""
        return outer in self._inner

    def inner(self, outer: Instruction) -> Instruction:
        """The inner value for an outer one: the known one, or else a new parameter."""
        found = self._inner.get(outer)
        if found is None:
            number = len(self._outer)
            while (name := parameter_name(number)) in self._outer:
                number += 1
            found = self._inner[outer] = self.module.add_parameter(name, self._inside(outer.shape))
            self._outer[name] = outer
        return found

    def _inside(self, outer: Shape) -> Shape:
        """The shape of the parameter for a value."""
        if self.scalars:
            return Shape.scalar(outer.type)
        return self.module.program.shape_rules.held(outer.as_standard())

    def fill(
        self, values: Sequence[tuple[Instruction, Argument | None, Sources]]
    ) -> list[Instruction]:
        """Represent outer values in the empty body, with literals for those whose element is given.

        Args:
            values: Each value, its element, and the source nodes of what represents it.

        Returns:
            What represents each value.
        """
        outer = self._outer
        entries: list[Entry] = []
        for value, element, sources in values:
            if element is not None:
                entries.append(("", element.shape, element, sources))
            else:
                name = parameter_name(len(outer))
                outer[name] = value
                entries.append((name, self._inside(value.shape), None, sources))
        made = fill(self.module, entries)
        self._inner.update(zip(map(_value_of, values), made, strict=True))
        return made

    def take(self, instruction: Instruction, keep_shape: bool = False) -> Instruction:
        """Move an outer instruction to the end of the body."""
        inputs = [self.inner(i) for i in instruction.inputs]
        if keep_shape:
            self.module.take(instruction, inputs, instruction.shape)
        else:
            self._move(instruction, inputs)
        self._inner[instruction] = instruction
        return instruction

    def _move(self, instruction: Instruction, inputs: Sequence[Instruction]) -> None:
        """Take an instruction with inputs from the body, whose layouts may differ from the outer ones."""
        self.module.take(instruction, inputs, self._shape_on(instruction, inputs))

    def _shape_on(self, instruction: Instruction, inputs: Sequence[Instruction]) -> Shape:
        """The shape of an instruction that is about to be taken, on its inputs from the body."""
        shape = instruction.shape
        if self._are_relaid(instruction.inputs, inputs) and not _is_kept(instruction, inputs):
            shape = infer(instruction.op, inputs, instruction.modules)
            if shape != instruction.shape:
                self._relaid.add(instruction)
        return shape

    def _scalar_on(self, instruction: Instruction, inputs: Sequence[Instruction]) -> Shape:
        """As ``_shape_on``, in a body of scalars only: most elementwise work keeps these."""
        op = instruction.op
        if keeps_scalars(type(op)):
            for given in inputs:
                if not given.shape.is_scalar:
                    break
            else:
                return Shape.scalar(instruction.shape.type)
        return infer(op, inputs, instruction.modules)

    def _are_relaid(self, outer: Sequence[Instruction], inputs: Sequence[Instruction]) -> bool:
        """Whether some values have or had another shape outside of the body."""
        for one, other in zip(outer, inputs, strict=True):  # a loop: the first one mostly tells
            if one.shape != other.shape:
                return True
        return not self._relaid.isdisjoint(inputs)

    def absorb(self, other: Module, inputs: Sequence[Instruction]) -> list[Instruction]:
        """Move all instructions of another body to the end of this one.

        Args:
            other: The other body; it keeps only its parameters and its ``@return``.
            inputs: The outer values of its parameters.

        Returns:
            Its results.
        """
        named = sorted(other.parameters.items())
        known = {p: self.inner(i) for (_, p), i in zip(named, inputs, strict=True)}
        returned = [known.get(o, o) for o in other.outputs]
        for instruction in other:
            if not isinstance(instruction.op, _ENDS):
                self._move(instruction, [known.get(i, i) for i in instruction.inputs])
        return returned

    def close(self, *results: Instruction) -> None:
        """Set the results of the body."""
        if self.module.has_return and (last := self.module.last) is not None:
            self.module.set_inputs(last, results)
        else:
            self.module.add_return(*results)

    def stand_for(self, old: Instruction, op: Operation | str, **attributes: object) -> Instruction:
        """Take ``old`` into the body as its result; a new operation with this body replaces it outside.

        Args:
            old: The instruction.
            op: The operation, whose only module is this body.
            attributes: Its attributes.
        """
        outer, following, before = old.module, old.following, old.inputs
        if outer is self.module:
            raise GraphError(f"{old!r} is already in the body {self.module.name!r}")
        if self.module.has_return and (last := self.module.last) is not None:
            self.module.remove(last)
        self.take(old, keep_shape=True)
        new = outer.insert(following, op, *self.inputs, modules=[self.module], **attributes)
        outer.hand_over(old, new)
        relaid = self.scalars or self._are_relaid(before, old.inputs)
        if relaid and not _is_kept(old, old.inputs):
            self.module.reinfer(old)
        self.module.add_return(old)
        self._give_sources(new)
        prune_all(before)
        return new

    def stand_for_all(
        self,
        parts: Sequence[Instruction],
        op: Operation,
        shape: Shape | None,
        sources: Sources | None = None,
        literals: Mapping[Instruction, Mapping[Instruction, Instruction]] = _NONE,
    ) -> Instruction:
        """As ``take`` for all of some instructions but the last, and ``stand_for`` for that, in one go.

        The body has only what ``fill`` made, which represents all that they read.

        Args:
            parts: The instructions; nothing outside reads any but the last.
            op: The operation.
            shape: The operation's shape, if it is known.
            sources: Its source nodes, if they are known.
            literals: What represents some values from an instruction on.
        """
        old, inputs = parts[-1], tuple(self._outer.values())
        outer, following, before, outside = old.module, old.following, old.inputs, old.shape
        shape_on = self._scalar_on if self.scalars else self._shape_on
        take_all(self.module, parts, self._inner, literals, shape_on)
        new = outer.insert_as(shape, following, op, inputs, [self.module])
        outer.hand_over(old, new, outside)
        self.module.add_return(old)
        if sources is None:
            self._give_sources(new)
        elif sources != new.sources:
            outer.set_sources(new, sources)
        prune_all(before)
        return new

    def enclose(
        self,
        outer: Module,
        before: Instruction | None,
        results: Sequence[Instruction],
        op: Operation | str,
        **attributes: object,
    ) -> Instruction:
        """Close the body over values that it took; a new operation replaces them outside.

        Args:
            outer: The module from which they were taken.
            before: The instruction before which the operation goes; None for the end.
            results: The values; those taken with ``keep_shape`` get their inner shape here. Several become
                the elements of a tuple.
            op: The operation, whose only module is this body.
            attributes: Its attributes.
        """
        self.close(*results)
        new = outer.insert(before, op, *self.inputs, modules=[self.module], **attributes)
        self._give_sources(new)
        single = len(results) == 1
        for index, old in enumerate(results):
            part = new if single else outer.insert(before, "get_tuple_elem", new, index=index)
            outer.program.tell_replaced(old, part)
            for user in old.users:
                if user.module is not self.module:
                    inputs = [part if i is old else i for i in user.inputs]
                    user.module.set_inputs(user, inputs)
            self.module.reinfer(old)
        return new

    def attach(self, instruction: Instruction) -> Instruction:
        """Make this the body of an operation in place of its current one, which is removed."""
        (old,), before = instruction.modules, instruction.inputs
        outer, inputs = instruction.module, self.inputs
        if keeps_shape(instruction.shape, inputs):
            outer.connect(instruction, inputs)
            outer.set_modules(instruction, [self.module])
        else:
            outer.set_modules(instruction, [self.module])
            outer.set_inputs(instruction, inputs)
        prune_all(before)
        if old is not self.module:
            outer.program.remove_module(old)
        self._give_sources(instruction)
        return instruction

    def _give_sources(self, fused: Instruction) -> None:
        """Let an operation come from the source nodes of the instructions in its body, and from its own."""
        each = {part.sources: None for part in self.module if part.literal is None}
        each[fused.sources] = None
        merged = tuple(dict.fromkeys([name for sources in each for name in sources]))
        if merged != fused.sources:
            fused.module.set_sources(fused, merged)


def prune_all(instructions: Sequence[Instruction]) -> None:
    """Remove the instructions that have no users."""
    for instruction in dict.fromkeys(instructions):
        if not instruction.is_used:
            module = instruction.module
            if module.program.find(instruction.id) is instruction:
                module.prune(instruction)


def _is_kept(instruction: Instruction, inputs: Sequence[Instruction]) -> bool:
    """Whether a kernel in a body has the same shape on these inputs as before."""
    return isinstance(instruction.op, PointwiseModule) and keeps_shape(instruction.shape, inputs)


def keeps_shape(result: Shape, inputs: Iterable[Instruction]) -> bool:
    """Whether the result is row-major because every input is row-major or broadcast."""
    if not result.is_row_major:
        return False
    for given in inputs:  # a loop: this runs for every part of a kernel
        shape = given.shape
        if not (shape.is_row_major or shape.broadcasted):
            return False
    return True


def needed_for(ends: Iterable[Instruction]) -> set[Instruction]:
    """The instructions of a body that some of its instructions depend on, including themselves."""
    found: set[Instruction] = set()
    stack = list(ends)
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack += one.inputs
    return found
