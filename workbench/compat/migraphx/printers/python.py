"""A program as Python code over MIGraphX's API, which makes the same program when it is run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from workbench.compat.migraphx.printers.code import Printer
from workbench.compat.migraphx.printers.identifiers import in_order, quoted
from workbench.compiler.files.mxr.json_form import write_json
from workbench.compiler.files.mxr.values import operation_value, shape_value
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, float_text, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape, row_major
from workbench.compiler.ir.shape_rules import STRICT

_MOST_INT = (1 << 31) - 1
MAX_ELEMENTS = 1024
"""Number of elements from which a literal is printed as a generated one, as in MIGraphX."""


def to_python(program: Program) -> str:
    """The code that builds the program: ``p = migraphx.program()`` and a line per instruction.

    A literal of 1024 elements or more is written as ``generate_argument``: its shape is kept, its values
    are not. A module is built right before the first instruction that takes it.
    """
    return _Printer(program).code("p = migraphx.program()")


class _Printer(Printer):
    """Prints each module once, and numbers the generated literals."""

    def block(self, module: Module) -> Iterator[str]:
        """The lines that make a module and its instructions, with the modules that it calls."""
        self.done.add(module.name)
        own = self.names.module(module)
        if module is self.program.main:
            yield f"{own} = p.get_main_module()"
        else:
            yield f"{own} = p.create_module({quoted(module.name)})"
        if module.bypass:
            yield f"{own}.set_bypass(True)"
        for instruction in in_order(module):
            yield from self.called(instruction)
            made = self.made(instruction, own)
            yield made if instruction is module.last else self._assigned(instruction, made)

    def _assigned(self, instruction: Instruction, made: str) -> str:
        return f"{self.names.value(instruction.id)} = {made}"

    def made(self, instruction: Instruction, own: str) -> str:
        """The call that makes an instruction in the module of this variable."""
        inputs = ", ".join(self.names.value(i.id) for i in instruction.inputs)
        if instruction.literal is not None:
            return f"{own}.add_literal({self.literal(instruction.literal)})"
        if instruction.parameter is not None:
            name = quoted(instruction.parameter)
            return f"{own}.add_parameter({name}, {shape_code(instruction.shape)})"
        if instruction.name == "@return":
            return f"{own}.add_return([{inputs}])"
        if instruction.name == "@outline":
            return f"{own}.add_outline({shape_code(instruction.shape)})"
        modules = ", ".join(self.names.module(m) for m in instruction.modules)
        given = f"[{inputs}], [{modules}]" if modules else f"[{inputs}]"
        code = f"{own}.add_instruction({operation_code(instruction.op)}, {given})"
        return f"{code} # {shape_code(instruction.shape)}"

    def literal(self, literal: Argument) -> str:
        """The argument of a literal."""
        shape = shape_code(literal.shape)
        if literal.shape.elements >= MAX_ELEMENTS:
            self.seed += 1
            return f"migraphx.generate_argument({shape}, {self.seed - 1})"
        type = literal.shape.type
        shown = ", ".join(_element(v, type) for v in literal.numpy().reshape(-1).tolist())
        return f"migraphx.create_argument({shape}, [{shown}])"


def _element(value: Any, type: DType) -> str:
    """A number: six digits, as MIGraphX prints it, or as many as it takes to read back the same value."""
    if not type.is_float or type is DType.FP4X2:
        return str(int(value))
    value = float(value)
    if not math.isfinite(value):
        return _code(value)
    short, held = float_text(value), type.numpy.type
    if held(float(short)) == held(value):
        return short
    # Nine digits distinguish any two 32-bit floats; for a double repr() is the shortest exact form.
    return repr(value) if type is DType.DOUBLE else f"{value:.9g}"


def operation_code(op: Operation) -> str:
    """``migraphx.op`` with the attributes that are not at their default."""
    defaults, own = operation_value(make(op.name)), op.attributes()
    given = {k: v for k, v in operation_value(op).items() if v != defaults.get(k)}
    keywords = [f", {k}={_attribute(op, own.get(k), v)}" for k, v in given.items()]
    return f"migraphx.op({quoted(op.name)}{''.join(keywords)})"


def _attribute(op: Operation, own: object, plain: Any) -> str:
    """An attribute's value; dimensions are objects of the API, and other values are plain.

    The API takes 32-bit integers: clamping the bounds of a slice to these does not change its meaning.
    """
    if isinstance(own, tuple) and own and all(isinstance(d, Dim) for d in own):  # pyright: ignore[reportUnknownVariableType]
        return f"[{','.join(map(_dim_code, cast('tuple[Dim, ...]', own)))}]"
    if op.name == "slice":
        return _code([max(-_MOST_INT - 1, min(n, _MOST_INT)) for n in plain])
    return _code(plain)


def shape_code(shape: Shape) -> str:
    """``migraphx.shape`` of a type and lens, with strides if they are not row-major; rank 0 is a scalar."""
    shape = STRICT.held(shape)
    type = quoted(shape.type.type_name)
    if shape.subs is not None:
        parts = ", ".join(map(shape_code, shape.subs))
        return f"migraphx.shape(type={type}, sub_shapes=[{parts}])"
    if any(d.sym is not None for d in shape.dims or ()):
        return f"migraphx.shape.from_json({quoted(write_json(shape_value(shape)))})"
    if shape.dims is not None:
        dims = ", ".join(map(_dim_code, shape.dims))
        return f"migraphx.shape(type={type}, dyn_dims=[{dims}])"
    code = f"migraphx.shape(type={type}, lens={list(shape.lens)}"
    strides = "" if shape.strides == row_major(shape.lens) else f", strides={list(shape.strides)}"
    return f"{code}{strides})"


def _dim_code(dim: Dim) -> str:
    optimals = f", {{{', '.join(map(str, dim.optimals))}}}" if dim.optimals else ""
    return f"migraphx.shape.dynamic_dimension({dim.min}, {dim.max}{optimals})"


def _code(value: Any) -> str:
    """A plain value as Python; lists and objects without blanks, like MIGraphX's JSON."""
    match value:
        case bool() | None:
            return str(value)
        case str():
            return quoted(value)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case list():
            return "[" + ",".join(map(_code, cast("list[Any]", value))) + "]"
        case dict():
            pairs = sorted(cast("dict[str, Any]", value).items())
            return "{" + ",".join(f"{quoted(k)}:{_code(v)}" for k, v in pairs) + "}"
        case _:
            return repr(value)
