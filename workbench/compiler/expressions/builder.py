"""The builder: inputs, constants and outputs of a program whose values are Python expressions."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from inspect import currentframe
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import find
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape, broadcast_lens
from workbench.compiler.macros import MACROS, expand
from workbench.compiler.macros.emit import Emit, common_type
from workbench.compiler.ops.elementwise import Pointwise

Operand: TypeAlias = (
    "Value | int | float | bool | np.ndarray[Any, Any] | np.generic | Sequence[Any]"
)
_OWN = str(Path(__file__).parents[1])
_SHOWN = 80


class Builder:
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
        self._module = self._program.main
        self._numbers: dict[tuple[DType, str], Instruction] = {}

    @classmethod
    def of(cls, module: Module) -> Self:
        """A builder that appends to a module that there is, such as the body of a loop.

        Args:
            module: The module; ``program`` ends it and returns its program.
        """
        made = cls()
        made._program, made._module = module.program, module
        return made

    @property
    def module(self) -> Module:
        """The module that it appends to."""
        return self._module

    def input(
        self, name: str, lens: Sequence[int | Dim] | Shape, dtype: str | DType = "float"
    ) -> Value:
        """Add a parameter.

        Args:
            name: Its name.
            lens: The length of each axis; a `Dim` is a range. Or a shape, which has its own type.
            dtype: The element type.

        Raises:
            GraphError: There is a parameter of that name.
            ShapeError: A length is negative.
        """
        return Value(self, self._module.add_parameter(name, _shape(lens, dtype)))

    def constant(self, value: Any, dtype: str | DType | None = None) -> Value:
        """Add an array or a number as a constant; float64 from Python becomes float32.

        Args:
            value: Anything that NumPy takes as an array.
            dtype: The element type; by default the array's.
        """
        array = np.asarray(value)
        if dtype is not None:
            array = array.astype(DType.of(dtype).numpy)
        elif array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic):
            array = array.astype(np.float32)
        return Value(self, self._module.add_literal(Argument.of(array)))

    def value(self, given: Operand, like: str | DType = "float") -> Value:
        """An operand as a value; a number has the type of the value that it goes with.

        Args:
            given: A value of this builder, an array or a number.
            like: The type of the other operand.

        Raises:
            OperationError: The value belongs to another builder.
        """
        return Value(self, self._operand(given, [DType.of(like)]))

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
        self._module.add_return(*[self._operand(o, []) for o in outputs])
        return self._program

    def apply(self, name: str, *operands: Operand, **attributes: Any) -> Value | tuple[Value, ...]:
        """Apply an operation or a macro; pointwise operations broadcast their operands.

        Args:
            name: Its name.
            *operands: Values, arrays or numbers.
            **attributes: Its attributes, or the macro's options.

        Returns:
            The value; several for a macro with several results.

        Raises:
            OperationError: There is no such operation, or no such attribute.
            ShapeError: The operation refuses the operands.
        """
        made = self._made(name, operands, attributes, _caller())
        values = tuple(Value(self, i) for i in made)
        return values[0] if len(values) == 1 else values

    def _made(
        self,
        name: str,
        operands: Sequence[Operand],
        attributes: dict[str, Any],
        caller: SourceNode | None,
    ) -> list[Instruction]:
        program, names = self._program, ()
        if caller is not None:
            program.source_nodes.setdefault(caller.name, caller)
            names = (caller.name,)
        with program.source(*names):
            inputs = self._operands(operands)
            emit = Emit(self._module, None, name)
            if name == "where" and len(inputs) == 3:
                return [_where(emit, *inputs)]
            if len(inputs) > 1 and name not in MACROS and issubclass(find(name), Pointwise):
                return [emit.common(name, *inputs, **attributes)]
            return expand(self._module, None, name, inputs, attributes)

    def _operands(self, given: Sequence[Operand]) -> list[Instruction]:
        types = [g.dtype for g in given if isinstance(g, Value)]
        return [self._operand(g, types) for g in given]

    def _operand(self, given: Operand, types: Sequence[DType]) -> Instruction:
        """An operand as an instruction; numbers are of a type that fits those of the other operands."""
        if isinstance(given, Value):
            if given.builder is not self:
                raise OperationError("the value belongs to another builder")
            return given.instruction
        if isinstance(given, bool | int | float):
            return self._number(given, types)
        return self.constant(given).instruction

    def _number(self, value: float, types: Sequence[DType]) -> Instruction:
        type = common_type(types) if types else DType.FLOAT
        if isinstance(value, float) and not type.is_float:
            type = DType.FLOAT
        elif type is DType.BOOL and not isinstance(value, bool):
            type = DType.INT64
        key = type, repr(value)
        if key not in self._numbers:
            self._numbers[key] = Emit(self._module, None, "number").scalar(type, value)
        return self._numbers[key]


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
    found = function(**values)
    outputs = cast("Sequence[Any]", found) if isinstance(found, tuple | list) else (found,)
    for output in outputs:
        if not isinstance(output, Value):
            raise OperationError(
                f"trace: expected the function to return values; found {type(output).__name__}"
            )
    return builder.program(*outputs)


def _like(given: Any) -> Shape:
    if isinstance(given, np.ndarray):
        return Argument.of(given).shape
    return _shape(given, "float")


def _shape(lens: Sequence[int | Dim] | Shape, dtype: str | DType) -> Shape:
    if isinstance(lens, Shape):
        return lens
    if any(isinstance(n, Dim) for n in lens):
        dims = [n if isinstance(n, Dim) else Dim(n, n) for n in lens]
        return Shape.dynamic(DType.of(dtype), dims)
    return Shape(dtype, [int(n) for n in lens])  # pyright: ignore[reportArgumentType]


def _where(emit: Emit, condition: Instruction, x: Instruction, y: Instruction) -> Instruction:
    """A choice: all three are broadcast, and only the last two brought to a common type."""
    type = common_type([x.shape.type, y.shape.type])
    x, y = emit.convert(x, type), emit.convert(y, type)
    lens = broadcast_lens(*(i.shape.lens for i in (condition, x, y)))
    return emit.add("where", *[emit.fit(i, lens) for i in (condition, x, y)])


def _caller() -> SourceNode | None:
    """The line of Python outside the workbench that led here."""
    frame = currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).strip()
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return SourceNode(f"line {line}: {shown}" if shown else f"line {line}", "python")
