"""A program as C++ code over MIGraphX's library."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compat.migraphx.printers.code import Printer
from workbench.compat.migraphx.printers.identifiers import in_order, quoted
from workbench.compiler.files.mxr.json_form import write_json
from workbench.compiler.files.mxr.values import operation_value
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import STRICT


def to_cpp(program: Program) -> str:
    """The code that builds the program: ``migraphx::program p;`` and a line per instruction.

    Literals are generated from a seed, as MIGraphX prints them: shapes are kept, values are not.
    A module is built right before the first instruction that takes it.
    """
    return _Printer(program).code("migraphx::program p;")


class _Printer(Printer):
    """Prints each module once, and numbers the literals."""

    main = "mmain"

    def block(self, module: Module) -> Iterator[str]:
        """The lines that make a module and its instructions, with the modules that it calls."""
        self.done.add(module.name)
        own = self.names.module(module)
        main = module is self.program.main
        made = "get_main_module()" if main else f"create_module({quoted(module.name)})"
        yield f"migraphx::module_ref {own} = p.{made};"
        if module.bypass:
            yield f"{own}->set_bypass();"
        for instruction in in_order(module):
            yield from self.called(instruction)
            code = f"{own}->{self.made(instruction)};"
            last = instruction is module.last
            yield code if last else f"auto {self.names.value(instruction.id)} = {code}"

    def made(self, instruction: Instruction) -> str:
        """The call that makes an instruction."""
        inputs = [self.names.value(i.id) for i in instruction.inputs]
        if instruction.literal is not None:
            return f"add_literal({self.literal(instruction)})"
        if instruction.parameter is not None:
            return f"add_parameter({quoted(instruction.parameter)},{shape_code(instruction.shape)})"
        if instruction.name == "@return":
            return f"add_return({{{', '.join(inputs)}}})"
        if instruction.name == "@outline":
            return f"add_outline({shape_code(instruction.shape)})"
        modules = ", ".join(self.names.module(m) for m in instruction.modules)
        given = [f"{{{', '.join(inputs)}}}", f"{{{modules}}}"] if modules else inputs
        return f"add_instruction({', '.join([operation_code(instruction.op), *given])})"

    def literal(self, instruction: Instruction) -> str:
        """A generated literal; made of absolute values if the real one has no negative element."""
        assert instruction.literal is not None
        values = instruction.literal.numpy()
        code = f"migraphx::generate_literal({shape_code(instruction.shape)}, {self.seed})"
        self.seed += 1
        return code if (values < 0).any() else f"migraphx::abs({code})"


def operation_code(op: Operation) -> str:
    """``make_op``, or ``make_json_op`` with all attributes if there are any."""
    values = operation_value(op)
    if not values:
        return f"migraphx::make_op({quoted(op.name)})"
    return f"migraphx::make_json_op({quoted(op.name)}, {quoted(write_json(values))})"


def shape_code(shape: Shape) -> str:
    """``migraphx::shape`` of a type and lens, with strides if it is not standard; rank 0 is a scalar."""
    shape = STRICT.held(shape)
    if shape.subs is not None:
        return f"migraphx::shape{{{{{', '.join(map(shape_code, shape.subs))}}}}}"
    code = f"migraphx::shape{{migraphx::shape::{shape.type.type_name}"
    if shape.dims is not None:
        return f"{code}, {{{', '.join(map(_dim_code, shape.dims))}}}}}"
    strides = "" if shape.standard else f", {{{', '.join(map(str, shape.strides))}}}"
    return f"{code}, {{{', '.join(map(str, shape.lens))}}}{strides}}}"


def _dim_code(dim: Dim) -> str:
    optimals = f", {{{', '.join(map(str, dim.optimals))}}}" if dim.optimals else ""
    return f"{{{dim.min}, {dim.max}{optimals}}}"
