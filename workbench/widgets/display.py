"""Notebook output of views: the widget, a static picture of bounded size, and text."""

from __future__ import annotations

from typing import Any

LIMIT = 250
"""Most nodes in a picture stored in a notebook; the widget shows all."""

Bundle = tuple[dict[str, Any], dict[str, Any]]


def mimebundle(program: Any) -> Bundle:
    """The notebook output of a program: widget, SVG and text, without the widget if the knobs say so."""
    from workbench.knobs import knobs  # noqa: PLC0415

    if knobs.static:
        return static_bundle(program)
    try:
        from workbench.widgets.graph_view import GraphView  # noqa: PLC0415
    except ImportError:
        return static_bundle(program)
    return GraphView(program).bundle()


def static_bundle(program: Any) -> Bundle:
    """The notebook output of a program without a widget: picture and text."""
    from workbench.widgets.rows import table_of  # noqa: PLC0415
    from workbench.widgets.scene import scene_of  # noqa: PLC0415
    from workbench.widgets.svg import summary, svg  # noqa: PLC0415

    scene = scene_of([table_of(program)])
    return bundle(None, svg(scene, scene.default_open(), limit=LIMIT), summary(scene))


def kernels_bundle(kernels: Any) -> Bundle:
    """The notebook output of a list of kernels: widget, HTML and text."""
    try:
        return kernels.view()._repr_mimebundle_()
    except ImportError:
        from workbench.widgets.kernel_page import kernels_html  # noqa: PLC0415

        rows = kernels.rows()
        return html_bundle(None, kernels_html(rows, 0, repr(kernels)), repr(kernels))


def html_bundle(widget: Any, html: str, words: str) -> Bundle:
    """A widget's bundle with HTML and text added; without the widget if the knobs say so."""
    data, metadata = _own(widget)
    return data | {"text/plain": words, "text/html": html}, metadata


def bundle(widget: Any, picture: str, words: str) -> Bundle:
    """A widget's bundle with a picture and text added; without the widget if the knobs say so."""
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
