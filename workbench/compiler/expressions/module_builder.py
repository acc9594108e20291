"""Instructions appended to a module as Python expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from workbench.compiler.errors import OperationError
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import find
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.macros import MACROS, expand
from workbench.compiler.macros.emit import Emit, common_type
from workbench.compiler.ops.elementwise import Pointwise
from workbench.compiler.rewrite.bodies import unused_name

Operand: TypeAlias = (
    "Value | int | float | bool | np.ndarray[Any, Any] | np.generic | Sequence[Any]"
)


class ModuleBuilder:
    """Appends to a module: values of its instructions have NumPy's operators.

    New instructions go to the end of the module, before its ``@return`` if there is one.
    """

    def __init__(self, module: Module) -> None:
        """Append to a module.

        Args:
            module: The module.
        """
        self.module = module
        self._numbers: dict[tuple[DType, str], Instruction] = {}
        self._functions: dict[tuple[Callable[..., Any], tuple[Shape, ...]], Module] = {}

    def of(self, instruction: Instruction) -> Value:
        """The value of an instruction that the module can read."""
        return Value(self, instruction)

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
        return Value(self, self.module.add_parameter(name, shape_of(lens, dtype)))

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
        return Value(self, self.module.add_literal(Argument.of(array)))

    def value(self, given: Operand, like: str | DType = "float") -> Value:
        """An operand as a value; a number has the type of the value that it goes with.

        Args:
            given: A value of this builder, an array or a number.
            like: The type of the other operand.

        Raises:
            OperationError: The value belongs to another builder.
        """
        return Value(self, self._operand(given, [DType.of(like)]))

    def call(self, function: Callable[..., Any], *values: Value) -> Any:
        """Call a Python function as a module: it is traced once for each set of shapes, and called each time.

        Args:
            function: It takes values, and returns a value or several; it may use no others.
            *values: Its arguments.

        Returns:
            The value that it returns, or a tuple of them.

        Raises:
            OperationError: It returns something else, or uses a value that is not an argument.
        """
        made = self._traced(function, [v.instruction.shape for v in values])
        found = self._elements("call", [v.instruction for v in values], made)
        return found[0] if len(found) == 1 else tuple(found)

    def repeat(self, count: int, function: Callable[..., Any], *values: Value) -> Any:
        """Call a Python function several times; it returns the arguments of the next time.

        Args:
            count: How often.
            function: It takes values, and returns as many of the same shapes.
            *values: Its first arguments.

        Returns:
            The value that it returns the last time, or a tuple of them.

        Raises:
            OperationError: The count is negative, or what it returns cannot be its arguments.
        """
        if count < 0:
            raise OperationError(f"repeat: {count} times; expected 0 or more")
        shapes = [v.instruction.shape.as_standard() for v in values]
        called = self._traced(function, shapes)
        results = [o.shape.as_standard() for o in called.outputs]
        if results != shapes:
            given, found = (", ".join(map(str, x)) for x in (shapes, results))
            raise OperationError(
                f"repeat: the function takes {given} and returns {found}; expected the same"
            )
        body = self._new_module(f"{called.name}:repeated")
        inner = ModuleBuilder(body)
        inner.input("iteration", (), DType.INT64)
        going = inner.input("condition", (), DType.BOOL)
        carried = [inner.input(f"carried{k}", s) for k, s in enumerate(shapes)]
        following = inner._elements("call", [v.instruction for v in carried], called)
        body.add_return(going.instruction, *[v.instruction for v in following])
        limits = [self.constant(count, DType.INT64), self.constant(True, DType.BOOL)]
        given = [v.instruction for v in (*limits, *values)]
        found = self._elements("loop", given, body, max_iterations=max(count, 1))
        return found[0] if len(found) == 1 else tuple(found)

    def _traced(self, function: Callable[..., Any], shapes: Sequence[Shape]) -> Module:
        """The module of a function for arguments of these shapes."""
        key = function, tuple(shapes)
        if key not in self._functions:
            body = self._new_module(getattr(function, "__name__", "function").strip("<>"))
            inner = ModuleBuilder(body)
            arguments = [inner.input(f"x{k}", s.as_standard()) for k, s in enumerate(shapes)]
            found = results_of("call", function(*arguments))
            for value in found:
                if value.builder is not inner:
                    raise OperationError("call: the function returned a value that is not its own")
            body.add_return(*[v.instruction for v in found])
            self._functions[key] = body
        return self._functions[key]

    def _new_module(self, name: str) -> Module:
        program = self.module.program
        return program.create_module(unused_name(program, name))

    def _elements(
        self, name: str, inputs: Sequence[Instruction], module: Module, **attributes: Any
    ) -> list[Value]:
        """Append an operation that runs a module; the elements of its results."""
        made = self.module.add(name, *inputs, modules=[module], **attributes)
        count = len(made.shape.subs or ())
        return [self.of(self.module.add("get_tuple_elem", made, index=k)) for k in range(count)]

    def zeros(self, lens: Sequence[int], dtype: str | DType = "float") -> Value:
        """Zeros, as one literal that is broadcast.

        Args:
            lens: The length of each axis.
            dtype: The element type.
        """
        return self.value(0, dtype).broadcast_to(*lens)

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
        made = self._made(name, operands, attributes)
        values = tuple(Value(self, i) for i in made)
        return values[0] if len(values) == 1 else values

    def _made(
        self, name: str, operands: Sequence[Operand], attributes: dict[str, Any]
    ) -> list[Instruction]:
        inputs = self._operands(operands)
        emit = Emit(self.module, None, name)
        if name == "where" and len(inputs) == 3:
            return [_where(emit, *inputs)]
        if len(inputs) > 1 and name not in MACROS and issubclass(find(name), Pointwise):
            return [emit.common(name, *inputs, **attributes)]
        return expand(self.module, None, name, inputs, attributes)

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
            self._numbers[key] = Emit(self.module, None, "number").scalar(type, value)
        return self._numbers[key]


def _where(emit: Emit, condition: Instruction, x: Instruction, y: Instruction) -> Instruction:
    """A choice: all three are broadcast, and only the last two brought to a common type."""
    type = common_type([x.shape.type, y.shape.type])
    x, y = emit.convert(x, type), emit.convert(y, type)
    return emit.add("where", *emit.broadcast(condition, x, y))


def shape_of(lens: Sequence[int | Dim] | Shape, dtype: str | DType) -> Shape:
    """A shape given as lengths and a type, or as such."""
    if isinstance(lens, Shape):
        return lens
    if any(isinstance(n, Dim) for n in lens):
        dims = [n if isinstance(n, Dim) else Dim(n, n) for n in lens]
        return Shape.dynamic(DType.of(dtype), dims)
    return Shape(dtype, [int(n) for n in lens])  # pyright: ignore[reportArgumentType]


def results_of(name: str, found: Any) -> Sequence[Value]:
    """The results of a function, which must be values.

    Raises:
        OperationError: It is something else.
    """
    outputs = cast("Sequence[Any]", found) if isinstance(found, tuple | list) else (found,)
    for output in outputs:
        if not isinstance(output, Value):
            raise OperationError(
                f"{name}: expected the function to return values; found {type(output).__name__}"
            )
    return outputs
