"""Sparse tensors: kept, given back, and made dense for the inputs of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from workbench.compat.onnxruntime.devices import OrtDevice
from workbench.compat.onnxruntime.enums import OrtSparseFormat
from workbench.compat.onnxruntime.types import code_of, element_word
from workbench.compiler.ir.dtypes import Array


def _read_only(array: Any) -> Array:
    made = np.array(array)
    made.flags.writeable = False
    return made


@dataclass(frozen=True)
class CooView:
    """The indices of the values: of each, or of each along each axis."""

    _indices: Array

    def indices(self) -> Array:
        """The indices, read-only."""
        return self._indices


@dataclass(frozen=True)
class CsrView:
    """The indices of rows: where each begins, and the columns of its values."""

    _inner: Array
    _outer: Array

    def inner(self) -> Array:
        """The column of each value, read-only."""
        return self._inner

    def outer(self) -> Array:
        """The place at which the values of each row begin, read-only."""
        return self._outer


class SparseTensor:
    """A tensor of which only some elements are stored.

    Args:
        dense_shape: The lengths of the tensor.
        values: The stored elements.
        view: Where they are.
        device: Where they are stored: the CPU.
    """

    def __init__(
        self, dense_shape: Sequence[int], values: Any, view: CooView | CsrView, device: OrtDevice
    ) -> None:
        """Copy the elements.

        Raises:
            RuntimeError: It is to be on a device other than the CPU.
        """
        if device.device_type():
            raise RuntimeError(
                "sparse tensors are kept on the CPU only; expected OrtDevice.make('cpu', 0)"
            )
        self._shape = [int(n) for n in dense_shape]
        self._values = _read_only(values)
        self._view = view

    @staticmethod
    def sparse_coo_from_numpy(
        dense_shape: Sequence[int], values: Any, coo_indices: Any, ort_device: OrtDevice
    ) -> SparseTensor:
        """Make one from values and their indices, linear (NNZ) or by axis (NNZ, rank).

        Raises:
            RuntimeError: There are other numbers of values and indices, or an index is out of bounds.
        """
        indices = _read_only(coo_indices)
        rank, count = len(dense_shape), len(values)
        if indices.size not in {count, count * rank}:
            raise RuntimeError(
                f"{indices.size} indices for {count} values; expected {count} or {count * rank}"
            )
        made = SparseTensor(dense_shape, values, CooView(indices), ort_device)
        _expect_within(made.places(), prod(dense_shape))
        return made

    @staticmethod
    def sparse_csr_from_numpy(
        dense_shape: Sequence[int],
        values: Any,
        inner_indices: Any,
        outer_indices: Any,
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Make one from values by rows: their columns, and where each row begins.

        Raises:
            RuntimeError: There are other numbers of values and indices.
        """
        inner, outer = _read_only(inner_indices), _read_only(outer_indices)
        if len(inner) != len(values) or len(outer) != dense_shape[0] + 1:
            raise RuntimeError(
                f"{len(inner)} inner and {len(outer)} outer indices; expected {len(values)} and "
                f"{dense_shape[0] + 1}"
            )
        return SparseTensor(dense_shape, values, CsrView(inner, outer), ort_device)

    def values(self) -> Array:
        """The stored elements, read-only."""
        return self._values

    def as_coo_view(self) -> CooView:
        """The indices by element.

        Raises:
            RuntimeError: The tensor is stored by rows.
        """
        if not isinstance(self._view, CooView):
            raise RuntimeError("the sparse tensor has the format CSR; expected COO")
        return self._view

    def as_csrc_view(self) -> CsrView:
        """The indices by row.

        Raises:
            RuntimeError: The tensor is not stored by rows.
        """
        if not isinstance(self._view, CsrView):
            raise RuntimeError("the sparse tensor has the format COO; expected CSR")
        return self._view

    get_coo_data = as_coo_view
    get_csrc_data = as_csrc_view

    def places(self) -> Array:
        """The linear index of each stored element."""
        if isinstance(self._view, CsrView):
            rows = np.repeat(np.arange(self._shape[0]), np.diff(self._view.outer()))
            return rows * self._shape[1] + self._view.inner()
        indices = self._view.indices()
        if indices.size == len(self._values):
            return indices.reshape(-1)
        by_axis = indices.reshape(len(self._values), -1).T
        return sum(i * prod(self._shape[k + 1 :]) for k, i in enumerate(by_axis))  # pyright: ignore[reportReturnType]

    def dense(self) -> Array:
        """The whole tensor, with zeros where no element is stored."""
        made = np.zeros(prod(self._shape), self._values.dtype)
        made[self.places()] = self._values
        return made.reshape(self._shape)

    def format(self) -> OrtSparseFormat:
        """The form in which it is stored."""
        is_coo = isinstance(self._view, CooView)
        return OrtSparseFormat.ORT_SPARSE_COO if is_coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def dense_shape(self) -> list[int]:
        """The lengths of the whole tensor."""
        return list(self._shape)

    def data_type(self) -> str:
        """Its type, such as ``sparse_tensor(float)``."""
        return f"sparse_tensor({element_word(code_of(self._values.dtype))})"

    def device_name(self) -> str:
        """``cpu``."""
        return "cpu"

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Refuse: sparse tensors are kept on the CPU.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"sparse tensors cannot be copied to {ort_device.kind}; they are kept on the CPU"
        )

    def _get_c_tensor(self) -> SparseTensor:
        return self


def _expect_within(places: Array, count: int) -> None:
    if len(places) and not (int(places.min()) >= 0 and int(places.max()) < count):
        raise RuntimeError(
            f"an index of the sparse tensor is out of bounds; expected 0 to {count - 1}"
        )
