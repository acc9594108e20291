"""Tensors of a graph: inputs, constants, and results of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.compat.aitemplate.element_types import normalized, type_of
from workbench.compat.aitemplate.frontend.data import ConstantData, HostConstantTensorData
from workbench.compat.aitemplate.frontend.lengths import IntVar, Point, as_length
from workbench.compiler.expressions.location import Location, location_outside

if TYPE_CHECKING:
    from workbench.compat.aitemplate.frontend.operator import Operator

OWN = str(Path(__file__).parents[1])
"""The folder whose lines are not the user's."""


class Tensor:
    """A tensor of a graph.

    With ``is_input`` it is given to each run. With neither that nor an operation that makes it, it is a
    constant: bound if it has data, and else set before the first run.
    """

    def __init__(
        self,
        shape: Sequence[int | IntVar],
        name: str | None = None,
        src_ops: Iterable[Operator] | None = None,
        dst_ops: Iterable[Operator] | None = None,
        dtype: str = "float16",
        is_input: bool = False,
        is_output: bool = False,
        value: Any = None,
        is_view_of: Tensor | None = None,
        is_internal_constant: bool = False,
        skip_constant_folding: bool = False,
        check_nan_and_inf: bool = False,
        check_outputs: bool = False,
        original_name: str | None = None,
    ) -> None:
        """A tensor of these lengths.

        Args:
            shape: The length of each axis.
            name: Its name; a graph that is compiled names the others.
            src_ops: The operation that makes it.
            dst_ops: The operations that take it.
            dtype: The element type.
            is_input: Given to each run.
            is_output: Returned by each run.
            value: The number that it is, for a constant of rank 0.
            is_view_of: Kept as an attribute.
            is_internal_constant: Not one of the user's constants; it is always bound.
            skip_constant_folding: Kept as an attribute.
            check_nan_and_inf: Kept as an attribute; `compile_model` refuses it.
            check_outputs: Kept as an attribute; `compile_model` refuses it.
            original_name: Kept as an attribute; by default the name.

        Raises:
            ValueError: There is no such element type.
            TypeError: A length is neither a number nor an IntVar.
        """
        self._attrs: dict[str, Any] = {
            "name": name,
            "original_name": original_name or name,
            "shape": [as_length(n) for n in shape],
            "dtype": normalized(dtype),
            "src_ops": set(src_ops or ()),
            "dst_ops": set(dst_ops or ()),
            "is_input": is_input,
            "is_output": is_output,
            "is_param": False,
            "is_view_of": is_view_of,
            "is_internal_constant": is_internal_constant,
            "skip_constant_folding": skip_constant_folding,
            "check_nan_and_inf": check_nan_and_inf,
            "check_outputs": check_outputs,
            "value": value,
            "data": None,
            "depth": 0,
        }
        self.output = 0
        """The number of this result among those of its operation."""
        self.location: Location | None = location_outside(OWN)
        if value is not None:
            self._bind_value(value)

    def _bind_value(self, value: Any) -> None:
        array = type_of(self.dtype()).numpy.type(value)
        self._bind_data(HostConstantTensorData(array.tobytes(), self.dtype()))

    @property
    def name(self) -> str | None:
        """The name."""
        return self._attrs["name"]

    @property
    def is_input(self) -> bool:
        """Whether each run is given it."""
        return self._attrs["is_input"]

    @property
    def is_output(self) -> bool:
        """Whether each run returns it."""
        return self._attrs["is_output"]

    @property
    def source(self) -> Operator | None:
        """The operation that makes it."""
        return next(iter(self._attrs["src_ops"]), None)

    @property
    def data(self) -> ConstantData | None:
        """The data that a constant is bound to."""
        return self._attrs["data"]

    def src_ops(self) -> set[Operator]:
        """The operation that makes it."""
        return self._attrs["src_ops"]

    def dst_ops(self) -> set[Operator]:
        """The operations that take it."""
        return self._attrs["dst_ops"]

    def is_a_const_num(self) -> bool:
        """Whether it is a constant number."""
        return self._attrs["value"] is not None and not self._attrs["shape"]

    def dtype(self) -> str:
        """The element type."""
        return self._attrs["dtype"]

    def shape(self) -> list[IntVar]:
        """The length of each axis."""
        return self._attrs["shape"]

    def _rank(self) -> int:
        return len(self._attrs["shape"])

    def _size(self, dim: int) -> IntVar:
        return self._attrs["shape"][dim]

    def size_bytes(self, alignment: int = 1) -> int:
        """The number of bytes at the greatest lengths, rounded up to a multiple of the alignment."""
        count = prod(n.upper_bound() for n in self.shape())
        size = count * type_of(self.dtype()).numpy.itemsize
        return -(-size // alignment) * alignment

    def variables(self) -> dict[str, IntVar]:
        """The free variables that decide its lengths."""
        found = dict[str, IntVar]()
        for given in self.source.inputs if self.source is not None else ():
            found |= given.variables()
        if self.source is not None:
            return found | self.source.variables()
        for n in self.shape():
            found |= n.variables()
        return found

    def lens_at(self, point: Point) -> tuple[int, ...]:
        """The lengths for given lengths of the free variables."""
        if self.source is None:
            return tuple(n.at(point) for n in self.shape())
        return self.source.lens_at(point)[self.output]

    def _bind_data(self, data: ConstantData) -> None:
        """Give a constant its elements.

        Raises:
            ValueError: An operation makes it, or the data is of another type or size.
        """
        name, dtype = self._attrs["name"], self.dtype()
        if self.src_ops():
            raise ValueError(
                f"Cannot bind tensor {name}; len(self.src_ops())={len(self.src_ops())} > 0"
            )
        if not data.is_dtype(dtype):
            raise ValueError(f"data's dtype did not match: expected {dtype}, got {data.dtype}")
        if self.size_bytes() != len(data):
            raise ValueError(
                "ConstantTensor's maximum size is not equal to len(data)! "
                f"Got len(data)={len(data)}, but expected at least {self.size_bytes()} bytes. "
                f"Check that the ConstantTensor's size and dtype are correct. (Tensor {name}.)"
            )
        self._attrs["data"] = data

    def _by(self, function: str, *operands: Any) -> Tensor:
        from workbench.compat.aitemplate.frontend.ops.elementwise import (  # noqa: PLC0415 - it makes tensors
            FuncEnum,
            elementwise,
        )

        return elementwise(FuncEnum[function])(*operands)

    def __add__(self, other: Any) -> Tensor:
        return self._by("ADD", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self._by("ADD", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._by("SUB", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._by("SUB", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self._by("MUL", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._by("MUL", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._by("DIV", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._by("DIV", other, self)

    def __neg__(self) -> Tensor:
        return self._by("MUL", self, -1)

    def __repr__(self) -> str:
        """The name, the lengths and the type."""
        lens = ", ".join(str(n.symbolic_value()) for n in self.shape())
        return f"Tensor({self.name!r}, [{lens}], {self.dtype()})"


def create_host_zero_tensor(
    shape: Sequence[int | IntVar],
    name: str | None = None,
    dst_ops: Iterable[Operator] | None = None,
    dtype: str = "float16",
    is_output: bool = False,
    is_internal_constant: bool = True,
) -> Tensor:
    """A bound constant of zeros."""
    made = Tensor(
        shape, name, dst_ops=dst_ops, dtype=dtype, is_output=is_output,
        is_internal_constant=is_internal_constant,
    )  # fmt: skip
    made._bind_data(HostConstantTensorData(b"\0" * made.size_bytes(), dtype))  # pyright: ignore[reportPrivateUsage]
    return made
