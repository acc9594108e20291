"""The functions and regions of a module while it is being written, and the values that they may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.instruction import Instruction, captured
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.stablehlo.write import registry
from workbench.compiler.stablehlo.write.call import Call, refusal
from workbench.compiler.stablehlo.write.lines import Lines, Tensor, quoted
from workbench.compiler.stablehlo.write.registry import Written


@dataclass
class Shared:
    """The functions of a whole module, by name and by what they are called for."""

    program: Program
    functions: dict[str, str] = field(default_factory=dict[str, str])
    called: dict[tuple[str, tuple[Tensor, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[Tensor, ...]], str]
    )
    results: dict[str, list[Tensor]] = field(default_factory=dict[str, list[Tensor]])
    """The results of functions, whose names are those inside."""

    def unique(self, base: str) -> str:
        """A name of a function that is not taken yet."""
        word = "".join(c if c.isalnum() and c.isascii() else "_" for c in base) or "body"
        name, number = word, 0
        while name in self.functions or name == "main":
            number += 1
            name = f"{word}_{number}"
        self.functions[name] = ""
        return name


class Block:
    """The lines of a function or a region, and the values of its instructions."""

    def __init__(self, shared: Shared, lines: Lines | None = None) -> None:
        """An empty one."""
        self.shared = shared
        self.lines = Lines() if lines is None else lines
        self.values: dict[Instruction, Written] = {}
        self.whole: tuple[int, ...] | None = None
        """The lens of values whose elements a module of elementwise work computes; None elsewhere."""

    def inner(self, lines: Lines) -> Block:
        """A block of a region inside this one, which sees this one's values."""
        made = Block(self.shared, lines)
        made.values, made.whole = dict(self.values), self.whole
        return made

    def value(self, instruction: Instruction) -> Written:
        """The value of an instruction; a literal's is made where it is first read."""
        if instruction not in self.values:
            if instruction.literal is None:
                raise refusal(instruction, "it has no value")
            self.values[instruction] = self._literal(instruction)
        return self.values[instruction]

    def _literal(self, instruction: Instruction) -> Tensor:
        assert instruction.literal is not None  # as the caller checked
        array = instruction.literal.numpy()
        if self.whole is not None and array.size == 1:
            array = np.broadcast_to(array.reshape(()), self.whole)
        try:
            return self.lines.constant(array)
        except ModelError as error:
            raise refusal(instruction, str(error)) from error

    def run(self, module: Module) -> list[Written]:
        """Add the lines of a module's instructions; gives its results."""
        for instruction in module:
            if not isinstance(instruction.op, Param | Literal | Return):
                self.lines.location = instruction.sources[-1] if instruction.sources else ""
                self.values[instruction] = self._written(instruction)
        return [self.value(o) for o in module.outputs]

    def _written(self, instruction: Instruction) -> Written:
        if any(s.is_dynamic for s in [instruction.shape, *(i.shape for i in instruction.inputs)]):
            raise refusal(instruction, "it has lengths that only a run knows; fix them first")
        op = instruction.op.normalized([i.shape for i in instruction.inputs])
        try:
            return write_call(Call(self, instruction, op, instruction.inputs))
        except ModelError as error:
            if "cannot be written" in str(error):
                raise
            raise refusal(instruction, str(error)) from error

    # Functions

    def call(
        self, module: Module, given: dict[str, Tensor], whole: tuple[int, ...] | None = None
    ) -> list[Tensor]:
        """The results of a module as a function that is called; it is written once for each lens.

        Args:
            module: The module, which may read values of this block.
            given: The values of its parameters.
            whole: The lens of the values, if the module computes their elements.
        """
        outer = captured(module)
        more = [self.value(i) for i in outer]
        operands = [*given.values(), *(v for v in more if isinstance(v, Tensor))]
        if len(operands) < len(given) + len(more):
            raise ModelError("its module reads a tuple of another one")
        key = module.name, tuple(o._replace(name="") for o in operands)
        if key not in self.shared.called:
            self.shared.called[key] = self._function(module, list(given), outer, operands, whole)
        name = self.shared.called[key]
        return self._calls(name, operands, self.shared.results[name])

    def _calls(
        self, name: str, operands: Sequence[Tensor], results: Sequence[Tensor]
    ) -> list[Tensor]:
        outputs = [(r.type, r.lens) for r in results]
        return list(self.lines.several("func.call", operands, outputs, f"callee = @{name}"))

    def _function(
        self, module: Module, names: Sequence[str], outer: Sequence[Instruction],
        operands: Sequence[Tensor], whole: tuple[int, ...] | None,
    ) -> str:  # fmt: skip
        name = self.shared.unique(module.name)
        block = Block(self.shared)
        block.whole = whole
        arguments = [o._replace(name=f"%arg{k}") for k, o in enumerate(operands)]
        sources = [*(module.parameters[n] for n in names), *outer]
        block.values.update(zip(sources, arguments, strict=True))
        results = [_tensor(module, v) for v in block.run(module)]
        if whole is not None:
            results = [block.lines.broadcast(r, whole) if not r.lens else r for r in results]
        self.shared.results[name] = results
        heads = [f"{a.name}: {a.text}" for a in arguments]
        types = [r.text for r in results]
        self.shared.functions[name] = function_text(
            f"private @{name}", heads, types, block, results
        )
        return name


def _tensor(module: Module, value: Written) -> Tensor:
    if not isinstance(value, Tensor):
        raise ModelError(f"a result of module {module.name!r} is a tuple")
    return value


def function_text(
    name: str, heads: Sequence[str], types: Sequence[str], block: Block, results: Sequence[Tensor]
) -> str:
    """The text of a function, for the text of its arguments and of its results' types."""
    given, plain = ", ".join(r.name for r in results), ", ".join(r.text for r in results)
    lines = [*block.lines.lines, f'"func.return"({given}) : ({plain}) -> ()']
    body = "\n".join(f"    {line}" for text in lines for line in text.splitlines())
    return f"  func.func {name}({', '.join(heads)}) -> ({', '.join(types)}) {{\n{body}\n  }}"


def write_call(call: Call) -> Written:
    """Add the lines of an operation; gives its value.

    Raises:
        ModelError: StableHLO has no meaning for it, or this form of it.
    """
    writer = registry.find(call.op.name)
    if writer is None:
        known = registry.refused().get(call.op.name)
        raise call.refuse(known or f"no writer is known for the operation {call.op.name}")
    return writer(call)


def module_text(program: Program) -> str:
    """The module of StableHLO of a program.

    Raises:
        ModelError: An instruction has no meaning in StableHLO.
    """
    shared = Shared(program)
    block = Block(shared)
    heads: list[str] = []
    for number, (name, parameter) in enumerate(program.main.parameters.items()):
        if parameter.shape.is_dynamic:
            raise refusal(parameter, "it has lengths that only a run knows; fix them first")
        value = Tensor(f"%arg{number}", parameter.shape.type, parameter.shape.array_lens)
        block.values[parameter] = value
        heads.append(f"{value.name}: {value.text} loc({quoted(name)})")
    results = [_tensor(program.main, v) for v in block.run(program.main)]
    infos = [quoted(f"result['{n}']") for n in output_names(program, len(results))]
    types = [f"{r.text} {{jax.result_info = {i}}}" for r, i in zip(results, infos, strict=True)]
    main = function_text("public @main", heads, types, block, results)
    body = "\n".join([main, *shared.functions.values()])
    return f"module {{\n{body}\n}}\n"


def output_names(program: Program, count: int) -> list[str]:
    """The names of the results: the program's own where they are known, else numbered ones."""
    own = program.output_names
    if len(own) == count:
        return list(own)
    return ["output"] if count == 1 else [f"output{k}" for k in range(count)]
