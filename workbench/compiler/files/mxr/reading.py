"""Reads programs from the values in MIGraphX's files; every part is checked, and errors say where."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast

from workbench.compiler.errors import ModelError, WorkbenchError
from workbench.compiler.files.mxr.values import (
    expect,
    field,
    integer,
    literal_of,
    operation_of,
    shape_of,
)
from workbench.compiler.files.mxr.writing import EXTRA, FILE_VERSION, MIGRAPHX_VERSION
from workbench.compiler.ir.debug_symbols import add_debug_symbols
from workbench.compiler.ir.module import Instruction, Module, SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.ranges import strict_shape
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text.parsing import BYPASSED

MAX_CALLS = 100
"""The nesting limit for calls of modules."""


def from_value(value: Any) -> Program:
    """The program for a value from a file.

    Raises:
        ModelError: The value is not a program, has another version, or is invalid; the message says where.
    """
    expect(value, dict, "the file")
    version = field(value, "version", int, "the file")
    if version != FILE_VERSION:
        raise ModelError(
            f"the file has program file version {version}; this workbench reads version {FILE_VERSION}: "
            "save the program again, or import the model from which it was made"
        )
    made_by = field(value, "migraphx_version", str, "the file")
    if made_by != MIGRAPHX_VERSION:
        warnings.warn(
            f"the file was written by MIGraphX {made_by}; its operations are read with their meaning in "
            f"{MIGRAPHX_VERSION}",
            stacklevel=2,
        )
    return _Reader(value).read()


class _Reader:
    """Builds module by module; a called module is built when the call is read."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.modules = field(value, "modules", dict, "the file")
        self.extra = expect(value.get(EXTRA) or {}, dict, EXTRA)
        self.program = Program()
        self.named: dict[str, Instruction] = {}
        self.done: set[str] = set()
        self.open: list[str] = []
        self.at = "the file"
        self.newest_first = False

    def read(self) -> Program:
        if "main" not in self.modules:
            raise ModelError("the file has no module 'main'")
        targets = [
            expect(t, dict, "targets") for t in field(self.value, "targets", list, "the file")
        ]
        contexts = field(self.value, "contexts", list, "the file")
        if len(contexts) != len(targets):
            raise ModelError(
                f"{len(targets)} targets with {len(contexts)} contexts; expected equal numbers"
            )
        self._about()
        self.program.keeps_fixed = self._has_single_ranges()
        names = _texts(self.extra.get("order") or list(self.modules), "order")
        if len(set(names)) < len(names) or set(names) != set(self.modules):
            raise ModelError("order: expected the names of all modules, each once")
        for name in names:
            if name != "main":
                self.program.create_module(name)
        self._bypass()
        for name in list(self.program.modules):
            self._module(name)
        self.program.newest_first = self.newest_first
        self.program.targets = tuple(field(t, "name", str, "targets") for t in targets)
        return self.program

    def _has_single_ranges(self) -> bool:
        """Whether some shape in the file is dynamic with only one-length ranges."""
        try:
            for module in self.modules.values():
                for node in field(module, "nodes", list, "module"):
                    dims = shape_of(field(node, "shape", dict, "node")).dims
                    if dims and all(d.is_fixed and d.sym is None for d in dims):
                        return True
        except WorkbenchError:
            return False  # building the program reports the error and its location
        return False

    def _about(self) -> None:
        """Read the program's name, its outputs' names and the model's nodes."""
        program, extra = self.program, self.extra
        program.name = expect(extra.get("name", ""), str, "name")
        program.output_names = _texts(extra.get("output_names", []), "output_names")
        for node in expect(extra.get("source_nodes", []), list, "source_nodes"):
            made = _source_node(node)
            program.source_nodes[made.name] = made

    def _module(self, name: str) -> Module:
        if name not in self.program.modules or name not in self.modules:
            raise ModelError(f"{self.at}: module {name!r} is not in the file")
        module = self.program.modules[name]
        if name in self.done:
            return module
        if name in self.open or len(self.open) > MAX_CALLS:
            shown = " → ".join([*self.open[-3:], name])
            raise ModelError(f"{self.at}: the modules {shown} call each other in a cycle")
        self.open.append(name)
        before, self.at = self.at, f"module {name!r}"
        described = field(self.modules, name, dict, "modules")
        nodes = field(described, "nodes", list, self.at)
        for number, node in enumerate(nodes):
            self._placed(module, node, number)
        self._module_extra(module)
        self.done.add(name)
        self.open.pop()
        self.at = before
        return module

    def _placed(self, module: Module, node: Any, number: int) -> None:
        """Add a node; errors name its position."""
        before = self.at
        self.at = f"module {module.name!r}, node {number}"
        described: Any = node
        name = described.get("name") if isinstance(node, dict) else None
        if isinstance(name, str):
            self.at += f" ({name[:60]})"
        try:
            self._node(module, node)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # an operation may raise anything for invalid attributes
            kind = "" if isinstance(error, WorkbenchError) else f"{type(error).__name__}: "
            text = f"{kind}{error}"
            raise ModelError(
                text if text.startswith("module ") else f"{self.at}: {text}"
            ) from error
        self.at = before

    def _node(self, module: Module, node: Any) -> None:
        output, name = (field(node, k, str, "node") for k in ("output", "name"))
        if output in self.named:
            raise ModelError(f"output {output!r} occurs twice; expected each output once")
        expect(node.get("normalized", False), bool, "normalized")
        shape = shape_of(field(node, "shape", dict, "node"))
        if name == "@param":
            operator = field(node, "operator", dict, "node")
            made = module.add_parameter(field(operator, "parameter", str, "operator"), shape)
            module.move(made, None)
        elif name == "@literal":
            made = module.add_literal(literal_of(field(node, "literal", dict, "node"), "literal"))
            module.move(made, None)
        else:
            made = self._computed(module, node, name, shape)
        symbols = _texts(node.get("debug_symbols") or [], "debug_symbols")
        add_debug_symbols(made, symbols)
        self.named[output] = made

    def _computed(self, module: Module, node: Any, name: str, shape: Shape) -> Instruction:
        op = operation_of(name, node.get("operator"))
        called = [self._module(m) for m in _texts(node.get("module_inputs") or [], "module_inputs")]
        if op.name in BYPASSED and "bypass" not in self.extra:
            for one in called:
                one.bypass = True
        inputs: list[Instruction] = []
        for given in _texts(field(node, "inputs", list, "node"), "inputs"):
            if given not in self.named:
                raise ModelError(f"input {given!r} is not computed before this node")
            inputs.append(self.named[given])
        made = module.insert(None, op, *inputs, modules=called)
        if name != "@return" and str(made.shape) != str(shape):
            if strict_shape(op, [i.shape for i in inputs], called) == shape:
                self.program.follow_migraphx()
            elif not _alike(made.shape, shape):
                raise ModelError(f"the file says {shape}, but the operation gives {made.shape}")
            module.set_shape(made, shape)
        return made

    def _module_extra(self, module: Module) -> None:
        extra: Any = expect(self.extra.get("modules", {}), dict, "modules").get(module.name) or {}
        names = _texts(expect(extra, dict, "modules").get("parameters", []), "parameters")
        module.reverse_parameters()
        if names:
            if sorted(names) != sorted(module.parameters):
                raise ModelError(f"{self.at}: the order of parameters names others: {list(names)}")
            module.order_parameters(names)
        elif len(module.parameters) > 1:
            self.newest_first = True
        instructions = list(module)
        sources, targets = (expect(extra.get(k, []), list, k) for k in ("sources", "target_ids"))
        for listed in (sources, targets):
            if listed and len(listed) != len(instructions):
                raise ModelError(f"{self.at}: {len(listed)} entries for {len(instructions)} nodes")
        for instruction, names in zip(instructions, sources, strict=False):
            module.set_sources(instruction, _texts(names, "sources"))
        for instruction, target in zip(instructions, targets, strict=False):
            module.set_target(instruction, integer(target, "target_ids"))

    def _bypass(self) -> None:
        """Mark the bodies that passes leave alone, if the file lists any."""
        for name in _texts(self.extra.get("bypass"), "bypass"):
            if name not in self.program.modules:
                raise ModelError(f"bypass: module {name!r} is not in the file")
            self.program.modules[name].bypass = True


def _alike(a: Shape, b: Shape) -> bool:
    """Whether shapes differ only in their strides."""
    if not (a.is_tensor and b.is_tensor) or a.is_dynamic or b.is_dynamic:
        return False
    return (a.type, a.lens) == (b.type, b.lens)


def _texts(value: Any, what: str) -> tuple[str, ...]:
    return tuple(expect(v, str, what) for v in cast("list[Any]", expect(value or [], list, what)))


def _source_node(value: Any) -> SourceNode:
    what = "source_nodes"
    fields: Mapping[str, Any] = expect(value, dict, what)
    name, op_type, attributes = (
        str(field(fields, k, str, what)) for k in ("name", "op_type", "attributes")
    )
    scope, inputs, outputs = (_texts(fields.get(k), what) for k in ("scope", "inputs", "outputs"))
    return SourceNode(name, op_type, scope, inputs, outputs, attributes)
