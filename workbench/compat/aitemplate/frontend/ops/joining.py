"""Operations that join tensors, divide them or choose parts: concatenate, split, slices and gathers."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.ranges import dims_of

_LAST = (1 << 31) - 1


class concatenate(Operator):  # noqa: N801 - AITemplate's name
    """Tensors one after the other along an axis."""

    def __call__(self, inputs: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Join tensors.

        Raises:
            ValueError: There are none, or they differ in type, rank, or another length.
        """
        if not inputs:
            raise self.fail("no inputs")
        ranks = {len(t.shape()) for t in inputs}
        rank = len(inputs[0].shape())
        if len(ranks) > 1 or not -rank <= dim < rank:
            raise self.fail(
                f"dim {dim} of {', '.join(map(repr, inputs))}; expected one rank, and an axis of it"
            )
        if len({t.dtype() for t in inputs}) > 1:
            raise self.fail(f"of {', '.join(map(repr, inputs))}; expected one dtype")
        self._attrs["concat_dim"] = dim % rank
        return self.record(*inputs)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """NumPy's concatenate."""
        if len(values) == 1:
            return values[0].apply("identity")
        return values[0].apply("concat", *values[1:], axis=self._attrs["concat_dim"])


class split(Operator):  # noqa: N801 - AITemplate's name
    """A tensor divided along an axis."""

    def __call__(
        self, x: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
    ) -> list[Tensor]:
        """Divide a tensor.

        Args:
            x: The tensor.
            split_size_or_sections: The length of all parts, of which the last may be shorter; or of each.
            dim: The axis, whose length is fixed.

        Raises:
            ValueError: The axis has no fixed length, or the parts do not add up to it.
        """
        length = self._fixed(x, dim)
        given = split_size_or_sections
        if isinstance(given, int):
            if given < 1:
                raise self.fail(f"parts of length {given}; expected 1 or more")
            sizes = [min(given, length - k) for k in range(0, length, given)] or [0]
        else:
            sizes = [int(n) for n in given]
        if sum(sizes) != length or min(sizes, default=-1) < 0:
            raise self.fail(
                f"parts {sizes} of dim {dim} of {x}; expected that they add up to {length}"
            )
        self._attrs.update(split_sizes=sizes, split_dim=dim % len(x.shape()))
        self.record(x, outputs=len(sizes))
        return self.outputs

    def _fixed(self, x: Tensor, dim: int) -> int:
        shape = x.shape()
        if not -len(shape) <= dim < len(shape) or not shape[dim].is_fixed:
            raise self.fail(f"dim {dim} of {x}; expected an axis of fixed length")
        return shape[dim].lower_bound()

    def meaning(self, at: Lengths, *values: Value) -> Sequence[Value]:
        """A slice for each part."""
        found, first = list[Value](), 0
        for n in self._attrs["split_sizes"]:
            found.append(sliced(values[0], self._attrs["split_dim"], first, first + n))
            first += n
        return found


class chunk(split):  # noqa: N801 - AITemplate's name
    """A tensor divided into parts of one length, of which the last may be shorter."""

    def __call__(self, x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Divide a tensor into so many parts at most.

        Raises:
            ValueError: The axis has no fixed length, or the number is not positive.
        """
        length = self._fixed(x, dim)
        if chunks < 1:
            raise self.fail(f"{chunks} chunks; expected 1 or more")
        return super().__call__(x, max(-(-length // chunks), 1), dim)


class dynamic_slice(Operator):  # noqa: N801 - AITemplate's name
    """A part of each axis."""

    def __call__(
        self,
        x: Tensor,
        start_indices: Sequence[int | None],
        end_indices: Sequence[int | None],
    ) -> Tensor:
        """Slice a tensor as Python does: negative numbers count from the end, and all are cut to the lengths.

        Args:
            x: The tensor.
            start_indices: The first element of each axis; None for 0.
            end_indices: The end of each axis; None for its length.

        Raises:
            ValueError: There is not one of each for every axis.
        """
        if not len(start_indices) == len(end_indices) == len(x.shape()):
            raise self.fail(
                f"{len(start_indices)} start_indices and {len(end_indices)} end_indices of {x}; "
                f"expected {len(x.shape())} of each"
            )
        starts = [0 if n is None else int(n) for n in start_indices]
        ends = [_LAST if n is None else int(n) for n in end_indices]
        self._attrs.update(start_indices=starts, end_indices=ends)
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """A slice of each axis."""
        found = values[0]
        bounds = zip(self._attrs["start_indices"], self._attrs["end_indices"], strict=True)
        for axis, (start, end) in enumerate(bounds):
            found = sliced(found, axis, start, end)
        return found if found is not values[0] else found.apply("identity")


def sliced(x: Value, axis: int, start: int, end: int) -> Value:
    """Python's slice of one axis, whose length may be a range."""
    dim = dims_of(x.instruction.shape)[axis]
    if dim.is_fixed:
        start, end, _ = slice(start, end).indices(dim.min)
        end = max(start, end)
    if start == 0 and end >= dim.max:
        return x
    return x.apply("slice", axes=(axis,), starts=(start,), ends=(end,))


class gather(Operator):  # noqa: N801 - AITemplate's name
    """The element at each index along an axis, as PyTorch's gather."""

    def __call__(self, x: Tensor, dim: int, index: Tensor) -> Tensor:
        """Gather elements.

        Raises:
            ValueError: The index is not of integers, or does not fit.
        """
        check_integers(self, index)
        self._attrs["gather_dim"] = dim % max(len(x.shape()), 1)
        return self.record(x, index)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements; an index may be shorter than the tensor along the other axes."""
        x, index = values
        axis = self._attrs["gather_dim"]
        wanted = dims_of(index.instruction.shape)
        for a, d in enumerate(wanted):
            if a != axis and d.is_fixed:
                x = sliced(x, a, 0, d.min)
        return x.apply("gather_elements", index.astype(DType.INT64), axis=axis)


class batch_gather(Operator):  # noqa: N801 - AITemplate's name
    """The rows that indices choose; all axes of the indices but the last are a batch."""

    def __call__(self, x: Tensor, indices: Tensor) -> Tensor:
        """Gather rows: ``y[b, i] = x[b, indices[b, i]]``.

        Raises:
            ValueError: The indices are not integers, have more axes than the tensor, or another batch.
        """
        check_integers(self, indices)
        if not 1 <= len(indices.shape()) <= len(x.shape()):
            raise self.fail(
                f"indices {indices} of {x}; expected at least one axis, and as many at most"
            )
        return self.record(x, indices)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The rows."""
        x, where = values[0], values[1].astype(DType.INT64)
        if where.ndim == 1:
            return x.apply("gather", where, axis=0)
        places = where.apply("unsqueeze", axes=(where.ndim,))
        return x.apply("gathernd", places, batch_dims=where.ndim - 1)


class index_select(Operator):  # noqa: N801 - AITemplate's name
    """The slices along an axis that indices choose."""

    def __init__(self, dim: int = 0) -> None:
        """Along an axis."""
        super().__init__(dim=dim)

    def __call__(self, x: Tensor, indices: Tensor) -> Tensor:
        """Select slices.

        Raises:
            ValueError: The indices are not integers along one axis, or there is no such axis.
        """
        check_integers(self, indices)
        if len(indices.shape()) != 1:
            raise self.fail(f"indices {indices}; expected rank 1")
        return self.record(x, indices)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """NumPy's take."""
        return values[0].apply("gather", values[1].astype(DType.INT64), axis=self._attrs["dim"])


def check_integers(op: Operator, indices: Tensor) -> None:
    """Refuse indices that are not integers.

    Raises:
        ValueError: They are not.
    """
    if indices.dtype() not in ("int32", "int64"):
        raise op.fail(f"indices {indices}; expected int32 or int64")


JOINING: dict[str, type[Operator]] = {
    c.__name__: c
    for c in (concatenate, split, chunk, dynamic_slice, gather, batch_gather, index_select)
}
"""All of them by name."""
