"""Views of programs, recordings, kernels and tensors for notebooks and pages. They know no devices."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.widgets.explorer import PassExplorer
    from workbench.widgets.graph_view import GraphView
    from workbench.widgets.kernel_view import KernelView
    from workbench.widgets.report_view import ReportView
    from workbench.widgets.tensor_view import TensorView

__all__ = ["GraphView", "KernelView", "PassExplorer", "ReportView", "TensorView"]


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
    if name == "ReportView":
        from workbench.widgets.report_view import ReportView  # noqa: PLC0415

        return ReportView
    if name == "TensorView":
        from workbench.widgets.tensor_view import TensorView  # noqa: PLC0415

        return TensorView
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
