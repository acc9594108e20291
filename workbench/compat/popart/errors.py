"""Errors with PopART's names."""

from __future__ import annotations

from workbench.compiler.errors import WorkbenchError


class popart_exception(WorkbenchError, RuntimeError):  # noqa: N801, N818 - PopART's name
    """A graph that PopART refuses: shapes or types that do not fit, or an ambiguous order of updates."""
