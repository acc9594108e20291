"""Attention by its meaning: products, masks and a softmax."""

from __future__ import annotations

from math import sqrt

from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops.joining import check_integers, sliced
from workbench.compat.aitemplate.frontend.ops.ranged import positions
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType

_HIDDEN = -1e30


class mem_eff_attention(Operator):  # noqa: N801 - AITemplate's name
    """``softmax(q @ kᵀ / √d) @ v`` for each head."""

    def __init__(
        self,
        causal: bool,
        dropout: float = 0,
        variable_seq_length_kv: bool = False,
        variable_seq_length_q: bool = False,
        use_grouped_fmha: bool = False,
    ) -> None:
        """With a mask.

        Args:
            causal: A position sees those up to itself.
            dropout: 0; nothing is dropped.
            variable_seq_length_kv: A call gives the number of keys of each sample.
            variable_seq_length_q: A call gives the number of queries of each sample.
            use_grouped_fmha: Accepted for AITemplate's signature; the meaning is the same.

        Raises:
            ValueError: The dropout is not 0.
        """
        super().__init__(
            causal=causal, dropout=dropout, variable_seq_length_kv=variable_seq_length_kv,
            variable_seq_length_q=variable_seq_length_q, use_grouped_fmha=use_grouped_fmha,
        )  # fmt: skip
        if dropout:
            raise self.fail(f"dropout {dropout}; expected 0")

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths_kv: Tensor | None = None,
        lengths_q: Tensor | None = None,
    ) -> Tensor:
        """Attend with queries, keys and values ``[batch, heads, positions, size]``.

        The result is ``[batch, positions, heads, size]``. Rows of queries beyond ``lengths_q`` are 0.

        Raises:
            ValueError: A tensor is not of rank 4, or lengths were announced and are not given.
        """
        for t in (q, k, v):
            if len(t.shape()) != 4:
                raise self.fail(f"{t}; expected [batch, heads, positions, size]")
        given = {"kv": lengths_kv, "q": lengths_q}
        wanted = [t for key, t in given.items() if self._attrs[f"variable_seq_length_{key}"]]
        for t in wanted:
            if t is None:
                raise self.fail(
                    "variable_seq_length_kv or _q is set; expected lengths_kv or lengths_q"
                )
            check_integers(self, t)
        return self.record(q, k, v, *[t for t in wanted if t is not None])

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """Products in float32, masks, the softmax, and positions before heads."""
        (q, k, v), rest = (x.astype(DType.FLOAT) for x in values[:3]), iter(values[3:])
        scores = q @ k.mT * (1 / sqrt(_size(values[0])))
        if self._attrs["causal"]:
            scores = _masked(scores, positions(scores, 3) <= positions(scores, 2))
        if self._attrs["variable_seq_length_kv"]:
            scores = _masked(scores, positions(scores, 3) < _for_each_sample(next(rest)))
        found = scores.apply("softmax", axis=-1) @ v
        if self._attrs["variable_seq_length_q"]:
            found = found.where_true(positions(found, 2) < _for_each_sample(next(rest)))
        return found.transpose(0, 2, 1, 3).astype(values[0].dtype)


class flash_attention(Operator):  # noqa: N801 - AITemplate's name
    """Attention within each of several sequences that lie one after the other."""

    def __init__(self, batch_size: int, dropout: float, max_seq_len: int, causal: bool) -> None:
        """For so many sequences.

        Args:
            batch_size: The number of sequences.
            dropout: 0; nothing is dropped.
            max_seq_len: Recorded; a hint for AITemplate's kernels.
            causal: A position sees those up to itself.

        Raises:
            ValueError: The dropout is not 0.
        """
        super().__init__(
            batch_size=batch_size, dropout=dropout, max_seq_len=max_seq_len, causal=causal
        )
        if dropout:
            raise self.fail(f"dropout {dropout}; expected 0")

    def __call__(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Attend.

        Args:
            x: Queries, keys and values of all positions: ``[positions, 3, heads, size]``.
            cu_seqlens: The first position of each sequence, and the end of the last.

        Raises:
            ValueError: The tensors have other shapes.
        """
        shape, wanted = x.shape(), self._attrs["batch_size"] + 1
        if len(shape) != 4 or shape[1].symbolic_value() != 3:
            raise self.fail(f"{x}; expected [positions, 3, heads, size]")
        if [n.symbolic_value() for n in cu_seqlens.shape()] != [wanted]:
            raise self.fail(f"{cu_seqlens}; expected {wanted} numbers, one more than batch_size")
        check_integers(self, cu_seqlens)
        return self.record(x, cu_seqlens)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """Attention of all positions, where those of other sequences are hidden."""
        x, ends = values[0], values[1].astype(DType.FLOAT)
        q, k, v = (
            sliced(x, 1, n, n + 1)
            .apply("squeeze", axes=(1,))
            .astype(DType.FLOAT)
            .transpose(1, 0, 2)
            for n in range(3)
        )
        scores = q @ k.mT * (1 / sqrt(_size(x)))
        row, column = positions(scores, 1), positions(scores, 2)
        for n in range(self._attrs["batch_size"] + 1):
            end = sliced(ends, 0, n, n + 1)
            scores = _masked(scores, (row >= end) == (column >= end))
        if self._attrs["causal"]:
            scores = _masked(scores, column <= row)
        return (scores.apply("softmax", axis=-1) @ v).transpose(1, 0, 2).astype(x.dtype)


def _masked(scores: Value, seen: Value) -> Value:
    return seen.apply("where", scores, _HIDDEN)


def _size(x: Value) -> int:
    """The length of the last axis, which is fixed."""
    return x.instruction.shape.lens[-1] if not x.instruction.shape.is_dynamic else x.shape[-1]  # pyright: ignore[reportReturnType]


def _for_each_sample(lengths: Value) -> Value:
    return lengths.astype(DType.FLOAT).apply("reshape", dims=(-1, 1, 1, 1))


ATTENTION: dict[str, type[Operator]] = {c.__name__: c for c in (mem_eff_attention, flash_attention)}
"""Both by name."""
