"""A small program for every operation: its text with the values beside it, its cost, its picture."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tests.compiler.ops.test_module_operations import CASES
from tests.pages.imports import trials
from workbench.compiler.errors import EvaluationError, InputError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Sample, all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.fused import Fused
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import lines, parse
from workbench.widgets.rows import table_of
from workbench.widgets.scene import scene_of
from workbench.widgets.svg import svg

OPERATIONS = all_operations()

WIDTH = 76
"""Characters of a value on one line; the rows of a wider one stand below each other."""

SHOWN, FIRST = 24, 8
"""Elements of a value that are shown; of a larger one, its first ones."""

LIKED = 12
"""Elements of the operands of a good example: enough to see something, and few enough to follow."""

PROGRAMS = {
    "@param": "x = @param:x -> float_type, {2}, {1}\n@1 = @return(x)",
    "@literal": "@0 = @literal{1, 2} -> float_type, {2}, {1}\n@1 = @return(@0)",
    "sequence_erase": (
        "@0 = @literal{1, 2} -> float_type, {2}, {1}\n"
        "@1 = @literal{3, 4} -> float_type, {2}, {1}\n"
        "@2 = @literal{0} -> int64_type, {1}, {1}\n"
        "@3 = sequence_construct(@0,@1) -> sequence(float_type, {2}, {1})\n"
        "@4 = sequence_erase(@3,@2) -> sequence(float_type, {2}, {1})\n"
        "@5 = @return(@4)"
    ),
    "concat_from_sequence": (
        "@0 = @literal{1, 2} -> float_type, {2}, {1}\n"
        "@1 = @literal{3, 4} -> float_type, {2}, {1}\n"
        "@2 = sequence_construct(@0,@1) -> sequence(float_type, {2}, {1})\n"
        "@3 = concat_from_sequence[axis=0,new_axis=0](@2) -> dynamic, float_type, {[0..2147483647]}\n"
        "@4 = @return(@3)"
    ),
    "@return": "x = @param:x -> float_type, {2}, {1}\n@1 = @return(x,x)",
}
"""Programs of operations without samples that no single operator of ONNX is imported to."""


@dataclass(frozen=True)
class Example:
    """A program that has an operation in it, and inputs for it."""

    program: Program
    inputs: Mapping[str, Any]
    name: str

    @property
    def instruction(self) -> Instruction:
        """The first instruction of the operation."""
        return next(i for i in self.program.instructions if i.name == self.name)

    def values(self) -> dict[int, Any]:
        """The value of each instruction of the main module, by id; empty if it cannot be run."""
        found: dict[int, Any] = {
            p.id: self.inputs[n] for n, p in self.program.main.parameters.items()
        }
        found |= {i.id: i.literal.numpy() for i in self.program.main if i.literal is not None}
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                Interpreter(self.program).run(
                    self.inputs, lambda i, value, _: found.update({i.id: value})
                )
        except (EvaluationError, InputError):
            return {}
        return found

    def text(self) -> str:
        """The program's text, under each line the value in it."""
        values = self.values()
        found: list[str] = []
        for line in lines(self.program):
            found.append(line.text)
            if line.id in values:
                found += [f"    {row}" for row in value_rows(values[line.id])]
        if len(self.program.modules) == 1:
            found = found[1:]
        return "\n".join(found).rstrip()

    def cost(self) -> tuple[int, int] | None:
        """Operations and bytes moved; None where lens are only known at run time."""
        one = self.instruction
        shapes = [i.shape for i in one.inputs]
        parts = [p for s in (one.shape, *shapes) for p in (s.subs or [s])]
        if any(p.is_dynamic or p.subs for p in parts) or not one.shape.is_tensor:
            return None
        moved = one.op.bytes(shapes, one.shape)
        if isinstance(one.op, Fused):
            return one.op.flops(shapes, one.shape, one.modules), moved
        return one.op.flops(shapes, one.shape), moved

    def picture(self) -> str:
        """The program drawn, as SVG."""
        scene = scene_of([table_of(self.program)])
        return svg(scene, scene.default_open(), limit=40)


def value_rows(value: Any) -> list[str]:
    """A value as text; of a tuple, part by part."""
    if isinstance(value, tuple):
        return [row for part in value for row in value_rows(part)] or ["()"]
    if value is None:
        return ["nothing"]
    array = np.asarray(value)
    if array.dtype.kind == "V":  # ml_dtypes' own types
        array = array.astype(np.float32 if "float" in array.dtype.name else np.int64)
    if array.size > SHOWN:
        first = [_element(v) for v in array.reshape(-1)[:FIRST].tolist()]
        return [f"{', '.join(first)}, … ({array.size} elements)"]
    whole = _nested(array.tolist())
    if len(whole) <= WIDTH or array.ndim < 2:
        return [whole]
    rows = [_nested(v) for v in array.tolist()]
    return [
        f"{'[' if not i else ' '}{row}{',' if i + 1 < len(rows) else ']'}"
        for i, row in enumerate(rows)
    ]


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return _element(value)


def _element(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@cache
def example(name: str) -> Example | None:
    """The example of an operation, or None if there is none."""
    found = _of_samples(name) or _of_programs(name) or _of_modules(name) or _of_onnx(name)
    if found is not None:
        found.program.name = name
    return found


def _of_samples(name: str) -> Example | None:
    samples = list(OPERATIONS[name].samples())
    if not samples:
        return None
    op, operands = min(samples, key=_cost_of_reading)
    arguments = [Argument.of(x) for x in operands]
    program = Program(name)
    for i, a in reversed(list(enumerate(arguments))):  # each new one is put first
        program.main.add_parameter(f"x{i}", a.shape)
    given = [program.main.parameters[f"x{i}"] for i in range(len(arguments))]
    program.main.add_return(program.main.add(op, *given))
    return Example(program, {f"x{i}": _own(a) for i, a in enumerate(arguments)}, name)


def _own(argument: Argument) -> Any:
    """A copy, for what writes into its operand."""
    return argument.numpy().copy(order="K")


def _cost_of_reading(sample: Sample) -> float:
    op, operands = sample
    arguments = [Argument.of(x) for x in operands]
    sizes = [a.shape.elements for a in arguments]
    shapes = [a.shape for a in arguments]
    result = op.normalized(shapes).compute(*map(_own, arguments))
    parts = result if isinstance(result, tuple) else (result,)
    dull = 0 if all(sizes) and all(np.size(p) for p in parts) else 1000
    strided = sum(not s.standard for s in shapes)
    return dull + 10 * strided + abs(sum(sizes) - LIKED)


def _of_programs(name: str) -> Example | None:
    if name not in PROGRAMS:
        return None
    program = parse(f'module: "main"\n{PROGRAMS[name]}\n')
    inputs = {n: np.arange(2, dtype=np.float32) for n in program.parameters}
    return Example(program, inputs, name)


def _of_modules(name: str) -> Example | None:
    if name not in CASES:
        return None
    program, inputs, _ = CASES[name]()
    return Example(program, inputs, name)


def _of_onnx(name: str) -> Example | None:
    """The smallest model of onnx's suite that is imported to the operation."""
    found: list[tuple[int, Example]] = []
    for trial, program in trials():
        if isinstance(program, Program) and any(i.name == name for i in program.instructions):
            inputs = {n: trial.inputs[n] for n in program.parameters if n in trial.inputs}
            if len(inputs) == len(program.parameters):
                size = len(list(program.instructions))
                found.append((size, Example(program, inputs, name)))
    ranked = [e for _, e in sorted(found, key=lambda f: f[0])]
    return next((e for e in ranked if e.values()), ranked[0] if ranked else None)
