"""The program that is inspected, with what is known of its compilation, its lowering and its times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from workbench.compiler.builds.build import Build
from workbench.compiler.builds.declined import declined_at
from workbench.compiler.builds.not_run import not_run
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.structure import Rearrangement
from workbench.compiler.lint.finding import Cost, Finding
from workbench.compiler.ops.view import Transpose
from workbench.compiler.record.lowered import KERNEL, VIEW, LoweredRow
from workbench.compiler.report.result import Result, kernel_sources, kernel_text, work_of
from workbench.compiler.text.naming import resolved
from workbench.compiler.text.printing import names


class Subject:
    """A program, the build that made it if there is one, and the result of a profiled run if there is one."""

    def __init__(self, subject: Program | Build, result: Result | None = None) -> None:
        """Look at a program, or at the compiled program of a build."""
        self.build = subject if isinstance(subject, Build) else None
        self.program = subject.program if isinstance(subject, Build) else subject
        self.names = names(self.program)
        self._result = result

    @cached_property
    def ms(self) -> dict[int, float]:
        """The measured milliseconds of each instruction by id."""
        found: dict[int, float] = {}
        for row in self._result.measured.rows if self._result else ():
            found[row.id] = found.get(row.id, 0.0) + row.spread.median * 1e3
        return found

    @cached_property
    def lowered(self) -> dict[int, LoweredRow]:
        """The lowering of each instruction by id; empty if the target lowers nothing."""
        build = self.build
        if build is None:
            return {}
        known = build.recording.lowered if build.is_recorded else build.runner.lowered()
        return {row.id: row for row in known or ()}

    @property
    def recorded(self) -> Build | None:
        """The build, if its compilation was recorded."""
        return self.build if self.build is not None and self.build.is_recorded else None

    # Instructions

    @cached_property
    def modules(self) -> list[Module]:
        """The modules that are not bodies of kernels."""
        return [m for m in self.program.reachable_modules() if not m.bypass]

    @property
    def open(self) -> Iterator[Instruction]:
        """The instructions outside kernels."""
        return (i for m in self.modules for i in m)

    @property
    def all(self) -> Iterator[Instruction]:
        """All instructions, those inside kernels among them."""
        return (i for m in self.program.reachable_modules() for i in m)

    def is_copy(self, instruction: Instruction) -> bool:
        """Whether an instruction only moves elements of its input to other places in memory."""
        op = instruction.op
        if op.rearranges is not Rearrangement.RELAID or op.alias is not None:
            return False
        if (row := self.lowered.get(instruction.id)) is not None and row.kind in (KERNEL, VIEW):
            return row.kind == KERNEL
        source = instruction.inputs[0].shape
        if instruction.shape.is_dynamic or source.is_dynamic:
            return _is_scattered(instruction.inputs[0])
        if source.lens == instruction.shape.lens:
            return source.strides != instruction.shape.strides
        return not source.standard

    def owner(self, instruction: Instruction) -> Instruction:
        """The instruction outside kernels that contains an instruction; itself if it is one."""
        while instruction.module.bypass:
            instruction = instruction.module.callers[0]
        return instruction

    # Findings

    def finding(
        self,
        kind: str,
        instruction: Instruction,
        remedy: str,
        reason: str,
        *,
        cost: Cost | None = None,
        others: Sequence[Instruction] = (),
    ) -> Finding:
        """A finding at an instruction; ids in the texts become printed names.

        Args:
            kind: The name of its kind.
            instruction: The instruction to show.
            remedy: What to do.
            reason: The reason why it was left.
            cost: What it costs; by default what the instruction costs.
            others: Further instructions that are concerned.
        """
        concerned = tuple(dict.fromkeys((instruction, *others)))
        return Finding(
            kind,
            instruction.id,
            self.say(instruction),
            self.sources(concerned),
            self.cost(instruction) if cost is None else cost,
            resolved(remedy, self.names),
            resolved(reason, self.names),
            tuple(i.id for i in concerned),
        )

    def say(self, instruction: Instruction) -> str:
        """The printed name and the operation of an instruction: ``@13 contiguous``."""
        name = self.names[instruction.id]
        return name if instruction.parameter is not None else f"{name} {kernel_text(instruction)}"

    def sources(self, instructions: Iterable[Instruction]) -> tuple[str, ...]:
        """The model's nodes of instructions."""
        return tuple(dict.fromkeys(s for i in instructions for s in kernel_sources(i)))

    def cost(self, *instructions: Instruction) -> Cost:
        """The cost of running instructions, each a kernel or a step."""
        work = [work_of(i) for i in instructions]
        measured = [self.ms[i.id] for i in instructions if i.id in self.ms]
        return Cost(
            sum(w.bytes for w in work),
            sum(w.flops for w in work),
            sum(not i.name.startswith("@") and i.op.alias is None for i in instructions),
            sum(measured) if measured else None,
        )

    # Reasons

    def declined_at(self, instruction: Instruction) -> str:
        """The last near miss at an instruction; empty if none was recorded."""
        return declined_at(self.recorded, instruction) if self.recorded is not None else ""

    def not_run(self, name: str, rule: str = "") -> str:
        """The reason why a pass or a rule of it had no effect; empty if it ran, or nothing was recorded."""
        if self.build is None:
            return "the program was not compiled"
        return "" if self.recorded is None else not_run(self.recorded, name, rule)

    def made_by(self, instruction: Instruction) -> str:
        """The pass and the law by which an instruction was made; empty if the source had it."""
        if self.recorded is None:
            return ""
        for step in self.recorded.recording.steps:
            for edit in step.edits:
                if instruction.id in edit.added:
                    return f"{step.name.partition('(')[0]} made it in step {step.index}: {edit.law}"
        return ""

    def why_left(self, instruction: Instruction, name: str, otherwise: str) -> str:
        """The reason why a pass left an instruction: a near miss, or it did not run; or another reason."""
        return self.declined_at(instruction) or self.not_run(name) or otherwise

    def mend(self, name: str, otherwise: str) -> str:
        """The remedy where a pass should have done it: run the pass if it did not, or else another remedy."""
        if self.build is None:
            return f"compile it: the pass {name} does this"
        if self.not_run(name):
            return f"run the pass {name}: take it out of disable=, or add it to passes="
        return otherwise


def _is_scattered(value: Instruction) -> bool:
    """Whether a value without known strides is a view whose elements are not in row-major order."""
    if value.op.alias is None or not value.inputs:
        return False
    moved = isinstance(value.op, Transpose) or value.op.rearranges is not Rearrangement.RELAID
    return moved or _is_scattered(value.inputs[0])
