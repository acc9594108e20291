"""Values that stay in a device's memory from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.compiler.builds.runner import Kept
from workbench.compiler.ir.dtypes import Array
from workbench.gpu.run.executable import Executable

if TYPE_CHECKING:
    from workbench.gpu.run.runner import DeviceRunner


class KeptOnDevice(Kept):
    """Values in the memory of an executable of their own, which outputs replace there.

    Args:
        runner: The runner of the program.
        updates: The parameters that a run replaces, by name, as positions of outputs.
        values: Their first values.

    Raises:
        DeviceError: There is no such device, or a kernel does not compile.
    """

    def __init__(
        self, runner: DeviceRunner, updates: Mapping[str, int], values: Mapping[str, Any]
    ) -> None:
        """Load the kernels, and copy the values to the device."""
        self.executable = Executable(runner.plan(), runner.here(), runner.codes())
        self.executable.keep(updates)
        for name in updates:
            self.write(name, values[name])

    def run(self, inputs: Mapping[str, Any], wanted: Sequence[int]) -> list[Any]:
        """Run once, replace the values, and return the wanted outputs by position."""
        return self.executable.advance(inputs, wanted)

    def read(self, name: str) -> Array:
        """A copy of a value."""
        return self.executable.parameter(name)

    def write(self, name: str, value: Array) -> None:
        """Give a parameter another value."""
        self.executable.upload(name, value, self.executable.stream)
