"""Runner of programs whose lengths are ranges: it makes a build for each set of lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.compiler.errors import OperationError
from workbench.compiler.files.mxr.kernels import SavedKernel
from workbench.compiler.ir.program import Program
from workbench.compiler.record.lowered import Lowered
from workbench.compiler.report.timings import Measured
from workbench.compiler.run.lengths import Dispatch
from workbench.compiler.run.results import Hook
from workbench.gpu.run.runner import DeviceRunner

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.report.kernels import Kernels
    from workbench.compiler.report.run_plan import RunPlan


class RunnerByLengths(DeviceRunner):
    """Compiles a program for each set of lengths at their first run, since kernels are made for one size.

    Args:
        program: The compiled program, for any lengths.
        spec: The device.
        source: The program that it was compiled from.
        compile: Compiles the source for one set of lengths.
    """

    def __init__(
        self,
        program: Program,
        spec: str | None,
        source: Program,
        compile: Callable[[Program], Build],
    ) -> None:
        """Find the device, without compiling anything yet."""
        super().__init__(program, spec)
        self._dispatch = Dispatch(source, compile)

    def specialised(self, inputs: Mapping[str, Any]) -> Build:
        """The build for these lengths."""
        return self._dispatch.of(inputs)

    def beside(self, device: str | None) -> NoReturn:
        """Refuse.

        Raises:
            OperationError: Always, as replicas need one program.
        """
        self._refuse("makes a build for each set of lengths; replicas need lengths that are fixed")

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        hook: Hook | None = None,
        progress: bool | None = False,
    ) -> list[Any]:
        """Values of the outputs, by the build for these lengths."""
        return self._runner(inputs or {}).run(inputs, hook, progress)

    def profiled(
        self, inputs: Mapping[str, Any], repetitions: int, progress: bool | None = None
    ) -> tuple[list[Any], Measured]:
        """Values of the outputs and what was measured, by the build for these lengths."""
        return self._runner(inputs).profiled(inputs, repetitions, progress)

    def lowered(self) -> Lowered:
        """A record without instructions, and the reason."""
        note = "lengths are ranges, and kernels are made for one size: build.specialised(inputs) is lowered"
        return Lowered((), 0, self.name, note)

    def ready(self, progress: bool | None = None) -> None:
        """Do nothing: the lengths to compile for are known only at a run."""

    def saved(self, progress: bool | None = None) -> tuple[SavedKernel, ...]:
        """No kernels: files do not store those of a program whose lengths are ranges."""
        return ()

    def listing(self, progress: bool | None = None) -> RunPlan:
        """Refuse.

        Raises:
            OperationError: Always; the build for some inputs has a listing.
        """
        self._refuse_ranges()

    def kernels(self, progress: bool | None = None) -> Kernels:
        """Refuse.

        Raises:
            OperationError: Always; the build for some inputs has kernels.
        """
        self._refuse_ranges()

    def _runner(self, inputs: Mapping[str, Any]) -> DeviceRunner:
        found = self.specialised(inputs).runner
        assert isinstance(found, DeviceRunner)
        return found

    def _refuse_ranges(self) -> NoReturn:
        raise OperationError(
            "lengths are ranges, and kernels are made for one size; use the build for some inputs: "
            "build.specialised(inputs)"
        )
