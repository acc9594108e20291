"""The state of replicas that run apart: each has its own, where it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from workbench.compat.popart.ir.streams import Stream
from workbench.compat.popart.lowering.lowered import Bound, Lowered, Printed, parameter_name
from workbench.compat.popart.lowering.state import Array
from workbench.compiler.builds.replicas import Replicas
from workbench.compiler.builds.stateful import Stateful

_AXIS = 1
"""The axis of replicas in the rows of a stream, after that of transfers."""


class StateApart:
    """The values of variables and remote buffers of each replica; a run replaces those that it changes.

    Outside of it they are arrays whose first axis is that of replicas.
    """

    def __init__(self, replicas: Replicas, lowered: Lowered, first: Mapping[Bound, Array]) -> None:
        """The state before the first run.

        Args:
            replicas: The replicas of the program.
            lowered: The program's parameters and results.
            first: The value of each variable and remote buffer, for all replicas.
        """
        self._replicas, self._lowered = replicas, lowered
        self._count = len(replicas.devices)
        named = {parameter_name(bound): value for bound, value in first.items()}
        updates = replicas.builds[0].program.updates
        self._fixed = {n: v.copy() for n, v in named.items() if n not in updates}
        changed = [{n: named[n][k] for n in updates} for k in range(self._count)]
        self._stateful = replicas.stateful(changed) if updates else []

    @property
    def stateful(self) -> Stateful | None:
        """The build of the first replica with its state; None if a run changes nothing."""
        return self._stateful[0] if self._stateful else None

    def __contains__(self, bound: Bound) -> bool:
        """Whether the program uses it."""
        return parameter_name(bound) in self._fixed or self.changes(bound)

    def read(self, bound: Bound) -> Array:
        """The values now, as a copy."""
        name = parameter_name(bound)
        if name in self._fixed:
            return self._fixed[name].copy()
        return np.stack([one[name] for one in self._stateful])

    def write(self, bound: Bound, value: Array) -> None:
        """Give it other values."""
        name = parameter_name(bound)
        if name in self._fixed:
            self._fixed[name] = value.copy()
        for one, part in zip(self._stateful, value, strict=False):
            if name in one:
                one[name] = part

    def changes(self, bound: Bound) -> bool:
        """Whether a run replaces it."""
        return bool(self._stateful) and parameter_name(bound) in self._stateful[0]

    def run(self, rows: Mapping[str, Array]) -> Iterator[tuple[Stream | Printed, Array]]:
        """Run once.

        Args:
            rows: The rows of streams from the host for all replicas, by parameter.

        Yields:
            The rows of each stream to the host for all replicas, and the values that each prints.
        """
        found = self._outputs([self._given(k, rows) for k in range(self._count)])
        shown = [b for b in self._lowered.results if isinstance(b, Stream | Printed)]
        for bound, *values in zip(shown, *found, strict=False):
            if isinstance(bound, Stream):
                yield bound, np.stack(values, _AXIS)
            else:
                for value in values:
                    yield bound, np.asarray(value)

    def _given(self, replica: int, rows: Mapping[str, Array]) -> dict[str, Array]:
        fixed = {n: v[replica] for n, v in self._fixed.items()}
        taken = {n: np.take(v, replica, _AXIS) for n, v in rows.items()}
        return {**fixed, **taken}

    def _outputs(self, given: list[dict[str, Array]]) -> list[list[Any]]:
        """The outputs of each replica that replace nothing, in order."""
        if not self._stateful:
            return self._replicas.run(given)
        return [list(one.values()) for one in self._replicas.advance(self._stateful, given)]
