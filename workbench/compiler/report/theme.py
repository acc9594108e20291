"""The colours of new figures: no ground of their own, and an ink that is read on light and on dark pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

INK = "#767676"
"""Its contrast is 4.5 with white and 4.2 with JupyterLab's dark page; WCAG 2.2 (1.4.3) asks for 4.5, or 3
for large text."""
_GROUND = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
_LINES = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")


def on_any_page(plot: Callable[P, T]) -> Callable[P, T]:
    """Make a plot fit the page in a notebook, whose theme the kernel does not know.

    Axes that the caller gives keep the caller's colours, as do figures outside of a notebook, and under a
    style that sets colours itself.
    """

    @wraps(plot)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib.pyplot as plt  # noqa: PLC0415
        from matplotlib import rcParamsDefault  # noqa: PLC0415

        given = kwargs.get("ax") is not None or any(hasattr(a, "get_figure") for a in args)
        params: Any = plt.rcParams
        styled = any(params[k] != rcParamsDefault[k] for k in (*_GROUND, *_LINES))
        if given or styled or not _in_notebook():
            return plot(*args, **kwargs)
        theme = dict.fromkeys(_GROUND, "none") | dict.fromkeys(_LINES, INK)
        before = {name: params[name] for name in theme}
        # Not rc_context: it also takes back what the first figure of a notebook sets, that figures are shown.
        params.update(theme)
        try:
            return plot(*args, **kwargs)
        finally:
            params.update(before)

    return drawn


def _in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
