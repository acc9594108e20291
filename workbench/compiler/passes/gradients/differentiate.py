"""Differentiation of a program: gradients of its outputs are appended, one edit for each instruction."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from workbench.compiler.errors import DifferentiationError, did_you_mean
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.recurrent import Recurrent
from workbench.compiler.passes.base import Pass, register, run_pass
from workbench.compiler.passes.decompose.rewrite_rnn import RewriteRnn
from workbench.compiler.passes.gradients import control
from workbench.compiler.passes.gradients.reverse import Reverse
from workbench.compiler.passes.tidy.inline_calls import InlineCalls

__all__ = ["Differentiate", "control"]


@register
class Differentiate(Pass):
    """Append the gradients of outputs, from the last instruction to the first.

    The program then returns its outputs, followed by the gradients in the order of ``wrt``. An output of one
    element starts with the gradient 1; for any other, the program gets a parameter, ``grad_`` and its name.

    Args:
        wrt: Names of parameters or of the model's tensors, or ids as ``#12``; by default all parameters of
            floating-point type.
        of: Positions of the outputs to differentiate; by default all of floating-point type.
        recompute: Keep calls of modules, and compute them again where their gradient is. Otherwise calls are
            inlined, and their values kept.
    """

    name = "differentiate"
    once = "it appends further gradients"
    apart = "a program with gradients is another program; wb.gradient makes it"
    wrt: tuple[str, ...] = ()
    of: tuple[int, ...] = ()
    recompute: bool = False

    def apply(self, program: Program) -> None:
        """Append the gradients.

        Raises:
            DifferentiationError: A name, position or type does not fit, or something is not differentiable.
        """
        wanted = self._wanted(program)
        outputs = self._outputs(program)
        if any(issubclass(op, Recurrent) for op in program.operations):
            run_pass(RewriteRnn(), program)
        if not self.recompute:
            InlineCalls().apply(program)
        module = program.main
        instructions = list(module)
        reverse = Reverse(module, {}, wanted.values())
        for k in outputs:
            seed = self._seed(program, k, reverse.builder)
            value = program.outputs[k]
            before = reverse.gradients.get(value)
            reverse.gradients[value] = seed if before is None else before + seed
        reverse.run(instructions)
        found = [reverse.of(i).instruction for i in wanted.values()]
        _return(program, found, tuple(wanted))
        for instruction in set(module) - set(instructions):
            if instruction.literal is not None:
                module.prune(instruction)  # a number of a gradient that nothing asked for
        pairs = [(i, g.instruction) for i, g in reverse.gradients.items()]
        program.gradients = {i.id: g.id for i, g in pairs if _is_in(i) and _is_in(g)}

    def _wanted(self, program: Program) -> dict[str, Instruction]:
        """The values to differentiate with respect to, by name."""
        floats = [n for n, shape in program.parameters.items() if shape.type.is_float]
        if not self.wrt and not floats:
            raise DifferentiationError("the program has no parameter of a floating-point type")
        return {name: _value(program, name) for name in self.wrt or floats}

    def _outputs(self, program: Program) -> list[int]:
        """The positions of the outputs to differentiate."""
        outputs = program.outputs
        chosen = self.of or [
            k for k, o in enumerate(outputs) if o.shape.is_tensor and o.shape.type.is_float
        ]
        for k in chosen:
            if not -len(outputs) <= k < len(outputs):
                raise DifferentiationError(
                    f"of={k}; the program has {len(outputs)} outputs, 0 to {len(outputs) - 1}"
                )
            shape = outputs[k].shape
            if not shape.is_tensor or not shape.type.is_float or shape.is_dynamic:
                raise DifferentiationError(
                    f"output {k} is {shape}; expected a floating-point tensor of fixed lengths"
                )
        if not chosen:
            raise DifferentiationError("the program has no output of a floating-point type")
        return [k % len(outputs) for k in chosen]

    def _seed(self, program: Program, output: int, builder: ModuleBuilder) -> Value:
        """The gradient with which an output starts: 1, or a parameter."""
        shape = program.outputs[output].shape
        if prod(shape.lens) == 1:
            return builder.constant(np.ones(shape.lens, shape.type.numpy))
        name = f"grad_{_names(program)[output]}"
        if name in program.parameters:
            raise DifferentiationError(
                f"the program has a parameter {name!r} already; rename it, or the output"
            )
        return builder.of(program.main.add_parameter(name, shape.as_standard()))


def _names(program: Program) -> list[str]:
    """The names of the outputs; by position where the model gives none."""
    named = program.output_names
    return list(named) if named else [f"output{k}" for k in range(len(program.outputs))]


def _value(program: Program, name: str) -> Instruction:
    """The value with this name: a parameter, a tensor of the model, or an instruction by its id.

    Raises:
        DifferentiationError: There is none, or it is not of a floating-point type.
    """
    found = program.main.parameters.get(name)
    if found is None and name in program.tensors:
        found = program.find(program.tensors[name])
    if found is None and name.startswith("#") and name[1:].isdigit():
        found = program.find(int(name[1:]))
    if found is None or found.module is not program.main:
        hint = did_you_mean(name, [*program.parameters, *program.tensors])
        raise DifferentiationError(
            f"wrt {name!r}: the program has no such parameter, tensor or instruction{hint}"
        )
    if not found.shape.is_tensor or not found.shape.type.is_float:
        raise DifferentiationError(
            f"wrt {name!r}: it is {found.shape}; expected a floating-point tensor"
        )
    return found


def _return(program: Program, found: Iterable[Instruction], names: tuple[str, ...]) -> None:
    """Return the outputs, then the gradients, and name them."""
    module, outputs = program.main, program.outputs
    named = _names(program)
    if module.has_return and module.last is not None:
        module.remove(module.last)
    module.add_return(*outputs, *found)
    program.output_names = (*named, *[f"grad_{n}" for n in names])


def _is_in(instruction: Instruction) -> bool:
    return instruction.module.program.find(instruction.id) is instruction
