"""Graphs as DOT files, in PopART's colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.compat.popart.ir.tensors import Constant, StreamTensor, Tensor, Variable
from workbench.knobs import knobs

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.ir import Ir
    from workbench.compat.popart.ir.op import Op

_COLOURS = ((Variable, "blue"), (Constant, "gold"), (StreamTensor, "red"))


def checkpoint(ir: Ir, check: str, save_dir: str | PathLike[str] | None) -> None:
    """Write the graphs of an Ir; if nothing says which checkpoints write, all do from now on."""
    if knobs.popart_dot_checks is None and not ir.options.dotChecks:
        ir.options.dotChecks = {"ALL"}
    if save_dir is not None:
        Path(save_dir).mkdir(parents=True, exist_ok=True)
        ir.options.logDir = str(save_dir)
    _write(ir, check)


def final_checkpoint(ir: Ir) -> None:
    """Write the graphs that a session takes, if the checkpoint FINAL is on."""
    _write(ir, "Final")


def _write(ir: Ir, check: str) -> None:
    wanted = {name.upper() for name in (*(knobs.popart_dot_checks or ()), *ir.options.dotChecks)}
    if not wanted & {"ALL", check.upper()}:
        return
    folder = Path(ir.options.logDir)
    if not ir.options.separateCallOpPdfs:
        lines = [line for graph in ir.graphs for line in _lines(graph)]
        (folder / f"{check.lower()}_all.dot").write_text(_digraph(lines))
        return
    for graph in ir.graphs:
        path = folder / f"{check.lower()}_{_short(graph)}.dot"
        path.write_text(_digraph(list(_lines(graph))))


def _short(graph: Graph) -> str:
    """The name of a graph in a file's name: r for the main graph, else its number."""
    found = re.findall(r"\((\d+)\)", graph.id)
    if found:
        return found[-1]
    return re.sub(r"\W+", "_", graph.id) or "r"


def _digraph(lines: list[str]) -> str:
    return "\n".join(["digraph net {", 'size="6,6";', *lines, "}", ""])


def _lines(graph: Graph) -> Iterator[str]:
    options = graph.ir().options
    shown = list(enumerate(graph.schedule()))[options.firstDotOp : options.finalDotOp]
    ops = [op for _, op in shown]
    yield from (_tensor(graph, t) for t in _tensors(graph, ops))
    for index, op in shown:
        yield _op(index, op, options.dotOpNames)
        yield from _edges(op)
        for before in op.in_sequence:
            if before in ops:
                yield f"{_node(before)} -> {_node(op)} [color=grey, style=dotted]"


def _tensors(graph: Graph, ops: list[Op]) -> dict[Tensor, None]:
    used = [t for op in ops for t in (*op.inputs, *op.outputs)]
    return dict.fromkeys([*graph.get_input_tensors(), *used, *graph.get_output_tensors()])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node(op: Op) -> str:
    return _quoted(f"op_{op.graph.ir().id}_{op.id}")


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _tensor(graph: Graph, tensor: Tensor) -> str:
    colour = next((c for kind, c in _COLOURS if isinstance(tensor, kind)), "black")
    users = sum(op.inputs.count(tensor) for op in graph.ops())
    parts = [tensor.id, _shape(tensor), f"nc:{users}"]
    for what, listed in (("in", graph.get_input_tensors()), ("out", graph.get_output_tensors())):
        parts += [f"{what}:{k}" for k, t in enumerate(listed) if t == tensor]
    label = _quoted("\n".join(parts)).replace("\n", "\\n")
    return f"{_quoted(tensor.id)} [label={label}, shape=egg, color={colour}]"


def _op(index: int, op: Op, with_name: bool) -> str:
    called = "".join(f"<{_short(g)}>" for g in op.called_graphs)
    parts = [f"{index}. {op.op_type} ({op.id}){called}", f"vgid:{op.ipu}"]
    if "destination" in op.attributes:
        parts[1] += f" {op.attributes['source']}/{op.attributes['destination']}"
    parts.append(f"ts:{op.tile_set}")
    if with_name:
        parts.insert(1, op.name)
    label = _quoted("\n".join(parts)).replace("\n", "\\n")
    border = ", color=green" if op.view is not None or op.modifies else ""
    return f"{_node(op)} [label={label}, shape=box{border}]"


def _edges(op: Op) -> Iterator[str]:
    for k, tensor in enumerate(op.inputs):
        modified, aliased = k in op.modifies, k in op.aliases
        colour = (
            "violet"
            if modified and aliased
            else "red"
            if modified
            else "blue"
            if aliased
            else "black"
        )
        label = _quoted(f"{tensor.id} {_shape(tensor)}")
        yield f"{_quoted(tensor.id)} -> {_node(op)} [label={label}, color={colour}]"
    for tensor in op.outputs:
        yield f"{_node(op)} -> {_quoted(tensor.id)} [label={_quoted(tensor.id)}]"
