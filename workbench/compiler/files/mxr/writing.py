"""Programs as values for MIGraphX's files, version 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from workbench.compiler.files.mxr.values import (
    literal_value,
    operation_name,
    operation_value,
    shape_value,
)
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.text.parsing import BYPASSED
from workbench.compiler.text.printing import printed_modules

FILE_VERSION = 8
MIGRAPHX_VERSION = "2.16.0"
EXTRA = "workbench"
"""The key for what MIGraphX's form lacks; its reader ignores it, and it is written only if needed."""


def to_value(program: Program) -> dict[str, Any]:
    """The file form of a program; ``from_value`` restores the same program.

    Node names, lineage and other facts that MIGraphX's form lacks are under ``workbench``.
    """
    named = _names(program)
    modules = printed_modules(program)
    value: dict[str, Any] = {
        "version": FILE_VERSION,
        "migraphx_version": MIGRAPHX_VERSION,
        "targets": [{"name": name} for name in program.targets],
        "contexts": [None for _ in program.targets],
        "modules": {m.name: _module_value(m, named) for m in modules},
    }
    extra = _extra(program, modules)
    return value | {EXTRA: extra} if extra else value


def _names(program: Program) -> dict[int, str]:
    """The names of nodes: as in the text form, but never quoted."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for module in program.modules.values():
        prefix = "" if module is program.main else f"{module.name}:"
        for position, instruction in enumerate(module):
            own = instruction.parameter
            name = prefix + (f"@{position}" if own is None else own)
            while name in taken:
                name += "'"
            taken.add(name)
            found[instruction.id] = name
    return found


def _module_value(module: Module, named: Mapping[int, str]) -> dict[str, Any]:
    return {"name": module.name, "nodes": [_node_value(i, named) for i in module]}


def _node_value(instruction: Instruction, named: Mapping[int, str]) -> dict[str, Any]:
    i = instruction
    value: dict[str, Any] = {
        "output": named[i.id],
        "name": operation_name(i.op),
        "shape": shape_value(i.shape),
        "normalized": bool(i.op.axes_of_input and i.module.program.targets),
    }
    if i.literal is not None:
        value["literal"] = literal_value(i.literal)
    value["operator"] = operation_value(i.op)
    value["inputs"] = [named[x.id] for x in i.inputs]
    if i.modules:
        value["module_inputs"] = [m.name for m in i.modules]
    if i.symbols:
        value["debug_symbols"] = list(i.symbols)
    return value


def _extra(program: Program, modules: Sequence[Module]) -> dict[str, Any]:
    """The facts of a program that MIGraphX's form lacks."""
    nodes = [asdict(s) for s in program.source_nodes.values()]
    parts = {m.name: part for m in modules if (part := _module_extra(m))}
    reached = len(program.reachable_modules())
    found: dict[str, Any] = {
        "name": program.name,
        "output_names": list(program.output_names),
        "source_nodes": nodes,
        "bypass": _bypass(modules),
        "modules": parts,
        "order": [m.name for m in modules] if len(modules) > reached else None,
    }
    return {k: v for k, v in found.items() if v or (k == "bypass" and v is not None)}


def _bypass(modules: Sequence[Module]) -> list[str] | None:
    """The names of the bodies that passes leave alone, if their callers do not imply them."""
    called = {m.name for one in modules for i in one if i.name in BYPASSED for m in i.modules}
    marked = [m.name for m in modules if m.bypass]
    return None if called == set(marked) else marked


def _module_extra(module: Module) -> dict[str, Any]:
    listed = [p.parameter for p in module if p.parameter is not None]
    made = list(module.parameters)
    targets = [i.target_id for i in module]
    sources = [list(i.sources) for i in module]
    found = {
        "parameters": made if made != listed[::-1] else [],
        "target_ids": targets if any(targets) else [],
        "sources": sources if any(sources) else [],
    }
    return {k: v for k, v in found.items() if v}
