"""Operations that change shapes: reshape, permute, squeeze, expand, and lengths as such."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from workbench.compat.aitemplate.element_types import normalized, type_of
from workbench.compat.aitemplate.frontend.lengths import IntVar, as_length
from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops.ranged import reshaped
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value

Shape = Sequence[int | IntVar]


def _lengths(shape: Shape) -> list[IntVar | int]:
    """The lengths of a shape; -1 stays a number."""
    return [-1 if isinstance(n, int) and n == -1 else as_length(n) for n in shape]


class reshape(Operator):  # noqa: N801 - AITemplate's name
    """The elements with other lengths."""

    def __call__(self, x: Tensor, shape: Shape) -> Tensor:
        """Reshape a tensor.

        Args:
            x: The tensor.
            shape: The lengths: numbers, variables, and at most one -1.

        Raises:
            ValueError: Several lengths are -1, or the number of elements changes.
        """
        self._attrs["shape"] = _lengths(shape)
        if self._attrs["shape"].count(-1) > 1:
            raise self.fail(f"shape {list(shape)} has -1 more than once")
        return self.record(x)

    def lengths(self) -> Sequence[IntVar]:
        """The lengths that are not -1."""
        return [n for n in self._attrs.get("shape", ()) if isinstance(n, IntVar)]

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements, row by row."""
        return reshaped(at, values[0], self._attrs["shape"])


class flatten(Operator):  # noqa: N801 - AITemplate's name
    """Some neighbouring axes as one."""

    def __init__(self, start_dim: int = 0, end_dim: int = -1) -> None:
        """From one axis to another, which is included."""
        super().__init__(start=start_dim, end=end_dim)

    def __call__(self, x: Tensor) -> Tensor:
        """Flatten a tensor.

        Raises:
            ValueError: There are no such axes, or they are in the wrong order.
        """
        rank = len(x.shape())
        start, end = (self._attrs[k] + rank * (self._attrs[k] < 0) for k in ("start", "end"))
        if rank and not 0 <= start <= end < rank:
            raise self.fail(f"axes {self._attrs['start']} to {self._attrs['end']} of {x}")
        self._attrs.update(start=start, end=end, shape=x.shape())
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements, row by row."""
        shape, start, end = self._attrs["shape"], self._attrs["start"], self._attrs["end"]
        return reshaped(at, values[0], [*shape[:start], -1, *shape[end + 1 :]])


class permute(Operator):  # noqa: N801 - AITemplate's name
    """The axes in another order."""

    def __call__(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """Permute a tensor.

        Raises:
            ValueError: The numbers are not those of the axes.
        """
        rank = len(x.shape())
        order = [d + rank if d < 0 else d for d in dims]
        if sorted(order) != list(range(rank)):
            raise self.fail(f"dims {list(dims)} of {x}; expected each of its {rank} axes once")
        self._attrs["dims"] = order
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """NumPy's transpose."""
        return values[0].transpose(self._attrs["dims"]) if values[0].ndim else values[0]


class FixedPermutation(permute):
    """A permutation that the name spells."""

    def __call__(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Permute a tensor; one of a higher rank keeps its first axes.

        Raises:
            ValueError: It has fewer axes.
        """
        digits = [int(c) for c in self.name.removeprefix("permute")]
        skip = len(x.shape()) - len(digits)
        if skip < 0:
            raise self.fail(f"the input is {x}; expected rank {len(digits)}")
        return super().__call__(x, [*range(skip), *[d + skip for d in digits]])


class transpose(permute):  # noqa: N801 - AITemplate's name
    """Two axes exchanged."""

    def __call__(self, x: Tensor, dim0: int, dim1: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Exchange two axes.

        Raises:
            ValueError: There are no such axes.
        """
        order = list(range(len(x.shape())))
        try:
            order[dim0], order[dim1] = order[dim1], order[dim0]
        except IndexError:
            raise self.fail(f"axes {dim0} and {dim1} of {x}") from None
        return super().__call__(x, order)


class squeeze(Operator):  # noqa: N801 - AITemplate's name
    """The elements without axes of length 1."""

    def __init__(self, dim: int | None) -> None:
        """Without one axis, if its length is 1; or without all such axes."""
        super().__init__(dim=dim)

    def __call__(self, x: Tensor) -> Tensor:
        """Squeeze a tensor.

        Raises:
            ValueError: There is no such axis.
        """
        shape, dim = x.shape(), self._attrs["dim"]
        if dim is not None and not -len(shape) <= dim < len(shape):
            raise self.fail(f"dim {dim} of {x}")
        chosen = range(len(shape)) if dim is None else [dim % len(shape)]
        self._attrs["axes"] = tuple(a for a in chosen if shape[a].dim.max == shape[a].dim.min == 1)
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements."""
        axes = self._attrs["axes"]
        return values[0].apply("squeeze", axes=axes) if axes else values[0].apply("identity")


class unsqueeze(Operator):  # noqa: N801 - AITemplate's name
    """The elements with one more axis of length 1."""

    def __init__(self, dim: int) -> None:
        """At this place; a negative one counts from the end of the result."""
        super().__init__(dim=dim)

    def __call__(self, x: Tensor) -> Tensor:
        """Unsqueeze a tensor.

        Raises:
            ValueError: There is no such place.
        """
        rank, dim = len(x.shape()), self._attrs["dim"]
        if not -rank - 1 <= dim <= rank:
            raise self.fail(f"dim {dim} of {x}")
        self._attrs["axis"] = dim % (rank + 1)
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements."""
        return values[0].apply("unsqueeze", axes=(self._attrs["axis"],))


class expand(Operator):  # noqa: N801 - AITemplate's name
    """Axes of length 1 repeated."""

    def __call__(
        self, x: Tensor, shape: Shape, index_type: str = "int64", optimize_fixed_dims: bool = True
    ) -> Tensor:
        """Expand a tensor.

        Args:
            x: The tensor.
            shape: The lengths, with further axes in front; -1 keeps a length.
            index_type: Accepted for AITemplate's signature.
            optimize_fixed_dims: Accepted for AITemplate's signature.

        Raises:
            ValueError: A length is neither the tensor's nor that of an axis of length 1.
        """
        given, own = _lengths(shape), x.shape()
        skip = len(given) - len(own)
        if skip < 0 or -1 in given[:skip]:
            raise self.fail(f"shape {list(shape)} of {x}; expected a length for each axis")
        self._attrs["shape"] = [own[k - skip] if n == -1 else n for k, n in enumerate(given)]
        return self.record(x)

    def lengths(self) -> Sequence[IntVar]:
        """The lengths of the result."""
        return self._attrs.get("shape", ())

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """A broadcast."""
        return spread(at, values[0], self._attrs["shape"])


def spread(at: Lengths, x: Value, shape: Sequence[IntVar]) -> Value:
    """A value broadcast to some lengths."""
    lens = [at.number(n) for n in shape]
    if None not in lens:
        return x.apply("multibroadcast", out_lens=tuple(lens))
    parts = [at.value(n) for n in shape]
    dims = parts[0].apply("concat", *parts[1:], axis=0) if len(parts) > 1 else parts[0]
    known = tuple(n.dim for n in shape)
    return x.apply("broadcast_with_dims", dims).apply("expect_dims", out_dyn_dims=known)


class full(Operator):  # noqa: N801 - AITemplate's name
    """One number everywhere."""

    def __call__(
        self, shape: Shape | int | IntVar, fill_value: float, dtype: str = "float16"
    ) -> Tensor:
        """A tensor of one number.

        Raises:
            ValueError: There is no such element type.
        """
        listed = [shape] if isinstance(shape, int | IntVar) else shape
        self._attrs.update(
            shape=[as_length(n) for n in listed], fill_value=fill_value, dtype=normalized(dtype)
        )
        return self.record()

    def lengths(self) -> Sequence[IntVar]:
        """The lengths of the result."""
        return self._attrs.get("shape", ())

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """A number, broadcast."""
        value = at.builder.value(self._attrs["fill_value"], type_of(self._attrs["dtype"]))
        return spread(at, value, self._attrs["shape"]) if self._attrs["shape"] else value


class arange(Operator):  # noqa: N801 - AITemplate's name
    """Numbers at equal distances."""

    def __init__(self, start: float, stop: float, step: float = 1) -> None:
        """From a number to another one, which is left out."""
        super().__init__(start=start, stop=stop, step=step)

    def __call__(self, dtype: str = "float16") -> Tensor:
        """A tensor of the numbers.

        Raises:
            ValueError: There is no such element type.
        """
        self._attrs["dtype"] = normalized(dtype)
        return self.record()

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """A constant."""
        a = self._attrs
        count = max(ceil((a["stop"] - a["start"]) / a["step"]), 0)
        numbers = [a["start"] + k * a["step"] for k in range(count)]
        return at.builder.constant(numbers, type_of(a["dtype"]))


class size:  # noqa: N801 - AITemplate's name
    """The lengths of a tensor, to be used in shapes."""

    def __call__(self, x: Tensor, dim: int | None = None) -> Any:
        """All lengths, or that of one axis."""
        return list(x.shape()) if dim is None else x.shape()[dim]


class getitem:  # noqa: N801 - AITemplate's name
    """One element of a list."""

    def __call__(self, given: Sequence[Any], index: int) -> Any:
        """The element of this number."""
        return given[index]


SHAPES: dict[str, type[Any]] = {
    **{
        n: type(n, (FixedPermutation,), {"__doc__": f"``{n}``: see `FixedPermutation`."})
        for n in ("permute021", "permute102", "permute210", "permute0213")
    },
    **{
        c.__name__: c
        for c in (
            reshape, flatten, permute, transpose, squeeze, unsqueeze, expand, full, arange, size, getitem,
        )
    },
}  # fmt: skip
"""All of them by name."""
