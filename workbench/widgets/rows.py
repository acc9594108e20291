"""A program as plain rows for views: nodes, and chips in place of long edges."""

from __future__ import annotations

from typing import Any

from workbench.widgets.drawing import Drawing
from workbench.widgets.nodes import Table


def table_of(program_or_module: Any) -> Table:
    """The drawn rows of a program, or of one of its modules and the modules that it calls."""
    return Drawing.of(rows_shown(program_or_module)).table


def rows_shown(program_or_module: Any) -> Any:
    """The rows of a program, or of one of its modules as if it were the main one."""
    from workbench.compiler.ir.rows import rows_of  # noqa: PLC0415

    program = getattr(program_or_module, "program", program_or_module)
    rows = rows_of(program)
    if program is not program_or_module:
        rows = _only(rows, program_or_module.name)
    return rows


def _only(rows: Any, name: str) -> Any:
    """The rows of one module as if it were the main one."""
    root = next(key for key, module in rows.modules.items() if module.name == name)
    if root == 0:
        return rows
    other = {root: 0, 0: root}
    rows.modules = {k: rows.modules[other.get(k, k)] for k in rows.modules}
    rows.instructions = {
        i: r._replace(
            module=other.get(r.module, r.module), modules=tuple(other.get(m, m) for m in r.modules)
        )
        for i, r in rows.instructions.items()
    }
    return rows
