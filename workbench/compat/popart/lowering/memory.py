"""The memory of a graph as values: a write to a tensor is seen by all that share its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value


class Memory:
    """The values of a graph's tensors at one moment of its schedule.

    A tensor either has its own memory or shares that of others. One that shares is computed from them when
    it is read; a write to it is written back to them.
    """

    def __init__(
        self,
        values: Mapping[Tensor, Value],
        missing: Callable[[Tensor], Value],
        lines_of: Callable[[Op], AbstractContextManager[None]],
    ) -> None:
        """Memory with some values.

        Args:
            values: The values of inputs.
            missing: Gives the value of a variable or a constant when it is read first.
            lines_of: Makes instructions come from the line that made an operation.
        """
        self._lines_of = lines_of
        self._values = dict(values)
        self._missing = missing
        self._writes: dict[Tensor, int] = {}
        self._seen: dict[Tensor, tuple[tuple[int, ...], Value]] = {}

    def read(self, tensor: Tensor) -> Value:
        """The value now."""
        tensor = tensor.memory
        op = viewed(tensor)
        if op is None:
            if tensor not in self._values:
                self._values[tensor] = self._missing(tensor)
            return self._values[tensor]
        assert op.meaning is not None, f"{op!r} is a view without a meaning"
        stamp = tuple(self._writes.get(t, 0) for t in sorted(owners(tensor), key=lambda t: t.id))
        seen = self._seen.get(tensor)
        if seen is None or seen[0] != stamp:
            given = [self.read(t) for t in op.inputs]
            with self._lines_of(op):
                found = op.meaning(*given)
            assert isinstance(found, Value)
            seen = self._seen[tensor] = stamp, found
        return seen[1]

    def write(self, tensor: Tensor, value: Value) -> None:
        """Overwrite the memory of a tensor, and so all that share it."""
        tensor = tensor.memory
        op = viewed(tensor)
        if op is None:
            self._values[tensor] = value
            self._writes[tensor] = self._writes.get(tensor, 0) + 1
            return
        assert op.view is not None
        for k in op.aliases:
            old = self.read(op.inputs[k])
            self.write(op.inputs[k], op.view.write(k, old, value))


def viewed(tensor: Tensor) -> Op | None:
    """The operation by which a tensor shares the memory of others, if it does."""
    op = tensor.producer
    shares = op is not None and op.view is not None and tensor.producer_index == 0
    return op if shares else None


def owners(tensor: Tensor) -> set[Tensor]:
    """The tensors whose own memory a tensor uses."""
    tensor = tensor.memory
    op = viewed(tensor)
    if op is None:
        return {tensor}
    return set[Tensor]().union(*(owners(op.inputs[k]) for k in op.aliases))
