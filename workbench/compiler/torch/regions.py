"""Graphs that a node of another graph runs: branches, and the bodies of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.ranges import dims_of
from workbench.compiler.ir.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.torch.context import Context
    from workbench.compiler.torch.importer import GraphImporter


class Region:
    """A graph that is imported into a module of its own, or in place.

    Values from around it are read where they are: modules may read values of those that call them.

    Args:
        node: The node that runs the graph.
        graph: Its ``GraphModule``.
        part: What it is of the node, such as ``body``, for names.
        is_apart: Whether it gets a module of its own.
        outer: The importer of the graph around it; the node's if there is none.
    """

    def __init__(
        self, node: Context, graph: Any, part: str, *, is_apart: bool = False,
        outer: GraphImporter | None = None,
    ) -> None:  # fmt: skip
        """Nothing is imported yet.

        Raises:
            ModelError: It is not a graph.
        """
        if not hasattr(graph, "graph"):
            raise node.fail(f"a {type(graph).__name__} as its {part}; expected a graph")
        outer = outer or node.graph_importer
        name = f"{node.fx.name}.{part}"
        self._node = node
        self.module = _new_module(outer, name) if is_apart else outer.module
        self._importer = outer.inner(self.module, graph, node.fx, name)
        nodes = list(graph.graph.nodes)
        self._places = [n for n in nodes if n.op == "placeholder"]
        self._body = [n for n in nodes if n.op not in {"placeholder", "output"}]
        returned: Any = nodes[-1].args[0]
        is_one = not isinstance(returned, list | tuple)
        self._returned: list[Any] = [returned] if is_one else list(cast("Any", returned))

    def within(self, graph: Any, part: str) -> Region:
        """Another graph of the same node, which is imported at the end of this region's module."""
        return Region(self._node, graph, part, outer=self._importer)

    def vary(self, step: Instruction) -> None:
        """Draw other random numbers in each iteration, by the number of the iteration."""
        self._importer.step = step

    def state(self, index: int, value: Instruction) -> Instruction:
        """The parameter for a value that is carried on, by the placeholder of its index.

        A length that may change from one iteration to the next is any that PyTorch allows.
        """
        known = self._places[index].meta["val"]
        shape = value.shape
        if hasattr(known, "shape") and shape.is_dynamic | any(not _is_int(n) for n in known.shape):
            symbols = self._importer.symbols
            own = zip(dims_of(shape), known.shape, strict=True)
            dims = [d if _is_int(n) or symbols.knows(n) else _any(symbols.dim(n)) for d, n in own]
            shape = Shape.dynamic(shape.type, dims)
        return self.module.add_parameter(f"state{index}", shape)

    def row(self, value: Instruction, step: Instruction) -> Instruction:
        """The row of an iteration."""
        piece = self.module.add("scan_slice", value, step, axis=0, direction=0)
        return self.module.add("squeeze", piece, axes=(0,))

    def values(self, given: Sequence[Any]) -> list[Any]:
        """Import the graph on values for its placeholders: what it returns, as lengths and instructions.

        Raises:
            ModelError: An operator is not supported, or there are other numbers of values.
        """
        if len(given) != len(self._places):
            raise self._node.fail(
                f"{len(given)} operands; expected {len(self._places)} for its graph"
            )
        importer = self._importer
        for place, value in zip(self._places, given, strict=True):
            importer.values[place] = importer.symbols.given(place.meta.get("val"), value)
        importer.run(self._body)
        return [importer.value(n) for n in self._returned]

    def instructions(self, values: Sequence[Any]) -> list[Instruction]:
        """Values as instructions of this region's module; integers are int64 of rank 0."""
        return [self._importer.output(v) for v in values]

    def truth(self, value: Any) -> Instruction:
        """A condition as a bool of this region's module."""
        made = self._importer.output(value)
        if made.shape.type is DType.BOOL:
            return made
        return self.module.add("convert", made, target_type=DType.BOOL)


def known_lengths(node: Context, found: Sequence[Any]) -> list[Any]:
    """Results whose integers are lengths from here on, and whose lengths are known.

    Raises:
        ModelError: There are other results than PyTorch says.
    """
    known = list(node.fx.meta["val"])
    if len(known) != len(found):
        raise ModelError(f"{len(found)} results; expected {len(known)}")
    return [node.graph_importer.symbols.given(k, v) for k, v in zip(known, found, strict=True)]


def _new_module(importer: GraphImporter, name: str) -> Module:
    program, base, count = importer.program, name, 1
    while name in program.modules:
        name = f"{base}_{count}"
        count += 1
    return program.create_module(name)


def _is_int(value: Any) -> bool:
    return isinstance(value, int)


def _any(dim: Dim) -> Dim:
    """The range of a length without its name, which another iteration has another value of."""
    return Dim(dim.min, dim.max)
