"""One value beside its reference: distances, worst element, channels, and pictures."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from html import escape
from io import BytesIO
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler import showing
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.report.theme import on_any_page
from workbench.numerics.metrics import tensor_plots, tensor_samples
from workbench.numerics.metrics.distances import Distances, detailed, element_errors
from workbench.numerics.metrics.metrics import compare_arrays
from workbench.numerics.metrics.tensor_samples import Cells, Index, short_text_of, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

_NODES = 4


@dataclass(frozen=True, eq=False)
class TensorDifference:
    """A value of a build and its reference, element by element.

    Attributes:
        value: The value, in its own type.
        reference: The reference's, usually in float64.
        name: The instruction and its kernel, for titles.
        sources: Names of the model's nodes that it comes from.
    """

    value: Array
    reference: Array
    name: str = "value"
    sources: tuple[str, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether both have the same lens, so that elements have a counterpart."""
        return self.value.shape == self.reference.shape

    @cached_property
    def metrics(self) -> Distances:
        """All distances.

        Raises:
            InputError: The lens differ.
        """
        return detailed(self.value, self.reference)

    @cached_property
    def errors(self) -> Array:
        """``|a − b|`` in float64; infinite where one side alone is not finite. Empty if the lens differ."""
        if not self.is_comparable:
            return np.empty(0)
        return element_errors(self.value, self.reference)

    @property
    def worst_index(self) -> tuple[int, ...] | None:
        """The index of the first element with the largest absolute error; None if no element differs."""
        if not self.errors.any():
            return None
        return tuple(map(int, np.unravel_index(int(self.errors.argmax()), self.errors.shape)))

    def by_channel(self, axis: int = 1) -> DataFrame:
        """A row for each index along an axis: its errors, and the elements not finite on one side only.

        Infinite errors where one side alone is NaN or infinite, so that sorting puts them last.

        Raises:
            OperationError: The value has no such axis, or the lens differ.
        """
        import pandas as pd  # noqa: PLC0415

        count = self.value.shape[self._axis(axis)]
        pairs = zip(*(np.moveaxis(x, axis, 0) for x in (self.value, self.reference)), strict=True)
        errors = np.moveaxis(self.errors, axis, 0).reshape(count, -1)
        return pd.DataFrame(
            {
                "max abs": errors.max(axis=1, initial=0.0),
                "mean abs": errors.sum(axis=1) / max(errors.shape[1], 1),
                "relative rms": [compare_arrays(a, b).error for a, b in pairs],
                "not finite": np.isinf(errors).sum(axis=1),
            },
            index=pd.RangeIndex(count, name="channel"),
        )

    def _axis(self, axis: int) -> int:
        rank = self.value.ndim
        if not self.is_comparable:
            raise OperationError(f"{self.name} has no channels to compare: {self.statement}")
        if not -rank <= axis < rank:
            raise OperationError(
                f"axis {axis} of {self.name}, whose lens are {list(self.value.shape)}; expected "
                + (f"{-rank} to {rank - 1}" if rank else "a value that has axes; this is a scalar")
            )
        return axis

    # In words

    @property
    def statement(self) -> str:
        """One sentence: what differs, and where the most."""
        size, lens = prod(self.value.shape), list(self.value.shape)
        if not self.is_comparable:
            return (
                f"the value has lens {lens}, the reference {list(self.reference.shape)}, so elements "
                "have no counterpart"
            )
        if not size:
            return f"no elements: the lens are {lens}"
        if np.isnan(self.value.astype(np.float64)).all() and not self.errors.any():
            return f"NaN on both sides in all elements ({size:,}), so there is no distance to show"
        found = f"{size:,} {self.value.dtype} element{'s' if size > 1 else ''} of lens {lens}"
        return found + self._said()

    def _said(self) -> str:
        """The end of the statement: the number of unequal elements, and the worst."""
        at = self.worst_index
        if at is None:
            return ", all equal to the reference's"
        count = self.metrics.not_finite
        lost = f", {count:,} not finite on one side only" if count else ""
        place = f" at {list(at)}" if at else ""
        pair = f"{text_of(self.value[at])}, expected {text_of(self.reference[at])}"
        return f", relative RMS {self.metrics.finite_relative_rms:.3g}{lost}; the worst{place} is {pair}"

    @property
    def title(self) -> str:
        """The instruction and the nodes of the model that it comes from."""
        more = ", …" if len(self.sources) > _NODES else ""
        nodes = ", ".join(self.sources[:_NODES]) + more
        return f"{self.name} from {nodes}" if nodes else self.name

    # Samples of bounded size, for views

    def view(self, **options: Any) -> Any:
        """The tensor inspector: a slice to step through, histograms, errors by magnitude and by channel.

        Args:
            options: Those of ``TensorView``.
        """
        return showing.view("tensor")(self, **options)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of a slice: the last two that are longer than 1, or as many as there are."""
        return tensor_samples.axes_of(self.value.shape)

    def overview(self) -> dict[str, Any]:
        """All but slices, ready for JSON: words, distances, histograms, errors by magnitude and channel."""
        return tensor_samples.overview(self)

    def cells(self, index: Index, most: int = tensor_samples.CELLS) -> Cells:
        """A slice along one or two axes, in which a cell shows the worst element of its block."""
        return tensor_samples.cells(self, index, most)

    def around(self, at: tuple[int, ...], axes: tuple[int, ...]) -> dict[str, Any]:
        """An element and its neighbours along some axes, as texts."""
        return tensor_samples.around(self, at, axes)

    def image(self, at: tuple[int, ...]) -> dict[str, Any] | None:
        """The image with an element as bytes of colours; None if the lens are not those of images."""
        return tensor_samples.image(self, at)

    # Pictures

    @on_any_page
    def plot(self) -> Figure:
        """Four plots: both histograms, the slice with the worst element, errors by magnitude, and channels.

        Instead of the channels, an image itself; and of a vector the errors in order of size.
        """
        import matplotlib.pyplot as plt  # noqa: PLC0415

        figure = plt.figure(figsize=(10, 6.6), layout="constrained")
        plt.close(figure)  # the caller shows it, as the value of a cell
        axes = figure.subplots(2, 2)
        self.plot_histogram(axes[0, 0])
        self.plot_slice(axes[0, 1])
        self.plot_magnitude(axes[1, 0])
        has_channels = sum(n > 1 for n in self.value.shape) > 1
        last = self.plot_channels if has_channels else self.plot_quantiles
        (self.plot_image if self.is_image else last)(axes[1, 1])
        figure.suptitle(tensor_plots.plain(self.title, 110), fontsize=11)
        return figure

    @property
    def is_image(self) -> bool:
        """Whether the lens are those of images: N,1|3|4,H,W or N,H,W,1|3|4, or of one without N."""
        return self.is_comparable and tensor_samples.channel_axis(self.value.shape) is not None

    @on_any_page
    def plot_histogram(self, ax: Axes | None = None) -> Axes:
        """The distributions of both sides' finite elements over the same bins, on a log scale."""
        return tensor_plots.plot_histogram(self, tensor_plots.axes_or_new(ax))

    @on_any_page
    def plot_slice(self, ax: Axes | None = None) -> Axes:
        """The absolute error over the two longest of the last axes, where the worst element is."""
        return tensor_plots.plot_slice(self, tensor_plots.axes_or_new(ax))

    @on_any_page
    def plot_magnitude(self, ax: Axes | None = None) -> Axes:
        """The absolute error against the magnitude of the reference, beside that of one rounding."""
        return tensor_plots.plot_magnitude(self, tensor_plots.axes_or_new(ax))

    @on_any_page
    def plot_channels(self, ax: Axes | None = None, axis: int | None = None) -> Axes:
        """The largest and the mean absolute error by index along an axis; by default 1, or else 0."""
        return tensor_plots.plot_channels(self, tensor_plots.axes_or_new(ax), axis)

    @on_any_page
    def plot_quantiles(self, ax: Axes | None = None) -> Axes:
        """The absolute errors in order of size: by the share of elements with at most that error."""
        return tensor_plots.plot_quantiles(self, tensor_plots.axes_or_new(ax))

    @on_any_page
    def plot_image(self, ax: Axes | None = None) -> Axes:
        """The image with the worst element, the reference's, and the error beside each other.

        Raises:
            OperationError: The lens are not those of images.
        """
        if not self.is_image:
            raise OperationError(
                f"{self.name} has lens {list(self.value.shape)}, which are not those of images; expected "
                "N,1|3|4,H,W or N,H,W,1|3|4; N may be left out"
            )
        return tensor_plots.plot_image(self, tensor_plots.axes_or_new(ax))

    def __repr__(self) -> str:
        """The title and the statement."""
        return f"<TensorDifference {self.title}: {self.statement}>"

    def _repr_html_(self) -> str:
        alt = escape(f"Four plots of {self.title}: {self.statement}", quote=True)
        picture = (
            f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{self._png()}">'
        )
        table = ""
        if self.is_comparable:
            shown = self.metrics.table().map(short_text_of).to_frame().T
            table = shown.to_html(border=0, index=False)
        words = f"<p><b>{escape(self.title)}</b>: {escape(self.statement)}.</p>"
        return f'{words}{picture}<div style="overflow-x:auto">{table}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The view; without the packages that widgets need, the plots."""
        try:
            view = self.view()
        except ImportError:
            return {"text/html": self._repr_html_(), "text/plain": repr(self)}
        return view._repr_mimebundle_(**kwargs)[0]

    def _png(self) -> str:
        """The picture, in base64."""
        file = BytesIO()
        self.plot().savefig(file, format="png", dpi=110)
        return b64encode(file.getvalue()).decode()


def inspect(
    value: Any, reference: Any, name: str = "value", sources: tuple[str, ...] = ()
) -> TensorDifference:
    """Two arrays, element by element; in a notebook, the tensor inspector.

    ``report.inspect(node)`` does it for a value of a comparison.

    Args:
        value: An array.
        reference: The array that is expected.
        name: The value's name, for titles.
        sources: Names of the model's nodes that it comes from.
    """
    return TensorDifference(np.asarray(value), np.asarray(reference), name, tuple(sources))
