"""TensorView: one value beside its reference, element by element, in a notebook; and its static forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.widgets import assets
from workbench.widgets.base_view import BaseView
from workbench.widgets.packing import packed
from workbench.widgets.tensor_page import tensor_html
from workbench.widgets.tensor_traits import TensorTraits, data_of


class TensorView(TensorTraits, BaseView):
    """A value and its reference: a slice to step through, histograms, errors by magnitude and by channel.

    Slices are fetched from Python when they are needed, at most a few thousand cells each.

    Args:
        tensor: A value and its reference, as ``report.inspect`` and ``wb.inspect`` return them.
        slice: The slice that is shown first, such as ``0,3,:,:``; by default that of the worst element.
        layer: ``error``, ``value``, ``reference``, or ``image`` if the lens are those of an image.
        height: Height in pixels.
        theme: ``auto``, ``light`` or ``dark``.
        state: The `state` of an earlier view, to reopen it.
    """

    _remembered = ("slice", "at", "layer", "theme")
    entry = "tensor_view.js"
    _esm = assets.module(entry)
    _css = assets.style()

    def __init__(
        self,
        tensor: Any,
        *,
        slice: str = "",
        layer: str = "error",
        height: int = 620,
        theme: str = "auto",
        state: str = "",
    ) -> None:
        """Measure the tensor, and send the slice."""
        self._data = data_of(tensor)
        super().__init__(
            data=packed(self._data), layer=layer, height=height, theme=theme, slice=slice
        )
        self.inspect_tensor(tensor)
        if state:
            self.state = state

    def retire(self) -> None:
        """Close the view and let go of the tensor."""
        super().retire()
        self.tensor = None
        self.detail = b""

    def to_html(self, path: str | Path | None = None) -> str:
        """One offline page with the current slice; written to ``path`` if given."""
        from workbench.widgets.page import page  # noqa: PLC0415

        names = ("slice", "at", "layer", "theme", "height")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values |= {"data": self._data | {"stored": True}, "detail": self.shown()}
        text = page(self.entry, values, self._data["title"], self.summary())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_static(self) -> str:
        """The view as HTML without scripts: the slice and the histograms as a picture, and the distances."""
        return tensor_html(self.tensor, self.slice, self.at, self._data)

    def summary(self) -> str:
        """The view in one line of words."""
        return f"{self._data['title']}: {self._data['statement']}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, with the static form and text beside it."""
        from workbench.widgets.display import html_bundle  # noqa: PLC0415

        widget = super()._repr_mimebundle_(**kwargs)
        return html_bundle(widget, self.to_static(), self.summary(), [self])
