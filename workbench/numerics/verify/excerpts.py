"""Parts of programs: without the last instructions, or a window of a few, as in MIGraphX's driver."""

from __future__ import annotations

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import Rows, build, rows_of
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.passes.base import passes_of, run_pass
from workbench.compiler.run.constants import evaluate_constant, is_large


def trim(program: Program, count: int) -> Program:
    """A copy of a program without its last ``count`` instructions; the last that is left is its result.

    The instructions of the main module count, including ``@return``. Names of outputs are dropped, because
    the output is another one.

    Raises:
        GraphError: There are at most ``count`` instructions, or ``count`` is negative.
    """
    size = len(program.main)
    if not 0 <= count < size:
        raise GraphError(
            f"cannot trim {count} of {size} instructions; expected 0 to {max(size - 1, 0)}"
        )
    rows = rows_of(program)
    gone = [i.id for _, i in zip(range(count), reversed(program.main), strict=False)]
    before = reached(rows)
    for id in gone:
        del rows.instructions[id]
    lost = before - reached(rows)
    for key in lost:
        del rows.modules[key]
    rows.instructions = {id: r for id, r in rows.instructions.items() if r.module not in lost}
    if gone:
        rows.output_names = ()
    return build(rows)


def reached(rows: Rows) -> set[int]:
    """The keys of the modules reachable from the main module, itself included."""
    calls: dict[int, set[int]] = {}
    for row in rows.instructions.values():
        calls.setdefault(row.module, set()).update(row.modules)
    found: set[int] = set()
    stack = [k for k, m in rows.modules.items() if m.name == "main"]
    while stack:
        key = stack.pop()
        if key not in found:
            found.add(key)
            stack += calls.get(key, ())
    return found


def trim_window(program: Program, count: int, size: int) -> Program:
    """A copy of a program reduced to a window: the ``size`` instructions before the last ``count``.

    A value from before the window becomes a parameter, numbered after the existing ones (``x0``, ``x1``…),
    or a literal if it is constant. Views, reshapes and contiguous copies that the window reads through are
    included in it, and their source becomes the parameter.

    Args:
        program: The program.
        count: The number of instructions to drop from the end.
        size: The number of the remaining instructions to keep; 0 keeps all, as ``trim`` does.

    Raises:
        GraphError: There are too few instructions, or a number is negative.
    """
    made = trim(program, count)
    left = len(made.main)
    if not 0 <= size <= left:
        raise GraphError(f"cannot keep {size} of {left} instructions; expected 0 to {left}")
    if size:
        _keep_last(made.main, size)
        run_pass(passes_of("dead_code_elimination")[0], made)
        for parameter in list(made.main.parameters.values()):
            if not parameter.is_used and parameter is not made.main.last:
                made.main.remove(parameter)
    return made


def _keep_last(module: Module, size: int) -> None:
    """Replace the values that the last ``size`` instructions read from before them."""
    window = [i for _, i in zip(range(size), reversed(module), strict=False)]
    inside = set(window)
    stand_ins: dict[Instruction, Instruction] = {}
    for instruction in reversed(window):
        needed = [*instruction.inputs, *[c for m in instruction.modules for c in captured(m)]]
        for given in needed:
            if given not in inside and given.module is module:
                outer = _seen_through(given, inside)
                if outer not in inside and outer not in stand_ins:
                    stand_ins[outer] = _stand_in(module, outer)
    for outer, stand_in in stand_ins.items():
        if stand_in is not outer:
            module.replace(outer, stand_in)


def _seen_through(instruction: Instruction, inside: set[Instruction]) -> Instruction:
    """The value behind views; the views are added to the window."""
    current = instruction
    while current.inputs and current not in inside:
        alias = current.op.alias
        if alias is None and not isinstance(current.op, Reshape | Contiguous):
            break
        shown = current.inputs[0 if alias is None else alias]
        if not shown.shape.is_tensor:  # a tuple cannot be a parameter of a run; its elements can
            break
        inside.add(current)
        current = shown
    return current


def _stand_in(module: Module, outer: Instruction) -> Instruction:
    if not outer.inputs:
        return outer
    if outer.is_constant and outer.shape.is_tensor and not is_large(outer):
        return module.add_literal(evaluate_constant(outer))
    names = module.parameters
    number = len(names)
    while f"x{number}" in names:
        number += 1
    return module.add_parameter(f"x{number}", outer.shape)
