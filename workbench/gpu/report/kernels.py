"""The list of a plan's kernels: the instruction, the code, and the resources of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.quoting import value_text
from workbench.compiler.report.kernels import KernelInfo, Kernels
from workbench.compiler.report.result import fused_ids, kernel_sources
from workbench.compiler.text.printing import instruction_text, names
from workbench.gpu.code.cubins import cubin_facts, is_cubin
from workbench.gpu.code.disassembly import machine_code
from workbench.gpu.code.objects import is_gcn, read_code_object
from workbench.gpu.devices.base import Code, Device, FunctionFacts
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.plan import KernelStep, Plan, with_runs
from workbench.gpu.report.steps import is_of_loop, moved, step_text, step_work

if TYPE_CHECKING:
    from workbench.gpu.run.runner import DeviceRunner

RESIDENT = {
    **dict.fromkeys(("sm_80", "sm_90", "sm_100", "sm_103"), 2048),
    **dict.fromkeys(("sm_86", "sm_87", "sm_89", "sm_120", "sm_121"), 1536),
    "sm_75": 1024,
    **dict.fromkeys(("gfx90a", "gfx942", "gfx950"), 2048),
    **dict.fromkeys(("gfx900", "gfx906", "gfx908"), 2560),
}
"""Resident work items per compute unit, by the vendors' manuals: the denominator of occupancy."""


def kernels_of(runner: DeviceRunner, progress: bool | None = None) -> Kernels:
    """The kernels that a run launches, in order.

    Args:
        runner: The runner, which may have compiled the program for a device that is not present.
        progress: Show a progress bar for compilation; None shows one after the first second.

    Raises:
        DeviceError: A kernel does not compile.
    """
    plan = runner.plan()
    listing = _Listing(plan, runner.codes(progress), runner.device, runner.searched)
    return Kernels(list(listing.kernels()), runner.program, runner.name)


class _Listing:
    def __init__(
        self,
        plan: Plan,
        codes: Mapping[str, Code],
        device: Device | None,
        searched: Mapping[str, str],
    ) -> None:
        self.plan = plan
        self.searched = searched
        self.codes = codes
        self.device = device
        self.names = names(plan.program)
        self.launches = Counter(s.instruction.id for s in plan.kernels)
        self.facts: dict[str, KernelFacts] = {}
        self.disassembled = cache(self._disassembled)

    def kernels(self) -> Iterator[KernelInfo]:
        seen: set[int] = set()
        steps = ((s, n) for s, n in with_runs(self.plan.steps) if isinstance(s, KernelStep))
        for index, (step, runs) in enumerate(steps):
            made = self._kernel(index, step, step.instruction.id not in seen)
            yield replace(made, runs=runs)
            seen.add(step.instruction.id)

    def _kernel(self, index: int, step: KernelStep, is_first: bool) -> KernelInfo:
        i, kernel = step.instruction, step.launch.kernel
        work, code = step_work(step), self.codes[kernel.name]
        is_alone = self.launches[i.id] == 1 and not is_of_loop(step)
        made = KernelInfo(
            index=index, id=i.id, instruction=self.names[i.id], what=step_text(step), name=kernel.name,
            module=fused_text(i, self.names), prologue=self.plan.dialect.prologue, body=kernel.source,
            log=code.log, code_object=code.binary, grid=kernel.grid, block=kernel.block,
            bytes=work.bytes if is_alone else moved(step), flops=work.flops if is_first else 0,
            sources=kernel_sources(i), ids=fused_ids(i),
            disassembled=partial(self.disassembled, kernel.name),
            search=self.searched.get(step.launch.problem, ""),
        )  # fmt: skip
        return self._with_facts(made, kernel)

    def _disassembled(self, name: str) -> str:
        return machine_code(self.codes[name].binary, self.codes[name].assembly)

    def _with_facts(self, made: KernelInfo, kernel: Kernel) -> KernelInfo:
        if kernel.name not in self.facts:
            self.facts[kernel.name] = facts_of(self.codes[kernel.name], kernel, self.device)
        found, spills = self.facts[kernel.name]
        shared = _known(found.shared)
        blocks = _known(found.blocks)
        resident = RESIDENT.get(self.device.facts.arch.split(":")[0], 0) if self.device else 0
        return replace(
            made,
            registers=_known(found.registers),
            shared=None if shared is None else shared + kernel.shared,
            local=_known(found.local),
            spills=_known(spills),
            blocks=blocks,
            occupancy=blocks * made.threads / resident if blocks and resident else None,
        )


def _known(number: int) -> int | None:
    return None if number < 0 else number


def fused_text(instruction: Instruction, named: Mapping[int, str]) -> str:
    """The text form of an instruction after that of its modules; a module's names are local to it.

    Args:
        instruction: The instruction of a kernel.
        named: The names of all instructions of the program.
    """
    found: list[str] = []
    for module in dict.fromkeys(_modules(instruction)):
        own = {
            i.id: f"@{k}" if i.parameter is None else value_text(i.parameter)
            for k, i in enumerate(module)
        }
        found.append(f'module: "{module.name}"')
        found += [instruction_text(i, {**named, **own}) for i in module]
        found.append("")
    return "\n".join([*found, instruction_text(instruction, dict(named))]) + "\n"


def _modules(instruction: Instruction) -> Iterator[Module]:
    for module in instruction.modules:
        for inner in module:
            yield from _modules(inner)
        yield module


KernelFacts = tuple[FunctionFacts, int]
"""A kernel's resources, and its spilled registers; -1 if unknown."""


def facts_of(code: Code, kernel: Kernel, device: Device | None) -> KernelFacts:
    """The resources of a kernel, as reported by its device, or else read from its code object.

    Args:
        code: The machine code.
        kernel: Its source and launch.
        device: The device, if it is present.
    """
    found, spills = _written(code.binary, kernel.name)
    if device is None:
        return found, spills
    said = device.function_facts(device.load(code, kernel.name), prod(kernel.block))
    if device.facts.processor == "CPU":
        said = replace(said, local=-1)  # PoCL reports the same number for every kernel
    return FunctionFacts(
        registers=_first(said.registers, found.registers),
        shared=_first(said.shared, found.shared),
        local=_first(said.local, found.local),
        blocks=said.blocks,
    ), spills


def _first(said: int, written: int) -> int:
    """The device's number, or else the code object's."""
    return said if said >= 0 else written


def _written(binary: bytes, name: str) -> KernelFacts:
    """The facts of a kernel in the code object."""
    try:
        if is_cubin(binary):
            return cubin_facts(binary, name), -1
        if is_gcn(binary):
            kernel = read_code_object(binary).kernel(name)
            return FunctionFacts(kernel.vgprs, kernel.shared, kernel.private), kernel.spills
    except DeviceError:
        pass  # the code can still run; its resources stay unknown
    return FunctionFacts(), -1
