"""Modules of instructions in SSA form, edited in place; listeners hear every change."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Identity, Literal, Param, Return
from workbench.compiler.ir.inference import infer
from workbench.compiler.ir.instruction import (
    Instruction,
    SourceNode,
    captured,
    depth_first,
    inherit_sources,
    is_constant,
    learn_constant,
)
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.uses import Uses

if TYPE_CHECKING:
    from workbench.compiler.ir.program import Program

__all__ = [
    "Instruction", "Module", "SourceNode", "captured", "infer", "is_constant",
]  # fmt: skip

parameter_op = lru_cache(maxsize=1 << 10)(Param)
"""The operation of a parameter; those of fused bodies have the same few names."""
_NO_SYMBOLS = nullcontext()
LITERAL, _RETURN, _IDENTITY = Literal(), Return(), Identity()


class Module(Uses):
    """A named, ordered list of instructions. Every edit keeps order and users consistent, and is reported."""

    def __init__(self, program: Program, name: str, bypass: bool = False) -> None:
        """An empty module; made by ``Program.create_module``."""
        super().__init__(program)
        self.name = name
        self.bypass = bypass
        """Whether passes leave this module alone, as it is the body of a fused operation."""
        self._parameters: dict[str, Instruction] = {}

    # Contents

    @property
    def parameters(self) -> dict[str, Instruction]:
        """Parameters by name, in creation order."""
        return dict(self._parameters)

    @property
    def has_return(self) -> bool:
        """Whether the module ends with a ``@return``."""
        return self._last is not None and isinstance(self._last.op, Return)

    @property
    def outputs(self) -> tuple[Instruction, ...]:
        """The values that the module returns: the inputs of ``@return``, or else its last instruction."""
        if self._last is None:
            return ()
        return self._last.inputs if self.has_return else (self._last,)

    # Making instructions

    def add(
        self,
        op: Operation | str,
        *inputs: Instruction,
        modules: Sequence[Module] = (),
        **attributes: Any,
    ) -> Instruction:
        """Append an instruction (before a ``@return``, if the module has one)."""
        before = self._last if self.has_return else None
        return self.insert(before, op, *inputs, modules=modules, **attributes)

    def insert(
        self,
        before: Instruction | None,
        op: Operation | str,
        *inputs: Instruction,
        modules: Sequence[Module] = (),
        **attributes: Any,
    ) -> Instruction:
        """Insert an instruction before another one, or at the end; its shape is inferred.

        Raises:
            ShapeError: The operation refuses the inputs' shapes.
            GraphError: An input comes after the insertion point, or belongs to another program.
        """
        operation = op if isinstance(op, Operation) else make(op, **attributes)
        return self.insert_as(None, before, operation, inputs, modules)

    def insert_as(
        self,
        shape: Shape | None,
        before: Instruction | None,
        op: Operation,
        inputs: Sequence[Instruction],
        modules: Sequence[Module] = (),
    ) -> Instruction:
        """As ``insert``, but with the given ``shape`` where it is known, instead of inferring it."""
        self._check_inputs(op, inputs, before)
        made = self._new(op, infer(op, inputs, modules) if shape is None else shape)
        self._link(made, before)
        if modules:
            self.bind(made, modules)
        if inputs:
            self.attach(made, tuple(inputs))
        if (tally := self.program.tally) is not None:
            tally.made(made)
        self.program.tell_touched(made)
        return made

    def add_parameter(self, name: str, shape: Shape) -> Instruction:
        """Add a parameter behind the older ones; in a program that is ``newest_first``, at the front.

        Raises:
            GraphError: The module already has a parameter of that name.
        """
        if name in self._parameters:
            raise GraphError(f"module {self.name!r} already has a parameter {name!r}")
        program = self.program
        shape = program.shape_rules.held(shape) if program.scalars else shape
        made = self._new(parameter_op(name, self._next_parameter()), shape)
        self._parameters[name] = made
        self._link(made, self._first if program.newest_first else self._after_parameters())
        program.tell_touched(made)
        return made

    def add_literal(self, value: Any) -> Instruction:
        """Add a literal at the front; the data is shared, not copied."""
        argument = Argument.of(value)
        if (shape := self.program.shape_rules.held(argument.shape)) is not argument.shape:
            argument = Argument(shape, argument.numpy())
        made = self._new(LITERAL, argument.shape)
        made.literal, made.constant = argument, True
        self._link(made, self._first)
        self.program.tell_touched(made)
        return made

    def add_return(self, *values: Instruction) -> Instruction:
        """End the module by returning these values."""
        if self.has_return:
            raise GraphError(f"module {self.name!r} already has a @return")
        settled = len(values) == 1 and not (self.program.keeps_fixed or self.program.scalars)
        return self.insert_as(values[0].shape if settled else None, None, _RETURN, values)

    # Edits

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Replace ``old`` by ``new``: its users now use ``new``, and what becomes dead is removed at once.

        Raises:
            GraphError: ``new`` is ``old``, or comes after a user of ``old``.
        """
        if new is old:
            raise GraphError(f"{old!r} cannot be replaced by itself")
        if isinstance(old.op, Param):
            raise GraphError(f"parameter {old.parameter!r} cannot be replaced")
        module, order = new.module, new.order
        for user in old._users:
            if user.order <= order and user.module is module and user is not new:
                raise GraphError(
                    f"{new!r} comes after {user!r}, a user of {old!r}, which it replaces"
                )
        if old is self._last and not self._put_last(new, old):
            new = self.insert(None, _IDENTITY, new)
        with self.program.tally or _NO_SYMBOLS:
            self.hand_over(old, new)
            self.prune(old)

    def hand_over(self, old: Instruction, new: Instruction, before: Shape | None = None) -> None:
        """Let the users of ``old`` use ``new``, which stands where ``old`` was; ``old`` itself stays.

        Args:
            old: The instruction.
            new: What replaces it.
            before: The shape of ``old`` for its users, if it has another one by now.
        """
        if (tally := self.program.tally) is not None:
            tally.replaced(old, new)
        self.program.tell_replaced(old, new)
        if not new.sources:
            inherit_sources(new, old.sources)
        alike = (before or old.shape) == new.shape
        for user in [u for u in old._users if u is not new]:
            user.module.connect(user, [new if i is old else i for i in user.inputs])
            if not alike:
                self.reinfer(user)
            self.program.tell_touched(user)

    def _put_last(self, new: Instruction, old: Instruction) -> bool:
        """Move ``new`` after ``old``, the last instruction, if nothing but ``old`` uses it."""
        others = [u for u in new._users if u is not old]
        if others or new.parameter is not None or new.module is not self:
            return False
        self._unlink(new)
        self._link(new, None)
        self.program.tell_touched(new)
        return True

    def prune(self, instruction: Instruction) -> None:
        """Remove an instruction without users, and then its inputs that lost their last user.

        Modules that only it called are removed too, but not the bodies of kernels: their callers move those.
        """
        stack = [instruction]
        while stack:
            dead = stack.pop()
            if dead._users or isinstance(dead.op, Param) or dead is dead.module._last:
                continue
            inputs, called = dead.inputs, dead.modules
            dead.module.drop(dead)
            if called:
                inputs += tuple([i for m in dict.fromkeys(called) for i in _released(m)])
            if inputs:
                stack.extend([i for i in dict.fromkeys(inputs) if not i._users])

    def remove(self, instruction: Instruction) -> None:
        """Remove an instruction that has no users.

        Raises:
            GraphError: It has users, or is not in this module.
        """
        self._check_member(instruction)
        self.drop(instruction)

    def drop(self, instruction: Instruction) -> None:
        """As ``remove``, for an instruction that is known to be in this module."""
        if instruction._users:
            user = next(iter(instruction._users))
            raise GraphError(f"{instruction!r} cannot be removed: {user!r} uses it")
        for given in instruction.inputs:
            given._users.pop(instruction, None)
        self.program.operands -= len(instruction.inputs)
        instruction.inputs = ()
        if instruction.modules:
            del self._calling[instruction]
            for called in instruction.modules:
                called._callers.pop(instruction, None)
        if (tally := self.program.tally) is not None:
            tally.lost(instruction)
        self._unlink(instruction)
        if isinstance(instruction.op, Param):
            del self._parameters[instruction.op.parameter]
        self.program.forget(instruction)

    def move(self, instruction: Instruction, before: Instruction | None) -> None:
        """Move an instruction within this module, before another one (``None``: to the end).

        Raises:
            GraphError: An input would come after it, or a user before it.
        """
        self._check_member(instruction)
        if before is instruction:
            return
        self._check_inputs(instruction.op, instruction.inputs, before)
        for user in instruction._users:
            if user.module is self and (before is None or user.order < before.order):
                raise GraphError(f"{instruction!r} cannot move after its user {user!r}")
        self._unlink(instruction)
        self._link(instruction, before)
        self.program.tell_touched(instruction)

    def sort(self) -> None:
        """Put the operands of each result right before it, depth first, inputs from left to right.

        Unused instructions keep their order. Values that a module argument captures count as operands.
        """
        done: set[Instruction] = set()
        order = [i for sink in self if not sink._users for i in depth_first(sink, self, done)]
        if [i for i in self if i in done] != order:
            self.arrange(order)

    def arrange(self, order: Iterable[Instruction]) -> None:
        """Move these to the end, in this order, which must put each instruction after its operands."""
        for instruction in order:
            self._unlink(instruction)
            self._link(instruction, None)
            self.program.tell_touched(instruction)

    def set_inputs(self, instruction: Instruction, inputs: Sequence[Instruction]) -> None:
        """Change an instruction's inputs; shapes that depend on it are inferred again."""
        self._check_member(instruction)
        self._check_inputs(instruction.op, inputs, instruction)
        old = instruction.inputs
        self.connect(instruction, inputs)
        if [i.shape for i in old] != [i.shape for i in inputs]:
            self.reinfer(instruction)
        self.program.tell_touched(instruction)

    def set_modules(self, instruction: Instruction, modules: Sequence[Module]) -> None:
        """Change an instruction's module arguments."""
        self.bind(instruction, modules)
        if (tally := self.program.tally) is not None:
            tally.made(instruction)
        self.program.tell_touched(instruction)

    def set_op(self, instruction: Instruction, op: Operation, shape: Shape | None = None) -> None:
        """Change an instruction's operation; its shape is inferred again unless it is given.

        The shapes of its users stay as they are until ``reinfer``.
        """
        instruction.op = op
        instruction.module._kinds = None
        inputs, called = instruction.inputs, instruction.modules
        instruction.shape = infer(op, inputs, called) if shape is None else shape
        learn_constant(instruction)
        self.program.tell_touched(instruction)

    def set_shape(self, instruction: Instruction, shape: Shape) -> None:
        """Set the shape of an instruction, which the caller knows; the shapes of its users do not change."""
        instruction.shape = shape
        learn_constant(instruction)
        self.program.tell_touched(instruction)

    def set_sources(self, instruction: Instruction, sources: Iterable[str]) -> None:
        """Set the model nodes that an instruction comes from, each once."""
        instruction.sources = tuple(dict.fromkeys(sources))
        self.program.tell_touched(instruction)

    def set_target(self, instruction: Instruction, target_id: int) -> None:
        """Set the target that runs an instruction, as an index into the program's targets."""
        instruction.target_id = target_id
        self.program.tell_touched(instruction)

    def take(
        self, instruction: Instruction, inputs: Sequence[Instruction], shape: Shape | None = None
    ) -> None:
        """Move an instruction from another module to the end of this one, with other inputs.

        It keeps its id, as it still computes the same value, now inside this module. Its users are not
        changed: the caller redirects or moves them. A literal goes to the front.
        Its shape is inferred again if the inputs have others than before, unless ``shape`` is given.
        """
        if (tally := self.program.tally) is not None:
            tally.taken(instruction, hidden=self.bypass, was_hidden=instruction.module.bypass)
        instruction.module._unlink(instruction)
        if instruction.modules:
            del instruction.module._calling[instruction]
            self._calling[instruction] = None
        instruction.module = self
        last = self._last
        before = self._first if instruction.literal is not None else None
        if before is None and last is not None and isinstance(last.op, Return):
            before = last
        self._link(instruction, before)
        if shape is not None:
            instruction.shape = shape
        elif [i.shape for i in instruction.inputs] != [i.shape for i in inputs]:
            instruction.shape = infer(instruction.op, inputs, instruction.modules)
        self.connect(instruction, inputs)
        self.program.tell_touched(instruction)

    def rename(self, name: str) -> None:
        """Rename the module.

        Raises:
            GraphError: The program already has a module of that name.
        """
        self.program.rename_module(self, name)

    def rename_parameter(self, instruction: Instruction, name: str) -> None:
        """Rename a parameter."""
        if name in self._parameters:
            raise GraphError(f"module {self.name!r} already has a parameter {name!r}")
        op = instruction.op
        if not isinstance(op, Param):
            raise GraphError(f"{instruction!r} is not a parameter")
        self._parameters = {
            (name if k == op.parameter else k): v for k, v in self._parameters.items()
        }
        instruction.op = Param(parameter=name, order=op.order)
        self.program.tell_touched(instruction)

    def reverse_parameters(self) -> None:
        """Reverse the order of the parameters; their lines in the text stay where they are."""
        self.order_parameters(list(reversed(self._parameters)))

    def order_parameters(self, names: Sequence[str]) -> None:
        """Number the parameters in the order of ``names``, which lists them all."""
        self._parameters = {name: self._parameters[name] for name in names}
        for i, (name, instruction) in enumerate(self._parameters.items()):
            instruction.op = Param(parameter=name, order=i)

    # Internals

    def restore(self, instructions: Sequence[Instruction]) -> None:
        """Fill this empty module with instructions rebuilt from rows, which have their places."""
        self._chain(instructions)
        parameters = [one for one in instructions if isinstance(one.op, Param)]
        parameters.sort(key=_parameter_order)
        self._parameters = {p.op.parameter: p for p in parameters if isinstance(p.op, Param)}

    def _new(self, op: Operation, shape: Shape) -> Instruction:
        program = self.program
        id = program._next_id
        program._next_id = id + 1
        made = program._instructions[id] = Instruction(id, op, shape, self)
        made.sources = program.current_sources
        return made

    def _after_parameters(self) -> Instruction | None:
        """The instruction behind the last parameter of those at the front, among literals."""
        if self._size == len(self._parameters) - 1:
            return None  # there are only parameters; the last one has no place yet
        behind = self._first
        for instruction in self:
            if isinstance(instruction.op, Param):
                behind = instruction._next
            elif instruction.literal is None:
                break
        return behind

    def _next_parameter(self) -> int:
        last = next(reversed(self._parameters.values()), None)  # they are kept in their order
        return last.op.order + 1 if last is not None and isinstance(last.op, Param) else 0

    def _check_member(self, instruction: Instruction) -> None:
        if instruction.module is not self or self.program.find(instruction.id) is not instruction:
            raise GraphError(f"{instruction!r} is not in module {self.name!r}")

    def _check_inputs(
        self, op: Operation, inputs: Sequence[Instruction], before: Instruction | None
    ) -> None:
        for given in inputs:
            if given.module is self:
                if before is not None and given.order >= before.order:
                    raise GraphError(f"{op.name}: input {given!r} comes after the insertion point")
            elif given.module.program is not self.program:
                raise GraphError(f"{op.name}: input {given!r} belongs to another program")

    def reinfer(self, instruction: Instruction) -> None:
        """Infer the shape of an instruction again, and the shapes that depend on it."""
        stack = [instruction]
        while stack:
            current = stack.pop()
            if current.literal is not None or isinstance(current.op, Param):
                continue
            shape = infer(current.op, current.inputs, current.modules)
            if shape != current.shape:
                current.shape = shape
                self.program.tell_touched(current)
                stack.extend(current._users)

    def __repr__(self) -> str:
        """Name and size."""
        return f"<Module {self.name!r}, {len(self)} instructions>"


def _released(module: Module) -> list[Instruction]:
    """Remove an uncalled module, and the modules that only it called; returns the values they captured."""
    program = module.program
    if module.bypass or module._callers:
        return []
    values = captured(module)
    for instruction in reversed(module):
        called = instruction.modules
        module.drop(instruction)
        for inner in dict.fromkeys(called):  # it may use what stands before the instruction
            _released(inner)
    program.remove_module(module)
    return values


def _parameter_order(instruction: Instruction) -> int:
    return instruction.op.order if isinstance(instruction.op, Param) else 0
