"""Runners: a target's executable form of a compiled program; the NumPy interpreter is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from workbench.compiler.builds.targets import with_devices
from workbench.compiler.errors import OperationError
from workbench.compiler.files.mxr.kernels import SavedKernel
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program
from workbench.compiler.report.timings import Measured
from workbench.compiler.run.evaluate import AnyInterpreter, evaluate
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.results import Hook
from workbench.compiler.run.team import Team, host_team

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.record.lowered import Lowered
    from workbench.compiler.report.kernels import Kernels
    from workbench.compiler.report.run_plan import RunPlan
    from workbench.compiler.report.tuning import Tuning

Times: TypeAlias = Sequence[Mapping[int, float]] | Measured
"""The seconds of each instruction by id for each repetition, or a device's measurements."""
MakeInterpreter: TypeAlias = Callable[[Program, bool], AnyInterpreter]
"""Makes the interpreter of a program; the flag requests float64 for every float."""
_UNMEASURED = Measured()


class Kept:
    """Values of parameters that outputs replace from run to run; here in NumPy's arrays.

    Args:
        runner: It runs the program.
        updates: The parameters that a run replaces, by name, as positions of outputs.
        values: Their first values.
    """

    def __init__(
        self, runner: Runner, updates: Mapping[str, int], values: Mapping[str, Any]
    ) -> None:
        """Copy the values."""
        self.runner = runner
        self.updates = updates
        self._values = {name: np.array(values[name]) for name in updates}

    def run(self, inputs: Mapping[str, Any], wanted: Sequence[int]) -> list[Any]:
        """Run once, replace the values, and return the wanted outputs by position."""
        outputs = self.runner.run({**self._values, **inputs})
        self._values = {n: np.asarray(outputs[k]) for n, k in self.updates.items()}
        return [outputs[k] for k in wanted]

    def read(self, name: str) -> Array:
        """A copy of a value."""
        return self._values[name].copy()

    def write(self, name: str, value: Array) -> None:
        """Give a parameter another value."""
        self._values[name] = np.array(value)


class Runner(ABC):
    """Runs one compiled program. A subclass must implement ``run``; the other methods are optional.

    Args:
        program: The compiled program; edits made to it between runs take effect.
    """

    def __init__(self, program: Program) -> None:
        """Keep the program."""
        self.program = program

    @property
    @abstractmethod
    def name(self) -> str:
        """The device or library that runs the program."""

    # Running

    @abstractmethod
    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        hook: Hook | None = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the program's outputs.

        Args:
            inputs: An array for each parameter, by name.
            hook: Called after each instruction of the main module that is computed, with its value.
            progress: Show a progress bar; None shows one after the first second.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            EvaluationError: An instruction failed.
            DeviceError: A kernel failed, or the device is not available.
        """

    def timed(
        self, inputs: Mapping[str, Any], progress: bool | None = None
    ) -> tuple[list[Any], Times]:
        """Values of the outputs of one run, and the measurements, if there are any."""
        return self.run(inputs, progress=progress), _UNMEASURED

    def profiled(
        self, inputs: Mapping[str, Any], repetitions: int, progress: bool | None = None
    ) -> tuple[list[Any], Times]:
        """Values of the outputs, and the measurements of several runs after a warm-up run.

        Raises:
            OperationError: The runner cannot measure its runs.
        """
        self._refuse("does not measure its runs; leave out profile=True")

    def in_float64(self) -> Runner:
        """A runner of the same program that computes every float in float64: NumPy, unless overridden."""
        return NumPyRunner(self.program, float64=True)

    def specialised(self, inputs: Mapping[str, Any]) -> Build | None:
        """The build that runs inputs with these lengths; None if this runner does."""
        return None

    def ready(self, progress: bool | None = None) -> None:  # noqa: B027  # most have nothing to do
        """Do in advance what the first run would have to do, such as compiling kernels."""

    def keeping(self, updates: Mapping[str, int], values: Mapping[str, Any]) -> Kept:
        """The program with values that stay where it runs, and that outputs replace.

        Args:
            updates: The parameters that a run replaces, by name, as positions of outputs.
            values: Their first values.
        """
        return Kept(self, updates, values)

    # Replicas

    def beside(self, device: str | None) -> Runner:
        """A runner of the same program for another replica; what was compiled is shared.

        Args:
            device: The replica's device, for a target with devices.

        Raises:
            OperationError: The runner cannot run one replica of several.
            DeviceError: There is no such device.
        """
        self._refuse("runs no replicas; expected target ref, cpu or gpu")

    def team(self, others: Sequence[Runner]) -> Team:
        """The replicas that this runner and others run, connected.

        Args:
            others: The runners of the other replicas, in order; this one is the first.

        Raises:
            DeviceError: Their devices cannot be connected.
        """
        return host_team(1 + len(others))

    # Kernels

    def lowered(self) -> Lowered | None:
        """The lowering of each instruction and the place of its value; None if the target lowers nothing."""
        return None

    def listing(self, progress: bool | None = None) -> RunPlan:
        """The steps of a run as plain rows, with the machine code of its kernels.

        Raises:
            OperationError: The program does not become kernels.
        """
        self._refuse(f"runs no kernels; compile with {with_devices()}")

    def kernels(self, progress: bool | None = None) -> Kernels:
        """The kernels that a run launches, in order.

        Raises:
            OperationError: The program does not become kernels.
        """
        self._refuse(f"runs no kernels; compile with {with_devices()}")

    @property
    def choices(self) -> Mapping[str, str]:
        """The variants of kernels that were chosen by measuring, by their problems."""
        return {}

    def choose(self, choices: Mapping[str, str]) -> None:  # noqa: B027  # most have no kernels
        """Use these variants of kernels from now on; a runner without kernels ignores them."""

    def tune(self, inputs: Mapping[str, Any], most: int, progress: bool | None = None) -> Tuning:
        """Measure variants of kernels, and use the fastest from now on.

        Raises:
            OperationError: The runner has no kernels.
        """
        self._refuse("has no kernels to choose among; compile for target gpu")

    def saved(self, progress: bool | None = None) -> tuple[SavedKernel, ...]:
        """The kernels with their machine code for a file; empty if there are none."""
        return ()

    def trust(self, kernels: Iterable[SavedKernel]) -> None:  # noqa: B027  # most have no kernels
        """Use these kernels from a file where they match; a runner without kernels ignores them."""

    def _refuse(self, reason: str) -> NoReturn:
        raise OperationError(f"{self.name} {reason}")


class NumPyRunner(Runner):
    """Runs a program with an interpreter.

    Args:
        program: The compiled program.
        interpreter: Makes the interpreter, for the program as it is at the next run.
        float64: Compute every float in float64.
    """

    def __init__(
        self,
        program: Program,
        interpreter: MakeInterpreter = PlannedInterpreter,
        float64: bool = False,
    ) -> None:
        """Start without an interpreter; the first run makes it."""
        super().__init__(program)
        self._make = interpreter
        self._float64 = float64
        self._made: tuple[int, AnyInterpreter] | None = None

    @property
    def name(self) -> str:
        """NumPy."""
        return "NumPy"

    def beside(self, device: str | None) -> Runner:
        """The same interpreter for another replica."""
        return NumPyRunner(self.program, self._make, self._float64)

    def in_float64(self) -> Runner:
        """The same interpreter in float64."""
        return NumPyRunner(self.program, self._make, float64=True)

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        hook: Hook | None = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the program's outputs; prints a trace if ``MIGRAPHX_TRACE_EVAL`` requests it."""
        if hook is not None:
            return self._interpreter().run(inputs, hook=hook, progress=progress)
        return evaluate(self._interpreter(), inputs or {}, progress=progress)

    def timed(
        self, inputs: Mapping[str, Any], progress: bool | None = None
    ) -> tuple[list[Any], Times]:
        """Values of the outputs, and the seconds of each instruction."""
        times: dict[int, float] = {}
        return evaluate(self._interpreter(), inputs, times=times, progress=progress), [times]

    def profiled(
        self, inputs: Mapping[str, Any], repetitions: int, progress: bool | None = None
    ) -> tuple[list[Any], Times]:
        """Values of the outputs, and the seconds of each instruction in each run except the first."""
        outputs: list[Any] = []
        times: list[dict[int, float]] = []
        for _ in range(repetitions + 1):
            times.append({})
            outputs = evaluate(self._interpreter(), inputs, times=times[-1], progress=progress)
        return outputs, times[1:]

    def _interpreter(self) -> AnyInterpreter:
        """The interpreter of the program in its current state; an edited program is planned again."""
        version, known = self._made or (-1, None)
        if known is None or version != self.program.version:
            known = self._make(self.program, self._float64)
            self._made = self.program.version, known
        return known
