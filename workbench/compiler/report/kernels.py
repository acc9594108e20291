"""The kernels of a build as data: source, module, machine code, resources and traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from workbench.compiler import showing
from workbench.compiler.errors import InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.report.timings import DEVICE, Timing

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.report.result import Result

Size = tuple[int, int, int]


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a run, launched once or, in a loop, often. Unknown numbers are None."""

    index: int
    """Its index among the kernels of a run."""
    id: int
    """The instruction that it computes."""
    instruction: str
    """That instruction's name in the text form."""
    what: str
    """The operation, or the parts of a fused one: ``add · relu``."""
    name: str
    """The function's name; kernels with the same name share their code."""
    module: str
    """The instruction in the text form, with the modules fused into it."""
    prologue: str
    """The start of the source, the same for all kernels of a dialect."""
    body: str
    """The rest of the source: the kernel itself."""
    log: str
    """The compiler's output."""
    code_object: bytes
    """The machine code: an ELF file for the device, or OpenCL's program binary."""
    grid: Size
    """Blocks."""
    block: Size
    """Work items per block."""
    bytes: int
    """Bytes that enter and leave the kernel."""
    flops: int
    """If an instruction has several kernels, the first one carries these."""
    sources: tuple[str, ...] = ()
    """The model's nodes that it computes."""
    ids: frozenset[int] = frozenset()
    """The instruction's id and those of the parts fused into it."""
    registers: int | None = None
    """Registers per work item."""
    shared: int | None = None
    """Bytes of shared memory per block, static and dynamic."""
    local: int | None = None
    """Bytes of private memory per work item: arrays and spilled registers."""
    spills: int | None = None
    """Spilled registers, if the code object counts them."""
    blocks: int | None = None
    """Blocks resident on one compute unit at once."""
    occupancy: float | None = None
    """Occupancy: the fraction of a compute unit's work items in those blocks."""
    runs: int | None = 1
    """Its launches in a run: those of all iterations of a loop; None if only the run knows."""
    seconds: float | None = None
    """The median time of a profiled run, all its launches together."""
    share: float | None = None
    """Its fraction of the device time of that run."""
    search: str = ""
    """The variants that `build.tune()` measured for its problem, as text; empty if it measured none."""
    disassembled: Callable[[], str] = field(default=str, repr=False, compare=False)

    @property
    def source(self) -> str:
        """The complete source, as it was compiled."""
        return self.prologue + self.body

    @cached_property
    def assembly(self) -> str:
        """The machine code as text; without a disassembler, a comment that says which one to install."""
        return self.disassembled()

    @property
    def work_items(self) -> int:
        """Work items per launch."""
        return self.grid[0] * self.grid[1] * self.grid[2] * self.threads

    @property
    def threads(self) -> int:
        """Work items per block."""
        return self.block[0] * self.block[1] * self.block[2]

    def __repr__(self) -> str:
        """Instruction, operations and launch sizes."""
        launched = f"{size_text(self.grid)} blocks of {size_text(self.block)}"
        return f"<Kernel {self.instruction} {self.what}: {launched}>"


def size_text(size: Size) -> str:
    """A grid or block without trailing ones: ``8``, ``16×4``."""
    kept = list(size)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


class Kernels(Sequence[KernelInfo]):
    """The kernels of a run in order, those of a loop once; ``kernels[3]``, or by the start of a name.

    Args:
        kernels: The kernels.
        program: The compiled program.
        device: The device they were compiled for.
    """

    def __init__(self, kernels: Sequence[KernelInfo], program: Program, device: str) -> None:
        """Keep them."""
        self._kernels = tuple(kernels)
        self.program = program
        self.device = device
        """The device they were compiled for."""

    @overload
    def __getitem__(self, key: int | str) -> KernelInfo: ...
    @overload
    def __getitem__(self, key: slice) -> Kernels: ...
    def __getitem__(self, key: int | str | slice) -> KernelInfo | Kernels:
        """A kernel by its index, or the first of an instruction (``"@3"``) or with a function's name.

        Raises:
            InputError: There is no such kernel.
        """
        if isinstance(key, slice):
            return Kernels(self._kernels[key], self.program, self.device)
        if isinstance(key, int):
            return self._kernels[key]
        for kernel in self._kernels:
            if kernel.instruction == key or kernel.name.startswith(key):
                return kernel
        known = ", ".join(dict.fromkeys(k.instruction for k in self._kernels)) or "none"
        raise InputError(f"no kernel {key!r}; expected one of the instructions {known}")

    def __len__(self) -> int:
        """The number of kernels; one in a loop counts once."""
        return len(self._kernels)

    def __iter__(self) -> Iterator[KernelInfo]:
        """The kernels."""
        return iter(self._kernels)

    def timed(self, result: Result) -> Kernels:
        """The same kernels with the measurements of a profiled run of this build.

        Raises:
            InputError: The result belongs to another program.
            OperationError: The run was not profiled.
        """
        if result.program is not self.program:
            raise InputError(
                f"these kernels belong to the program {self.program.name or 'without a name'!r} of "
                "this build, but the result to another; expected a result of build.run"
            )
        return Kernels(list(_timed(self, result.measured.rows)), self.program, self.device)

    def table(self) -> DataFrame:
        """A row per kernel, with units in the columns' names; unknown cells are empty."""
        import pandas as pd  # noqa: PLC0415

        table = pd.DataFrame([_row(k) for k in self], index=pd.RangeIndex(len(self), name="kernel"))
        once = ["launches"] if all(k.runs == 1 for k in self) and len(self) else []
        return table.drop(columns=once).dropna(axis=1, how="all") if len(self) else table

    def view(self, graph: Any = None, **options: Any) -> Any:
        """The kernels as a widget: a table, and the source, module, machine code and log of the selected one.

        Args:
            graph: A ``GraphView`` of the compiled program that shares its selection with this widget.
            **options: The options of ``workbench.widgets.KernelView``.
        """
        return showing.view("kernels")(self.rows(), title=self._title(), graph=graph, **options)

    def explore(self, **options: Any) -> Any:
        """The compiled program's graph and its kernels, with a shared selection."""
        return showing.view("kernel explorer")(
            self.program, self.rows(), title=self._title(), **options
        )

    def rows(self) -> list[dict[str, Any]]:
        """The kernels as plain rows for a view; a function returns the machine code."""
        return [_plain(k) for k in self]

    def _title(self) -> str:
        return f"{self.program.name or 'program'} → {self.device}"

    def __repr__(self) -> str:
        """The number of launches, the number of distinct kernels, and the device."""
        codes = len({k.name for k in self})
        count = sum(k.runs or 0 for k in self)
        more = " or more" if any(k.runs is None for k in self) else ""
        launches = f"{count}{more} launch{'' if count == 1 else 'es'}"
        return (
            f"<Kernels for {self.device}: {launches} of {codes} kernel{'' if codes == 1 else 's'}>"
        )

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return showing.view("notebook kernels")(self)


def _timed(kernels: Kernels, rows: Sequence[Timing]) -> Iterator[KernelInfo]:
    whole = sum(r.spread.median for r in rows if r.where == DEVICE) or 1.0
    found = _by_instruction(r for r in rows if r.where == DEVICE and r.launches and not _copies(r))
    mates = _by_instruction(kernels)
    for kernel in kernels:
        theirs, timings = mates[kernel.id], found.get(kernel.id, [])
        if len(theirs) != len(timings):
            yield kernel  # timed as part of a branch
            continue
        seconds = timings[theirs.index(kernel)].spread.median
        yield replace(kernel, seconds=seconds, share=seconds / whole)


def _copies(timing: Timing) -> bool:
    return timing.kernel.startswith("copy on the device")


def _by_instruction(items: Any) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for item in items:
        found.setdefault(item.id, []).append(item)
    return found


def _row(k: KernelInfo) -> Mapping[str, Any]:
    return {
        "instruction": k.instruction,
        "what": k.what,
        "ms": None if k.seconds is None else k.seconds * 1e3,
        "share": k.share,
        "launches": k.runs,
        "MB": k.bytes / 1e6,
        "MFLOP": k.flops / 1e6,
        "grid": size_text(k.grid),
        "block": size_text(k.block),
        "registers": k.registers,
        "shared bytes": k.shared,
        "local bytes": k.local,
        "spills": k.spills,
        "blocks per unit": k.blocks,
        "occupancy %": None if k.occupancy is None else k.occupancy * 100,
        "code bytes": len(k.code_object),
        "sources": ", ".join(k.sources),
        "name": k.name,
    }


def _plain(k: KernelInfo) -> dict[str, Any]:
    return {
        "id": k.id,
        "ids": sorted(k.ids | {k.id}),
        "instruction": k.instruction,
        "what": k.what if k.runs == 1 else f"{k.what} ×{'?' if k.runs is None else k.runs}",
        "name": k.name,
        "ms": None if k.seconds is None else k.seconds * 1e3,
        "share": k.share,
        "bytes": k.bytes,
        "flops": k.flops,
        "grid": size_text(k.grid),
        "block": size_text(k.block),
        "items": k.work_items,
        "registers": k.registers,
        "shared": k.shared,
        "local": k.local,
        "spills": k.spills,
        "blocks": k.blocks,
        "occupancy": k.occupancy,
        "code": len(k.code_object),
        "sources": list(k.sources),
        "source": k.source,
        "prologue": k.prologue.count("\n"),
        "module": k.module,
        "search": k.search,
        "log": k.log,
        "assembly": lambda: k.assembly,
    }
