"""The statement of a pass behind an edit that no rule names."""

from __future__ import annotations

import sys

# Modules that carry out edits which other code requests.
_OWN = frozenset(
    {"contextlib", "workbench.compiler.rewrite.rule", "workbench.compiler.rewrite.worklist"}
)
_OWN_PACKAGES = ("workbench.compiler.ir.", "workbench.compiler.record.")


def statement() -> tuple[str, str, int]:
    """Function, file and line of the statement behind an edit, skipping the code that carries edits out."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and _carries_out(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    file = frame.f_code.co_filename
    if frame.f_globals.get("__name__", "").startswith("workbench."):
        file = "workbench/" + file.rpartition("/workbench/")[2]
    else:
        file = file.rpartition("/")[2]
    return frame.f_code.co_name, file, frame.f_lineno


def _carries_out(module: str) -> bool:
    return module in _OWN or module.startswith(_OWN_PACKAGES)
