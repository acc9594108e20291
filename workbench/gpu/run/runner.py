"""The runner of the device target: it lowers a program, and compiles and loads its kernels when needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from workbench.compiler.builds.runner import Runner
from workbench.compiler.errors import DeviceError
from workbench.compiler.files.mxr.kernels import SavedKernel
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.record.lowered import Lowered
from workbench.compiler.report.kernels import Kernels
from workbench.compiler.report.run_plan import RunPlan
from workbench.compiler.report.timings import Measured
from workbench.compiler.report.tuning import Tuning
from workbench.compiler.run.results import Hook
from workbench.compiler.run.team import Team
from workbench.gpu.choices import NONE, Choices, shipped
from workbench.gpu.code.cache import Expected, compiled
from workbench.gpu.code.saved import known_codes, saved_kernels
from workbench.gpu.devices.base import Code, Compiler, Device
from workbench.gpu.devices.registry import compiler_for, expected, is_architecture
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import Plan
from workbench.gpu.report.kernels import kernels_of
from workbench.gpu.report.lowered import lowered_of
from workbench.gpu.report.run_plan import listed
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.kept import KeptOnDevice
from workbench.gpu.run.loaded import Loaded
from workbench.gpu.run.nccl_team import connected
from workbench.gpu.run.profile import profiled
from workbench.gpu.run.runtime import Runtime
from workbench.gpu.run.tuning import search
from workbench.knobs import knobs


class DeviceRunner(Runner):
    """A program compiled for a device, which need not be present until it runs.

    Args:
        program: The compiled program.
        spec: A device that ``workbench.devices()`` lists, or an architecture to compile for, such
            as ``hip:gfx90a``; by default the best device.
    """

    def __init__(self, program: Program, spec: str | None = None) -> None:
        """Find the device, or the compiler for the architecture."""
        super().__init__(program)
        self.spec = spec = spec or knobs.device or None
        self.device: Device | None = None if is_architecture(spec) else expected(spec)
        self.compiler: Compiler = (
            compiler_for(spec) if self.device is None else self.device.compiler
        )
        self._lock = RLock()
        self._plan: tuple[int, Plan] | None = None
        self._codes: tuple[Plan, Mapping[str, Code]] | None = None
        self._trusted: tuple[SavedKernel, ...] = ()
        self._choices: Mapping[str, str] = NONE
        self._shipped = NONE if self.device is None else shipped(self.device.facts.name)
        self.searched: Mapping[str, str] = {}
        """What `tune` measured, as text by problem."""
        self._executable: Executable | None = None
        self._loaded: Loaded | None = None

    @property
    def name(self) -> str:
        """The name of the device or architecture."""
        if self.device is not None:
            return f"{self.device.kind}: {self.device.facts.name}"
        return self.spec or self.compiler.key

    def plan(self) -> Plan:
        """The steps of a run."""
        with self._lock:
            version, known = self._plan or (-1, None)
            if known is None or version != self.program.version:
                chosen = {**self._shipped, **self._choices}
                trusted = {k.name for k in self._trusted if k.device == self.compiler.key}
                tell = Expected(self.compiler, trusted).add
                known = lower(self.program, self.compiler.dialect, Choices(chosen), tell)
                self._plan = (self.program.version, known)
            return known

    def codes(self, progress: bool | None = None) -> Mapping[str, Code]:
        """The machine code of the plan's kernels, by name; compiled at the first call."""
        with self._lock:
            plan = self.plan()
            if self._codes is None or self._codes[0] is not plan:
                known = known_codes(plan, self.compiler, self._trusted)
                self._codes = plan, known | _compiled(plan, self.compiler, progress, known)
            return self._codes[1]

    def lowered(self) -> Lowered:
        """The lowering of each instruction, and the place of its value."""
        return lowered_of(self.plan(), self.name)

    @property
    def choices(self) -> Mapping[str, str]:
        """The variants of kernels that were chosen by measuring, by their problems."""
        return self._choices

    def choose(self, choices: Mapping[str, str]) -> None:
        """Use these variants of kernels from now on; elsewhere those that are shipped, or estimated."""
        with self._lock:
            self._choices, self._plan, self.searched = dict(choices), None, {}

    def tune(self, inputs: Mapping[str, Any], most: int, progress: bool | None = None) -> Tuning:
        """Measure variants of kernels, and use the fastest from now on.

        Raises:
            DeviceError: There is no such device, or a kernel failed.
            OperationError: The number of variants is not positive.
        """
        here = self.here()

        def load(plan: Plan) -> Executable:
            return Executable(plan, here, _compiled(plan, self.compiler, False, {}))

        found = search(self.program, here, load, inputs, most, progress)
        self.choose({one.name: one.chosen for one in found})
        self.searched = {one.name: one.text() for one in found}
        return found

    def trust(self, kernels: Iterable[SavedKernel]) -> None:
        """Use the kernels of a file that were compiled for this device from exactly the same source.

        Their machine code cannot be verified: load files only from sources that you trust.
        """
        self._trusted = tuple(kernels)
        self._codes = None

    def saved(self, progress: bool | None = None) -> tuple[SavedKernel, ...]:
        """The plan's kernels with their machine code, for a file."""
        return saved_kernels(self.plan(), self.compiler, self.codes(progress))

    def listing(self, progress: bool | None = None) -> RunPlan:
        """The steps of a run as plain rows, with the machine code of its kernels."""
        return listed(self.plan(), self.codes(progress), self.name)

    def kernels(self, progress: bool | None = None) -> Kernels:
        """The kernels that a run launches, in order."""
        return kernels_of(self, progress)

    def ready(self, progress: bool | None = None) -> None:
        """Compile the kernels."""
        self.codes(progress)

    def here(self) -> Device:
        """The device.

        Raises:
            DeviceError: The program was compiled for an architecture without a device.
        """
        if self.device is None:
            raise DeviceError(
                f"the program was compiled for {self.name}, and no such device is present; "
                "compile it with device=None to run it on the best device"
            )
        return self.device

    def executable(self, progress: bool | None = None) -> Executable:
        """The program on the device.

        Raises:
            DeviceError: There is no such device.
        """
        here = self.here()
        with self._lock:
            plan = self.plan()
            if self._executable is None or self._executable.plan is not plan:
                self._executable = Executable(plan, here, self.codes(progress))
            return self._executable

    def runtime(self, outside: Collection[str] = ()) -> Runtime:
        """One more execution of the program, with memory of its own; kernels and constants are shared.

        Args:
            outside: Parameters whose memory ``Runtime.bind`` gives, such as weights that runtimes share.

        Raises:
            DeviceError: There is no such device, or it has too little memory.
        """
        here = self.here()
        with self._lock:
            plan = self.plan()
            if self._loaded is None or self._loaded.plan is not plan:
                self._loaded = Loaded(plan, here, self.codes())
            return Runtime(self._loaded, outside)

    def beside(self, device: str | None) -> DeviceRunner:
        """The same program on another device, with the same kernels if the compiler is the same.

        Raises:
            DeviceError: There is no such device, or a kernel does not compile.
        """
        other = DeviceRunner(self.program, device)
        if other.compiler.key == self.compiler.key:
            plan, codes = self.plan(), self.codes()
            other._plan, other._codes = (self.program.version, plan), (plan, codes)
        return other

    def team(self, others: Sequence[Runner]) -> Team:
        """The replicas on this device and on those of other runners, connected.

        Raises:
            DeviceError: The devices cannot be connected.
        """
        devices = [r.here() for r in (self, *others) if isinstance(r, DeviceRunner)]
        return connected(devices, self.plan().collectives)

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        hook: Hook | None = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the program's outputs; a hook is called with each instruction's value."""
        executable = self.executable(progress)
        if hook is None:
            return executable.run(inputs, progress=progress)

        def tell(instruction: Instruction, value: Any) -> Any:
            return hook(instruction, value, ())

        return executable.run(inputs, hook=tell, progress=progress)

    def keeping(self, updates: Mapping[str, int], values: Mapping[str, Any]) -> KeptOnDevice:
        """The program with values that stay in the device's memory, and that outputs replace there."""
        return KeptOnDevice(self, updates, values)

    def profiled(
        self, inputs: Mapping[str, Any], repetitions: int, progress: bool | None = None
    ) -> tuple[list[Any], Measured]:
        """Values of the program's outputs, and what was measured in several runs.

        Raises:
            DeviceError: There is no such device, or a kernel failed.
        """
        return profiled(self.executable(progress), inputs, repetitions, progress)


def _compiled(
    plan: Plan, compiler: Compiler, progress: bool | None, known: Mapping[str, Code]
) -> dict[str, Code]:
    """The code of the kernels of a plan that are not compiled yet; an error names the instruction too."""
    kernels = (s.launch.kernel for s in plan.kernels)
    try:
        return compiled((k for k in kernels if k.name not in known), compiler, progress)
    except DeviceError as error:
        for step in plan.kernels:
            if step.launch.kernel.name in str(error):
                raise DeviceError(f"{step.instruction!r}: {error}", step.instruction) from error
        raise
