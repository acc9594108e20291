"""Instructions, and the model nodes that they come from."""

# A module and its instructions are one data structure.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Param
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node of the model that a program was made from: an ONNX node or a line of a user's code."""

    name: str
    op_type: str = ""
    scope: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: str = ""


class Instruction:
    """An operation applied to inputs. Its ``id`` never changes, not even when it moves to another module."""

    # fmt: off
    __slots__ = ("_next", "_previous", "_users", "constant", "id", "inputs", "literal", "module",
                 "modules", "op", "order", "shape", "sources", "symbols", "target_id")
    # fmt: on

    def __init__(self, id: int, op: Operation, shape: Shape, module: Module) -> None:
        """An instruction that is in no module yet; only ``Module`` makes these."""
        self.id = id
        self.op = op
        self.shape = shape
        self.module = module
        self.inputs: tuple[Instruction, ...] = ()
        self.modules: tuple[Module, ...] = ()
        self.literal: Argument | None = None
        self.sources: tuple[str, ...] = ()
        self.symbols: tuple[str, ...] = ()
        self.target_id = 0
        self.order = 0
        self.constant = False
        self._users: dict[Instruction, None] = {}
        self._previous: Instruction | None = None
        self._next: Instruction | None = None

    @property
    def name(self) -> str:
        """The operation's name: ``add``, ``@param``, ``pointwise``."""
        return self.op.name

    @property
    def users(self) -> list[Instruction]:
        """The distinct instructions that use this one as an input, in the order in which each took it."""
        return list(self._users)

    @property
    def reach(self) -> list[Instruction]:
        """This instruction, each of its users, and behind each the users of that one."""
        found: list[Instruction] = [self]
        for user in self._users:
            found.append(user)
            found.extend(user._users)
        return found

    @property
    def is_used(self) -> bool:
        """Whether any instruction uses this one as an input."""
        return bool(self._users)

    @property
    def following(self) -> Instruction | None:
        """The instruction after this one in its module."""
        return self._next

    @property
    def only_user(self) -> Instruction | None:
        """The single user, or None when there is none or more than one."""
        return next(iter(self._users)) if len(self._users) == 1 else None

    @property
    def has_one_use(self) -> bool:
        """Whether one instruction takes this one, and takes it once: ``mul(x, x)`` uses x twice."""
        user = self.only_user
        return user is not None and user.inputs.count(self) == 1

    @property
    def parameter(self) -> str | None:
        """The parameter's name, if this is a parameter."""
        return self.op.parameter if isinstance(self.op, Param) else None

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before a run: a literal, or computed from constants only."""
        return self.constant

    def __repr__(self) -> str:
        """The text form, with the permanent id instead of the printed number."""
        inputs = ", ".join(f"#{i.id}" for i in self.inputs)
        return f"#{self.id} {self.op}({inputs}) -> {self.shape}"


def is_constant(instruction: Instruction) -> bool:
    """Whether an instruction can be evaluated before a run."""
    return instruction.constant


def sharing_inputs(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Those whose inputs all have other users, too, as it is when they are asked for."""
    for one in instructions:
        for given in one.inputs:
            if len(given._users) < 2:
                break
        else:
            yield one


def detached(
    instruction: Instruction, op: Operation, inputs: tuple[Instruction, ...]
) -> Instruction:
    """A copy of this instruction outside any module, with another operation; its inputs do not list it."""
    made = copy(instruction)
    made.op, made.inputs = op, inputs
    return made


def learn_constant(instruction: Instruction) -> None:
    """Recompute whether an instruction is constant, and then its users."""
    if is_known(instruction) == instruction.constant:
        return
    stack = [instruction]
    while stack:
        current = stack.pop()
        known = is_known(current)
        if known != current.constant:
            current.constant = known
            stack.extend(current._users)


def is_known(instruction: Instruction) -> bool:
    """Whether an instruction is constant, as its inputs are now."""
    if instruction.literal is not None:
        return True
    for given in instruction.inputs:  # a loop: this runs at every change of inputs
        if not given.constant:
            return False
    op, shape = instruction.op, instruction.shape
    return (
        bool(instruction.inputs)
        and op.context_free
        and not op.takes_modules
        and not instruction.modules
        and (shape.dims is None or not shape.is_symbolic)  # symbols have values only during a run
    )


def inherit_sources(instruction: Instruction, sources: tuple[str, ...]) -> None:
    """Give ``sources`` to an instruction, and to its inputs that have none."""
    stack = [instruction] if sources else []
    while stack:
        current = stack.pop()
        if not current.sources and current.parameter is None and current.literal is None:
            current.sources = sources
            current.module.program.tell_touched(current)
            stack.extend(current.inputs)


def depth_first(root: Instruction, module: Module, done: set[Instruction]) -> list[Instruction]:
    """The instructions of a module that ``root`` needs, then ``root``; those in ``done`` are left out."""
    found: list[Instruction] = []
    stack = [root]
    while stack:
        current = stack[-1]
        if current in done:
            stack.pop()
            continue
        needed = [*current.inputs, *[c for m in current.modules for c in captured(m)]]
        waiting = [i for i in needed if i.module is module and i not in done]
        if waiting:
            stack += reversed(waiting)
        else:
            done.add(stack.pop())
            found.append(current)
    return found


def captured(module: Module) -> list[Instruction]:
    """Values of outer modules that a module and the modules that it calls use, each once."""
    found: dict[Instruction, None] = {}
    inner: set[Module] = set()
    stack = [module]
    while stack:
        one = stack.pop()
        if one not in inner:
            inner.add(one)
            for instruction in one:
                found.update(dict.fromkeys(instruction.inputs))
                stack += instruction.modules
    return [i for i in found if i.module not in inner]
