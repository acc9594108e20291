"""Views of programs and recordings for notebooks, pages and documents; never of devices."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.widgets.explorer import PassExplorer
    from workbench.widgets.graph_view import GraphView

__all__ = ["GraphView", "PassExplorer"]


def __getattr__(name: str) -> Any:
    """Import a widget on first use: anywidget takes longer to import than a small program to draw."""
    if name == "GraphView":
        from workbench.widgets.graph_view import GraphView  # noqa: PLC0415

        return GraphView
    if name == "PassExplorer":
        from workbench.widgets.explorer import PassExplorer  # noqa: PLC0415

        return PassExplorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
