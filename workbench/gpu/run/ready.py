"""Steps ready to run: each with its function, the pointers of its arguments, and the steps inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from workbench.compiler.errors import DeviceError, EvaluationError
from workbench.compiler.ops.control import no_room
from workbench.gpu.devices.base import Device, Launch, Pointer
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.arena import roots_of
from workbench.gpu.lowering.plan import (
    MOST_LAUNCHES,
    KernelStep,
    LoopStep,
    Step,
    apart,
    flat,
    inner_steps,
    launches_of,
)

Rename: TypeAlias = Mapping[Root, Root]
"""The memory that odd iterations of the loops around a step use instead."""
NOTHING: Rename = MappingProxyType({})


@dataclass(frozen=True)
class Ready:
    """A step with the pointers and the function of its launch."""

    step: Step
    function: Any = None
    arguments: tuple[Pointer | bytes, ...] = ()
    launch: Launch | None = None
    """The launch of a kernel that is launched many times in a run."""
    branches: tuple[tuple[Ready, ...], ...] = ()
    """The steps of both modules of a branch; of a loop, those of even iterations, of odd ones, and those
    after an even and after an odd number of them."""


@dataclass(frozen=True)
class Preparation:
    """Makes steps ready.

    Args:
        device: The device.
        function: The loaded kernel of a name.
        pointer: The memory of a root.
        many: Whether steps are run many times, so that it pays to prepare their launches.
    """

    device: Device
    function: Callable[[str], Any]
    pointer: Callable[[Root], Pointer]
    many: bool = True

    def of(self, step: Step, rename: Rename = NOTHING) -> Ready:
        """A step made ready.

        Args:
            step: The step.
            rename: The memory that it uses instead, if it is in a loop.
        """
        if isinstance(step, LoopStep):
            return replace(self, many=True)._loop(step, rename)
        if not isinstance(step, KernelStep):
            inner = inner_steps(step)
            return Ready(step, branches=tuple(self._all(i, rename) for i in inner))
        kernel = step.launch.kernel
        function = self.function(kernel.name)
        roots = step.launch.arguments
        pointers = tuple(self.pointer(rename.get(r, r)) for r in roots)
        if any(p is None for p in pointers):  # of a parameter whose memory is not bound yet
            return Ready(step, function, pointers)
        maps = (self.device.tile_map(pointers[m.argument], m) for m in kernel.maps)
        arguments = (*pointers, *maps)
        if not self.many:
            return Ready(step, function, arguments)
        sizes = kernel.grid, kernel.block, kernel.shared
        return Ready(step, function, arguments, self.device.prepare(function, *sizes, arguments))

    def _loop(self, step: LoopStep, rename: Rename) -> Ready:
        odd = swapped(step, rename)
        parts = (step.body, rename), (step.body, odd), (step.after, rename), (step.after, odd)
        return Ready(step, branches=tuple(self._all(steps, names) for steps, names in parts))

    def _all(self, steps: tuple[Step, ...], rename: Rename) -> tuple[Ready, ...]:
        return tuple(self.of(s, rename) for s in steps)


def swapped(step: LoopStep, rename: Rename) -> Rename:
    """The memory that the odd iterations of a loop use instead, itself within others."""
    return {**rename, **{r: rename.get(o, o) for r, o in step.swapped.items()}}


def iterations(step: LoopStep, read: Callable[[Place], Any]) -> Iterator[int]:
    """The numbers of the iterations of a loop, each when it is sure that it runs.

    Args:
        step: The loop.
        read: Reads a number from the device.

    Raises:
        EvaluationError: There are more iterations than the stacked results have room for.
    """
    limit = step.count if isinstance(step.count, int) else int(read(step.count))
    for number in range(limit):
        asks = step.condition is not None and (not step.settled or not number)
        if step.condition is not None and asks and not read(step.condition):
            return
        if number == step.room:
            raise EvaluationError(no_room(number))
        yield number


def uses(step: Step, roots: Mapping[Root, Any]) -> bool:
    """Whether a step or one inside it uses any of these."""
    return any(r in roots for one in flat([step]) for r in roots_of(one))


def failed(step: KernelStep, error: DeviceError) -> DeviceError:
    """The error of a launch, with its instruction."""
    named = f"{step.instruction!r}: kernel {step.launch.kernel.name}: {error}"
    return DeviceError(named, step.instruction)


def launches(ready: Ready, row: int = 0) -> Iterator[tuple[int, Ready]]:
    """All launches of a step in order, each with the position of its step among those of ``apart``.

    Args:
        ready: The step.
        row: The position of the first one.
    """
    step = ready.step
    count = launches_of(step)
    if not isinstance(step, LoopStep) or count is None or count > MOST_LAUNCHES:
        yield row, ready
        return
    number = step.iterations or 0
    for k in range(number):
        yield from _together(ready.branches[k % 2], row)
    rows = sum(1 for s in step.body for _ in apart(s))
    yield from _together(ready.branches[2 + number % 2], row + rows)


def _together(several: Sequence[Ready], row: int) -> Iterator[tuple[int, Ready]]:
    for one in several:
        yield from launches(one, row)
        row += sum(1 for _ in apart(one.step))
