"""Runs that print what ``MIGRAPHX_TRACE_EVAL`` prints in MIGraphX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value, float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.run.tracing import Watched
from workbench.compiler.text.elements import elements_text, is_float, numbers_text, preview
from workbench.compiler.text.printing import instruction_text, names


class Narrated(Watched):
    """Writes a line for each event of a run, in the form of MIGraphX's ``MIGRAPHX_TRACE_EVAL``.

    Args:
        program: The program.
        level: 1 writes instructions and times; 2 adds some elements, the kinds of numbers and
            statistics; 3 writes all elements instead.
        say: Receives each line.
    """

    def __init__(self, program: Program, level: int, say: Callable[[str], object]) -> None:
        super().__init__(program, keep=True)
        self.level = level
        self.say = say
        self._named = names(program)

    def began(self, instruction: Instruction) -> None:
        """Write the instruction that is about to run."""
        self.say(f"Run instruction: {instruction_text(instruction, self._named)}")

    def ended(self, instruction: Instruction, value: Value, seconds: float) -> None:
        """Write its time and its value."""
        time = float_text(seconds * 1e3)
        self.say(f"Time: {time}ms, {time}ms")
        if self.level < 2 or instruction.name.startswith("@") or instruction.name == "load":
            return
        if self.level > 2:
            self.say(f"Output: {elements_text(value)}")
            return
        self.say(f"Output has {', '.join(kinds_of(value))}")
        self.say(f"Output: {preview(value)}")
        for line in statistics(value):
            self.say(line)


def narrate(
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    level: int = 2,
    say: Callable[[str], object] = print,
) -> list[Any]:
    """Run a program and write its events; see ``Narrated``.

    Returns:
        Values of the program's outputs.
    """
    return Narrated(program, level, say).watch(inputs)


def kinds_of(value: Value) -> list[str]:
    """The kinds among ``inf``, ``nan``, ``normal``, ``subnormal`` and ``zero``, in the value's own type."""
    if isinstance(value, tuple):
        return sorted({kind for v in value for kind in kinds_of(v)})
    array = np.asarray(value).ravel()
    if not is_float(array):
        found = {"zero": bool((array == 0).any()), "normal": bool((array != 0).any())}
    else:
        limits = cast("Any", ml_dtypes.finfo(array.dtype))
        least = float(limits.smallest_normal)
        wide = np.abs(array.astype(np.float64))
        small = (wide > 0) & (wide < least)
        found = {
            "inf": bool(np.isinf(wide).any()),
            "nan": bool(np.isnan(wide).any()),
            "normal": bool((np.isfinite(wide) & (wide >= least)).any()),
            "subnormal": bool(small.any()),
            "zero": bool((wide == 0).any()),
        }
    return sorted(kind for kind, there in found.items() if there)


def statistics(value: Value) -> list[str]:
    """A line with minimum, maximum, mean and standard deviation for each array of a value."""
    if isinstance(value, tuple):
        return [line for v in value for line in statistics(v)]
    flat = np.asarray(value).ravel()
    if not flat.size:
        return []
    wide = flat.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        least, most, mean, spread = wide.min(), wide.max(), wide.mean(), wide.std()
    low, high = (numbers_text(np.array([x]).astype(flat.dtype)) for x in (least, most))
    moments = f"Mean: {float_text(float(mean))}, StdDev: {float_text(float(spread))}"
    return [f"Min value: {low}, Max value: {high}, {moments}"]
