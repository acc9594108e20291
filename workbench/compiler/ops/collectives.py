"""Collectives: values of several replicas of a program combined, each replica being a run of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from workbench.compiler.errors import DifferentiationError, EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.sampling import grid
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.communicator import communicator

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

MOST = 4096
"""The most replicas of a program."""


class Combine(Enum):
    """The ways in which the elements of several replicas become one."""

    ADD = "add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    LOCAL = "local"
    """Nothing is combined: each replica has its own."""


_UFUNCS: dict[Combine, Callable[[Array, Array], Array]] = {
    Combine.ADD: np.add,
    Combine.MUL: np.multiply,
    Combine.MIN: np.minimum,
    Combine.MAX: np.maximum,
}


@dataclass(frozen=True)
class Collective(Operation):
    """Base of collectives, with the division of the replicas into groups.

    A group has ``size`` members, ``stride`` apart: of 4 replicas, size 2 and stride 1 are {0, 1} and {2, 3},
    stride 2 {0, 2} and {1, 3}.
    """

    family: ClassVar[Family] = Family.KERNEL
    context_free: ClassVar[bool] = False
    replicas: int = 1
    """All replicas of the program."""
    size: int = 1
    """The replicas of a group."""
    stride: int = 1

    def members(self, replica: int) -> tuple[int, ...]:
        """The replicas of a replica's group, itself among them, in order."""
        block = self.size * self.stride
        first = replica // block * block + replica % self.stride
        return tuple(first + k * self.stride for k in range(self.size))

    def divisions(self) -> list[tuple[int, ...]]:
        """The replicas of each group."""
        return list(dict.fromkeys(map(self.members, range(self.replicas))))

    def result(self, values: Sequence[Array], member: int) -> Array:
        """The result of one member of a group, in new memory: what the operation means.

        Args:
            values: The values of all members, in order.
            member: The position of the member among them.
        """
        raise NotImplementedError

    def compute(self, *inputs: Any) -> Any:
        """The result of the replica that this thread runs; of a group of one, whatever runs.

        Raises:
            EvaluationError: No other replica runs beside this one, or their number is another.
        """
        (x,) = inputs
        if self.size == 1:
            return self.result([np.asarray(x)], 0)
        here = communicator()
        if here is None or here.replicas != self.replicas:
            found = "it runs alone" if here is None else f"{here.replicas} run"
            raise EvaluationError(
                f"{self.name}: the program is one of {self.replicas} replicas that run together, and "
                f"{found}; run the session that has devices=..., not its build"
            )
        return here.exchange(self, np.asarray(x))

    def _operand(self, inputs: Sequence[Shape]) -> Shape:
        """The operand's shape in row-major order.

        Raises:
            ShapeError: It is no static tensor, or the groups do not divide the replicas.
        """
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        least = min(self.replicas, self.size, self.stride)
        if least < 1 or self.replicas > MOST or self.replicas % (self.size * self.stride):
            raise ShapeError(
                f"{self.name}: groups of {self.size} replicas, {self.stride} apart, do not divide "
                f"{self.replicas} replicas; expected a multiple of size × stride, at most {MOST}"
            )
        return inputs[0].as_standard()

    def _rows(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of an operand with a first axis.

        Raises:
            ShapeError: It has none.
        """
        shape = self._operand(inputs)
        if not shape.ndim:
            raise ShapeError(f"{self.name}: input 0 is {shape}; expected at least one axis")
        return shape

    def _across(self, name: str, given: Any, **attributes: Any) -> Any:
        """Another collective of the same groups, on a gradient."""
        groups = {"replicas": self.replicas, "size": self.size, "stride": self.stride}
        return given.apply(name, **groups, **attributes)


def _check_adds(op: Collective, combine: Combine) -> None:
    """Refuse the gradient of anything but a sum.

    Raises:
        DifferentiationError: It is no sum.
    """
    if combine is not Combine.ADD:
        raise DifferentiationError(
            f"{op.name}: combine={combine.value} has no gradient; only add does"
        )


def _check_combined(op: Collective, how: Combine, type: DType) -> None:
    if type is DType.BOOL and how in (Combine.ADD, Combine.MUL):
        raise ShapeError(f"{op.name}: {how.value} of bool; expected min (and) or max (or)")


@operation
class AllReduce(Collective):
    """The elements of all replicas of a group combined, for each of them.

    Floats are combined in their own type, in the order of the replicas; libraries of devices have orders of
    their own.
    """

    name = "all_reduce"
    combine: Combine = Combine.ADD

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the operand."""
        shape = self._operand(inputs)
        _check_combined(self, self.combine, shape.type)
        if self.combine is Combine.LOCAL:
            raise ShapeError(
                "all_reduce: combine=local combines nothing; expected add, mul, min or max"
            )
        return shape

    def result(self, values: Sequence[Array], member: int) -> Array:
        """The same for each member."""
        return np.array(reduce(_UFUNCS[self.combine], values))

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """For sums the gradients of all replicas added up, as the loss is the sum of all losses.

        Raises:
            DifferentiationError: It is no sum.
        """
        _check_adds(self, self.combine)
        return [self._across("all_reduce", given)]

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One operation less than there are members, for each element."""
        return (self.size - 1) * output.elements

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Groups of one replica, which need no other one."""
        yield cls(), [grid(2, 3)]
        yield cls(replicas=4, combine=Combine.ADD), [grid(3, 2).T]


@operation
class AllGather(Collective):
    """The values of all replicas of a group one after another along the first axis, for each of them."""

    name = "all_gather"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The first axis is as many times as long as the group has members."""
        shape = self._rows(inputs)
        return Shape(shape.type, (shape.lens[0] * self.size, *shape.lens[1:]))

    def result(self, values: Sequence[Array], member: int) -> Array:
        """``numpy.concatenate``."""
        return np.concatenate(values)

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """This replica's part of the gradients of all replicas added up."""
        return [self._across("reduce_scatter", given)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Groups of one replica, which need no other one."""
        yield cls(), [grid(4)]
        yield cls(replicas=2), [grid(2, 3, type=np.int16)]


@operation
class ReduceScatter(Collective):
    """The elements of all replicas of a group combined, of which each has its part of the first axis.

    With ``combine=local`` each has its part of its own value, and nothing is exchanged.
    """

    name = "reduce_scatter"
    combine: Combine = Combine.ADD

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The first axis is divided by the number of members.

        Raises:
            ShapeError: It cannot be divided.
        """
        shape = self._rows(inputs)
        _check_combined(self, self.combine, shape.type)
        if shape.lens[0] % self.size:
            raise ShapeError(
                f"reduce_scatter: axis 0 of {shape} has {shape.lens[0]} elements; expected a multiple of "
                f"the group's {self.size} replicas; pad it"
            )
        return Shape(shape.type, (shape.lens[0] // self.size, *shape.lens[1:]))

    def result(self, values: Sequence[Array], member: int) -> Array:
        """The member's part of the combined values."""
        parts = [np.split(v, self.size)[member] for v in values]
        local = self.combine is Combine.LOCAL
        return np.array(parts[member] if local else reduce(_UFUNCS[self.combine], parts))

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """For sums the parts of all members one after another.

        Raises:
            DifferentiationError: It is no sum.
        """
        _check_adds(self, self.combine)
        return [self._across("all_gather", given)]

    def flops(self, inputs: Sequence[Shape], output: Shape) -> int:
        """One operation less than there are members, for each element of the part."""
        return (self.size - 1) * output.elements if self.combine is not Combine.LOCAL else 0

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Groups of one replica, which need no other one."""
        yield cls(), [grid(4)]
        yield cls(replicas=2, combine=Combine.ADD), [grid(2, 3)]
