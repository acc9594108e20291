"""Views of programs, recordings and kernels for notebooks, pages and documents. They know no devices."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.widgets.explorer import PassExplorer
    from workbench.widgets.graph_view import GraphView
    from workbench.widgets.kernel_view import KernelView

__all__ = ["GraphView", "KernelView", "PassExplorer"]


def __getattr__(name: str) -> Any:
    """Import a widget on first use: anywidget takes longer to import than a small program to draw."""
    if name == "GraphView":
        from workbench.widgets.graph_view import GraphView  # noqa: PLC0415

        return GraphView
    if name == "KernelView":
        from workbench.widgets.kernel_view import KernelView  # noqa: PLC0415

        return KernelView
    if name == "PassExplorer":
        from workbench.widgets.explorer import PassExplorer  # noqa: PLC0415

        return PassExplorer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
