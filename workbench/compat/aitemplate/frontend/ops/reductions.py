"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compat.aitemplate.element_types import normalized, type_of
from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops.ranged import ones_like
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType


class Reduction(Operator):
    """A reduction; in float32 at least, and then in the type asked for."""

    def __init__(
        self, dim: int | Sequence[int], keepdim: bool = False, dtype: str | None = None
    ) -> None:
        """Over an axis or several.

        Args:
            dim: The axes; negative ones count from the end.
            keepdim: Keep them with length 1.
            dtype: The element type of the result; by default the input's.

        Raises:
            ValueError: There is no such element type.
        """
        axes = [dim] if isinstance(dim, int) else list(dim)
        made = None if dtype is None else normalized(dtype)
        super().__init__(reduction_axes=axes, keepdim=keepdim, output_type=made)

    def __call__(self, x: Tensor) -> Tensor:
        """Reduce a tensor.

        Raises:
            ValueError: There is no such axis, or it is named twice.
        """
        rank = len(x.shape())
        axes = [a + rank if a < 0 else a for a in self._attrs["reduction_axes"]]
        if not axes or len(set(axes)) < len(axes) or not all(0 <= a < rank for a in axes):
            raise self.fail(
                f"dim {self._attrs['reduction_axes']} of {x}; expected different axes of it"
            )
        self._attrs["reduction_axes"] = axes
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The reduction."""
        x, axes = values[0], tuple(self._attrs["reduction_axes"])
        type = (
            x.dtype if self._attrs["output_type"] is None else type_of(self._attrs["output_type"])
        )
        wide = x.astype(DType.FLOAT) if x.dtype in (DType.HALF, DType.BF16) else x
        found = self.reduced(wide, axes).astype(type)
        return found if self._attrs["keepdim"] else found.apply("squeeze", axes=axes)

    def reduced(self, x: Value, axes: tuple[int, ...]) -> Value:
        """The reduction, which keeps the axes with length 1."""
        return x.apply(self.name, axes=axes)


class reduce_sum(Reduction):  # noqa: N801 - AITemplate's name
    """The sum."""


class reduce_mean(Reduction):  # noqa: N801 - AITemplate's name
    """The mean."""


class reduce_max(Reduction):  # noqa: N801 - AITemplate's name
    """The greatest element."""


class reduce_min(Reduction):  # noqa: N801 - AITemplate's name
    """The least element."""


class var(Reduction):  # noqa: N801 - AITemplate's name
    """The variance; unbiased, it divides by one less than the number of elements."""

    def __init__(
        self,
        dim: int | Sequence[int],
        unbiased: bool,
        keepdim: bool = False,
        dtype: str | None = None,
    ) -> None:
        """Over an axis or several, as `Reduction`."""
        super().__init__(dim, keepdim, dtype)
        self._attrs["unbiased"] = unbiased

    def reduced(self, x: Value, axes: tuple[int, ...]) -> Value:
        """The sum of squares of deviations, divided by their number."""
        centred = x - x.mean(axes, keepdims=True)
        if not self._attrs["unbiased"]:
            return (centred * centred).mean(axes, keepdims=True)
        count = ones_like(x).sum(axes, keepdims=True)
        return (centred * centred).sum(axes, keepdims=True) / (count - 1.0)


class vector_norm(Reduction):  # noqa: N801 - AITemplate's name
    """The square root of the sum of squares."""

    def __init__(
        self,
        ord_kind: float | str = 2,
        dim: int | Sequence[int] = 0,
        keepdim: bool = False,
        dtype: str | None = None,
    ) -> None:
        """Over an axis or several, as `Reduction`.

        Raises:
            ValueError: The order is not 2.
        """
        super().__init__(dim, keepdim, dtype)
        if str(ord_kind) not in ("2", "2.0"):
            raise self.fail(f"unsupported ord_kind {ord_kind!r}; expected 2")
        self._attrs["ord_kind"] = "2"

    def reduced(self, x: Value, axes: tuple[int, ...]) -> Value:
        """The norm."""
        return (x * x).sum(axes, keepdims=True).apply("sqrt")


class argmax(Operator):  # noqa: N801 - AITemplate's name
    """The index of the greatest element along an axis, as int64."""

    def __init__(self, dim: int = 0) -> None:
        """Along an axis."""
        super().__init__(dim=dim)

    def __call__(self, x: Tensor) -> Tensor:
        """The indices; that axis is dropped.

        Raises:
            ValueError: There is no such axis.
        """
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The index."""
        axis = self._attrs["dim"]
        return values[0].apply("argmax", axis=axis).apply("squeeze", axes=(axis,))


class topk(Operator):  # noqa: N801 - AITemplate's name
    """The indices of the greatest elements along the last axis, the greatest first, as int64."""

    def __init__(self, k: int) -> None:
        """So many of them."""
        super().__init__(topK=k)

    def __call__(self, x: Tensor) -> Tensor:
        """The indices.

        Raises:
            ValueError: The last axis is shorter.
        """
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The second result of a selection."""
        found = values[0].apply(
            "topk", k=self._attrs["topK"], axis=values[0].ndim - 1, largest=True
        )
        return found.apply("get_tuple_elem", index=1)


REDUCTIONS: dict[str, type[Operator]] = {
    c.__name__: c
    for c in (
        reduce_sum, reduce_mean, reduce_max, reduce_min, var, vector_norm, argmax, topk,
    )
}  # fmt: skip
"""All reductions by name."""
