"""The builder: inputs, constants and outputs of a program whose values are Python expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.expressions.location import location_outside, sourced
from workbench.compiler.expressions.module_builder import (
    ModuleBuilder,
    Operand,
    results_of,
    shape_of,
)
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape

_OWN = str(Path(__file__).parents[1])


class Builder(ModuleBuilder):
    """Writes a program as Python expressions.

    Values have NumPy's operators, broadcasting and indexing; every operation and macro of the workbench is a
    method of a value::

        b = wb.Builder()
        x = b.input("x", (2, 3))
        y = (x @ weights + 1).relu().softmax(axis=-1)
        program = b.program(y)

    Numbers take the type of the value that they are combined with, unless that is integral and the number is
    not. Values of different types are brought to a common one by C++'s rules, as MIGraphX does; integers are
    divided as float32. Each instruction comes from the line of Python that made it.
    """

    def __init__(self, name: str = "") -> None:
        """Begin a program without instructions.

        Args:
            name: The program's name.
        """
        self._program = Program()
        self._program.name = name
        super().__init__(self._program.main)

    def program(self, *outputs: Operand) -> Program:
        """End the program.

        Args:
            *outputs: The values that it returns.

        Raises:
            OperationError: There are none, or one belongs to another builder.
            GraphError: The program has ended before.
        """
        if not outputs:
            raise OperationError("a program returns at least one value: program(y)")
        self._program.main.add_return(*[self._operand(o, []) for o in outputs])
        return self._program

    def _made(
        self, name: str, operands: Sequence[Operand], attributes: dict[str, Any]
    ) -> list[Instruction]:
        line = location_outside(_OWN)
        node = None if line is None else SourceNode(line.label, "python")
        with sourced(self._program, node):
            return super()._made(name, operands, attributes)


def trace(function: Callable[..., Any], **inputs: Sequence[int | Dim] | Shape | Any) -> Program:
    """The program that a Python function computes, called once with values for its arguments.

    Args:
        function: It takes values by keyword, and returns a value or several.
        **inputs: For each argument the lengths of its axes (float32 then), a shape, or an array that it is
            like.

    Raises:
        OperationError: The function returns something else than values.

    Example::

        program = wb.trace(lambda x, w: (x @ w).relu(), x=(2, 3), w=(3, 4))
    """
    name = getattr(function, "__name__", "")
    builder = Builder("" if name == "<lambda>" else name)
    values = {name: builder.input(name, _like(given)) for name, given in inputs.items()}
    return builder.program(*results_of("trace", function(**values)))


def extend(
    program: Program, function: Callable[..., Any], **inputs: Sequence[int | Dim] | Shape | Any
) -> Program:
    """A copy of a program that computes more of its outputs, such as a loss.

    Args:
        program: The program, as parsed or built; it is not changed.
        function: It takes the values of the program's outputs in order, and those of further inputs by
            keyword, and returns the value or the values that the copy returns.
        **inputs: Further inputs, given as for `trace`.

    Raises:
        OperationError: The function returns something else than values.
        GraphError: The program has a parameter of that name.

    Example::

        loss = wb.extend(model, lambda y, target: ((y - target) ** 2.0).mean(), target=(8, 10))
    """
    made = program.clone()
    module, outputs = made.main, made.outputs
    if module.has_return and module.last is not None:
        module.remove(module.last)
    builder = ModuleBuilder(module)
    given = {name: builder.input(name, _like(like)) for name, like in inputs.items()}
    found = results_of("extend", function(*map(builder.of, outputs), **given))
    module.add_return(*[v.instruction for v in found])
    made.output_names = ()
    return made


def _like(given: Any) -> Shape:
    if isinstance(given, np.ndarray):
        return Argument.of(given).shape
    return shape_of(given, "float")
