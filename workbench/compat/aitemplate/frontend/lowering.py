"""Graphs as programs: inputs and constants are parameters, and each operation appends its meaning."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compat.aitemplate.element_types import type_of
from workbench.compat.aitemplate.frontend.graph import operators
from workbench.compat.aitemplate.frontend.lengths import IntVar
from workbench.compat.aitemplate.frontend.operator import Lengths, Operator, results
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.expressions.location import sourced
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.program import Program


def internal_data(tensor: Tensor) -> Array | None:
    """The data of a constant that is not the user's; None for other tensors."""
    if not tensor._attrs["is_internal_constant"] or tensor.data is None:  # pyright: ignore[reportPrivateUsage]
        return None
    return tensor.data.array.reshape([n.upper_bound() for n in tensor.shape()])


class Lowering:
    """The program of a graph whose tensors all have names."""

    def __init__(self, graph: Sequence[Tensor], name: str) -> None:
        """Begin a program of this name; its parameters are the inputs, and then the constants."""
        self.program = Program()
        self.program.name = name
        self.builder = ModuleBuilder(self.program.main)
        self._graph = graph
        self._values: dict[int, Value] = {}
        given = [t for t in graph if t.source is None]
        for tensor in (t for wanted in (True, False) for t in given if t.is_input is wanted):
            self._values[id(tensor)] = self._given(tensor)

    def _given(self, tensor: Tensor) -> Value:
        """A parameter; for a constant that is not the user's, and never changes, its data."""
        if (data := internal_data(tensor)) is not None:
            return self.builder.constant(data)
        return self._parameter(tensor)

    def _parameter(self, tensor: Tensor) -> Value:
        dims = [n.lower_bound() if n.is_fixed else n.dim for n in tensor.shape()]
        return self.builder.input(str(tensor.name), dims, type_of(tensor.dtype()))

    def of(self, outputs: Sequence[Tensor]) -> Program:
        """The program, ended.

        Args:
            outputs: The tensors that it returns, in this order.

        Raises:
            ValueError: An operation's meaning refuses ranges of lengths.
        """
        for op in operators(self._graph):
            self._append(op)
        found = [self._values[id(t)].instruction for t in outputs]
        self.program.main.add_return(*found)
        self.program.output_names = tuple(str(t.name) for t in outputs)
        return self.program

    def _append(self, op: Operator) -> None:
        at = Lengths(self.builder, lambda n: n.lower_bound() if n.is_fixed else None, self._length)
        node = None if op.location is None else op.location.node
        values = [self._values[id(t)] for t in op.inputs]
        with sourced(self.program, node):
            try:
                found = results(op.meaning(at, *values))
            except WorkbenchError as error:
                given = ", ".join(map(repr, op.inputs))
                raise op.fail(f"of {given}: {error}; fix the lengths that are ranges") from error
        for tensor, value in zip(op.outputs, found, strict=True):
            self._values[id(tensor)] = value

    def _length(self, length: IntVar) -> Value:
        """A length that only a run knows, as an int64 value of shape (1,)."""
        for tensor in self._graph:
            value = self._values.get(id(tensor))
            axes = [a for a, n in enumerate(tensor.shape()) if n is length or n.key == length.key]
            if value is not None and axes:
                found = value.apply("dimensions_of", start=axes[0], end=axes[0] + 1)
                return found.astype(DType.INT64)
        raise WorkbenchError(f"no input of the graph has the length {length}")
