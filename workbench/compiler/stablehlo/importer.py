"""The importer: functions of a module become instructions, each with its source node; calls are inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import broadcast
from workbench.compiler.onnx.constants import Constants
from workbench.compiler.onnx.lengths import Lengths
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.stablehlo import registry
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.legalized import Legalized
from workbench.compiler.stablehlo.provenance import Place, argument_name, described, source_node
from workbench.compiler.stablehlo.tensors import argument_of, shape_of

MAX_OPERATIONS = 1_000_000
"""The most operations that an import makes instructions of; calls are inlined, so a few lines can be many."""

MAX_CALLS = 60
"""The deepest nesting of calls."""

ELEMENTWISE = {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "and", "or", "xor", "not", "compare",
    "select", "constant", "abs", "negate", "convert", "exponential", "log", "power", "sign", "sqrt",
    "remainder", "log_plus_one", "exponential_minus_one", "tanh", "logistic", "is_finite",
}  # fmt: skip
"""The operations that functions of elements may have."""

RETURNS = {"func.return", "stablehlo.return"}


@dataclass
class Frame:
    """A function or region that is being imported: its values, its module and the names around it."""

    module: Module
    scope: tuple[str, ...] = ()
    values: dict[Any, Instruction] = field(default_factory=dict[Any, Instruction])
    calls: int = 0
    line: str = ""
    """The line of the call, for operations whose own line is not known."""


class ModuleImporter:
    """One import of one module into a program."""

    def __init__(self, module: Any, program: Program) -> None:
        """Nothing is imported yet."""
        self.program = program
        self.module = program.main
        self.source = module
        self.functions = {
            f.name.value: f for f in module.body.operations if f.operation.name == "func.func"
        }
        self.constants = Constants()
        self.lengths = Lengths(self.constants)
        self.options = ParseOptions(use_dyn_output=True)
        self.narrow: dict[Instruction, int] = {}
        self._names: Counter[str] = Counter()
        self._count = 0
        self.legalized = Legalized()
        self._constants: dict[Any, Argument] = {}

    # The whole module

    def run(self) -> Program:
        """Import the function ``main``, or the only public one.

        Raises:
            ModelError: An operation is not supported; the message names it and the user's line.
        """
        main = self._main()
        self._expect_operations()
        frame = Frame(self.program.main)
        block = main.regions[0].blocks[0]
        self._parameters(block, frame)
        try:
            results = self.block(block, frame)
        except RecursionError as error:
            raise ModelError("regions nested too deep to be imported") from error
        self.program.main.add_return(*results)
        self.program.output_names = tuple(_output_names(main, len(results)))
        return self.program

    def _main(self) -> Any:
        public = [n for n, f in self.functions.items() if _is_public(f)]
        name = "main" if "main" in self.functions else public[0] if len(public) == 1 else ""
        if not name or not len(self.functions[name].regions[0].blocks):
            raise ModelError(
                f"a module with the public functions {', '.join(public) or 'none'}; expected one, or 'main'"
            )
        return self.functions[name]

    def _expect_operations(self) -> None:
        """Refuse a module with operations that have no handler.

        Raises:
            ModelError: It has some; the message names each, and the place of the first.
        """
        unknown: list[Any] = []
        for function in self.functions.values():
            _collect_unknown(function.operation, unknown)
        if unknown:
            counts = Counter(op.name for op in unknown)
            listed = ", ".join(f"{name} ({n}×)" for name, n in sorted(counts.items()))
            raise ModelError(
                f"unknown operations: {listed}; the first is {described(unknown[0])}; add handlers with "
                "workbench.compiler.stablehlo.stablehlo_op"
            )

    def _parameters(self, block: Any, frame: Frame) -> None:
        taken: Counter[str] = Counter()
        for number, argument in enumerate(block.arguments):
            name = argument_name(argument.location) or f"arg{number}"
            taken[name] += 1
            own = name if taken[name] == 1 else f"{name}_{taken[name]}"
            shape = shape_of(argument.type, f"argument {own!r}")
            frame.values[argument] = frame.module.add_parameter(own, shape)

    # Blocks

    def block(self, block: Any, frame: Frame) -> list[Instruction]:
        """The values that a block returns, whose arguments have values.

        Raises:
            ModelError: An operation is not supported.
        """
        for op in block.operations:
            inner = op.operation
            if inner.name in RETURNS:
                return [frame.values[v] for v in inner.operands]
            self._operation(inner, frame)
        raise ModelError("a function without a return")

    def _operation(self, op: Any, frame: Frame) -> None:
        self._count += 1
        place = Place(op.location, frame.line)
        if self._count > MAX_OPERATIONS:
            raise ModelError(
                f"{described(op, place)}: more than {MAX_OPERATIONS:,} operations once calls are inlined"
            )
        with self.program.source(self._source(op, place, frame)):
            found = self._checked(op, self._handled(op, place, frame))
        for result, value in zip(op.results, found, strict=True):
            frame.values[result] = value

    def _source(self, op: Any, place: Place, frame: Frame) -> str:
        scope = (*frame.scope, *_inside(place.scope, frame))
        base = "/".join([*scope, place.name or op.name.partition(".")[2]])
        self._names[base] += 1
        name = base if self._names[base] == 1 else f"{base}_{self._names[base]}"
        made = source_node(op, place, name, scope)
        self.program.source_nodes[name] = made
        return name

    def _handled(self, op: Any, place: Place, frame: Frame) -> list[Instruction]:
        handler = registry.find(op.name) or spelled_out  # as _expect_operations has seen
        operands = [frame.values[v] for v in op.operands]
        try:
            for result in op.results:
                shape_of(result.type, "a result")
            found = handler(Context(self, op, frame), *operands)
        except ModelError as error:
            text, where = str(error), described(op, place)
            error.args = (text if " at " in text or where in text else f"{where}: {text}",)
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            shapes = "; ".join(str(o.shape) for o in operands) or "none"
            raise ModelError(f"{described(op, place)}: {error} (operands: {shapes})") from error
        return [found] if isinstance(found, Instruction) else list(found)

    def _checked(self, op: Any, found: list[Instruction]) -> list[Instruction]:
        """The values that a handler gave, if they have the types that the module says.

        Raises:
            ModelError: They differ, or there are others in number.
        """
        wanted = [shape_of(r.type) for r in op.results]
        if len(found) != len(wanted):
            raise ModelError(f"{described(op)}: {len(found)} results; expected {len(wanted)}")
        for value, shape in zip(found, wanted, strict=True):
            if (value.shape.type, value.shape.lens) != (shape.type, shape.lens):
                raise ModelError(
                    f"{described(op)}: the import made {value.shape}; expected {shape}"
                )
        return found

    def origins(self, value: Instruction) -> tuple[str, ...]:
        """Nothing: no input can be fixed at import, but by a function that closes over it."""
        return ()

    # Calls and regions

    def called(
        self, name: str, op: Any, frame: Frame, operands: Sequence[Instruction]
    ) -> list[Instruction]:
        """The results of a function, whose body is imported where it is called.

        Raises:
            ModelError: There is no such function, or calls are nested too deep.
        """
        function = self.functions.get(name)
        if function is None or not len(function.regions[0].blocks):
            raise ModelError(f"{described(op)}: no function {name!r} with a body in the module")
        if frame.calls >= MAX_CALLS:
            raise ModelError(f"{described(op)}: calls nested deeper than {MAX_CALLS}")
        place = Place(op.location)
        scope = (*frame.scope, *_inside(place.path, frame))
        inner = Frame(frame.module, scope, calls=frame.calls + 1, line=place.line or frame.line)
        return self.inlined(function.regions[0].blocks[0], inner, operands)

    def inlined(
        self, block: Any, frame: Frame, operands: Sequence[Instruction]
    ) -> list[Instruction]:
        """The results of a block for these operands, imported where the frame stands."""
        frame.values.update(zip(block.arguments, operands, strict=True))
        return self.block(block, frame)

    def elementwise(
        self, block: Any, frame: Frame, operands: Sequence[Instruction]
    ) -> list[Instruction]:
        """The results of a block of elements for whole values, element by element.

        Raises:
            ModelError: It has operations that do not work on elements.
        """
        lens = operands[0].shape.lens
        values = dict(frame.values) | dict(zip(block.arguments, operands, strict=True))
        return ElementImporter(self, lens).block(
            block, Frame(frame.module, frame.scope, values, frame.calls)
        )

    def nested(self, frame: Frame, module: Module) -> Frame:
        """A frame of another module, which sees the values of this one."""
        return Frame(module, frame.scope, dict(frame.values), frame.calls, frame.line)

    def new_module(self, base: str) -> Module:
        """An empty module, named after what it is for."""
        number = 0
        while (name := f"{base}{number}") in self.program.modules:
            number += 1
        return self.program.create_module(name)

    def constant(self, op: Any) -> Argument:
        """The elements of a constant; those of equal constants are read once."""
        value = op.attributes["value"]
        if value not in self._constants:
            self._constants[value] = argument_of(value)
        return self._constants[value]


def spelled_out(node: Context, *operands: Instruction) -> list[Instruction]:
    """An operation of CHLO without a handler, by what jaxlib makes of it."""
    own = node.frame
    frame = Frame(own.module, own.scope, calls=own.calls + 1, line=own.line)
    return node.owner.inlined(node.owner.legalized.block(node.op), frame, operands)


class ElementImporter:
    """The import of a block of elements for values of other lens, such as the function of a reduction."""

    def __init__(self, importer: ModuleImporter, lens: Sequence[int]) -> None:
        """For values of these lens."""
        self.importer = importer
        self.lens = tuple(lens)

    def block(self, block: Any, frame: Frame) -> list[Instruction]:
        """The values that a block returns.

        Raises:
            ModelError: It has operations that do not work on elements.
        """
        for inner in block.operations:
            op = inner.operation
            if op.name in RETURNS:
                return [self._value(frame, v) for v in op.operands]
            handler = registry.find(op.name)
            if op.name.partition(".")[2] not in ELEMENTWISE or handler is None:
                raise ModelError(
                    f"{described(op)}: in a function of elements; expected elementwise operations"
                )
            operands = [self._value(frame, v) for v in op.operands]
            found = handler(Context(self.importer, op, frame), *operands)
            frame.values[op.results[0]] = found
        raise ModelError("a function of elements without a return")

    def _value(self, frame: Frame, value: Any) -> Instruction:
        found = frame.values[value]
        return broadcast.broadcasted(frame.module, found, self.lens)


def _inside(path: Sequence[str], frame: Frame) -> tuple[str, ...]:
    """The names of a path inside the main function, whose own name says nothing."""
    return tuple(path[1:] if not frame.calls else path)


def _is_public(function: Any) -> bool:
    attributes = function.operation.attributes
    return "sym_visibility" not in attributes or "public" in str(attributes["sym_visibility"])


def _collect_unknown(op: Any, found: list[Any]) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                own = inner.operation
                if own.name not in RETURNS and not _is_known(own.name):
                    found.append(own)
                _collect_unknown(own, found)


def _is_known(name: str) -> bool:
    return name.startswith("chlo.") or registry.find(name) is not None


def _output_names(function: Any, count: int) -> list[str]:
    """The names of results: the keys, fields and positions by which the function returns them."""
    attributes = function.operation.attributes
    has_names = "res_attrs" in attributes  # MLIR's mapping has no get
    given = attributes["res_attrs"] if has_names else ()
    infos = [str(a["jax.result_info"]).strip('"') if "jax.result_info" in a else "" for a in given]
    infos = infos if len(infos) == count else [""] * count
    taken: Counter[str] = Counter()
    names: list[str] = []
    for number, info in enumerate(infos):
        name = _output_name(info) or ("output" if count == 1 else f"output{number}")
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}_{taken[name]}")
    return names


def _output_name(info: str) -> str:
    """``result['a'][0]`` as ``a.0``, and ``result[1]`` as ``output1``."""
    parts = [p.strip("'[].") for p in info.removeprefix("result").replace("].", "][").split("][")]
    name = ".".join(p for p in parts if p)
    return f"output{name}" if name[:1].isdecimal() else name
