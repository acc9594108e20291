"""Views by name, so that the compiler can show its objects without importing the widgets.

The package's front, `workbench/__init__.py`, gives the location of each view; it is loaded at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from workbench.compiler.errors import OperationError

View = Callable[..., Any]
_VIEWS: dict[str, str | View] = {}


def provide(views: Mapping[str, str | View]) -> None:
    """Add or replace views by name: functions, or their locations as `module:function`."""
    _VIEWS.update(views)


def view(name: str) -> View:
    """The view of that name.

    Raises:
        OperationError: There is none.
    """
    found = _VIEWS.get(name)
    if found is None:
        raise OperationError(f"no view {name!r}; expected one of: {', '.join(_VIEWS) or 'none'}")
    if isinstance(found, str):
        module, _, function = found.partition(":")
        found = _VIEWS[name] = getattr(import_module(module), function)
    return found
