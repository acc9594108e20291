"""Provenance of instructions: the path of the user's module, and the line of Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from workbench.compiler.ir.module import SourceNode

_SHOWN = 200
_FRAME = re.compile(
    r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<name>\S+)\n\s*(?P<code>[^\n]*)'
)
_GENERATED = "<eval_with_key>"
"""The file of functions that ``torch.fx`` writes, of which the user knows nothing."""
_SEPARATOR = re.compile(r"[/\\]")
_PART = re.compile(r"\['?([^\]']*)'?\]|([^.\[\]]+)")
_OWN = re.compile(
    r"[\\/](torch|torch[\\/]_dynamo)[\\/](nn|_dynamo|_higher_order_ops|fx|utils)[\\/]"
)


@dataclass(frozen=True)
class Place:
    """The place of a graph: that of a whole module, or one that a node of another graph runs."""

    prefix: str = ""
    scope: tuple[str, ...] = ()

    def inner(self, node: Any, name: str) -> Place:
        """The place of a graph that a node runs."""
        return Place(f"{self.prefix}{name}.", scope_of(node) or self.scope)

    def source(self, node: Any) -> SourceNode:
        """A node of a ``torch.fx`` graph as a source of instructions; its module path is its scope."""
        name, inputs = self.prefix + node.name, (self.prefix + i.name for i in node.all_input_nodes)
        scope, text = scope_of(node) or self.scope, attributes_text(node)
        return SourceNode(name, operator_name(node), scope, tuple(inputs), (name,), text)


def operator_name(node: Any) -> str:
    """The operator with its overload, such as ``aten.add.Tensor``."""
    return str(node.target) if node.op == "call_function" else node.op


def scope_of(node: Any) -> tuple[str, ...]:
    """The path of the module whose ``forward`` made a node, outermost first."""
    paths = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
    path = next((p for p in reversed(paths) if not p.startswith("_empty_")), "")
    if path.startswith("L["):
        path = path.partition("]")[2]
    parts = [quoted or plain for quoted, plain in _PART.findall(path)]
    return tuple(p for p in parts if p and p != "_modules")


def line_of(node: Any) -> tuple[str, int, str] | None:
    """The file, line and code of the user's Python that made a node; None if it is not known."""
    found = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = [f for f in found if not f["file"].startswith(_GENERATED)]
    own = [f for f in frames if not _OWN.search(f["file"])] or frames
    if not own:
        return None
    return own[-1]["file"], int(own[-1]["line"]), own[-1]["code"].strip()


def line_text(node: Any) -> str:
    """The user's line: ``model.py:12: y = self.conv(x)``; empty if it is not known."""
    found = line_of(node)
    if found is None:
        return ""
    file, line, code = found
    return f"{_SEPARATOR.split(file)[-1]}:{line}: {code}"


def described(node: Any) -> str:
    """A node in messages: its operator, its module, and the user's line."""
    scope, line = ".".join(scope_of(node)), line_text(node)
    where = [f"in module {scope!r}"] if scope else []
    return " ".join(
        [operator_name(node), f"({node.name})", *where, *([f"at {line}"] if line else [])]
    )


def attributes_text(node: Any) -> str:
    """The user's line and the arguments that are no tensors, as one short text."""
    line = line_text(node)
    given = [*((f"{k}", a) for k, a in enumerate(node.args)), *node.kwargs.items()]
    plain = [f"{k}={a}" for k, a in given if isinstance(a, int | float | bool | str) or _is_ints(a)]
    text = ", ".join([*([line] if line else []), *plain])
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _is_ints(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    listed = cast("list[Any]", value)
    return len(listed) <= 20 and all(isinstance(v, int) for v in listed)
