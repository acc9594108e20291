"""The inputs and outputs of a gradient graph, in terms of the graph that was differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from workbench.compat.popart.ir.call_info import SubgraphOpInfo
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.tensors import Tensor


class ExpectedConnectionType(Enum):
    """Whether a connection is a tensor of the forward graph or its gradient."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"


class ExpectedConnection:
    """A tensor of the forward graph, or its gradient."""

    def __init__(self) -> None:
        """Refuse: `autodiff` makes connections.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("popart.ir.ExpectedConnection cannot be constructed directly.")

    fwd_tensor: Tensor
    """The tensor of the forward graph."""
    connection_type: ExpectedConnectionType
    """Whether it is the tensor itself or its gradient."""

    def __eq__(self, other: object) -> bool:
        """Whether tensor and type are the same."""
        if not isinstance(other, ExpectedConnection):
            return NotImplemented
        return (self.fwd_tensor, self.connection_type) == (other.fwd_tensor, other.connection_type)

    def __hash__(self) -> int:
        """By tensor and type."""
        return hash((self.fwd_tensor, self.connection_type))

    def __repr__(self) -> str:
        """Type and tensor."""
        return f"({self.connection_type.name}, {self.fwd_tensor.id})"


def connection(tensor: Tensor, type: ExpectedConnectionType) -> ExpectedConnection:
    """A connection."""
    made = object.__new__(ExpectedConnection)
    made.fwd_tensor, made.connection_type = tensor, type
    return made


class GradGraphInfo:
    """A gradient graph, and how it connects to the graph that it differentiates."""

    def __init__(self) -> None:
        """Refuse: `autodiff` makes it.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("popart.ir.GradGraphInfo cannot be constructed directly.")

    graph: Graph
    """The gradient graph."""
    forward_graph: Graph
    """The graph that it differentiates."""
    expected_inputs: tuple[ExpectedConnection, ...]
    """What its inputs are: first the gradients that are provided, then tensors of the forward graph."""
    expected_outputs: tuple[ExpectedConnection, ...]
    """What its outputs are: the gradients that are required, in their order."""

    def get_input_tensors(self) -> tuple[Tensor, ...]:
        """The forward graph's tensors that the inputs stand for."""
        return tuple(c.fwd_tensor for c in self.expected_inputs)

    def get_output_tensors(self) -> tuple[Tensor, ...]:
        """The forward graph's tensors whose gradients the outputs are."""
        return tuple(c.fwd_tensor for c in self.expected_outputs)

    def get_inputs_from_forward_call_info(
        self, fwd_call_info: SubgraphOpInfo
    ) -> dict[Tensor, Tensor]:
        """The tensors at a call of the forward graph that a call of this one needs.

        Args:
            fwd_call_info: The call.

        Returns:
            By input of the gradient graph; the gradients that are provided are not among them.

        Raises:
            TypeError: It is a call of another graph.
        """
        if fwd_call_info.called_graph is not self.forward_graph:
            raise TypeError(
                "The called graph does not match the graph that was differentiated: it is "
                f"{fwd_call_info.called_graph.id}, expected {self.forward_graph.id}."
            )
        pairs = zip(self.graph.get_input_tensors(), self.expected_inputs, strict=True)
        return {
            t: fwd_call_info.subgraph_to_op_tensor(c.fwd_tensor)
            for t, c in pairs
            if c.connection_type is ExpectedConnectionType.Fwd
        }

    def get_fwd_subgraph_to_grad_tensor_map(
        self, grad_info: SubgraphOpInfo
    ) -> dict[Tensor, Tensor]:
        """The gradients that a call of the gradient graph returns, by tensor of the forward graph.

        Raises:
            TypeError: It is a call of another graph.
        """
        self._expect_call(grad_info)
        return dict(zip(self.get_output_tensors(), grad_info.get_output_tensors(), strict=False))

    def get_fwd_inputs_to_grad_tensor_map(
        self, fwd_info: SubgraphOpInfo, grad_info: SubgraphOpInfo
    ) -> dict[Tensor, Tensor]:
        """The gradients that a call of the gradient graph returns, by input of a call of the forward graph.

        Raises:
            TypeError: One is a call of another graph.
        """
        if fwd_info.called_graph is not self.forward_graph:
            raise TypeError(
                f"The called graph {fwd_info.called_graph.id} is not the graph that was "
                f"differentiated, {self.forward_graph.id}."
            )
        inner = self.get_fwd_subgraph_to_grad_tensor_map(grad_info)
        return {fwd_info.subgraph_to_op_tensor(t): g for t, g in inner.items()}

    def _expect_call(self, info: SubgraphOpInfo) -> None:
        if info.called_graph is not self.graph:
            raise TypeError(
                f"The called graph {info.called_graph.id} is not the gradient graph {self.graph.id}."
            )

    def __repr__(self) -> str:
        """Graph and connections, a line each."""
        return "\n".join(
            (
                "GradGraphInfo[",
                f"  graph={self.graph.id}",
                *_listed("expected_inputs", self.expected_inputs),
                *_listed("expected_outputs", self.expected_outputs),
                "]",
            )
        )


def _listed(name: str, connections: Sequence[ExpectedConnection]) -> list[str]:
    return [f"  {name}=[", *(f"    {c!r}" for c in connections), "  ]"]
