"""The gradient of a program: a copy that also returns gradients, with its recording."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.compiler.errors import DifferentiationError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import build, rows_of
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.gradients.differentiate import Differentiate
from workbench.compiler.record.recording import Recording


class Gradient(Program):
    """A program that returns its outputs and gradients.

    Attributes:
        recording: The edits of differentiation, one for each instruction of the program.
    """

    recording: Recording


def gradient(
    program: Program,
    wrt: str | Instruction | Iterable[str | Instruction] | None = None,
    of: int | str | Iterable[int | str] | None = None,
    recompute: bool = False,
) -> Gradient:
    """A copy of a program that also returns gradients, by reverse-mode differentiation.

    It returns the outputs of the program, then the gradient of the chosen outputs with respect to each value
    of ``wrt``, in that order and in its type. An output of one element is differentiated as it is. For any
    other the copy has one parameter more, ``grad_`` and the output's name, which holds the gradient of a loss
    with respect to that output (so the results are vector-Jacobian products).

    Args:
        program: The program, as parsed or built and not compiled; it is not changed.
        wrt: Parameters or tensors of the model by name, or instructions (also as ``"#12"``); by default all
            parameters of floating-point type.
        of: Outputs by position or name; by default all of floating-point type.
        recompute: Keep calls of modules, whose values are then computed again for the gradient; otherwise
            calls are inlined, and their values kept.

    Raises:
        DifferentiationError: Something of this does not exist or is not of floating-point type, or an
            instruction between them is not differentiable; the message names it.

    Example::

        program = wb.gradient(wb.parse("..."), wrt="weights")
        loss, slope = wb.compile(program).run(inputs)
    """
    rows = rows_of(program)
    made = Gradient()
    build(rows, made)
    names = tuple(f"#{w.id}" if isinstance(w, Instruction) else w for w in _listed(wrt))
    outputs = tuple(_position(program, o) for o in _listed(of))
    with Recording(made, rows) as recording:
        run_pass(Differentiate(wrt=names, of=outputs, recompute=recompute), made)
    made.recording = recording
    return made


def _listed(given: Any) -> list[Any]:
    """One or several, as a list; None is none."""
    if given is None:
        return []
    return [given] if isinstance(given, str | int | Instruction) else list(given)


def _position(program: Program, output: int | str) -> int:
    """The position of an output that is given by name or position."""
    if isinstance(output, int):
        return output
    names = program.output_names or tuple(f"output{k}" for k in range(len(program.outputs)))
    if output not in names:
        raise DifferentiationError(f"of {output!r}; the program has the outputs {', '.join(names)}")
    return names.index(output)
