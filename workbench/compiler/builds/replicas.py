"""One program run by several replicas in step, each on a device of its own with state of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.stateful import Stateful
from workbench.compiler.builds.targets import target_named, with_devices
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program

if TYPE_CHECKING:
    from pandas import DataFrame


class Replicas:
    """A compiled program for several replicas, which exchange values by its collectives.

    Args:
        build: The build, for the first replica's device.
        devices: The device of each replica; None for those of a target without devices.

    Raises:
        DeviceError: There is no such device, or the devices cannot be connected.
        OperationError: The target runs no replicas.
    """

    def __init__(self, build: Build, devices: Sequence[str | None]) -> None:
        """Make a runner for each replica, and connect them."""
        self.devices = tuple(devices)
        others = [build.runner.beside(d) for d in devices[1:]]
        self.builds = (build, *(replace(build, runner=r) for r in others))
        """A build for each replica: the same program, with a runner of its own."""
        self.team = build.runner.team(others)

    def run(self, inputs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """Run once; the outputs of each replica.

        Args:
            inputs: An array for each parameter by name, for each replica.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            EvaluationError: An instruction failed, or a replica did not come to a collective in time.
            DeviceError: A device failed.
        """
        each = zip(self.builds, inputs, strict=True)
        return self.team.run([partial(b.runner.run, given) for b, given in each])

    def stateful(self, values: Sequence[Mapping[str, Any]]) -> list[Stateful]:
        """Each replica with the values that its runs replace, which stay on its device.

        Args:
            values: The first value of each parameter that a run replaces, for each replica.

        Raises:
            InputError: The program replaces no parameter, or a value is missing or does not fit.
        """
        return [b.stateful(given) for b, given in zip(self.builds, values, strict=True)]

    def advance(
        self, stateful: Sequence[Stateful], inputs: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Run once and replace the values; the other outputs of each replica by name.

        Args:
            stateful: The replicas with their values.
            inputs: An array for each other parameter by name, for each replica.

        Raises:
            InputError: An input is missing, unknown, or has the wrong type or shape.
            EvaluationError: An instruction failed, or a replica did not come to a collective in time.
            DeviceError: A device failed.
        """
        each = zip(stateful, inputs, strict=True)
        return self.team.run([partial(one.run, given) for one, given in each])

    def table(self) -> DataFrame:
        """A row for each replica: its device, and how it exchanges values with the others."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {"device": d, "runs on": b.runner.name, "collectives": self.team.way}
            for d, b in zip(self._named(), self.builds, strict=True)
        ]
        return pd.DataFrame(rows).rename_axis("replica")

    def __repr__(self) -> str:
        """The devices, and how values are exchanged."""
        return f"<{len(self.devices)} replicas on {', '.join(self._named())}, by {self.team.way}>"

    def _named(self) -> list[str]:
        return [d or f"thread {k}" for k, d in enumerate(self.devices)]


def specs_of(target: str, devices: Sequence[int | str]) -> list[str | None]:
    """The devices that a user named for replicas; None for a target without devices.

    Args:
        target: The name of the target.
        devices: Names such as ``cuda:1``, or numbers among the devices of the best one's kind.

    Raises:
        OperationError: A name is given for a target without devices, or something that is neither.
    """
    chosen = target_named(target)
    found: list[str | None] = []
    for one in devices:
        if isinstance(one, int) and not isinstance(one, bool) and one >= 0:
            found.append(chosen.numbered(one))
        elif isinstance(one, str) and chosen.takes_device:
            found.append(one)
        else:
            expected = "a name such as 'cuda:1' or a number" if chosen.takes_device else "a number"
            raise OperationError(
                f"devices: {one!r} for target {chosen.name!r}; expected {expected}. Targets with devices: "
                f"{with_devices()}"
            )
    return found


def compile_replicas(
    program: Program, target: str, devices: Sequence[str | None], *, record: bool = True
) -> Replicas:
    """Compile the program of one replica, once, and prepare it for each of several.

    Args:
        program: The program that each replica runs.
        target: The name of the target.
        devices: The device of each replica, from `specs_of`.
        record: Whether to record the passes.

    Raises:
        OperationError: The target runs no replicas.
        DeviceError: There is no such device, or the devices cannot be connected.
    """
    return Replicas(compile(program, target, record=record, device=devices[0]), devices)
