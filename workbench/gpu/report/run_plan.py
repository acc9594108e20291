"""The rows of a plan: kernels with their machine code and arguments, copies, host steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from workbench.compiler.report.result import kernel_sources
from workbench.compiler.report.run_plan import ArgumentRow, CompiledKernel, PlanRow, RunPlan
from workbench.compiler.text.printing import names
from workbench.gpu.devices.base import Code
from workbench.gpu.kernels.kernel import Kernel, Place, Root
from workbench.gpu.lowering.plan import (
    BranchStep,
    CollectiveStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
    flat,
    with_runs,
)
from workbench.gpu.report.steps import groups_text, step_text


def listed(plan: Plan, codes: Mapping[str, Code], device: str) -> RunPlan:
    """The rows of a plan whose kernels were compiled."""
    return _Listing(plan, codes).whole(device)


class _Listing:
    def __init__(self, plan: Plan, codes: Mapping[str, Code]) -> None:
        self.plan = plan
        self.codes = codes
        self.names = names(plan.program)
        outputs = zip(plan.program.output_names, plan.outputs, strict=False)
        self.own: dict[Root, str] = {}
        for name, places in outputs:
            for place in places:
                if place.root in plan.own:
                    self.own.setdefault(place.root, name)
        for k, root in enumerate(plan.own):
            self.own.setdefault(root, f"output_{k}")
        self.parameters = {p.root: n for n, p in plan.parameters.items()}
        self.literals = {root: f"literal_{k}" for k, root in enumerate(plan.literals)}

    def whole(self, device: str) -> RunPlan:
        uploads = [self._upload(n, p) for n, p in self.plan.parameters.items()]
        steps = [replace(self._step(s), runs=n) for s, n in with_runs(self.plan.steps)]
        found = [*uploads, *steps, *self._downloads()]
        arrays = {self.literals[r]: a for r, a in self.plan.literals.items()}
        return RunPlan(tuple(found), arrays, self.plan.arena, device)

    def _argument(self, root: Root, writes: bool = False) -> ArgumentRow:
        if root in self.parameters:
            return ArgumentRow("parameter", self.parameters[root], 0, root.bytes, writes)
        if root in self.literals:
            return ArgumentRow("literal", self.literals[root], 0, root.bytes, writes)
        if root in self.own:
            return ArgumentRow("output", self.own[root], 0, root.bytes, writes)
        return ArgumentRow("arena", "", self.plan.offsets[root], root.bytes, writes)

    def _upload(self, name: str, place: Place) -> PlanRow:
        to = (self._argument(place.root, writes=True),)
        return PlanRow("upload", name, name, to, shape=str(place.shape))

    def _downloads(self) -> Iterator[PlanRow]:
        outputs = self.plan.program.main.outputs
        for k, places in enumerate(self.plan.outputs):
            known = self.plan.program.output_names
            name = known[k] if k < len(known) else f"output_{k}"
            for place in places:
                row = (self._argument(place.root),)
                shape = str(place.shape)
                shown = self.names[outputs[k].id]
                yield PlanRow("download", shown, name, row, shape=shape, start=place.offset)

    def _step(self, step: Step) -> PlanRow:
        i = step.instruction
        shown, what, sources = self.names[i.id], step_text(step), kernel_sources(i)
        if isinstance(step, KernelStep):
            kernel = step.launch.kernel
            made = self._compiled(kernel)
            writes = step.launch.writes
            row = tuple(self._argument(r, r in writes) for r in step.launch.arguments)
            return PlanRow(
                "kernel", shown, what, row, made, kernel.grid, kernel.block, kernel.shared,
                sources=sources,
            )  # fmt: skip
        if isinstance(step, BranchStep):
            return PlanRow("branch", shown, what, (self._argument(step.condition.root),))
        if isinstance(step, LoopStep):
            return self._loop(step, shown, what)
        if isinstance(step, CollectiveStep):
            read, write = self._argument(step.source.root), self._argument(step.target.root, True)
            said = f"{what} {groups_text(step)}"
            return PlanRow("collective", shown, said, (read, write), sources=sources)
        return PlanRow("host", shown, what, self._host(step), sources=sources, reason=step.why)

    def _loop(self, step: LoopStep, shown: str, what: str) -> PlanRow:
        known = (step.count, step.condition)
        read = tuple(self._argument(p.root) for p in known if isinstance(p, Place))
        pairs = {frozenset(pair): pair for pair in step.swapped.items()}.values()
        swaps = tuple((self._argument(a), self._argument(b)) for a, b in pairs)
        steps = len(list(flat(step.body))), len(list(flat(step.after)))
        return PlanRow("loop", shown, what, read, swaps=swaps, steps=steps)

    def _compiled(self, kernel: Kernel) -> CompiledKernel:
        source = self.plan.dialect.prologue + kernel.source
        return CompiledKernel(kernel.name, source, self.codes[kernel.name].binary, kernel.maps)

    def _host(self, step: HostStep) -> tuple[ArgumentRow, ...]:
        read = [self._argument(p.root) for _, ps in step.reads for p in ps]
        return (*read, *(self._argument(p.root, writes=True) for p in step.writes))
