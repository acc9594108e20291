"""Marks of a schedule: the stream that runs the following work, and waits between streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class _Mark(Operation):
    """Base of instructions that only affect streams; they produce no elements."""

    family = Family.CONTROL
    context_free = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A float tensor without dimensions."""
        expect_count(self, inputs, 0)
        return Shape.absent()

    def compute(self, *inputs: Any) -> Any:
        """No elements: the reference runs everything in order."""
        return np.empty(0, np.float32)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The only form."""
        yield cls(), []


@operation
class SetStream(_Mark):
    """Sets the stream of the following work, until the next such mark."""

    name = "set_stream"
    flat = True
    on_host = "marks a place"
    stream: int = 0


@operation
class RecordEvent(_Mark):
    """Records an event, which completes when the stream's work so far is done."""

    name = "record_event"
    flat = True
    on_host = "marks a place"
    event: int = 0


@operation
class WaitEvent(_Mark):
    """Makes the stream wait until the event completes."""

    name = "wait_event"
    flat = True
    on_host = "marks a place"
    event: int = 0
