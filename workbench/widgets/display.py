"""Notebook output of views: the widget, a static picture of bounded size, and text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

LIMIT = 250
"""Most nodes in a picture stored in a notebook; the widget shows all."""

PAGE_WIDTH, LEAST_SCALE = 640, 0.6
"""The width of a printed page's output in pixels, and the least scale to which a picture is brought to it."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
"""The size of a picture, in its first tag."""

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


def html_bundle(widget: Any, html: str, words: str, views: Sequence[Any] = ()) -> Bundle:
    """A widget's bundle with HTML, text and the saved form of its views added."""
    data, metadata = _own(widget, views)
    return data | {"text/plain": words, "text/html": html}, metadata


def bundle(widget: Any, picture: str, words: str, views: Sequence[Any] = ()) -> Bundle:
    """A widget's bundle with a picture, text and the saved form of its views added."""
    data, metadata = _own(widget, views)
    data |= {"text/plain": words, "image/svg+xml": fitted(picture)}
    return data, {**metadata, "image/svg+xml": {"alt": words}}


def fitted(picture: str) -> str:
    """The picture at a size that fits a page: smaller, or as wide as the page is.

    Where a picture is an image of its own, its style cannot limit its width.
    """
    found = SIZE.search(picture)
    if found is None or float(found[1]) <= PAGE_WIDTH:
        return picture
    scale, size = PAGE_WIDTH / float(found[1]), ""
    if scale >= LEAST_SCALE:
        size = f'width="{PAGE_WIDTH}" height="{float(found[2]) * scale:.0f}"'
    return picture[: found.start()] + size + picture[found.end() :]


def is_unattended() -> bool:
    """Whether nobody watches the cell run: its frontend, such as nbconvert, can't even ask for input.

    Its output is read later, without the kernel that a widget needs.
    """
    from IPython.core.getipython import get_ipython  # noqa: PLC0415

    request: Any = getattr(get_ipython(), "parent_header", None) or {}
    return request.get("content", {}).get("allow_stdin") is False


def _own(widget: Any, views: Sequence[Any]) -> Bundle:
    """The widget and its saved form; no widget where nobody watches, neither if the knobs say so."""
    from workbench.knobs import knobs  # noqa: PLC0415

    data, metadata = widget if isinstance(widget, tuple) else (widget or {}, {})
    data = dict(data)
    is_saved = not knobs.static and (bool(views) or _WIDGET in data)
    if knobs.static or is_unattended():
        data.pop(_WIDGET, None)
    if is_saved:
        from workbench.widgets.saved import MIME, saved  # noqa: PLC0415

        data[MIME] = saved(views)
    return data, dict(metadata)
