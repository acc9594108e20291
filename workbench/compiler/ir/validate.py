"""Checks of the invariants that every pass relies on; the error names the first violation."""

from __future__ import annotations

from workbench.compiler.errors import GraphError, WorkbenchError
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.module import Instruction, Module, infer
from workbench.compiler.ir.program import Program


def validate(program: Program) -> None:
    """Check order, inputs, users, shapes, parameters, modules and ids of a whole program.

    Raises:
        GraphError: An invariant is violated; the message names the first violation and where it is.
    """
    _check_modules(program)
    _check_calls(program)
    placed = _check_order(program)
    visible = _visible(program)
    for module in program.modules.values():
        _check_parameters(module)
        for instruction in module:
            _check_inputs(instruction, visible[module], placed)
            _check_users(instruction, placed)
            _check_value(instruction)


def _check_modules(program: Program) -> None:
    if program.modules.get("main") is not program.main:
        raise GraphError("the program's main module is not listed as 'main'")
    for name, module in program.modules.items():
        if module.name != name:
            raise GraphError(f"module {module.name!r} is listed under the name {name!r}")
        if module.program is not program:
            raise GraphError(f"module {name!r} belongs to another program")
    reached = set(program.reachable_modules())
    for module in program.modules.values():
        if module not in reached:
            raise GraphError(f"module {module.name!r} cannot be reached from main")


def _check_calls(program: Program) -> None:
    """Check that called modules are listed, and that none calls itself, directly or indirectly."""
    calls = {m: _called(m, program) for m in program.modules.values()}
    done: set[Module] = set()
    for start in calls:
        _follow(start, calls, (), done)


def _called(module: Module, program: Program) -> list[Module]:
    found = dict.fromkeys(m for i in module for m in i.modules)
    for one in found:
        if program.modules.get(one.name) is not one:
            raise GraphError(
                f"module {module.name!r} calls {one.name!r}, which the program does not list"
            )
    return list(found)


def _follow(
    module: Module, calls: dict[Module, list[Module]], path: tuple[Module, ...], done: set[Module]
) -> None:
    if module in path:
        chain = " → ".join(repr(m.name) for m in (*path[path.index(module) :], module))
        raise GraphError(f"modules call each other in a cycle: {chain}")
    if module not in done:
        for one in calls[module]:
            _follow(one, calls, (*path, module), done)
        done.add(module)


def _check_order(program: Program) -> dict[Instruction, int]:
    """The position of each instruction; checks that ids are unique and known, and that orders ascend."""
    placed: dict[Instruction, int] = {}
    ids: dict[int, Instruction] = {}
    for module in program.modules.values():
        before: Instruction | None = None
        for position, instruction in enumerate(module):
            other = ids.setdefault(instruction.id, instruction)
            if other is not instruction:
                raise GraphError(f"{instruction!r} and {other!r} have the same id")
            if instruction in placed or program.find(instruction.id) is not instruction:
                raise GraphError(f"{instruction!r}: the program does not list its id")
            _check_place(instruction, module, before)
            placed[instruction] = position
            before = instruction
        if module.last is not before or len(module) != sum(1 for _ in module):
            raise GraphError(f"module {module.name!r}: its list of instructions is broken")
    _check_registered(program, placed)
    return placed


def _check_place(instruction: Instruction, module: Module, before: Instruction | None) -> None:
    if instruction.module is not module:
        raise GraphError(f"{instruction!r} is listed in {module.name!r}, not in its own module")
    if before is not None and before.order >= instruction.order:
        raise GraphError(f"{instruction!r}: its order is not above that of {before!r} before it")
    if before is not None and isinstance(before.op, Return):
        raise GraphError(f"module {module.name!r}: @return is not the last instruction")


def _check_registered(program: Program, placed: dict[Instruction, int]) -> None:
    for instruction in program.instructions:
        if instruction not in placed:
            raise GraphError(f"{instruction!r} has an id but is in no module")


def _visible(program: Program) -> dict[Module, set[Module]]:
    """For each module, the modules whose values it may use: itself and its callers."""
    visible = {m: {m} for m in program.modules.values()}
    changed = True
    while changed:
        changed = False
        for module in program.modules.values():
            for one in {m for i in module for m in i.modules}:
                if not visible[module] <= visible[one]:
                    visible[one] |= visible[module]
                    changed = True
    return visible


def _check_inputs(
    instruction: Instruction, visible: set[Module], placed: dict[Instruction, int]
) -> None:
    for given in instruction.inputs:
        if given not in placed:
            raise GraphError(f"{instruction!r}: its input {given!r} is not in the program")
        if given.module not in visible:
            raise GraphError(
                f"{instruction!r}: its input {given!r} is in module {given.module.name!r}, "
                f"whose values {instruction.module.name!r} cannot use"
            )
        if given.module is instruction.module and placed[given] >= placed[instruction]:
            raise GraphError(f"{instruction!r}: its input {given!r} comes after it")
        if instruction not in given.users:
            raise GraphError(f"{given!r} does not list its user {instruction!r}")


def _check_users(instruction: Instruction, placed: dict[Instruction, int]) -> None:
    for user in instruction.users:
        if user not in placed:
            raise GraphError(f"{instruction!r}: its user {user!r} is not in the program")
        if instruction not in user.inputs:
            raise GraphError(f"{instruction!r} lists {user!r} as a user, which is not one")


def _check_parameters(module: Module) -> None:
    found = {i.parameter: i for i in module if isinstance(i.op, Param)}
    if found != module.parameters:
        listed, has = sorted(module.parameters), sorted(map(str, found))
        raise GraphError(f"module {module.name!r}: its table of parameters {listed} is not {has}")


def _check_value(instruction: Instruction) -> None:
    """Check that a literal has data of its shape, and that other shapes are those that are inferred."""
    if isinstance(instruction.op, Literal) != (instruction.literal is not None):
        raise GraphError(
            f"{instruction!r}: expected data for a literal, and for no other instruction"
        )
    if instruction.literal is not None:
        expected = instruction.literal.shape
    elif isinstance(instruction.op, Param):
        return
    else:
        try:
            expected = infer(instruction.op, instruction.inputs, instruction.modules)
        except WorkbenchError as error:
            raise GraphError(f"{instruction!r}: {error}") from error
    if instruction.shape != expected:
        raise GraphError(f"{instruction!r}: the operation gives {expected}")
    _check_constant(instruction)


def _check_constant(instruction: Instruction) -> None:
    op = instruction.op
    known = instruction.literal is not None or (
        bool(instruction.inputs)
        and op.context_free
        and not op.takes_modules
        and not instruction.modules
        and not instruction.shape.is_symbolic
        and all(i.is_constant for i in instruction.inputs)
    )
    if known != instruction.is_constant:
        raise GraphError(
            f"{instruction!r}: is_constant is {instruction.is_constant}; expected {known}"
        )
