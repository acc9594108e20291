"""Modules and instructions, as handles that stay valid when their program is compiled or edited."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from workbench.compat.migraphx.arguments import argument, as_argument, core_argument, of_value
from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.operations import macro, op, operation_name
from workbench.compat.migraphx.shapes import from_core, shape
from workbench.compat.migraphx.showing import text_bundle
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.debug_symbols import add_debug_symbols, inherit_debug_symbols
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.constants import evaluate_constant
from workbench.compiler.text.printing import instruction_text

if TYPE_CHECKING:
    from workbench.compat.migraphx.programs import program

op_: TypeAlias = op
shape_: TypeAlias = shape
macro_: TypeAlias = macro


class instruction_ref:
    """An instruction of a program: a handle that is resolved at each use."""

    __slots__ = ("_id", "_owner")

    def __init__(self, owner: program, id: int) -> None:
        self._owner = owner
        self._id = id

    @property
    def core(self) -> Instruction:
        """The core's instruction.

        Raises:
            Error: It is no longer in the program.
        """
        found = self._owner.find(self._id)
        if found is None:
            raise Error(f"instruction #{self._id} is gone: a pass or an edit removed it")
        return found

    @property
    def owner(self) -> program:
        """The program that it belongs to."""
        return self._owner

    @bound
    def shape(self) -> shape_:
        """The shape of its value; a return of nothing has the default one."""
        core = self.core
        if isinstance(core.op, Return) and not core.inputs:
            return from_core(Shape())
        return from_core(core.shape)

    @bound
    def op(self) -> op_:
        """The operation."""
        return op_.of(self.core.op)

    @bound
    def name(self) -> str:
        """The operation's name, such as ``add`` or ``@param``."""
        return operation_name(self.core.op)

    @bound
    def inputs(self) -> list[instruction_ref]:
        """The instructions whose values it takes."""
        return [instruction_ref(self._owner, i.id) for i in self.core.inputs]

    @bound
    def outputs(self) -> list[instruction_ref]:
        """The instructions that take its value."""
        return [instruction_ref(self._owner, i.id) for i in self.core.users]

    @bound
    def module_inputs(self) -> list[module]:
        """The modules that it calls."""
        return [module(self._owner, m.name) for m in self.core.modules]

    @bound
    def get_literal(self) -> argument:
        """The data of a literal.

        Raises:
            Error: It is not a literal.
        """
        literal = self.core.literal
        if literal is None:
            raise Error(f"get_literal() of {self.core!r}: the instruction is not a literal")
        return of_value(literal.shape, literal.numpy())

    @bound
    def can_eval(self) -> bool:
        """Whether its value depends on literals only."""
        return self.core.is_constant

    @bound
    def eval(self) -> argument:
        """Its value, if that depends on literals only.

        Raises:
            Error: The value depends on a parameter, or its computation failed.
        """
        core = self.core
        if not core.is_constant:
            raise Error(f"eval() of {core!r}: its value depends on more than literals")
        return of_value(core.shape, evaluate_constant(core))

    @bound
    def get_debug_symbols(self) -> set[str]:
        """The names of the source nodes that it comes from."""
        return set(self.core.symbols)

    @bound
    def _equals(self, other: instruction_ref) -> bool:
        return self._owner is other._owner and self._id == other._id

    def __eq__(self, other: object) -> bool:
        """The same instruction of the same program."""
        return self._equals(cast("instruction_ref", other))

    def __ne__(self, other: object) -> bool:
        """Another instruction."""
        return not self._equals(cast("instruction_ref", other))

    def __hash__(self) -> int:
        """By the program and the instruction."""
        return hash((id(self._owner), self._id))

    def __repr__(self) -> str:
        """The line that programs print."""
        core = self._owner.find(self._id)
        if core is None:
            return f"<instruction_ref #{self._id}, which is gone>"
        return instruction_text(core, module_names(core.module))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return text_bundle("instruction", repr(self))


class module:
    """A list of instructions of a program: a handle that is resolved at each use."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: program, name: str) -> None:
        self._owner = owner
        self._name = name

    @property
    def core(self) -> Module:
        """The core's module.

        Raises:
            Error: It is no longer in the program.
        """
        found = self._owner.core.modules.get(self._name)
        if found is None:
            raise Error(f"module {self._name!r} is gone: a pass or an edit removed or renamed it")
        return found

    @property
    def owner(self) -> program:
        """The program that it belongs to."""
        return self._owner

    @bound
    def name(self) -> str:
        """The name."""
        return self._name

    @bound
    def set_bypass(self, flag: bool = True) -> None:
        """Set whether passes skip the module, as they skip the bodies of fused operations."""
        self.core.bypass = flag

    @bound
    def bypass(self) -> bool:
        """Whether passes skip the module."""
        return self.core.bypass

    @bound
    def print(self) -> None:
        """Print the instructions."""
        sys.stdout.write(f"{self!r}\n")

    # Making instructions

    @bound
    def add_instruction(
        self,
        op: op_,
        args: list[instruction_ref],
        mod_args: list[module] = [],
        debug_symbols: list[str] = [],
    ) -> instruction_ref:
        """Append an instruction."""
        core = self.core
        before = core.last if core.has_return else None
        return self._insert(before, op, args, mod_args, debug_symbols)

    @bound
    def insert_instruction(
        self,
        position: instruction_ref,
        op: op_,
        inputs: list[instruction_ref],
        modules: list[module] = [],
        debug_symbols: list[str] = [],
    ) -> instruction_ref:
        """Insert an instruction before another one."""
        return self._insert(self._member(position), op, inputs, modules, debug_symbols)

    def _insert(
        self,
        before: Instruction | None,
        op: op_,
        args: list[instruction_ref],
        mod_args: list[module],
        symbols: list[str],
    ) -> instruction_ref:
        inputs, called = self._values(args), [self._called(m) for m in mod_args]
        made = self.core.insert(before, op.core, *inputs, modules=called)
        _bypass_bodies(made)
        return self._named(made, symbols)

    @bound
    def add_literal(self, data: Any, debug_symbols: list[str] = []) -> instruction_ref:
        """Add a literal with a copy of a buffer's data, at the front."""
        given = as_argument(data, "add_literal(): data")
        return self._named(self.core.add_literal(core_argument(given, copy=True)), debug_symbols)

    @bound
    def add_parameter(
        self,
        name: str,
        shape: shape_,
        debug_symbols: list[str] = [],
    ) -> instruction_ref:
        """Add a parameter at the front."""
        return self._named(self.core.add_parameter(name, shape.core), debug_symbols)

    @bound
    def add_outline(self, shape: shape_) -> instruction_ref:
        """Append a placeholder of which only the shape is known."""
        from workbench.compiler.ir.builtin import BuiltinOutline  # noqa: PLC0415

        return self._named(self.core.add(BuiltinOutline(shape.core)), [])

    @bound
    def add_return(
        self,
        args: list[instruction_ref],
        debug_symbols: list[str] = [],
    ) -> instruction_ref:
        """End the module with its results."""
        return self._named(self.core.add_return(*self._values(args)), debug_symbols)

    @bound
    def replace_return(
        self,
        args: list[instruction_ref],
        debug_symbols: list[str] = [],
    ) -> instruction_ref:
        """Replace the results of the module."""
        core = self.core
        last, inputs = core.last, self._values(args)
        if last is None or not isinstance(last.op, Return):
            return self._named(core.add_return(*inputs), debug_symbols)
        core.set_inputs(last, inputs)
        return self._named(last, debug_symbols)

    @bound
    def add_macro(
        self,
        macro: macro_,
        args: list[instruction_ref],
        mod_args: list[module] = [],
        debug_symbols: list[str] = [],
    ) -> list[instruction_ref]:
        """Append the instructions that a macro stands for; returns its results."""
        core = self.core
        before = core.last if core.has_return else None
        return self._expand(before, macro, args, mod_args, debug_symbols)

    @bound
    def insert_macro(
        self,
        ins: instruction_ref,
        macro: macro_,
        args: list[instruction_ref],
        mod_args: list[module] = [],
        debug_symbols: list[str] = [],
    ) -> list[instruction_ref]:
        """Insert the instructions that a macro stands for before another one; returns its results."""
        return self._expand(self._member(ins), macro, args, mod_args, debug_symbols)

    def _expand(
        self,
        before: Instruction | None,
        macro: macro_,
        args: list[instruction_ref],
        mod_args: list[module],
        symbols: list[str],
    ) -> list[instruction_ref]:
        from workbench.compiler.macros import expand  # noqa: PLC0415

        core = self.core
        inputs, called = self._values(args), [self._called(m) for m in mod_args]
        known = set(core)
        made = expand(core, before, macro.name(), inputs, macro.options(), called)
        for one in core:
            if symbols and one not in known:
                add_debug_symbols(one, symbols)
        return [instruction_ref(self._owner, i.id) for i in made]

    # Editing

    @bound
    def remove_instruction(self, ins: instruction_ref) -> instruction_ref | None:
        """Remove an instruction without users; returns the one after it."""
        member = self._member(ins)
        following = member.following
        self.core.remove(member)
        return None if following is None else instruction_ref(self._owner, following.id)

    @bound
    def replace_instruction(self, ins: instruction_ref, rep: instruction_ref) -> instruction_ref:
        """Replace an instruction by another: its users take the other's value.

        The replaced instruction stays, without users, until dead code is eliminated.
        """
        core, old, new = self.core, self._member(ins), self._values([rep])[0]
        return instruction_ref(self._owner, replaced(core, old, new).id)

    @bound
    def move_instruction(self, src: instruction_ref, dst: instruction_ref) -> instruction_ref:
        """Move an instruction before another one."""
        self.core.move(self._member(src), self._member(dst))
        return src

    @bound
    def add_debug_symbols(self, ins: instruction_ref, symbols: list[str]) -> None:
        """Add names of source nodes to an instruction."""
        add_debug_symbols(self._member(ins), symbols)

    # Internals

    def _named(self, made: Instruction, symbols: list[str]) -> instruction_ref:
        if symbols:
            add_debug_symbols(made, symbols)
        return instruction_ref(self._owner, made.id)

    def _values(self, args: list[instruction_ref]) -> list[Instruction]:
        for i, one in enumerate(args):
            if one.owner is not self._owner:
                raise Error(f"input {i}, {one!r}, belongs to another program")
        return [one.core for one in args]

    def _called(self, one: module) -> Module:
        if one.owner is not self._owner:
            raise Error(f"module {one.name()!r} belongs to another program")
        return one.core

    def _member(self, ref: instruction_ref) -> Instruction:
        found = self._values([ref])[0]
        if found.module is not self.core:
            raise Error(f"{ref!r} is in module {found.module.name!r}, not in {self._name!r}")
        return found

    def __iter__(self) -> Iterator[instruction_ref]:
        """The instructions in order."""
        return iter([instruction_ref(self._owner, i.id) for i in self.core])

    def __len__(self) -> int:
        """The number of instructions."""
        return len(self.core)

    def __bool__(self) -> bool:
        """True, even without instructions."""
        return True

    def __repr__(self) -> str:
        """The text of the instructions, one per line."""
        return module_text(self.core)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        if self._name == "main":
            return self._owner._repr_mimebundle_(**options)  # pyright: ignore[reportPrivateUsage]
        return text_bundle(f"module {self._name}", repr(self))

    def __eq__(self, other: object) -> bool:
        """The same module of the same program."""
        return (
            isinstance(other, module) and self._owner is other._owner and self._name == other._name
        )

    def __hash__(self) -> int:
        """By the program and the name."""
        return hash((id(self._owner), self._name))


def module_names(core: Module) -> dict[int, str]:
    """The names in a module that is printed alone; values of other modules are ``?``."""
    found = {i.id: f"@{k}" if i.parameter is None else i.parameter for k, i in enumerate(core)}
    outer = {x.id: "?" for i in core for x in i.inputs if x.module is not core}
    return outer | found


def module_text(core: Module) -> str:
    """The text of a module that is printed alone."""
    named = module_names(core)
    return "".join(f"{instruction_text(i, named)}\n" for i in core)


def replaced(core: Module, old: Instruction, new: Instruction) -> Instruction:
    """Give an instruction's users another value; the instruction stays, without users.

    Raises:
        GraphError: A user comes before the new value.
    """
    if old is new:
        return new
    inherit_debug_symbols(old, new)
    for user in old.users:
        if user is not new:
            inputs = [new if i is old else i for i in user.inputs]
            user.module.set_inputs(user, inputs)
    if core.last is old:
        stand_in = core.insert(None, "identity", new)
        core.remove(old)
        return stand_in
    return new


def _bypass_bodies(made: Instruction) -> None:
    from workbench.compiler.text.parsing import BYPASSED  # noqa: PLC0415

    if made.name in BYPASSED:
        for called in made.modules:
            called.bypass = True
