"""The state of variables and remote buffers between runs, which stays where the program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from workbench.compat.popart.ir.streams import Stream
from workbench.compat.popart.lowering.lowered import Bound, Lowered, Printed, parameter_name
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.stateful import Stateful

Array = np.ndarray[Any, np.dtype[Any]]


class AnyState(Protocol):
    """The state of a session, whatever runs it; with several replicas values have an axis for them."""

    @property
    def stateful(self) -> Stateful | None:
        """The build with its state, of the first replica if they run apart; None if runs change nothing."""
        ...

    def __contains__(self, bound: Bound) -> bool:
        """Whether the program uses it."""
        ...

    def read(self, bound: Bound) -> Array:
        """The value now, as a copy."""
        ...

    def write(self, bound: Bound, value: Array) -> None:
        """Give it another value."""
        ...

    def changes(self, bound: Bound) -> bool:
        """Whether a run replaces it."""
        ...

    def run(self, rows: Mapping[str, Array]) -> Iterator[tuple[Stream | Printed, Array]]:
        """Run once on the rows of streams from the host; the rows to the host, and what to print."""
        ...


class State:
    """The values of variables and remote buffers; a run replaces those that the program changes."""

    def __init__(self, build: Build, lowered: Lowered, first: Mapping[Bound, Array]) -> None:
        """The state before the first run.

        Args:
            build: The build of the program.
            lowered: The program's parameters and results.
            first: The value of each variable and remote buffer of the program.
        """
        self._build, self._lowered = build, lowered
        named = {parameter_name(bound): value for bound, value in first.items()}
        changed = {name: named[name] for name in build.program.updates}
        self._fixed = {name: value for name, value in named.items() if name not in changed}
        self.stateful: Stateful | None = build.stateful(changed) if changed else None

    def __contains__(self, bound: Bound) -> bool:
        """Whether the program uses it."""
        name = parameter_name(bound)
        return name in self._fixed or (self.stateful is not None and name in self.stateful)

    def read(self, bound: Bound) -> Array:
        """The value now, as a copy."""
        name = parameter_name(bound)
        if name in self._fixed:
            return self._fixed[name].copy()
        assert self.stateful is not None, f"the program does not use {bound!r}"
        return self.stateful[name]

    def write(self, bound: Bound, value: Array) -> None:
        """Give it another value."""
        name = parameter_name(bound)
        if self.stateful is not None and name in self.stateful:
            self.stateful[name] = value
        else:
            self._fixed[name] = value.copy()

    def changes(self, bound: Bound) -> bool:
        """Whether a run replaces it."""
        return self.stateful is not None and parameter_name(bound) in self.stateful

    def run(self, rows: Mapping[str, Array]) -> Iterator[tuple[Stream | Printed, Array]]:
        """Run once.

        Args:
            rows: The rows of streams from the host, by parameter.

        Yields:
            The rows of each stream to the host, and the values to print.
        """
        given = {**self._fixed, **rows}
        if self.stateful is not None:
            found = iter(self.stateful.run(given).values())
        else:
            found = iter(self._build.run(given).values())
        for bound in self._lowered.results:
            if isinstance(bound, Stream | Printed):
                yield bound, np.asarray(next(found))
