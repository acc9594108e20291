"""The nodes of a model by the provider that runs them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of the model."""

    domain: str
    op_type: str
    name: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """Nodes that a provider runs."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes."""
        return list(self.nodes)


def assigned(model: onnx.ModelProto, provider: str) -> list[OrtEpAssignedSubgraph]:
    """A part for each node of the main graph; all have the one provider of a session."""
    nodes = [OrtEpAssignedNode(n.domain, n.op_type, n.name) for n in model.graph.node]
    return [OrtEpAssignedSubgraph(provider, (node,)) for node in nodes]
