"""Tensors: symbols for the values of a graph, with NumPy's operators."""

# A tensor and the function that makes it are one thing.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NewType, TypeAlias, TypeVar

import numpy as np

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.errors import UndefinedValue
from workbench.compat.popart.ir.tensor_location import TensorLocation

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.op import Op, Spec
    from workbench.compat.popart.ir.remote_buffer import RemoteBuffer

ScalarType: TypeAlias = int | float | bool
HostTensor: TypeAlias = "np.ndarray[Any, Any] | Iterable[ScalarType]"
HostScalarTensor: TypeAlias = "ScalarType | HostTensor"
TensorLike: TypeAlias = "Tensor | HostScalarTensor"
T = TypeVar("T", bound="Tensor")


@dataclass(frozen=True)
class TensorSpec:
    """The shape and type of a tensor that need not exist."""

    shape: tuple[int, ...]
    dtype: dtype
    meta_shape: tuple[int, ...] = ()


class Tensor:
    """A value of a graph; operations on it are added to the current graph."""

    __array_ufunc__ = None  # NumPy arrays leave their operators to tensors
    __iter__ = None
    __contains__ = None

    def __init__(self) -> None:
        """Refuse: factories and operations make tensors.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("pir.Tensor cannot be constructed directly.")

    graph: Graph
    _id: str
    _spec: TensorSpec
    producer: Op | None
    """The operation that it is an output of."""
    producer_index: int
    memory: Tensor
    """The first tensor with exactly the same memory; often itself."""
    _location: TensorLocation

    # Properties

    @property
    def id(self) -> str:
        """The id, unique in its Ir."""
        return self._id

    @property
    def name(self) -> str:
        """The id without the graph's."""
        return self._id.removeprefix(f"{self.scope}/") if self.scope else self._id

    @property
    def scope(self) -> str:
        """The id of its graph."""
        return self.graph.id

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self._spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._spec.shape

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor, if this is a shard of one."""
        return self._spec.meta_shape

    @meta_shape.setter
    def meta_shape(self, value: Sequence[int]) -> None:
        self._spec = TensorSpec(self.shape, self.dtype, tuple(value))

    @property
    def spec(self) -> TensorSpec:
        """Shape and type."""
        return self._spec

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nelms(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis, in row-major order."""
        size = self.dtype._numpy.itemsize  # pyright: ignore[reportPrivateUsage]
        return tuple(size * prod(self.shape[k + 1 :]) for k in range(self.rank))

    @property
    def location_info(self) -> TensorLocation:
        """The memory that holds it."""
        return self._location

    @property
    def ipu(self) -> int:
        """The IPU of the operation that makes it.

        Raises:
            UndefinedValue: No operation makes it, or that is on none.
        """
        found = self._made_by("ipu").ipu_of(self.producer_index)
        if found is None:
            raise UndefinedValue(f"The operation that makes tensor {self.id} is on no IPU.")
        return found

    @property
    def tile_set(self) -> str:
        """The tiles of the operation that makes it: ``compute`` or ``io``.

        Raises:
            UndefinedValue: No operation makes it.
        """
        return self._made_by("tile_set").tile_set

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy of its data is the device's; only variables and constants have one."""
        return False

    def _made_by(self, what: str) -> Op:
        if self.producer is None:
            raise UndefinedValue(f"Tensor {self.id} has no producer, so its {what} is undefined.")
        return self.producer

    def ir(self) -> Ir:
        """The Ir that it belongs to."""
        return self.graph.ir()

    # Layout

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return self.transpose()

    @property
    def T_(self) -> Tensor:  # noqa: N802 - PopART's name
        """The axes in reverse order, in place."""
        return self.transpose_()

    def transpose(self, permutation: Sequence[int] | None = None) -> Tensor:
        """The axes in another order; reversed by default."""
        return _ops().transpose(self, permutation)

    def transpose_(self, permutation: Sequence[int] | None = None) -> Tensor:
        """The axes in another order, in place."""
        return _ops().transpose_(self, permutation)

    def reshape(self, shape: Iterable[int]) -> Tensor:
        """The elements with other lengths."""
        return _ops().reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> Tensor:
        """The elements with other lengths, in place."""
        return _ops().reshape_(self, shape)

    def flatten(self) -> Tensor:
        """The elements along one axis."""
        return _ops().flatten(self)

    def flatten_(self) -> Tensor:
        """The elements along one axis, in place."""
        return _ops().flatten_(self)

    def detach(self) -> Tensor:
        """The same value, through which no gradient flows."""
        return _ops().detach(self)

    def detach_(self) -> Tensor:
        """The same memory, through which no gradient flows."""
        return _ops().detach_(self)

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """A copy on another IPU."""
        return _ops().ipu_copy(self, destination, source)

    # Operators

    def _ensure_tensor(self, value: TensorLike, dtype: dtype | None = None) -> Tensor:
        """A tensor as it is; anything else as a constant of this tensor's type.

        Raises:
            ValueError: The value has no elements.
        """
        from workbench.compat.popart.ir.factories import constant  # noqa: PLC0415 - it makes tensors

        if isinstance(value, Tensor):
            return value
        if not np.size(value):  # pyright: ignore[reportArgumentType] - it takes what an array does
            raise ValueError(f"Cannot make a tensor of data without elements: {value!r}.")
        return constant(value, self.dtype if dtype is None else dtype)

    def __add__(self, other: TensorLike) -> Tensor:
        return _ops().add(self, self._ensure_tensor(other))

    def __radd__(self, other: TensorLike) -> Tensor:
        return _ops().add(self._ensure_tensor(other), self)

    def __iadd__(self: T, other: TensorLike) -> T:
        _ops().add_(self, self._ensure_tensor(other))
        return self

    def __sub__(self, other: TensorLike) -> Tensor:
        return _ops().sub(self, self._ensure_tensor(other))

    def __rsub__(self, other: TensorLike) -> Tensor:
        return _ops().sub(self._ensure_tensor(other), self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return _ops().mul(self, self._ensure_tensor(other))

    def __rmul__(self, other: TensorLike) -> Tensor:
        return _ops().mul(self._ensure_tensor(other), self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return _ops().div(self, self._ensure_tensor(other))

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return _ops().div(self._ensure_tensor(other), self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return _ops().fmod(self, self._ensure_tensor(other))

    def __rmod__(self, other: TensorLike) -> Tensor:
        return _ops().fmod(self._ensure_tensor(other), self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return _ops().matmul(self, self._ensure_tensor(other))

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return _ops().matmul(self._ensure_tensor(other), self)

    def __and__(self, other: TensorLike) -> Tensor:
        return _ops().logical_and(self, self._ensure_tensor(other))

    def __rand__(self, other: TensorLike) -> Tensor:
        return _ops().logical_and(self._ensure_tensor(other), self)

    def __or__(self, other: TensorLike) -> Tensor:
        return _ops().logical_or(self, self._ensure_tensor(other))

    def __ror__(self, other: TensorLike) -> Tensor:
        return _ops().logical_or(self._ensure_tensor(other), self)

    def __invert__(self) -> Tensor:
        return _ops().logical_not(self)

    def __neg__(self) -> Tensor:
        return _ops().negate(self)

    def __getitem__(self, key: Any) -> Tensor:
        """Elements by integers and slices, rows by an integer tensor, or a masked copy by a bool tensor.

        Raises:
            TypeError: The key is none of these.
        """
        from workbench.compat.popart.ir.indexing import indexed  # noqa: PLC0415 - it makes tensors

        return indexed(self, key)

    # Python's own

    def __len__(self) -> int:
        """The length of the first axis.

        Raises:
            ValueError: It has no axes.
        """
        if not self.shape:
            raise ValueError("len() of a 0-d tensor.")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        """Whether it is the same tensor of the same Ir."""
        return isinstance(other, Tensor) and self.id == other.id and self.ir() is other.ir()

    def __hash__(self) -> int:
        """By id and Ir."""
        return hash((self._id, self.graph.ir().id))

    def __repr__(self) -> str:
        """The id, the type and the shape."""
        return f"Tensor[{self.id} {self.dtype} {self.shape}]"


class StreamTensor(Tensor):
    """The tensor that stands for a stream's buffer."""


class _Held(Tensor):
    """A tensor with data on the host."""

    data: np.ndarray[Any, Any]
    in_sync: bool

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy of its data is the device's."""
        return self.in_sync

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """A copy on another IPU; ``source`` has to be given, as no operation makes this tensor."""
        return super().copy_to_ipu(destination, source)


class Variable(_Held):
    """A tensor that keeps its value from one run to the next."""

    remote: tuple[RemoteBuffer, int] | None
    """The remote buffer and the row that hold it, if it is not on the chip."""
    sharded: bool


class Constant(_Held):
    """A tensor whose value never changes."""


TensorByRef = NewType("TensorByRef", Tensor)
"""As an annotation: the callee changes the caller's tensor."""


def made_tensor(kind: type[Tensor], graph: Graph, id: str, spec: Spec, **details: Any) -> Tensor:
    """A tensor without a producer; graphs add these."""
    tensor = object.__new__(kind)
    tensor.graph, tensor._id, tensor._spec = graph, id, TensorSpec(*spec)
    tensor.producer, tensor.producer_index, tensor.memory = None, 0, tensor
    tensor._location = TensorLocation()
    for name, value in details.items():
        setattr(tensor, name, value)
    return tensor


def set_location(tensor: Tensor, location: TensorLocation) -> None:
    """Record the memory that holds a tensor."""
    tensor._location = location


def _ops() -> Any:
    from workbench.compat.popart.ir import ops  # noqa: PLC0415 - operations make tensors

    return ops


downcast_np_dtypes: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}
"""The types that 64-bit data of the host get by default."""


def host_array(data: Any, type: dtype | None, downcast: bool) -> np.ndarray[Any, Any]:
    """Data of the host as a new array of the type, or of the one that it gets by default."""
    array = np.array(data)
    if type is not None:
        return array.astype(type.as_numpy())
    if downcast and array.dtype in downcast_np_dtypes:
        return array.astype(downcast_np_dtypes[array.dtype])
    dtypes.dtype.as_dtype(array.dtype)
    return array
