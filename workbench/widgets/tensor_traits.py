"""The traits of a view that inspects a tensor, and the slice that it sends when asked."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import traitlets

from workbench.widgets import palette
from workbench.widgets.packing import packed
from workbench.widgets.tensor_charts import charts

LAYERS = ("error", "value", "reference", "image")
Index: TypeAlias = tuple[int | slice, ...]
_WHOLE = slice(None)
_MARK = np.array([0, 0, 1], np.uint8)
"""The colour that stands for a pixel that is not finite."""
_FLOAT = np.finfo(np.float32)


class TensorTraits(traitlets.HasTraits):
    """A slice of a tensor, an element in it, and the layer of both sides that is drawn."""

    slice = traitlets.Unicode("").tag(sync=True)
    """Indices with ``:`` for the one or two axes that are drawn: ``0,3,:,:``. Empty for the default."""
    at = traitlets.Unicode("").tag(sync=True)
    """The index of an element of the slice, whose neighbourhood is shown: ``0,3,5,7``."""
    layer = traitlets.Enum(LAYERS, default_value="error").tag(sync=True)
    """``error``, ``value``, ``reference``, or ``image`` where the lens are those of one."""
    detail = traitlets.Bytes().tag(sync=True)

    tensor: Any = None
    """A value and its reference, as ``report.inspect`` returns them."""

    def inspect_tensor(self, tensor: Any) -> None:
        """Show a tensor at the slice and element that the traits name, or else at its worst element."""
        self.tensor = tensor
        with self.hold_trait_notifications():
            self.slice = slice_text(index_of(tensor, self.slice))
            self.at = self._worst(self.at)
        self._tell()

    @traitlets.validate("slice")
    def _check_slice(self, proposal: Any) -> str:
        text = str(proposal["value"])
        return text if self.tensor is None else slice_text(index_of(self.tensor, text))

    @traitlets.validate("at")
    def _check_at(self, proposal: Any) -> str:
        text = str(proposal["value"])
        if self.tensor is None:
            return text
        place = _place(text, self.tensor.value.shape)
        return self._worst("") if place is None else _joined(place)

    @traitlets.observe("slice", "at")
    def _moved(self, change: Any) -> None:
        """Keep the element in the slice, and send what is shown."""
        if self.tensor is None:
            return
        if self._worst(self.at) == self.at:
            self._tell()
        elif change["name"] == "slice":
            self.at = self._worst("")
        else:
            place = _place(self.at, self.tensor.value.shape)
            axes = axes_of(index_of(self.tensor, self.slice))
            self.slice = slice_text(_fixed(place or (), axes))

    def _worst(self, at: str) -> str:
        """The index of an element if it is in the slice, else of the worst one there."""
        if not is_drawn(self.tensor):
            return ""
        index = index_of(self.tensor, self.slice)
        place = _place(at, self.tensor.value.shape)
        axes = axes_of(index)
        if place is not None and _fixed(place, axes) == index:
            return at
        errors = np.asarray(self.tensor.errors[index])
        inner = iter(map(int, np.unravel_index(int(errors.argmax()), errors.shape)))
        return _joined([next(inner) if isinstance(n, slice) else n for n in index])

    def _tell(self) -> None:
        self.detail = packed(self.shown())

    def shown(self) -> dict[str, Any]:
        """The slice, the image, and the element's neighbourhood, ready for JSON."""
        if not is_drawn(self.tensor):
            return {"slice": self.slice, "at": self.at}
        index = index_of(self.tensor, self.slice)
        place, axes = _place(self.at, self.tensor.value.shape) or (), axes_of(index)
        image = self.tensor.image(place)
        return {
            "slice": self.slice, "at": self.at, "axes": axes, "cells": _cells(self.tensor.cells(index)),
            "around": self.tensor.around(place, axes), "image": image and _image(image),
        }  # fmt: skip


def is_drawn(tensor: Any) -> bool:
    """Whether there is a slice to draw: both sides have the same lens, and elements."""
    return tensor is not None and tensor.is_comparable and tensor.value.size > 0


def index_of(tensor: Any, text: str) -> Index:
    """The index of a slice; numbers beyond an axis become its last, and other forms the default."""
    lens = tensor.value.shape
    parts = text.split(",") if text else []
    if not is_drawn(tensor):
        return ()
    if len(parts) != len(lens) or parts.count(":") != min(2, len(lens)):
        return _fixed(tensor.worst_index or (0,) * len(lens), tensor.axes)
    return tuple(
        _WHOLE if p == ":" else min(int(p), n - 1) for p, n in zip(parts, lens, strict=True)
    )


def slice_text(index: Index) -> str:
    """``0,3,:,:``."""
    return _joined([":" if isinstance(n, slice) else n for n in index])


def axes_of(index: Index) -> tuple[int, ...]:
    """The axes that a slice keeps."""
    return tuple(k for k, n in enumerate(index) if isinstance(n, slice))


def _fixed(at: Sequence[int], axes: Sequence[int]) -> Index:
    return tuple(_WHOLE if k in axes else n for k, n in enumerate(at))


def _place(text: str, lens: Sequence[int]) -> tuple[int, ...] | None:
    """The index of an element, within the lens; None if it has another rank."""
    parts = text.split(",") if text else []
    if len(parts) != len(lens):
        return None
    return tuple(min(int(p), n - 1) for p, n in zip(parts, lens, strict=True))


def _joined(parts: Sequence[Any]) -> str:
    return ",".join(map(str, parts))


def _cells(cells: Any) -> dict[str, Any]:
    known = cells.errors[np.isfinite(cells.errors) & (cells.errors > 0)]
    both = np.concatenate([cells.value.ravel(), cells.reference.ravel()])
    finite = both[np.isfinite(both)]
    return {
        "lens": cells.lens, "shape": cells.value.shape,
        "value": _floats(cells.value), "reference": _floats(cells.reference),
        "errors": _floats(np.where(cells.errors > 0, np.maximum(cells.errors, _FLOAT.tiny), 0)),
        "where": None if cells.where is None else _encoded(cells.where.astype(np.uint32)),
        "bounds": _decades(known), "span": float(np.abs(finite).max()) if finite.size else 0.0,
    }  # fmt: skip


def _decades(errors: Any) -> tuple[float, float]:
    """The ends of a log scale: the largest error, and the least, but eight powers of ten at most."""
    if not errors.size:
        return 0.0, 0.0
    high = float(errors.max())
    return max(float(errors.min()), high * 1e-8), high


def _image(image: dict[str, Any]) -> dict[str, Any]:
    """The image, the reference's and the errors on their scale, in bytes of colours."""
    errors = image["errors"]
    low, high = ends = _decades(errors[np.isfinite(errors) & (errors > 0)])
    share = np.zeros(errors.shape)
    if high:
        held = np.clip(errors, low, high)
        share = (
            np.log(held / low) / np.log(high / low) if high > low else held / high * (errors > 0)
        )
    scale = [palette.rgb(palette.sample(palette.SCALES["magma"], k / 255)) for k in range(256)]
    shown = np.array(scale, np.uint8)[np.rint(share * 255).astype(int)]
    nan = np.array(palette.rgb(palette.NAN), np.uint8)
    parts = [
        np.where((x == _MARK).all(axis=2)[..., None], nan, x)
        for x in (image["value"], image["reference"])
    ]
    parts.append(np.where(np.isinf(errors)[..., None], nan, shown))
    return {"shape": image["lens"], "bounds": ends, "parts": [_encoded(p) for p in parts]}


def data_of(tensor: Any) -> dict[str, Any]:
    """All of a tensor but its slices, for the browser: words, distances and charts."""
    found = tensor.overview()
    lens = " × ".join(map(str, found["lens"])) or "scalar"
    kept = ("title", "statement", "lens", "comparable", "distances", "counts", "worst", "image")
    return {k: found[k] for k in kept} | {
        "form": f"{lens} {found['type']} against {found['reference']}",
        "charts": charts(found),
    }


def _floats(array: Any) -> str:
    """Singles; what is finite stays so."""
    held = np.where(np.isfinite(array), np.clip(array, _FLOAT.min, _FLOAT.max), array)
    return _encoded(held.astype(np.float32))


def _encoded(array: Any) -> str:
    return b64encode(np.ascontiguousarray(array).tobytes()).decode()
