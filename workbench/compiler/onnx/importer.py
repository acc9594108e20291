"""The importer: graphs become modules, nodes become instructions, each with its source node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Unknown
from workbench.compiler.ir.debug_symbols import add_debug_symbols
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx import functions, registry
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.context import Handler, NodeContext, is_absent
from workbench.compiler.onnx.inputs import expect_inputs, input_shape, input_value, named
from workbench.compiler.onnx.lengths import Lengths
from workbench.compiler.onnx.literals import argument, bare, literal, sparse
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.onnx.order import described, ordered
from workbench.compiler.onnx.provenance import Provenance
from workbench.compiler.onnx.reader import Source
from workbench.compiler.onnx.tensors import MAX_TENSOR_BYTES, NARROW

MAX_GROWTH = 200
"""The most nodes per node of the file: functions that call each other could expand to any number."""

SMALL_MODEL = 10_000
"""Nodes that any model may have after its functions are expanded."""

KEEP_TYPE = {"Flatten", "Identity", "Pad", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that ONNX allows on elements of few bits and that keep the element type."""


@dataclass
class Scope:
    """The values of a graph by name; values of enclosing graphs are visible."""

    parent: Scope | None = None
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    prefix: str = ""
    """The prefix of node names: the enclosing function calls."""
    path: tuple[str, ...] = ()
    """The scope of the enclosing function call."""
    calls: tuple[str, ...] = ()
    """The functions that are being expanded."""
    values: dict[str, Instruction] = field(default_factory=dict[str, Instruction])

    def find(self, name: str) -> Instruction | None:
        """The value of this name, here or in an enclosing graph."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def inner(self, values: Mapping[str, Instruction] | None = None) -> Scope:
        """The scope of a subgraph, some of whose inputs may already have values."""
        return replace(self, parent=self, values=dict(values or {}))


class Importer:
    """One import of one model."""

    def __init__(self, source: Source, options: ParseOptions) -> None:
        """Prepare the import; ``run`` does it."""
        self.source = source
        self.options = options
        self.program = Program(source.name)
        if options.strict:
            self.program.follow_migraphx()
        self.provenance = Provenance(self.program)
        self.constants = Constants()
        self.lengths = Lengths(self.constants)
        self.functions = {(f.domain, f.name): f for f in source.model.functions}
        self.narrow: dict[Instruction, int] = {}
        """ONNX's type codes of values that the program holds in a wider type than the model."""
        self._skipped: set[Instruction] = set()
        self._most_nodes = SMALL_MODEL + MAX_GROWTH * sum(1 for _ in _nodes_of(source.model))
        self._named: list[Instruction] = []
        """Parameters; their positions name their dynamic lengths."""

    def run(self) -> Program:
        """Import the model.

        Raises:
            ModelError: The model is damaged or uses an unsupported feature.
        """
        model = self.source.model
        opsets = {o.domain: o.version for o in model.opset_import}
        if not self.options.skip_unknown_operators:
            self._refuse_unknown(model)
        expect_inputs(model.graph, self.options)
        scope = Scope(opsets=opsets or {"": 1})
        names = [output.name for output in model.graph.output]
        outputs = self.graph(model.graph, self.program.main, scope)
        self._return(self.program.main, outputs, names)
        if self.options.skip_unknown_operators:
            self._drop_unused_modules()
        self.program.output_names = tuple(names)
        known = scope.values.items()
        self.program.tensors = {name: i.id for name, i in known if not is_absent(i)}
        return self.program

    def _drop_unused_modules(self) -> None:
        """Remove the modules of nodes that were skipped after their subgraphs were imported."""
        reached = set(self.program.reachable_modules())
        unused = [m for m in self.program.modules.values() if m not in reached]
        for module in unused:
            for instruction in module:
                module.connect(instruction, ())
        for module in unused:
            self.program.remove_module(module)

    def _refuse_unknown(self, model: onnx.ModelProto) -> None:
        unknown: Counter[str] = Counter()
        for node in _nodes_of(model):
            if not self._is_known(node):
                unknown[".".join(filter(None, [node.domain, node.op_type]))] += 1
        if unknown:
            listed = ", ".join(f"{name} ({n}×)" for name, n in sorted(unknown.items()))
            raise ModelError(
                f"unknown operators: {listed}; add handlers with onnx_op, or pass "
                "skip_unknown_operators=True to look at the model without running it"
            )

    def _is_known(self, node: onnx.NodeProto) -> bool:
        if (node.domain, node.op_type) in self.functions:
            return True
        found = registry.find(node.domain, node.op_type) or self._of_any_domain(node)
        return found is not None or functions.has_body(node)

    def _of_any_domain(self, node: onnx.NodeProto) -> Handler | None:
        """The handler of onnxruntime's operator, which strict import takes where ONNX has none."""
        strict = self.options.strict and node.domain in registry.STANDARD
        return registry.find("com.microsoft", node.op_type, strict=True) if strict else None

    # Graphs

    def graph(
        self,
        graph: onnx.GraphProto,
        module: Module,
        scope: Scope,
        shapes: Mapping[str, Shape] | None = None,
    ) -> list[Instruction]:
        """Import a graph into a module; returns the values of its outputs.

        Args:
            graph: The graph.
            module: The module to append to.
            scope: The scope that values are looked up in and added to.
            shapes: Shapes of inputs that are tighter than the graph declares.
        """
        where = f"graph {graph.name!r}" if graph.name else "the graph"
        self._initializers(graph, module, scope)
        self._parameters(graph, module, scope, shapes or {})
        self.nodes(graph.node, module, scope, where)
        return [self._output(o.name, scope, where) for o in graph.output]

    def _initializers(self, graph: onnx.GraphProto, module: Module, scope: Scope) -> None:
        is_main = scope.parent is None and not scope.calls
        payloads = self.source.payloads if is_main else {}
        for index, tensor in enumerate(graph.initializer):
            self._check_new(tensor.name, scope, "initializer")
            where = f"initializer {tensor.name!r}"
            with self.program.source(self.provenance.initializer(tensor.name)):
                value = literal(module, tensor, where, self.folder, payloads.get(index))
            if self.options.use_debug_symbols:
                add_debug_symbols(value.inputs[0] if value.inputs else value, [tensor.name])
            scope.values[tensor.name] = self.declared(value, tensor.data_type)
        for tensor in graph.sparse_initializer:
            name = tensor.values.name
            self._check_new(name, scope, "initializer")
            with self.program.source(self.provenance.initializer(name)):
                scope.values[name] = module.add_literal(
                    sparse(tensor, f"sparse initializer {name!r}", self.folder)
                )

    def _check_new(self, name: str, scope: Scope, what: str) -> None:
        if not name or name in scope.values:
            raise ModelError(f"{what} {name!r}: expected a unique, nonempty name")

    def declared(self, value: Instruction, code: int) -> Instruction:
        """The value, known to have the element type of this code in the model."""
        if code in NARROW:
            self.narrow[value] = code
        return value

    @property
    def folder(self) -> Path | None:
        """The folder of tensors that are stored outside the model."""
        given = self.options.external_data_path
        return self.source.folder if given is None else Path(given)

    def argument(self, tensor: onnx.TensorProto, where: str) -> Argument:
        """A tensor of an attribute; 4-bit elements take a byte each."""
        made = argument(tensor, where, self.folder, None)
        return bare(made) if self.options.strict else made

    def dense(self, tensor: onnx.SparseTensorProto, where: str) -> Array:
        """A sparse tensor of an attribute, with all of its elements."""
        return sparse(tensor, where, self.folder)

    def _parameters(
        self, graph: onnx.GraphProto, module: Module, scope: Scope, shapes: Mapping[str, Shape]
    ) -> None:
        given = {i.name for i in graph.initializer}
        names = [value.name for value in graph.input]
        if len(set(names)) != len(names) or "" in names:
            raise ModelError(f"inputs {names}; expected a unique, nonempty name for each")
        for value in graph.input:
            if value.name in given or value.name in scope.values:
                continue
            is_main, code = module is self.program.main, value.type.tensor_type.elem_type
            if is_main and value.name in self.options.constant_inputs:
                fixed = self._fixed(value, module)
                scope.values[value.name] = self.declared(fixed, code)
                continue
            shape = shapes.get(value.name)
            if shape is None:
                shape = input_shape(value, self.options, is_main=is_main)
            made = module.add_parameter(
                value.name, named(shape, value, len(self._named), is_main=is_main)
            )
            self._named.append(made)
            scope.values[value.name] = self.declared(made, code)

    def _fixed(self, value: onnx.ValueInfoProto, module: Module) -> Instruction:
        """A literal for an input whose value the caller gave."""
        with self.program.source(self.provenance.initializer(value.name)):
            return module.add_literal(input_value(value, self.options))

    def _output(self, name: str, scope: Scope, where: str) -> Instruction:
        found = scope.find(name)
        if found is None:
            raise ModelError(
                f"{where}: output {name!r} is not computed: no node computes it, or it is an optional "
                "output that is not supported"
            )
        return found

    # Nodes

    def nodes(
        self, nodes: Iterable[onnx.NodeProto], module: Module, scope: Scope, where: str
    ) -> None:
        """Import nodes in order."""

        def known(name: str) -> bool:
            return scope.find(name) is not None

        for index, node in ordered(list(nodes), known, where):
            source = self.provenance.node(node, index, scope.prefix, scope.path)
            with self.program.source(source):
                inputs = [self._input(name, node, module, scope) for name in node.input]
                called = node.name or f"migx_uid:{unique_name(node, module)}"
                results = self._node(node, source, inputs, module, scope)
            if self.options.use_debug_symbols:
                name_made(results, inputs, called)
            self._check_results(node, results)
            for name, result in zip(node.output, results, strict=False):
                if name and name not in scope.values:
                    scope.values[name] = result
                elif name:
                    raise ModelError(
                        f"{where}: {described(node)} computes {name!r}, which is an input or "
                        "initializer; expected every value to be defined once"
                    )

    def _input(self, name: str, node: onnx.NodeProto, module: Module, scope: Scope) -> Instruction:
        found = scope.find(name)
        if found is None and name == "":
            found = scope.values[""] = module.add("undefined")
        if found is None:
            raise ModelError(
                f"{described(node)}: input {name!r} is not computed: it is an optional output of "
                "another node that is not supported"
            )
        return found

    def _node(
        self,
        node: onnx.NodeProto,
        source: str,
        inputs: list[Instruction],
        module: Module,
        scope: Scope,
    ) -> list[Instruction]:
        try:
            return self._handled(node, source, inputs, module, scope)
        except Exception as error:  # any exception of a handler is reported as the model's error
            if self.options.skip_unknown_operators and not self._skipped.isdisjoint(inputs):
                return self._unknown(node, inputs, module)
            if isinstance(error, ModelError):
                text = str(error)
                error.args = (text if described(node) in text else f"{described(node)}: {text}",)
                raise
            shapes = "; ".join(str(i.shape) for i in inputs) or "none"
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise ModelError(f"{described(node)}: {kind}{error} (inputs: {shapes})") from error

    def _handled(
        self,
        node: onnx.NodeProto,
        source: str,
        inputs: list[Instruction],
        module: Module,
        scope: Scope,
    ) -> list[Instruction]:
        function = self.functions.get((node.domain, node.op_type))
        if function is not None:
            return functions.expand(self, node, function, source, inputs, module, scope)
        handler = registry.find(node.domain, node.op_type, strict=self.options.strict)
        domain = "" if node.domain in registry.STANDARD else node.domain
        version = scope.opsets.get(domain, scope.opsets.get("ai.onnx", 1))
        body = None
        if handler is None:
            body = functions.body_of(node, version, inputs, self.narrow)
            handler = self._of_any_domain(node) if body is None else None
        if handler is not None:
            context = NodeContext(self, node, scope, module, version, source)
            result = handler(context, inputs)
            results = [result] if isinstance(result, Instruction) else list(result)
            if node.op_type in KEEP_TYPE and inputs and inputs[0] in self.narrow:
                self.narrow[results[0]] = self.narrow[inputs[0]]
            return results
        if body is not None:
            return functions.expand(self, node, body, source, inputs, module, scope)
        if self.options.skip_unknown_operators:
            return self._unknown(node, inputs, module)
        raise ModelError(
            f"unknown operator {node.op_type} of operator set {node.domain!r}; add a handler with "
            "onnx_op"
        )

    def _unknown(
        self, node: onnx.NodeProto, inputs: list[Instruction], module: Module
    ) -> list[Instruction]:
        given = [i for i in inputs if not is_absent(i)]
        made = module.add(Unknown(op=node.op_type), *given)
        self._skipped.add(made)
        return [made] * max(len(node.output), 1)

    def _check_results(self, node: onnx.NodeProto, results: list[Instruction]) -> None:
        for result in results:
            shape = result.shape
            if shape.is_dynamic or not shape.is_tensor:
                continue
            if shape.elements * shape.type.size > MAX_TENSOR_BYTES:
                raise ModelError(
                    f"{described(node)}: a result of {list(shape.lens)} would take "
                    f"{shape.elements * shape.type.size:,} bytes; "
                    f"expected at most {MAX_TENSOR_BYTES:,}"
                )
        if len(self.program.source_nodes) > self._most_nodes:
            raise ModelError(
                f"{described(node)}: the model has over {self._most_nodes:,} nodes "
                "with its functions expanded"
            )

    def origins(self, value: Instruction) -> tuple[str, ...]:
        """Names of the model's inputs that a value depends on."""
        found: list[str] = []
        seen, stack = {value}, [value]
        while stack:
            current = stack.pop()
            if current.parameter is not None and current.module is self.program.main:
                found.append(current.parameter)
            fresh = [i for i in current.inputs if i not in seen]
            seen.update(fresh)
            stack += fresh
        return tuple(sorted(found))

    # Subgraphs

    def subgraph(
        self,
        graph: onnx.GraphProto,
        name: str,
        scope: Scope,
        shapes: Mapping[str, Shape] | None = None,
    ) -> Module:
        """Import a subgraph as a separate module that returns its outputs."""
        module = self.new_module(name)
        outputs = self.graph(graph, module, scope.inner(), shapes)
        self._return(module, outputs, [o.name for o in graph.output])
        return module

    def _return(self, module: Module, outputs: list[Instruction], names: list[str]) -> None:
        made = module.add_return(*outputs)
        if self.options.use_debug_symbols:
            width = len(str(len(names) - 1))
            add_debug_symbols(
                made, [f"@output_{i:0{width}}:{name}" for i, name in enumerate(names)]
            )

    def inlined(self, graph: onnx.GraphProto, module: Module, scope: Scope) -> list[Instruction]:
        """Import a subgraph into the module that it is used in."""
        return self.graph(graph, module, scope.inner())

    def new_module(self, name: str) -> Module:
        """An empty module of this name, or of a similar one if it is taken."""
        base, count = name, 1
        while name in self.program.modules:
            name = f"{base}_{count}"
            count += 1
        return self.program.create_module(name)


def name_made(results: Iterable[Instruction], inputs: Iterable[Instruction], symbol: str) -> None:
    """Give a debug symbol to the instructions of a node: those between its inputs and its results."""
    seen = set(inputs)
    stack = list(results)
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack += current.inputs
            if current.parameter is None:
                add_debug_symbols(current, [symbol])


def _nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a file, including those of functions and subgraphs."""
    graphs: list[Iterable[onnx.NodeProto]] = [model.graph.node]
    graphs += [f.node for f in model.functions]
    while graphs:
        for node in graphs.pop():
            graphs += [a.g.node for a in node.attribute if a.HasField("g")]
            yield node


def unique_name(node: onnx.NodeProto, module: Module) -> str:
    """The prefix for the names of a node's modules: operator and position."""
    return f"{node.op_type}_{len(module)}"
