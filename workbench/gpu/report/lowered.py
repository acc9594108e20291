"""The record of lowering: each instruction as a kernel, a view, a host step with its reason, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.record import lowered as kinds
from workbench.compiler.record.lowered import Lowered, LoweredRow, PlaceRow
from workbench.compiler.text.printing import names
from workbench.gpu.kernels.kernel import Launch, Place
from workbench.gpu.lowering.plan import (
    BranchStep,
    CollectiveStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
    flat,
)
from workbench.gpu.report.steps import groups_text


def lowered_of(plan: Plan, made_for: str) -> Lowered:
    """The record of a plan.

    Args:
        plan: The plan of a run.
        made_for: The device or architecture.
    """
    return Lowered(tuple(_Record(plan).rows()), plan.arena, made_for)


class _Record:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = names(plan.program)
        self.steps: dict[int, list[Step]] = {}
        for step in flat(plan.steps):
            self.steps.setdefault(step.instruction.id, []).append(step)

    def rows(self) -> Iterator[LoweredRow]:
        yield from self._module(self.plan.program.main)

    def _module(self, module: Module) -> Iterator[LoweredRow]:
        """The instructions of a module that was lowered, each followed by those of its modules."""
        for one in module:
            kind, what = self._became(one)
            places = tuple(map(self._place, self.plan.values.get(one.id, ())))
            yield LoweredRow(one.id, self.names[one.id], kind, what, places)
            for inner in one.modules:
                lowered = kind in (kinds.BRANCH, kinds.LOOP)
                yield from self._module(inner) if lowered else self._parts(inner, one)

    def _parts(self, module: Module, owner: Instruction) -> Iterator[LoweredRow]:
        """The instructions of a module that are computed along with its owner."""
        for one in module:
            yield LoweredRow(one.id, self.names[one.id], kinds.PART, self.names[owner.id])
            for inner in one.modules:
                yield from self._parts(inner, owner)

    def _became(self, one: Instruction) -> tuple[str, str]:
        steps = self.steps.get(one.id, [])
        for step in steps:
            if isinstance(step, LoopStep):
                return kinds.LOOP, self._loop(step, steps)
            if isinstance(step, BranchStep):
                return kinds.BRANCH, f"on {self.names[one.inputs[0].id]}, which the host reads"
            if isinstance(step, HostStep):
                return kinds.HOST, step.why
            if isinstance(step, CollectiveStep):
                return kinds.COLLECTIVE, groups_text(step)
        if kernels := [s for s in steps if isinstance(s, KernelStep)]:
            return kinds.KERNEL, ", ".join(_kernel(s.launch) for s in kernels)
        if one.parameter is not None:
            return kinds.PARAMETER, one.parameter
        if one.literal is not None:
            return self._literal(one)
        return self._moved(one)

    def _loop(self, step: LoopStep, steps: Sequence[Step]) -> str:
        """The number of iterations of a loop, the values that the host reads for it, and its own kernels."""
        count, condition, *_ = step.instruction.inputs
        asks = [
            f"the {word} {self.names[one.id]}"
            for word, one, place in (
                ("count", count, step.count),
                ("condition", condition, step.condition),
            )
            if isinstance(place, Place)
        ]
        times = f"{step.count} times" if isinstance(step.count, int) else "some times"
        often = f"at most {times}" if step.condition is not None else times
        read = f", of which the host reads {' and '.join(asks)}" if asks else ""
        kernels = ", ".join(_kernel(s.launch) for s in steps if isinstance(s, KernelStep))
        return f"{often}{read}: {kernels}" if kernels else f"{often}{read}"

    def _literal(self, one: Instruction) -> tuple[str, str]:
        if any(p.root in self.plan.literals for p in self.plan.values.get(one.id, ())):
            return kinds.LITERAL, ""
        written = one.shape.elements == 1 and one.users
        return kinds.LITERAL, "written into kernels" if written else "not read by a kernel"

    def _moved(self, one: Instruction) -> tuple[str, str]:
        """The form of an instruction without work: a view, a value without elements, or no value at all."""
        places = self.plan.values.get(one.id, ())
        if not places:
            return kinds.NOTHING, ""
        if any(p.root.id == one.id for p in places):
            return kinds.NOTHING, "it has no elements"
        return kinds.VIEW, self.names[one.inputs[0].id]

    def _place(self, place: Place) -> PlaceRow:
        root, size = place.root, place.shape.type.size
        part = f".{root.part}" if root.part else ""
        return PlaceRow(
            f"{root.kind}#{root.id}{part}",
            place.offset * size,
            place.shape.element_space * size,
            self.plan.offsets.get(root),
        )


def _kernel(launch: Launch) -> str:
    return f"{launch.kernel.name}[{launch.schedule}]" if launch.schedule else launch.kernel.name
