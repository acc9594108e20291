"""The methods of a model that replace constants and fold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.compat.aitemplate.base import Base
from workbench.compat.aitemplate.data import AITData
from workbench.compat.aitemplate.errors import FOLD, SET_CONSTANT, named
from workbench.compat.aitemplate.memory import Held
from workbench.compat.aitemplate.signature import facts_of, type_given
from workbench.compat.aitemplate.tensors import seen
from workbench.gpu.lowering.plan import ALIGNMENT
from workbench.gpu.run.device_array import DeviceArray


class ConstantMethods(Base):
    """Constants, by pointers and by tensors; now, or with a second buffer."""

    def get_constant_names(
        self, unbound_constants_only: bool = True, constant_folding_only: bool = False
    ) -> list[str]:
        """Names of constants."""
        return self._constants.names(unbound_constants_only, constant_folding_only)

    def get_constant_folding_input_names(self, unbound_constants_only: bool = True) -> list[str]:
        """Names of the constants that ``fold_constants`` reads."""
        return self._constants.names(unbound_constants_only, True)

    def set_constant(self, name: str, tensor: AITData) -> None:
        """Replace a constant after waiting for all runs; an unbound one's memory has to stay valid.

        Raises:
            RuntimeError: There is no such constant, or the size differs.
        """
        self.set_many_constants({name: tensor})

    def set_many_constants(self, tensors: Mapping[str, AITData]) -> None:
        """Replace constants after waiting for all runs."""
        self._set_alone({n: self._constant_at(n, d) for n, d in tensors.items()}, {})

    def set_constant_with_tensor(self, name: str, tensor: Any) -> None:
        """Replace a constant by a tensor, which the model keeps."""
        self.set_many_constants_with_tensors({name: tensor})

    def set_many_constants_with_tensors(self, tensors: Mapping[str, Any]) -> None:
        """Replace constants by tensors, which the model keeps."""
        self._set_alone({n: self._constant_seen(n, t) for n, t in tensors.items()}, tensors)

    def set_double_buffer_constant(
        self, name: str, tensor: AITData, stream_ptr: Any = None
    ) -> None:
        """Replace a constant at the next ``swap_constants``; runs go on meanwhile."""
        self.set_many_double_buffer_constants({name: tensor}, stream_ptr)

    def set_many_double_buffer_constants(
        self, tensors: Mapping[str, AITData], stream_ptr: Any = None
    ) -> None:
        """Replace constants at the next ``swap_constants``; runs go on meanwhile."""
        arrays = {n: self._constant_at(n, d) for n, d in tensors.items()}
        self._set_later(arrays, {}, stream_ptr)

    def set_double_buffer_constant_with_tensor(
        self, name: str, tensor: Any, stream_ptr: Any = None
    ) -> None:
        """Replace a constant by a tensor at the next ``swap_constants``."""
        self.set_many_double_buffer_constants_with_tensors({name: tensor}, stream_ptr)

    def set_many_double_buffer_constants_with_tensors(
        self, tensors: Mapping[str, Any], stream_ptr: Any = None
    ) -> None:
        """Replace constants by tensors at the next ``swap_constants``."""
        arrays = {n: self._constant_seen(n, t) for n, t in tensors.items()}
        self._set_later(arrays, tensors, stream_ptr)

    def fold_constants(
        self, stream_ptr: Any = None, sync: bool = True, double_buffer: bool = False
    ) -> None:
        """Compute what depends on constants only; done on return, with ``sync`` or without.

        Args:
            stream_ptr: The stream.
            sync: Accepted.
            double_buffer: Fold what ``set_double_buffer_constant`` gave, for ``swap_constants``.

        Raises:
            RuntimeError: A constant is not set.
        """
        pool, stream = self._open(), self._memory.stream_of(stream_ptr)
        with named(FOLD):
            if double_buffer:
                self._constants.fold(later=True, stream=stream)
                return
            with pool.alone():
                self._constants.fold(later=False, stream=stream)

    def swap_constants(self) -> None:
        """Let runs from now on read the second buffer; without a fold into it, only warn."""
        self._open()
        self._constants.swap()

    # Checks and copies

    def _constant_at(self, name: str, data: AITData) -> Held:
        self._open()
        with named(SET_CONSTANT):
            self._constants.expect(name, bool(data.data_ptr))
            shape, type = self._constants.shapes.get(name), type_given(data)
            if shape is not None:
                array = self._memory.at(data.data_ptr, type, data.shape)
                return self._fitting(name, array)
            return self._memory.at(data.data_ptr, type, data.shape)

    def _constant_seen(self, name: str, tensor: Any) -> Held:
        self._open()
        with named(SET_CONSTANT):
            self._constants.expect(name, tensor is not None)
            try:
                array = seen(tensor, self._memory, name)
            except ValueError as error:
                raise ValueError(
                    f"Constant {name} must be contiguous and on the GPU. ({error})"
                ) from error
            return self._fitting(name, array)

    def _fitting(self, name: str, array: Held) -> Held:
        """The value in the shape of its constant, in memory that kernels read."""
        type, lens = facts_of(array)
        shape = self._constants.shapes.get(name)
        if shape is None:
            return array
        self._constants.expect_bytes(name, type, lens)
        if not isinstance(array, DeviceArray):
            array = array.reshape(shape.lens)
            return array if self._memory.device is None else self._memory.copy_of(array)
        made = DeviceArray(array.device, shape, array.pointer, keeps=array)
        is_aligned = not isinstance(array.pointer, int) or array.pointer % ALIGNMENT == 0
        return made if is_aligned else self._memory.copy_of(made)

    def _set_alone(self, arrays: Mapping[str, Held], keeps: Mapping[str, Any]) -> None:
        with self._open().alone(), named(SET_CONSTANT):
            for name, array in arrays.items():
                self._constants.set(name, array, keeps.get(name), later=False)

    def _set_later(self, arrays: Mapping[str, Held], keeps: Mapping[str, Any], stream: Any) -> None:
        self._open()
        with named(SET_CONSTANT):
            for name, array in arrays.items():
                found = self._memory.stream_of(stream)
                self._constants.set(name, array, keeps.get(name), later=True, stream=found)
