"""Names of another runtime as nodes of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workbench.compiler.ir.program import Program

EXACT, TENSOR, PREFIX = "node", "tensor", "prefix"
"""The ways to recognise a name: as a node's, as a tensor's that a node computes, by its beginning."""
_SUFFIX = re.compile(r"(_nchwc|_nhwc|_token_\d+)+$")
_LAST = re.compile(r"[/_ .:][^/_ .:]*$")


class Nodes:
    """The nodes and tensors of a program's model.

    Args:
        program: The program as it was imported.
    """

    def __init__(self, program: Program) -> None:
        """Collect the names."""
        computed = [i for i in program.instructions if not i.name.startswith("@")]
        self.names = dict.fromkeys(s for i in computed for s in i.sources)
        """The names of the nodes, in the program's order."""
        sources = {i.id: i.sources for i in program.instructions}
        self._tensors = {n: sources[id][-1] for n, id in program.tensors.items() if sources.get(id)}

    def knows(self, name: str) -> bool:
        """Whether a name is a node's or a tensor's."""
        return name in self.names or name in self._tensors

    def found(self, names: Iterable[str]) -> tuple[tuple[str, ...], str]:
        """The nodes that some names mean, and how they were recognised.

        Runtimes name what they make of nodes after them: onnxruntime a convolution in blocks of channels
        ``<tensor>_nchwc``, a fused node ``<node>/LayerNormFusion/``.
        """
        listed = list(names)
        for how in (EXACT, TENSOR, PREFIX):
            nodes = [node for name in listed if (node := self._one(name, how))]
            if nodes:
                return tuple(dict.fromkeys(nodes)), how
        return (), ""

    def _one(self, name: str, how: str) -> str:
        if how == EXACT:
            return name if name in self.names else ""
        bare = _SUFFIX.sub("", name)
        if how == TENSOR:
            return bare if bare in self.names else self._tensors.get(bare, "")
        while match := _LAST.search(bare):
            bare = bare[: match.start()]
            if bare in self.names:
                return bare
        return ""
