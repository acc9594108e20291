"""The importer: placeholders become parameters, nodes become instructions, each with its source node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.builtin import Unknown
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.tensors import MAX_TENSOR_BYTES
from workbench.compiler.tf import registry
from workbench.compiler.tf.branches import Branches
from workbench.compiler.tf.context import NCHW_TO_NHWC, NHWC_TO_NCHW, NodeContext
from workbench.compiler.tf.graph import Graph, data_inputs, described, source_of
from workbench.compiler.tf.options import ParseOptions
from workbench.compiler.tf.provenance import source_node
from workbench.compiler.tf.reader import Message
from workbench.compiler.tf.tensors import MAX_RANK

PLACEHOLDER = "Placeholder"
DEFAULTED = "PlaceholderWithDefault"
CALLS = {
    "PartitionedCall",
    "StatefulPartitionedCall",
    "If",
    "StatelessIf",
    "While",
    "StatelessWhile",
}
"""Operators that call functions of the graph's library."""


class Importer:
    """One import of one graph."""

    def __init__(self, graph: Message, options: ParseOptions, name: str = "") -> None:
        """Prepare the import; ``run`` does it."""
        self.options = options
        self.graph = Graph(graph.node, options.output_names)
        self.program = Program(name)
        if options.strict:
            self.program.follow_migraphx()
        self.module = self.program.main
        self.constants = Constants()
        self.values: dict[tuple[str, int], Instruction] = {}
        """Values by node and output, in TensorFlow's layout."""
        self.laid_out: dict[Instruction, Instruction] = {}
        """Constants of rank 4, each with the transpose of it as if it were an image with channels first.

        MIGraphX transposes every constant. Here only kernels of convolutions use the transpose, because
        they undo it; any other node would get the wrong elements.
        """
        self.types: dict[Instruction, DType] = {}
        """Values in a wider type than in the graph, by the graph's type, to which readers convert them."""
        self.branches = Branches(self.graph)
        self._skipped: set[Instruction] = set()
        self._refused: dict[str, ModelError] = {}
        """Why a placeholder cannot be a parameter, raised when a value that is needed reads it."""

    def run(self) -> Program:
        """Import the graph.

        Raises:
            ModelError: The graph is damaged or uses an unsupported feature.
        """
        self._expect_inputs()
        if not self.options.skip_unknown_operators:
            self._refuse_unknown()
        for node in self.graph.nodes.values():
            if self._is_fed(node):
                self._parameter(node)
        for node in self.graph.ordered():
            if not self._is_fed(node):
                self._import(node)
        if len(self.module) or self._refused:
            outputs = [self._output(name) for name in self.graph.output_names]
            self.module.add_return(*outputs)
            self.program.output_names = self.graph.output_names
        self.program.tensors = {f"{name}:{k}": i.id for (name, k), i in self.values.items()}
        return self.program

    def _is_fed(self, node: Message) -> bool:
        """Whether a node becomes a parameter; one with a default only if its lens are given."""
        has_lens = node.name in self.options.map_input_dims
        return node.op == PLACEHOLDER or (node.op == DEFAULTED and has_lens)

    def _expect_inputs(self) -> None:
        known = [n.name for n in self.graph.nodes.values() if n.op in {PLACEHOLDER, DEFAULTED}]
        wrong = next((name for name in self.options.map_input_dims if name not in known), None)
        if wrong is not None:
            names = ", ".join(map(repr, known[:20])) or "none"
            raise ModelError(f"map_input_dims: no placeholder {wrong!r}; the graph has {names}")

    def _refuse_unknown(self) -> None:
        needed = [n for name, n in self.graph.nodes.items() if self.graph.is_needed(name)]
        if any(node.op == "Switch" for node in needed):
            return  # only those on branches that are taken matter
        unknown = Counter(n.op for n in needed if n.op != PLACEHOLDER and not registry.find(n.op))
        if unknown:
            raise self._unknown_operators(unknown)

    def _unknown_operators(self, unknown: Counter[str]) -> ModelError:
        listed = ", ".join(f"{op[:80]} ({n}×)" for op, n in sorted(unknown.items()))
        hint = (
            "inline functions and loops when the graph is frozen; " if CALLS & set(unknown) else ""
        )
        return ModelError(
            f"unknown operators: {listed}; {hint}add handlers with tf_op, name nodes before them "
            "in output_names, or pass skip_unknown_operators=True to look at the graph"
        )

    # Parameters and outputs

    def _parameter(self, node: Message) -> None:
        with self.program.source(self._source(node)):
            context = NodeContext(self, node, self.module)
            try:
                shape = self._declared(node, context)
            except ModelError as error:
                self._refused[node.name] = error
                return
            made = self.module.add_parameter(node.name, shape)
            if self.options.is_nhwc and shape.ndim == 4:
                made = context.transpose(made, *NCHW_TO_NHWC)
        self.values[node.name, 0] = made

    def _declared(self, node: Message, context: NodeContext) -> Shape:
        """The shape of a placeholder in the program."""
        type = context.element_type("dtype")
        given = self.options.map_input_dims.get(node.name)
        if given is not None:
            lens = tuple(given)
        else:
            lens = self._lens(node)
            if self.options.is_nhwc and len(lens) == 4:
                lens = tuple(lens[i] for i in NHWC_TO_NCHW)
        shape = Shape(type, lens)
        if shape.elements * type.size > MAX_TENSOR_BYTES:
            raise context.fail(f"{shape}; expected at most {MAX_TENSOR_BYTES:,} bytes")
        return shape

    def _lens(self, node: Message) -> tuple[int, ...]:
        declared = node.attr["shape"].shape if "shape" in node.attr else None
        if declared is None or declared.unknown_rank:
            raise ModelError(
                f"{described(node)}: the number of dimensions is unknown; give map_input_dims={{"
                f"{node.name!r}: [...]}}"
            )
        if len(declared.dim) > MAX_RANK:
            raise ModelError(
                f"{described(node)}: {len(declared.dim)} dimensions; expected at most {MAX_RANK}"
            )
        return tuple(d.size if d.size > 0 else self.options.batch_size for d in declared.dim)

    def _output(self, name: str) -> Instruction:
        value = self.values.get(source_of(name))
        if value is None:
            node = self.graph.nodes[source_of(name)[0]]
            self._expect_value(node)
            raise ModelError(
                f"output name {name!r} not found in graph: no such output of {described(node)}"
            )
        if self.options.is_nhwc and value.shape.ndim == 4:
            return self.module.add("transpose", value, permutation=NHWC_TO_NCHW)
        return value

    def _expect_value(self, node: Message) -> None:
        """Refuse a node that has no value, for a reason that is known.

        Raises:
            ModelError: A placeholder is unsupported, or the node is on a branch that is not taken.
        """
        if node.name in self._refused:
            raise self._refused[node.name]
        if self.branches.is_idle(node.name):
            raise ModelError(f"{described(node)} is on a branch that is not taken; it has no value")

    # Nodes

    def _source(self, node: Message) -> str:
        made: SourceNode = source_node(node)
        self.program.source_nodes[made.name] = made
        return made.name

    def _import(self, node: Message) -> None:
        if not self.branches.runs(node):
            return
        is_needed, names, taken = (
            self.graph.is_needed(node.name),
            data_inputs(node),
            self.branches.taken(node),
        )
        if not is_needed and any(source_of(names[i]) not in self.values for i in taken):
            return  # it reads a skipped value, and no output depends on it
        with self.program.source(self._source(node)):
            try:
                found = self._handled(node, [self._input(node, i) for i in taken])
            except ModelError:
                if is_needed:
                    raise
                return
        for index, value in enumerate(found):
            self.values[node.name, index] = value

    def _input(self, node: Message, index: int) -> Instruction:
        name = data_inputs(node)[index]
        found = self.values.get(source_of(name))
        if found is None:
            maker = self.graph.nodes[source_of(name)[0]]
            self._expect_value(maker)
            raise ModelError(
                f"{described(node)} reads {name!r}, an output of {described(maker)} that is not supported"
            )
        type = self.types.get(found)
        if type is not None:
            found = self.values[source_of(name)] = self.module.add(
                "convert", found, target_type=type
            )
        return found

    def _handled(self, node: Message, inputs: list[Instruction]) -> list[Instruction]:
        try:
            return self._results(node, inputs)
        except Exception as error:  # any exception of a handler is reported as the graph's error
            if self.options.skip_unknown_operators and not self._skipped.isdisjoint(inputs):
                return self._unknown(node, inputs)
            if isinstance(error, ModelError):
                text = str(error)
                error.args = (text if described(node) in text else f"{described(node)}: {text}",)
                raise
            shapes = "; ".join(str(i.shape) for i in inputs) or "none"
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise ModelError(f"{described(node)}: {kind}{error} (inputs: {shapes})") from error

    def _results(self, node: Message, inputs: list[Instruction]) -> list[Instruction]:
        handler = registry.find(node.op)
        if handler is None:
            if not self.options.skip_unknown_operators:
                raise self._unknown_operators(Counter([node.op]))
            return self._unknown(node, inputs)
        result = handler(NodeContext(self, node, self.module), inputs)
        results = [result] if isinstance(result, Instruction) else list(result)
        for value in results:
            self._check(node, value)
        return results

    def _check(self, node: Message, value: Instruction) -> None:
        shape = value.shape
        if shape.is_dynamic or not shape.is_tensor:
            return
        if shape.elements * shape.type.size > MAX_TENSOR_BYTES:
            raise ModelError(
                f"{described(node)}: a result of {list(shape.lens)} would take "
                f"{shape.elements * shape.type.size:,} bytes; expected at most {MAX_TENSOR_BYTES:,}"
            )

    def _unknown(self, node: Message, inputs: Sequence[Instruction]) -> list[Instruction]:
        made = self.module.add(Unknown(op=node.op), *inputs)
        self._skipped.add(made)
        return [made]
