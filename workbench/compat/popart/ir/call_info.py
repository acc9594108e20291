"""The relations between a subgraph's tensors and those of the graph that calls it."""

from __future__ import annotations

from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op
from workbench.compat.popart.ir.tensors import Tensor


class SubgraphOpInfo:
    """One call or loop of a subgraph, and what its tensors are on both sides."""

    def __init__(self, op: Op) -> None:
        """The relations of a call."""
        self._op = op

    @property
    def called_graph(self) -> Graph:
        """The subgraph."""
        return self._op.called_graphs[0]

    @property
    def op(self) -> Op:
        """The operation that calls it."""
        return self._op

    # Indices

    def subgraph_in_to_op_in_index(self, subgraph_in: int) -> int:
        """The operation's index of an input of the subgraph."""
        return subgraph_in + self._op.first_input

    def op_in_to_subgraph_in_index(self, op_in: int) -> int:
        """The subgraph's index of an input of the operation."""
        return op_in - self._op.first_input

    def subgraph_out_to_op_out_index(self, subgraph_out: int) -> int:
        """The operation's index of an output of the subgraph."""
        return subgraph_out

    def op_out_to_subgraph_out_index(self, op_out: int) -> int:
        """The subgraph's index of an output of the operation."""
        return op_out

    # Tensors

    def get_op_input_tensor(self, op_in: int) -> Tensor:
        """The tensor that is this input of the operation."""
        return self._op.inputs[op_in - self._op.first_input]

    def get_op_output_tensor(self, op_out: int) -> Tensor:
        """The tensor that is this output of the operation."""
        return self._op.outputs[op_out]

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """The inputs of the operation."""
        return self._op.inputs

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """The outputs of the operation."""
        return self._op.outputs

    def subgraph_to_op_tensor(self, subgraph_tensor: Tensor) -> Tensor:
        """The tensor here for an input or output of the subgraph.

        Raises:
            ValueError: The tensor is neither.
        """
        inputs, outputs = (
            self.called_graph.get_input_tensors(),
            self.called_graph.get_output_tensors(),
        )
        if subgraph_tensor in inputs:
            return self._op.inputs[inputs.index(subgraph_tensor)]
        if subgraph_tensor in outputs:
            return self._op.outputs[outputs.index(subgraph_tensor)]
        raise ValueError(
            f"Tensor {subgraph_tensor} is not an input or output of the called graph "
            f"{self.called_graph.name}."
        )

    def op_in_to_subgraph_in_tensor(self, op_tensor: Tensor) -> Tensor:
        """The input of the subgraph that a tensor here becomes.

        Raises:
            ValueError: It becomes none.
        """
        return self.called_graph.get_input_tensors()[self._index(op_tensor)]

    def op_out_to_subgraph_out_tensor(self, op_tensor: Tensor) -> Tensor:
        """The output of the subgraph that becomes a tensor here.

        Raises:
            ValueError: None does.
        """
        if op_tensor not in self._op.outputs:
            raise ValueError(f"Tensor {op_tensor} is not an output of the call.")
        return self.called_graph.get_output_tensors()[self._op.outputs.index(op_tensor)]

    def set_op_input_modified(self, op_tensor: Tensor) -> None:
        """Let the subgraph change an input in place, so that the change is seen here.

        Raises:
            ValueError: The tensor is not an input.
        """
        self._index(op_tensor)
        found = {k for k, t in enumerate(self._op.inputs) if t == op_tensor}
        self._op.modifies = tuple(sorted({*self._op.modifies, *found}))
        self._op.graph.ir().changed()

    def _index(self, op_tensor: Tensor) -> int:
        if op_tensor not in self._op.inputs:
            raise ValueError(f"Tensor {op_tensor} is not an input of the call.")
        return self._op.inputs.index(op_tensor)

    # The names of later versions

    graph_to_parent = subgraph_to_op_tensor
    parent_to_graph = op_in_to_subgraph_in_tensor
    parent_input = get_op_input_tensor
    parent_output = get_op_output_tensor
    set_parent_input_modified = set_op_input_modified
    graph_to_parent_input_index = subgraph_in_to_op_in_index
    parent_to_graph_input_index = op_in_to_subgraph_in_index
    graph_to_parent_output_index = subgraph_out_to_op_out_index
    parent_to_graph_output_index = op_out_to_subgraph_out_index

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the operation."""
        return self._op.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the operation."""
        return self._op.outputs
