"""Reads a project's own files: what the rules of the house look at."""

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SKIPPED = {
    "build",
    "course",
    "dist",
    "node_modules",
    "golden",
}  # docs/course is what the notebooks gave


def files(root: Path, *suffixes: str, under: tuple[str, ...] = ("",)) -> list[Path]:
    """The files with one of the suffixes, in order; hidden and built folders are not entered."""
    found: set[Path] = set()
    for place in under:
        for folder, folders, names in os.walk(root / place):
            folders[:] = [f for f in folders if f not in SKIPPED and not f.startswith(".")]
            found.update(Path(folder, name) for name in names if name.endswith(suffixes))
    return sorted(found)


def text(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


def trees(root: Path, *under: str) -> Iterator[tuple[str, ast.Module]]:
    """The name and syntax tree of each Python file."""
    for path in files(root, ".py", under=under):
        yield path.relative_to(root).as_posix(), _parsed(text(path))


@cache
def _parsed(code: str) -> ast.Module:
    return ast.parse(code)


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree."""
    return tuple(ast.walk(tree))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and full name of each import, wherever it stands; a call of `import_module` too."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and (module := _imported_by_call(node)):
            yield node.lineno, module


def _imported_by_call(call: ast.Call) -> str:
    """Our own module that a call of `import_module` names, or the beginning of its name."""
    if not ast.unparse(call.func).endswith("import_module") or not call.args:
        return ""
    first = call.args[0]
    if isinstance(first, ast.JoinedStr):
        first = first.values[0]
    name = first.value if isinstance(first, ast.Constant) else None
    return name if isinstance(name, str) and name.startswith("workbench.") else ""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, its docstring and decorators left out."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total
