"""What a run does as plain rows: kernels with their machine code and arguments, copies, host steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.result import kernel_sources, kernel_text
from workbench.compiler.text.printing import names
from workbench.gpu.devices.base import Code
from workbench.gpu.kernels.kernel import Kernel, Place, Root, Size
from workbench.gpu.lowering.plan import BranchStep, HostStep, KernelStep, Plan, Step, flat

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel with its machine code."""

    kernel: Kernel
    code: Code
    prologue: str

    @property
    def name(self) -> str:
        """The name of the function in the code object."""
        return self.kernel.name

    @property
    def source(self) -> str:
        """The source that was compiled, the dialect's prologue included."""
        return self.prologue + self.kernel.source

    @property
    def code_object(self) -> bytes:
        """The machine code: an ELF file of the device, or OpenCL's program binary."""
        return self.code.binary

    def __repr__(self) -> str:
        """Name and size."""
        return f"<CompiledKernel {self.name}: {len(self.code_object):,} bytes>"


@dataclass(frozen=True)
class ArgumentRow:
    """One argument of a kernel, or where a copy goes or comes from."""

    kind: str
    """``arena``, ``literal``, ``parameter``, ``output`` or ``scalar``."""
    name: str
    """The parameter's or output's name, the literal's key in ``RunPlan.literals``; "" in the arena."""
    offset: int
    """Bytes from the start of that memory."""
    bytes: int
    writes: bool = False
    """Whether the step writes it."""


@dataclass(frozen=True)
class PlanRow:
    """One thing that a run does."""

    kind: str
    """``upload``, ``kernel``, ``host``, ``download``, or ``branch``: the host reads the condition.

    The steps of both modules of a branch follow it.
    """
    instruction: str
    """The instruction's name in the text form."""
    what: str
    """What it computes, or the name of the parameter or output that is copied."""
    arguments: tuple[ArgumentRow, ...]
    """Of a kernel, in its order; of a host step, what it reads, then what it writes."""
    kernel: CompiledKernel | None = None
    grid: Size = (0, 0, 0)
    """Blocks."""
    block: Size = (0, 0, 0)
    """Work items of a block."""
    shared: int = 0
    """Bytes of dynamic shared memory."""
    shape: str = ""
    """Of an upload or download: type, lens and strides in memory, as the text form has them."""
    start: int = 0
    """Of a download: elements from the argument's start to the first one."""
    sources: tuple[str, ...] = ()
    """The model's nodes that it comes from."""


@dataclass(frozen=True)
class RunPlan:
    """All that a run does, in order."""

    rows: tuple[PlanRow, ...]
    literals: Mapping[str, Array]
    """Constants as they lie in memory, flat, by key; they are uploaded once, before the first run."""
    arena: int
    """Bytes of the memory that values share."""
    device: str

    def __iter__(self) -> Iterator[PlanRow]:
        """The rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def table(self) -> DataFrame:
        """A row a step: kind, instruction, kernel, grid, block, bytes of code, arguments, nodes."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "kind": r.kind,
                "instruction": r.instruction,
                "what": r.what,
                "kernel": r.kernel.name if r.kernel else "",
                "grid": r.grid if r.kernel else "",
                "block": r.block if r.kernel else "",
                "shared": r.shared if r.kernel else "",
                "code bytes": len(r.kernel.code_object) if r.kernel else "",
                "arguments": ", ".join(map(_said, r.arguments)),
                "sources": ", ".join(r.sources),
            }
            for r in self.rows
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        """How many steps of each kind."""
        kinds = [r.kind for r in self.rows]
        counted = ", ".join(f"{kinds.count(k)} × {k}" for k in dict.fromkeys(kinds))
        return f"<RunPlan for {self.device}: {counted}; arena of {self.arena:,} bytes>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        table = self.table().to_html(border=0)
        return {"text/plain": repr(self), "text/html": f"<p>{escape(repr(self))}</p>{table}"}


def _said(argument: ArgumentRow) -> str:
    where = f"{argument.kind} {argument.name}".strip()
    at = f"+{argument.offset}" if argument.kind == "arena" else ""
    return f"{'→ ' if argument.writes else ''}{where}{at}"


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
        steps = [self._step(s) for s in flat(self.plan.steps)]
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
        shown, what, sources = self.names[i.id], kernel_text(i), kernel_sources(i)
        if isinstance(step, KernelStep):
            kernel = step.launch.kernel
            made = CompiledKernel(kernel, self.codes[kernel.name], self.plan.dialect.prologue)
            writes = step.launch.writes
            row = tuple(self._argument(r, r in writes) for r in step.launch.arguments)
            return PlanRow(
                "kernel", shown, what, row, made, kernel.grid, kernel.block, kernel.shared,
                sources=sources,
            )  # fmt: skip
        if isinstance(step, BranchStep):
            return PlanRow("branch", shown, what, (self._argument(step.condition.root),))
        return PlanRow("host", shown, what, self._host(step), sources=sources)

    def _host(self, step: HostStep) -> tuple[ArgumentRow, ...]:
        read = [self._argument(p.root) for _, ps in step.reads for p in ps]
        return (*read, *(self._argument(p.root, writes=True) for p in step.writes))
