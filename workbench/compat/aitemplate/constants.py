"""Constants of a model: bound and unbound, folded on the device, replaced while runs are in progress."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from threading import RLock
from typing import Any

from workbench.compat.aitemplate.data import label_of
from workbench.compat.aitemplate.errors import FOLD, RUN, SET_CONSTANT, AITemplateError
from workbench.compat.aitemplate.execution import DeviceExecution, HostExecution
from workbench.compat.aitemplate.memory import Held, Memory
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape

LOG = logging.getLogger("aitemplate")


@dataclass(frozen=True)
class Values:
    """One state of all constants. A run holds one; replacing a constant makes another."""

    given: Mapping[str, Held] = field(default_factory=dict[str, Held])
    folded: Mapping[str, Held] | None = None
    """What is computed from constants only; None if that is not done yet."""

    keeps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The caller's tensors that own memory of ``given``."""

    def with_given(self, name: str, array: Held, keep: Any) -> Values:
        """The state with another value of a constant, not folded yet."""
        return Values({**self.given, name: array}, None, {**self.keeps, name: keep})


@dataclass(frozen=True)
class Folding:
    """The part of a program that computes values from constants only."""

    execution: DeviceExecution | HostExecution
    inputs: tuple[str, ...]
    outputs: Mapping[str, Shape]
    """The results, by the names that the rest of the program gives them."""


class Constants:
    """The constants that all executions of a model read.

    Args:
        shapes: The shape of each constant.
        unbound: Those whose memory is the caller's.
        bound: The values of the others.
        memory: Where they are.
        folding: What is computed from them only.
        unread: Names of constants that nothing reads; their values are dropped.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        unbound: Iterable[str],
        bound: Mapping[str, Any],
        memory: Memory,
        folding: Folding | None,
        unread: Iterable[str] = (),
    ) -> None:
        """Copy the bound ones to where the model runs."""
        self.shapes = dict(shapes)
        self.unbound = tuple(unbound)
        self.memory = memory
        self.folding = folding
        self.unread = tuple(unread)
        self._lock = RLock()
        self._folds = RLock()
        """Held while the folding part runs: it has memory for one run."""
        self._active = Values({n: memory.copy_of(v) for n, v in bound.items()})
        self._next: Values | None = None
        """The second buffer: what ``swap`` makes active. None while nothing was written to it."""

    @property
    def folding_inputs(self) -> tuple[str, ...]:
        """The constants that something is computed from beforehand."""
        return self.folding.inputs if self.folding else ()

    def take(self, other: Constants) -> None:
        """Read what another model of the same program reads now."""
        with other._lock:
            active = other._active
        with self._lock:
            self._active = active

    def names(self, unbound_only: bool, folding_only: bool) -> list[str]:
        """Names of constants."""
        chosen = self.unbound if unbound_only else tuple(self.shapes)
        return [n for n in chosen if not folding_only or n in self.folding_inputs]

    def is_bound(self, name: str) -> bool:
        """Whether a constant's memory is the model's."""
        return name not in self.unbound

    def expect(self, name: str, is_there: bool) -> None:
        """Check a new value.

        Raises:
            AITemplateError: There is no such constant, or the value is null or of another size.
        """
        if not name:
            raise AITemplateError(SET_CONSTANT, "Constant name cannot be null")
        if name not in self.shapes and name not in self.unread:
            raise AITemplateError(
                SET_CONSTANT,
                f"Called SetConstant on {name} but can't find in either bound or unbound constant set",
            )
        if not is_there:
            raise AITemplateError(SET_CONSTANT, f"Tensor array cannot be null: constant {name}")

    def expect_bytes(self, name: str, type: DType, lens: Sequence[int]) -> None:
        """Check the size of a new value.

        Raises:
            AITemplateError: It is another one.
        """
        wanted, bytes = self.shapes[name].bytes, type.size * prod(lens)
        if type is not self.shapes[name].type:
            expected, got = label_of(self.shapes[name].type), label_of(type)
            raise AITemplateError(
                SET_CONSTANT, f"Got wrong dtype for constant {name}; expected {expected}, got {got}"
            )
        if bytes != wanted:
            kind = "bound" if self.is_bound(name) else "unbound"
            raise AITemplateError(
                SET_CONSTANT,
                f"SetConstant did not receive correct number of bytes for {kind} constant {name}: expected "
                f"{wanted} but got {bytes}. Check that the provided tensor's shape is correct.",
            )

    def set(self, name: str, array: Held, keep: Any, *, later: bool, stream: Any = None) -> None:
        """Replace a constant, now or with the next ``swap``; a bound one is copied."""
        if name in self.unread:
            return
        if self.is_bound(name):
            array = self.memory.copy_of(array, stream)
        with self._lock:
            if later:
                self._next = (self._next or self._active).with_given(name, array, keep)
            else:
                self._active = self._active.with_given(name, array, keep)

    def active(self, stream: Any = None) -> Values:
        """The values that a run reads, folded.

        Raises:
            AITemplateError: A constant is not set.
        """
        with self._lock:
            if self._active.folded is None:
                self._active = self._folded(self._active, RUN, stream)
            return self._active

    def fold(self, *, later: bool, stream: Any = None) -> None:
        """Compute what depends on constants only, for now or for the next ``swap``.

        Raises:
            AITemplateError: A constant is not set.
        """
        if not later:
            with self._lock:
                self._active = self._folded(self._active, FOLD, stream)
            return
        while True:  # runs read the active values meanwhile, so the lock is not held
            with self._lock:
                before, base = self._next, self._next or self._active
            made = self._folded(base, FOLD, stream)
            with self._lock:
                if self._next is before:
                    self._next = made
                    return

    def swap(self) -> None:
        """Make the second buffer active, if it is folded."""
        with self._lock:
            if self._next is None or self._next.folded is None:
                LOG.warning("Called SwapConstants without calling FoldConstants().")
                return
            self._active, self._next = self._next, None

    def _folded(self, values: Values, function: str, stream: Any) -> Values:
        if missing := [n for n in self.shapes if n not in values.given]:
            raise AITemplateError(
                function,
                f"Constant {missing[0]} was not set! Set the value with set_constant.",
            )
        if self.folding is None:
            return Values(values.given, {}, values.keeps)
        made = {n: self.memory.new(s.type, s.lens) for n, s in self.folding.outputs.items()}
        given = {n: values.given[n] for n in self.folding.inputs}
        with self._folds:
            started = self.folding.execution.start({}, given, list(made.values()), stream)
            if started.event is not None and self.memory.device is not None:
                self.memory.device.wait(started.event)
        return Values(values.given, made, values.keeps)

    def close(self) -> None:
        """Let the values go."""
        with self._lock, self._folds:
            self._active, self._next = Values(), None
            if self.folding is not None:
                self.folding.execution.close()
