"""Inputs and outputs of a model: their order, and the checks of what a run is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, cast

from workbench.compat.aitemplate.data import AITData, dtype_str_to_enum, label_of, type_of
from workbench.compat.aitemplate.errors import RUN, AITemplateError
from workbench.compat.aitemplate.memory import Held
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.gpu.run.device_array import DeviceArray


class Param(NamedTuple):
    """An input or output."""

    name: str
    shape: Shape

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The least and greatest length of each axis."""
        if self.shape.dims is not None:
            return [(d.min, d.max) for d in self.shape.dims]
        return [(n, n) for n in self.shape.lens]

    @property
    def maximum(self) -> list[int]:
        """The greatest length of each axis."""
        return [high for _, high in self.ranges]

    def axis_name(self, axis: int) -> str:
        """The name of a length that is a range, or the input's name and the axis."""
        named = self.shape.dims[axis].name if self.shape.dims is not None else ""
        return named or f"{self.name}_dim_{axis}"


def in_order(given: Any, params: Sequence[Param], kind: str) -> list[Any]:
    """The values for each parameter, in their order.

    Args:
        given: A list in that order, or a mapping by name.
        params: The inputs or the outputs.
        kind: ``input`` or ``output``.

    Raises:
        ValueError: A mapping has another size, or an unknown name.
        AITemplateError: It is null, or a list has another size.
    """
    if given is None:
        raise AITemplateError(RUN, f"{kind}s cannot be null")
    if isinstance(given, Mapping):
        given = cast("Mapping[str, Any]", given)
        if len(given) != len(params):
            raise ValueError(
                f"Did not get correct number of {kind}s expected {len(params)}, got {len(given)}"
            )
        known = {p.name for p in params}
        for name in given:
            if name not in known:
                raise ValueError(f"Got unexpected {kind}: {name}")
        return [given[p.name] for p in params]
    listed = list(given)
    if len(listed) != len(params):
        raise AITemplateError(
            RUN, f"Got wrong number of {kind}s; expected {len(params)}, got {len(listed)}"
        )
    return listed


def expect_type(k: int, param: Param, type: DType) -> None:
    """Check the type of an input or output.

    Raises:
        AITemplateError: It is another one.
    """
    if type is not param.shape.type:
        expected, got = label_of(param.shape.type), label_of(type)
        raise AITemplateError(
            RUN, f"Got wrong dtype for param {k}; expected {expected}, got {got} ({param.name})"
        )


def expect_lens(k: int, param: Param, lens: Sequence[int]) -> None:
    """Check the lengths of an input.

    Raises:
        AITemplateError: There is another number of axes, or a length is out of its range.
    """
    ranges = param.ranges
    if len(lens) != len(ranges):
        raise AITemplateError(
            RUN,
            f"[SetInputShape] Got wrong param shape for input {k}; expected {len(ranges)}, got {len(lens)} "
            f"({param.name})",
        )
    for axis, (length, (low, high)) in enumerate(zip(lens, ranges, strict=True)):
        if not low <= length <= high:
            raise AITemplateError(
                RUN,
                "[SetValue] Dimension got value out of bounds; expected value to be in "
                f"[{low}, {high}], but got {length}. Variable name: {param.axis_name(axis)}. "
                f"(axis {axis} of input {param.name})",
            )


def expect_pointer(param: Param, data: AITData) -> None:
    """Check that a pointer is null only if there are no elements.

    Raises:
        AITemplateError: It is null.
    """
    if not data.data_ptr and prod(data.shape):
        raise AITemplateError(
            RUN,
            f"Constant {param.name} was not set! Set the value with set_constant. "
            f"({param.name} is a parameter of the run, and its pointer is null.)",
        )


def type_given(data: AITData) -> DType:
    """The type of what a run is given.

    Raises:
        ValueError: The runtime has no such type.
    """
    dtype_str_to_enum(data.dtype)
    return type_of(data.dtype)


def facts_of(array: Held) -> tuple[DType, tuple[int, ...]]:
    """Type and lengths of a tensor."""
    if isinstance(array, DeviceArray):
        return array.shape.type, tuple(array.shape.lens)
    return DType.of(array.dtype.name), array.shape
