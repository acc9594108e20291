"""Marks of a schedule: which stream works on what follows, and which waits for which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class _Mark(Operation):
    """Base of what stands in a program for its effect on streams alone; it has no elements."""

    family = Family.CONTROL
    context_free = False

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A float tensor without dimensions."""
        expect_count(self, inputs, 0)
        return Shape(DType.FLOAT)

    def compute(self, *inputs: Any) -> Any:
        """No elements: the reference works on everything in order."""
        return np.empty(0, np.float32)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The one there is."""
        yield cls(), []


@operation
class SetStream(_Mark):
    """The stream of the following work, until the next mark of that kind."""

    name = "set_stream"
    on_host = "marks a place"
    stream: int = 0


@operation
class RecordEvent(_Mark):
    """The event is over when the stream's work so far is done."""

    name = "record_event"
    on_host = "marks a place"
    event: int = 0


@operation
class WaitEvent(_Mark):
    """The stream goes on when the event is over."""

    name = "wait_event"
    on_host = "marks a place"
    event: int = 0
