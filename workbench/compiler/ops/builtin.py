"""Instructions that are not computations: parameters, literals, returns, outlines and the unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.compiler.dtypes import DType
from workbench.compiler.errors import EvaluationError
from workbench.compiler.operation import Family, Operation, expect_count, operation
from workbench.compiler.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir import Module


@operation
class Param(Operation):
    """A parameter of its module; ``order`` is its place among them, which does not print."""

    name: ClassVar[str] = "@param"
    family: ClassVar[Family] = Family.PARAMETER
    context_free: ClassVar[bool] = False
    parameter: str = ""
    order: int = 0

    def __str__(self) -> str:
        """``@param:x``."""
        return f"@param:{self.parameter}"


@operation
class Literal(Operation):
    """A constant; its data is the instruction's ``literal``."""

    name: ClassVar[str] = "@literal"
    family: ClassVar[Family] = Family.PARAMETER


@operation
class Return(Operation):
    """The results of a module: its inputs, in order."""

    name: ClassVar[str] = "@return"
    family: ClassVar[Family] = Family.PARAMETER
    context_free: ClassVar[bool] = False
    dynamic: ClassVar[bool] = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Nothing, the one result, or a tuple of the results."""
        return inputs[0] if len(inputs) == 1 else Shape.tuple_of(inputs)


@operation
class Outline(Operation):
    """A value of which only the shape is known."""

    name: ClassVar[str] = "@outline"
    family: ClassVar[Family] = Family.PARAMETER
    context_free: ClassVar[bool] = False
    shape: Shape = Shape()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape given."""
        expect_count(self, inputs, 0)
        return self.shape


@operation
class Undefined(Operation):
    """The value of an optional input that was left out."""

    name: ClassVar[str] = "undefined"
    family: ClassVar[Family] = Family.PARAMETER

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """A float tensor without dimensions."""
        return Shape(DType.FLOAT)

    def compute(self, *inputs: Any) -> Any:
        """No elements."""
        return DType.FLOAT.numpy.type(0).reshape(1)[:0]


@operation
class Unknown(Operation):
    """An operator of a model that the workbench does not know; it prints and draws but cannot run."""

    name: ClassVar[str] = "unknown:"
    family: ClassVar[Family] = Family.KERNEL
    context_free: ClassVar[bool] = False
    dynamic: ClassVar[bool] = True
    op: str = ""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the first input, for want of better knowledge."""
        return inputs[0] if inputs else Shape()

    def compute(self, *inputs: Any) -> Any:
        """Refuse: nothing is known about the operator's meaning."""
        raise EvaluationError(f"operator {self.op!r} is not supported; import skipped it")

    def __str__(self) -> str:
        """``unknown:Foo``."""
        return f"unknown:{self.op}"


@operation
class Identity(Operation):
    """Its first input, unchanged."""

    name: ClassVar[str] = "identity"
    family: ClassVar[Family] = Family.VIEW
    alias: ClassVar[int | None] = 0
    dynamic: ClassVar[bool] = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the first input."""
        return inputs[0]

    def compute(self, *inputs: Any) -> Any:
        """The first input."""
        return inputs[0]
