"""Notebook output of a view: the widget, a static picture of bounded size, and text."""

from __future__ import annotations

from typing import Any

LIMIT = 250
"""Most nodes that a picture in a notebook's file draws; a view shows the rest."""

Bundle = tuple[dict[str, Any], dict[str, Any]]


def mimebundle(program: Any) -> Bundle:
    """A program as a notebook shows it: widget, SVG and text, or without the widget where that is asked."""
    from workbench.knobs import knobs  # noqa: PLC0415

    if knobs.static:
        return static_bundle(program)
    try:
        from workbench.widgets.graph_view import GraphView  # noqa: PLC0415
    except ImportError:
        return static_bundle(program)
    return GraphView(program).bundle()


def static_bundle(program: Any) -> Bundle:
    """The picture and the text of a program, without a widget."""
    from workbench.widgets.rows import table_of  # noqa: PLC0415
    from workbench.widgets.scene import scene_of  # noqa: PLC0415
    from workbench.widgets.svg import summary, svg  # noqa: PLC0415

    scene = scene_of([table_of(program)])
    return bundle(None, svg(scene, scene.default_open(), limit=LIMIT), summary(scene))


def kernels_bundle(kernels: Any) -> Bundle:
    """A list of kernels as a notebook shows it: widget, HTML and text."""
    try:
        return kernels.view()._repr_mimebundle_()
    except ImportError:
        from workbench.widgets.kernel_page import kernels_html  # noqa: PLC0415

        rows = kernels.rows()
        return html_bundle(None, kernels_html(rows, 0, repr(kernels)), repr(kernels))


def html_bundle(widget: Any, html: str, words: str) -> Bundle:
    """A widget's own bundle with HTML and words beside it; without the widget where that is asked."""
    data, metadata = _own(widget)
    return data | {"text/plain": words, "text/html": html}, metadata


def bundle(widget: Any, picture: str, words: str) -> Bundle:
    """A widget's own bundle with a picture and words beside it; without the widget where that is asked."""
    data, metadata = _own(widget)
    data |= {"text/plain": words, "image/svg+xml": picture}
    return data, {**metadata, "image/svg+xml": {"alt": words}}


def _own(widget: Any) -> Bundle:
    from workbench.knobs import knobs  # noqa: PLC0415

    data, metadata = widget if isinstance(widget, tuple) else (widget or {}, {})
    data = dict(data)
    if knobs.static:
        data.pop("application/vnd.jupyter.widget-view+json", None)
    return data, dict(metadata)
