"""A program's main module in Graphviz's language, in MIGraphX's style."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text import printing as text

CONSTANT, PARAMETER, OTHER = "#ADD8E6", "#F0E68C", "lightgray"
VIEW, COMPUTE = "#98FB98", "#FFA500"
FAMILIES = {Family.POINTWISE: "#9ACD32", Family.REDUCE: "#90EE90"}
CODE_OBJECT = "#E9D66B"


def to_dot(program: Program, brief: bool = False) -> str:
    """The graph of the main module; ``brief`` leaves out attributes, colours and the shapes on edges."""
    named = text.names(program)
    lines = ["digraph {", "\trankdir=LR;"]
    for instruction in program.main:
        own = quoted(named[instruction.id])
        lines.append(f"\t{own}[{_brief(instruction) if brief else _node(instruction)}];")
        for given in instruction.inputs:
            label = "" if brief else f"[label={quoted(_shape(given.shape))}]"
            lines.append(f"\t{quoted(named[given.id])} -> {own}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def quoted(name: str) -> str:
    r"""A DOT string; only the line breaks that the printer inserts (``\n``) are escape sequences."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    return '"' + escaped.replace("\n", "\\n") + '"'


def _brief(instruction: Instruction) -> str:
    return f"label={quoted(instruction.name)}"


def _node(instruction: Instruction) -> str:
    """A table of title and details as the label, and the style."""
    padding = 0 if instruction.name in {"@param", "@literal"} else 4
    table = (
        f'<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="{padding}" CELLSPACING="0" '
        f'COLOR="transparent">{"".join(_cells(instruction))}</TABLE>>'
    )
    return f"label={table} {_style(instruction)}"


def _cells(instruction: Instruction) -> Iterator[str]:
    yield _cell(f"<B>{_escaped(instruction.name)}</B>")
    if instruction.parameter is not None:
        yield _cell("<BR/>".join(_shape(instruction.shape).split("\n")))
    elif instruction.literal is None and str(instruction.op) != instruction.name:
        yield _cell(_escaped(str(instruction.op)))


def _cell(content: str) -> str:
    return f'<TR ALIGN="center"><TD>{content}</TD></TR>'


def _escaped(name: str) -> str:
    """Text for Graphviz's HTML labels, which allow no control characters."""
    return escape("".join(c if c.isprintable() else " " for c in name))


def _style(instruction: Instruction) -> str:
    given = instruction.name in {"@param", "@literal"}
    style, shape = ("filled", "rectangle") if given else ("rounded,filled", "none")
    color = _color(instruction)
    fill = quoted(color) if color.startswith("#") else color
    return f'style="{style}" fillcolor={fill} fontcolor=black shape={shape} fontname=Helvetica'


def _color(instruction: Instruction) -> str:
    if instruction.parameter is not None:
        return PARAMETER
    if instruction.is_constant:
        return CONSTANT
    op = instruction.op
    if op.name.startswith("@"):
        return OTHER
    if op.family is Family.KERNEL:
        return CODE_OBJECT
    if op.alias is not None:
        return VIEW
    return FAMILIES.get(op.family, COMPUTE if op.context_free else OTHER)


def _shape(shape: Shape) -> str:
    """A shape over several lines: type, then lens and strides."""
    if shape.subs is not None:
        return str(shape)
    words = str(shape).split(", ", 2 if shape.dims is not None else 1)
    return "\n".join(words)
