"""Instructions that are not computations: parameters, literals, comments, outlines, the unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import Family, Operation, Sample, expect_count, operation
from workbench.compiler.ir.quoting import value_text, word_text
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.structure import Rearrangement

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class Param(Operation):
    """A parameter of its module; ``order`` is its position among them, which is not printed."""

    name = "@param"
    flat = True
    on_host = "is given, not computed"
    family = Family.PARAMETER
    context_free = False
    parameter: str = ""
    order: int = 0

    def __str__(self) -> str:
        """``@param:x``."""
        return f"@param:{value_text(self.parameter) if self.parameter else ''}"


@operation
class Literal(Operation):
    """A constant; its data is the instruction's ``literal``."""

    name = "@literal"
    flat = True
    on_host = "is given, not computed"
    family = Family.PARAMETER


@operation
class Return(Operation):
    """The results of a module: its inputs, in order."""

    name = "@return"
    on_host = "marks a place"
    family = Family.PARAMETER
    context_free = False
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Nothing, the one result, or a tuple of the results."""
        return inputs[0] if len(inputs) == 1 else Shape.tuple_of(inputs)


@operation
class Comment(Operation):
    """A remark; it produces no elements."""

    name = "@comment"
    flat = True
    on_host = "marks a place"
    family = Family.PARAMETER
    text: str = ""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """No value."""
        expect_count(self, inputs, 0)
        if "\n" in self.text:
            raise ShapeError(f"@comment: {self.text!r}; expected one line")
        return Shape.absent()

    def compute(self, *inputs: Any) -> Any:
        """No elements."""
        return np.empty(0, np.float32)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A remark that looks like a line of text."""
        yield cls(), []
        yield cls("x -> y, (half) as it was"), []

    def __str__(self) -> str:
        """``@comment: text``."""
        return f"@comment: {self.text}"


class _Outline(Operation):
    """Base of the two operations for a value of which only the shape is known."""

    family = Family.PARAMETER
    context_free = False
    shape: Shape

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The declared shape."""
        expect_count(self, inputs, 0)
        return self.shape

    def compute(self, *inputs: Any) -> Any:
        """Refuse: there is no value."""
        raise EvaluationError(f"{self.name}: of this value only the shape is known, {self.shape}")


@operation
class BuiltinOutline(_Outline):
    """A value of which only the shape is known; shape tests use it."""

    name = "@outline"
    not_differentiable = "only its shape is known"
    on_host = "has no value"
    shape: Shape = Shape.absent()


@operation
class Outline(_Outline):
    """A value of which only the shape is known."""

    name = "outline"
    not_differentiable = "only its shape is known"
    on_host = "has no value"
    shape: Shape = Shape.absent()


@operation
class Undefined(Operation):
    """The value of an optional input that was left out."""

    name = "undefined"
    flat = True
    on_host = "has no value"
    family = Family.PARAMETER

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """No value."""
        expect_count(self, inputs, 0)
        return Shape.absent()

    def compute(self, *inputs: Any) -> Any:
        """No elements."""
        return np.empty(0, np.float32)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The only form."""
        yield cls(), []


@operation
class Unknown(Operation):
    """A model's operator that the workbench does not support; it prints and draws but cannot run."""

    name = "unknown:"
    not_differentiable = "its meaning is not known"
    on_host = "has no known meaning"
    family = Family.KERNEL
    context_free = False
    dynamic = True
    op: str = ""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the first input, as nothing better is known."""
        return inputs[0] if inputs else Shape.absent()

    def compute(self, *inputs: Any) -> Any:
        """Refuse: nothing is known about the operator's meaning."""
        raise EvaluationError(f"operator {self.op!r} is not supported; import skipped it")

    def __str__(self) -> str:
        """``unknown:Foo``."""
        return f"unknown:{word_text(self.op)}"


class _First(Operation):
    family = Family.VIEW
    alias = 0
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the first input."""
        if not inputs:
            raise ShapeError(f"{self.name}: expected 1 input or more, found 0")
        return inputs[0]

    def compute(self, *inputs: Any) -> Any:
        """The first input."""
        return inputs[0]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One input, and two inputs of which the second is ignored."""
        yield cls(), [grid(2, 3)]
        yield cls(), [grid(2, 3, type=np.float16), grid(4)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g for the first input."""
        return [given, *[None] * (len(operands) - 1)]


@operation
class Identity(_First):
    """Its first input, unchanged."""

    name = "identity"
    rearranges = Rearrangement.RELAID


watcher: ContextVar[Callable[[int, Array], None] | None] = ContextVar("watcher", default=None)
"""Called for every ``capture`` that is evaluated, with its index and its value."""


@operation
class Capture(_First):
    """Its first input, unchanged. Calibration observes the values here; ``ins_index`` numbers them."""

    name = "capture"
    ins_index: int = 0

    def compute(self, *inputs: Any) -> Any:
        """The first input, after telling the watcher, if there is one."""
        if (hear := watcher.get()) is not None:
            hear(self.ins_index, inputs[0])
        return inputs[0]
