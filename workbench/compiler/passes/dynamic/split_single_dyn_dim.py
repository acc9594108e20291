"""A static module for each length of a dimension; one of them is selected at run time."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction, Module, captured
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym import Expr
from workbench.compiler.ir.sym.bindings import specialised
from workbench.compiler.ops.control import SelectModule
from workbench.compiler.passes.base import Pass, register
from workbench.compiler.rewrite import Decline, change
from workbench.compiler.rewrite.bodies import prune_all, unused_name

MOST_LENGTHS = 64
"""The most lengths that a range may have: each makes a copy of the whole program."""


@register
class SplitSingleDynDim(Pass):
    """Make a static module for each length of the only input dimension that is a range."""

    name = "split_single_dyn_dim"
    rests = True

    def apply(self, program: Program) -> None:
        """Split the main module; called modules get their lengths from their callers."""
        main = program.main
        ranged = [p for p in main.parameters.values() if p.shape.dims is not None]
        if ranged and main.last is not None:
            split(main.last, ranged)


@change
def split(last: Instruction, ranged: list[Instruction]) -> Decline | None:
    """f(x), for x of n = 1..4 → select_module(x) of f₁, f₂, f₃ and f₄"""
    main = last.module
    dim = _single_range(ranged)
    if isinstance(dim, str):
        return Decline(dim)
    sizes = range(dim.min, dim.max + 1)
    if len(sizes) > MOST_LENGTHS:
        return Decline(
            f"the range has {len(sizes)} lengths; at most {MOST_LENGTHS} modules are made"
        )
    if dim.sym is not None and dim.sym not in dim.sym.symbols:
        return Decline(f"the dimension {dim} is not a single symbol")
    for size in sizes:
        if reason := _refused(main, size, _values(dim, size)):
            return Decline(f"a length of {size}: {reason}")
    made: list[Module] = []
    for size in sizes:
        made.append(main.program.create_module(unused_name(main.program, f"dim_{size}")))
        try:
            _copy_of(main, made[-1], size, _values(dim, size))
        except WorkbenchError as error:
            _remove_uncalled(main.program)
            return Decline(f"a length of {size}: {error}")
    _select(main, made)
    return None


def _values(dim: Dim, size: int) -> Mapping[Expr, int]:
    return {} if dim.sym is None else {dim.sym: size}


def _refused(main: Module, size: int, values: Mapping[Expr, int]) -> str:
    """The reason why an operation rejects a length. The check stops at the first call of a module."""
    shapes: dict[Instruction, Shape] = {}
    rules = main.program.shape_rules
    for instruction in main:
        if any(not m.bypass for m in instruction.modules):
            break
        if instruction.parameter is not None or instruction.literal is not None:
            shapes[instruction] = _with_length(instruction.shape, size, values)
            continue
        given = [shapes[i] for i in instruction.inputs]
        try:
            op = specialised(instruction.op, values)
            shapes[instruction] = op.shape_by(rules, given, instruction.modules)
        except WorkbenchError as error:
            return str(error)
    return ""


def _with_length(shape: Shape, size: int, values: Mapping[Expr, int]) -> Shape:
    if shape.dims is None:
        return shape
    if shape.is_symbolic:
        return shape.to_static(values)
    return Shape(shape.type, [d.min if d.is_fixed else size for d in shape.dims])


def _single_range(ranged: list[Instruction]) -> Dim | str:
    """The only range among the parameters' dimensions; or the reason why there is none."""
    found: dict[Dim, Instruction] = {}
    for parameter in ranged:
        ranges = [d for d in parameter.shape.dims or () if not d.is_fixed]
        name = parameter.parameter
        if len(ranges) != 1:
            return f"parameter {name!r} is {parameter.shape}, with {len(ranges)} ranges"
        if any(isinstance(u.op, SelectModule) for u in parameter.users):
            return f"parameter {name!r} is an input of a select_module already"
        found.setdefault(ranges[0], parameter)
    if len(found) > 1:
        (one, a), (other, b), *_ = found.items()
        return f"parameters {a.parameter!r} and {b.parameter!r} have different ranges: {one} and {other}"
    return next(iter(found))


def _copy_of(main: Module, module: Module, size: int, values: Mapping[Expr, int]) -> None:
    """Copy a module into an empty one, with ranges of the parameters replaced by a length."""
    inner: dict[Instruction, Instruction] = {}
    for name, parameter in main.parameters.items():
        if parameter.shape.dims is not None:
            shape = _with_length(parameter.shape, size, values)
            inner[parameter] = module.add_parameter(name, shape)
    _copy_body(main, module, inner, values)
    if not module.has_return:
        module.add_return(*(inner[o] for o in main.outputs))


def _copy_body(
    source: Module,
    target: Module,
    inner: dict[Instruction, Instruction],
    values: Mapping[Expr, int],
) -> dict[Instruction, Instruction]:
    """Copy the instructions that are not in ``inner`` yet; literals and parameters go to the front."""
    for instruction in source:
        if instruction not in inner:
            with source.program.source(*instruction.sources):
                inner[instruction] = _copied(instruction, target, inner, values)
    return inner


def _copied(
    instruction: Instruction,
    target: Module,
    inner: Mapping[Instruction, Instruction],
    values: Mapping[Expr, int],
) -> Instruction:
    if instruction.literal is not None:
        return target.add_literal(instruction.literal)
    if instruction.parameter is not None:
        return target.add_parameter(instruction.parameter, instruction.shape)
    inputs = [inner.get(i, i) for i in instruction.inputs]
    modules = [_called(m, target, inner, values) for m in instruction.modules]
    op = specialised(instruction.op, values)
    made = target.insert(None, op, *inputs, modules=modules)
    target.set_target(made, instruction.target_id)
    return made


def _called(
    module: Module,
    caller: Module,
    inner: Mapping[Instruction, Instruction],
    values: Mapping[Expr, int],
) -> Module:
    """A called module for a copy of its caller: the same, or a copy if it captures copied values."""
    if not any(i in inner for i in captured(module)):
        return module
    program = module.program
    copy = program.create_module(
        unused_name(program, f"{caller.name}:{module.name}"), module.bypass
    )
    own = {p: copy.add_parameter(n, p.shape) for n, p in module.parameters.items()}
    _copy_body(module, copy, {**inner, **own}, values)
    return copy


def _select(main: Module, modules: list[Module]) -> None:
    """Make the main module return the results of the module for the actual length."""
    outputs, last = main.outputs, main.last
    inputs = [p for _, p in sorted(main.parameters.items())]
    shapes = Shape.tuple_of(o.shape for o in outputs)
    selected = main.add("select_module", *inputs, modules=modules, output_dyn_shapes=shapes)
    results = [main.add("get_tuple_elem", selected, index=i) for i in range(len(outputs))]
    for old, new in zip(outputs, results, strict=True):
        main.program.tell_replaced(old, new)
    if last is not None and isinstance(last.op, Return):
        main.set_inputs(last, results)
    prune_all(outputs)
    _remove_uncalled(main.program)
    for instruction in reversed(list(main)):
        unused = not instruction.users and instruction.parameter is None
        if unused and instruction is not main.last and main.program.find(instruction.id):
            main.prune(instruction)


def _remove_uncalled(program: Program) -> None:
    """Remove modules that nobody calls, and then those that only they called."""
    while True:
        called = {m for i in program.instructions for m in i.modules}
        unused = [m for m in program.modules.values() if m is not program.main and m not in called]
        if not unused:
            return
        for module in unused:
            program.remove_module(module)
