"""The importer of a graph: placeholders become values, nodes become instructions with their source nodes."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module, SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import dims_of, same_length
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.onnx import dynamic
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.lengths import Lengths
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.onnx.sizes import Size, vector
from workbench.compiler.torch import registry
from workbench.compiler.torch.context import Context
from workbench.compiler.torch.lengths import Symbols
from workbench.compiler.torch.provenance import Place, described, operator_name
from workbench.compiler.torch.tensors import argument_of, type_of

SKIPPED = {
    "aten._assert_async.msg", "aten._assert_scalar", "aten._assert_tensor_metadata",
    "aten.sym_constrain_range", "aten.sym_constrain_range_for_size",
}  # fmt: skip
"""Operators that check their inputs, and return nothing."""

STRIDE = 1_000_003
"""How far the seeds of two iterations of a loop are apart."""

INTEGERS: frozenset[Any] = frozenset(
    getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod")
)
"""Python's functions of integers, some of them symbolic."""


class GraphImporter:
    """One import of one ``torch.fx`` graph into a module.

    Args:
        program: The program.
        module: The module of it that gets the instructions.
        owner: The ``GraphModule``, whose attributes are constants.
        is_seeded: Whether random numbers follow from a parameter, so that each run draws others.
        outer: The importer of the graph around it, whose lengths and literals it knows.
    """

    def __init__(
        self, program: Program, module: Module, owner: Any, *, is_seeded: bool = False,
        outer: GraphImporter | None = None,
    ) -> None:  # fmt: skip
        """Nothing is imported yet."""
        self.program = program
        self.module = module
        self.owner = owner
        self.symbols: Symbols = Symbols(module) if outer is None else outer.symbols.inner(module)
        self.constants = Constants() if outer is None else outer.constants
        self.lengths = Lengths(self.constants) if outer is None else outer.lengths
        self.options = ParseOptions(use_dyn_output=True)
        self.narrow: dict[Instruction, int] = {} if outer is None else outer.narrow
        self.values: dict[Any, Any] = {}
        """The value of each node: an instruction, a length, a number, None, or a list of these."""
        self.names: dict[Any, str] = {}
        """Names of tensors in the module, where these are not those of the graph."""
        self.seed_name: str | None = None
        """The parameter for the seed, once a random number was imported."""
        self.step: Instruction | None = None
        """The number of the iteration, in the body of a loop."""
        self._is_seeded = is_seeded
        self._outer = outer
        self._drawn: Instruction | None = None
        self._around = Place()
        self._literals: dict[tuple[Any, ...], Instruction] = (
            {} if outer is None else dict(outer._literals)
        )

    # Placeholders

    def parameters(self, named: Mapping[Any, str]) -> list[str | None]:
        """Placeholders become parameters; symbolic lengths are known from then on.

        Args:
            named: The name of each.

        Returns:
            The names of the parameters; None for a number that is known, or is a length of a tensor.

        Raises:
            ModelError: A type is not an element type of programs.
        """
        for node, name in named.items():
            if hasattr(node.meta["val"], "shape"):
                self.parameter(node, name)
        return [self._place(node, name) for node, name in named.items()]

    def _place(self, node: Any, name: str) -> str | None:
        given = node.meta.get("val")
        if hasattr(given, "shape"):
            return name
        if not hasattr(given, "node"):
            self.values[node] = given
            return None
        is_new = not self.symbols.knows(given)
        if is_new:
            self.symbols.hold(given, self.module.add_parameter(name, Shape(DType.INT64)))
        self.values[node] = self.symbols.length(given)
        return name if is_new else None

    def parameter(self, node: Any, name: str) -> None:
        """A placeholder of a tensor becomes a parameter.

        Raises:
            ModelError: Its type is not an element type of programs.
        """
        with self._source(node):
            self.values[node] = self._tensor(name, node.meta["val"])

    def inner(self, module: Module, owner: Any, node: Any, name: str) -> GraphImporter:
        """An importer of a graph that a node runs: it knows the lengths and literals of this one.

        Args:
            module: The module that gets the instructions: this one's, or another that it calls.
            owner: The graph.
            node: The node that runs it.
            name: What its source nodes are called by.
        """
        made = GraphImporter(self.program, module, owner, outer=self)
        made._around = self._around.inner(node, name)
        return made

    def seed(self) -> Instruction | None:
        """The seed of random numbers; None if they are the same in each run.

        That of the whole graph is a parameter. In a loop it differs from one iteration to the next.
        """
        if self._drawn is None:
            self._drawn = self._drawn_here()
        return self._drawn

    def _drawn_here(self) -> Instruction | None:
        if self._outer is None:
            if not self._is_seeded:
                return None
            self.seed_name = "random_seed"
            return self.module.add_parameter(self.seed_name, Shape(DType.UINT64, (1,)))
        drawn = self._outer.seed()
        if self.step is None:
            return drawn
        step = self.module.add("convert", self.step, target_type=DType.UINT64)
        factor = self.module.add_literal(np.array([STRIDE], np.uint64))
        step = self.module.add("mul", self.module.add("reshape", step, dims=(1,)), factor)
        return step if drawn is None else self.module.add("add", drawn, step)

    def _tensor(self, name: str, given: Any) -> Instruction:
        try:
            type = type_of(given.dtype.to_real() if given.dtype.is_complex else given.dtype)
        except ModelError as error:
            raise ModelError(f"input {name!r}: {error}") from error
        lens = [*given.shape, *([2] if given.dtype.is_complex else [])]
        if all(isinstance(n, int) for n in lens):
            shape = Shape(type, [int(n) for n in lens])
        else:
            shape = Shape.dynamic(type, map(self.symbols.symbolic, lens))
        made = self.module.add_parameter(name, shape)
        for axis, n in enumerate(given.shape):
            if not isinstance(n, int):
                self.symbols.bind(n, made, axis)
        return made

    def constant(self, node: Any, tensor: Any, name: str = "", kind: str = "") -> None:
        """A placeholder or an attribute becomes a literal, which shares the tensor's memory.

        Args:
            node: The placeholder or the attribute.
            tensor: The tensor.
            name: Its name in the module, such as ``layer.0.weight``.
            kind: A parameter, a buffer or a constant, for the views.

        Raises:
            ModelError: Its elements cannot be those of a literal.
        """
        source = self._around.source(node)
        if name:
            self.names[node] = name
            scope = tuple(name.split(".")[:-1])
            source = SourceNode(name, kind.capitalize(), scope, (), (name,))
        self.program.source_nodes[source.name] = source
        with self.program.source(source.name):
            self.values[node] = self._literal(source.name, tensor)

    def _literal(self, name: str, tensor: Any) -> Instruction:
        key = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        if key not in self._literals or not tensor.numel():
            try:
                made: Argument = argument_of(tensor)
            except (ModelError, RuntimeError, TypeError) as error:
                raise ModelError(f"constant {name!r}: {error}") from error
            self._literals[key] = self.module.add_literal(made)
        return self._literals[key]

    # Nodes

    def expect_operators(self, nodes: Sequence[Any]) -> None:
        """Refuse a graph with operators that have no handler.

        Raises:
            ModelError: It has some; the message names each, with the module and the line of the first.
        """
        unknown = [n for n in nodes if n.op == "call_function" and not self._is_known(n)]
        if unknown:
            counts = Counter(map(operator_name, unknown))
            listed = ", ".join(f"{name} ({n}×)" for name, n in sorted(counts.items()))
            raise ModelError(
                f"unknown operators: {listed}; the first is {described(unknown[0])}; add handlers "
                "with workbench.compiler.torch.torch_op"
            )

    def _is_known(self, node: Any) -> bool:
        if node.target is operator.getitem or node.target in INTEGERS:
            return True
        return registry.find(operator_name(node)) is not None

    def run(self, nodes: Sequence[Any]) -> None:
        """Import nodes whose inputs have values, but for those that no output needs.

        Raises:
            ModelError: One is not supported; the message names operator, module and line.
        """
        needed = _needed(nodes)
        self.expect_operators(needed)
        for node in needed:
            if node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                with self._source(node):
                    self.values[node] = self._called(node)

    def _attribute(self, node: Any) -> None:
        found = self.owner
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if hasattr(found, "data_ptr"):
            self.constant(node, found)
        else:
            self.values[node] = found

    def _source(self, node: Any) -> Any:
        source = self._around.source(node)
        self.program.source_nodes[source.name] = source
        return self.program.source(source.name)

    def _called(self, node: Any) -> Any:
        name = operator_name(node)
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if node.target in INTEGERS:
            return self._integer(node)
        try:
            return self._checked(node, self._handled(node, name))
        except ModelError as error:
            text = str(error)
            error.args = (text if described(node) in text else f"{described(node)}: {text}",)
            raise
        except (ValueError, TypeError, IndexError, KeyError, NotImplementedError) as error:
            shapes = "; ".join(
                str(v.shape) for v in map(self.value, node.args) if isinstance(v, Instruction)
            )
            raise ModelError(f"{described(node)}: {error} (inputs: {shapes or 'none'})") from error

    def _handled(self, node: Any, name: str) -> Any:
        handler = registry.find(name)
        assert handler is not None, name
        context = Context(self, node)
        if name.removesuffix(".default") not in registry.COMPLEX and has_complex(
            node, *node.all_input_nodes
        ):
            raise context.fail("complex numbers, which only few operators have a handler for")
        return handler(context, *map(self.value, self.arguments(node)))

    def arguments(self, node: Any) -> list[Any]:
        """The arguments of a node in the order of the operator's schema, with its defaults."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return [*node.args, *node.kwargs.values()]
        rest = schema.arguments[len(node.args) :]
        return [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in rest)]

    def value(self, argument: Any) -> Any:
        """The value of an argument: a node's, those of a list, or the number itself."""
        if isinstance(argument, list | tuple):
            return [self.value(a) for a in cast("list[Any]", argument)]
        if hasattr(argument, "all_input_nodes"):
            return self.values[argument]
        return argument

    def _integer(self, node: Any) -> Any:
        """A function of integers: what PyTorch knows of its result, or else the function of lengths."""
        known = node.meta.get("val")
        if known is not None and (isinstance(known, int) or hasattr(known, "node")):
            return self.symbols.length(known)
        return node.target(*[self.value(a) for a in node.args])

    # Results

    def _checked(self, node: Any, found: Any) -> Any:
        """The values that a handler returned, with lengths as narrow as PyTorch knows them.

        Raises:
            ModelError: It differs from what PyTorch says of the result.
        """
        known = node.meta.get("val")
        if isinstance(found, Instruction) and hasattr(known, "shape"):
            return self._narrowed(node, found, known)
        if isinstance(found, list) and isinstance(known, list | tuple):
            results = cast("list[Any]", found)
            return [
                self._checked_one(node, *p) for p in zip(results, cast("Any", known), strict=False)
            ]
        return cast("Any", found)

    def _checked_one(self, node: Any, found: Any, known: Any) -> Any:
        is_tensor = isinstance(found, Instruction) and known is not None
        return self._narrowed(node, found, known) if is_tensor else found

    def _narrowed(self, node: Any, found: Instruction, known: Any) -> Instruction:
        wanted, own = [self.symbols.dim(n) for n in known.shape], dims_of(found.shape)
        if known.dtype.is_complex:
            wanted = [*wanted, Dim(2, 2)]
        type = type_of(known.dtype.to_real() if known.dtype.is_complex else known.dtype)
        agree = len(own) == len(wanted) and all(map(_may_equal, own, wanted))
        if found.shape.type is not type or not agree:
            expected = f"{type.type_name}, {{{', '.join(map(str, wanted))}}}"
            raise ModelError(
                f"{described(node)}: the import made {found.shape}; expected {expected}"
            )
        if all(map(same_length, own, wanted)):
            return found
        return dynamic.expected(self.module, found, wanted)

    def outputs(self, nodes: Sequence[Any]) -> list[Instruction]:
        """The instructions of a graph's outputs; an integer becomes a literal or is read at run time.

        Complex ones have a last axis of their real and imaginary parts.

        Raises:
            ModelError: An output is neither a tensor nor an integer.
        """
        return [self.output(self.value(n)) for n in nodes]

    def output(self, value: Any) -> Instruction:
        """A value as an instruction; numbers become literals, lengths are read at run time.

        Raises:
            ModelError: It is neither a tensor nor a number.
        """
        if isinstance(value, Instruction):
            return value
        if isinstance(value, bool | int | float):
            kind = DType.INT64 if isinstance(value, int) else DType.FLOAT
            literal = [value] if isinstance(value, int) else value
            return (
                self.module.add("squeeze", vector(self.module, literal), axes=(0,))
                if isinstance(literal, list)
                else self.module.add_literal(Argument.of(kind.numpy.type(value)))
            )
        if isinstance(value, Size):
            return self.module.add("squeeze", value.value, axes=(0,))
        raise ModelError(f"an output of {type(value).__name__}; expected tensors and integers")


def _needed(nodes: Sequence[Any]) -> list[Any]:
    """The nodes that some output depends on, in order; operators that only check their inputs have none.

    Those that change an argument in place count as needed, so that they are refused and not left out.
    """
    kept: set[Any] = set()
    for node in reversed(nodes):
        if operator_name(node).removesuffix(".default") in SKIPPED:
            continue
        schema = getattr(node.target, "_schema", None)
        changes = schema is not None and schema.is_mutable
        if changes or any(user.op == "output" or user in kept for user in node.users):
            kept.add(node)
    return [n for n in nodes if n in kept]


def has_complex(*nodes: Any) -> bool:
    """Whether one of some nodes is complex."""
    values = [n.meta.get("val") for n in nodes if hasattr(n, "meta")]
    return any(getattr(getattr(v, "dtype", None), "is_complex", False) for v in values)


def _may_equal(own: Dim, wanted: Dim) -> bool:
    return own.min <= wanted.max and wanted.min <= own.max
