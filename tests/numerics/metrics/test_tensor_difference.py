"""A value beside its reference: the worst element, channels, four plots, and what has nothing to plot."""

from collections.abc import Iterator
from html.parser import HTMLParser
from math import inf

import matplotlib as mpl
import numpy as np
import pytest

from workbench.compiler.errors import InputError, OperationError
from workbench.numerics.metrics.tensor_difference import TensorDifference

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the figures of a test."""
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def batch() -> TensorDifference:
    """Two feature maps of five channels: channel 3 is off, and one element of channel 1 is infinite."""
    b = np.random.default_rng(0).standard_normal((2, 5, 6, 7))
    a = b.astype(np.float16)
    a[:, 3] += np.float16(0.5)
    a[1, 1, 2, 4] = np.inf
    return TensorDifference(a, b, "@7 convolution", ("/layer1/conv",))


def test_the_worst_element_is_the_one_that_is_not_finite():
    assert batch().worst_index == (1, 1, 2, 4)
    assert (
        "1 not finite on one side only; the worst at [1, 1, 2, 4] is ∞, expected"
        in batch().statement
    )
    assert TensorDifference(np.array(2.0), np.array(1.0)).worst_index == ()


def test_channels_are_told_apart():
    table = batch().by_channel()
    assert list(table["not finite"]) == [0, 1, 0, 0, 0]
    assert table["relative rms"].sort_values().index[-2:].tolist() == [3, 1]
    assert table.loc[1, ["max abs", "mean abs", "relative rms"]].eq(inf).all()
    assert table.loc[3, "mean abs"] == pytest.approx(0.5, abs=1e-3)
    assert len(batch().by_channel(-1)) == 7


def test_an_axis_that_is_not_there_is_refused():
    with pytest.raises(OperationError, match=r"axis 1 .*lens are \[3\]; expected -1 to 0"):
        TensorDifference(np.zeros(3), np.zeros(3)).by_channel()
    with pytest.raises(OperationError, match="this is a scalar"):
        TensorDifference(np.array(1.0), np.array(1.0)).by_channel()


def test_four_plots_show_the_worst_slice():
    figure = batch().plot()
    titles = [ax.get_title() for ax in figure.axes]
    assert "absolute error at [1, 1, :, :]" in titles
    assert "error by index along axis 1" in titles
    slice_ = figure.axes[titles.index("absolute error at [1, 1, :, :]")].images[0].get_array()
    assert slice_.shape == (6, 7)
    assert np.argwhere(np.isinf(np.asarray(slice_))).tolist() == [[2, 4]]


def test_one_wrong_element_of_many_stays_visible():
    b = np.zeros((900, 700))
    a = b.copy()
    a[234, 577] = 1
    ax = TensorDifference(a, b).plot_slice()
    assert ax.images[0].get_array().size < 100_000
    assert ax.images[0].get_array().max() == 1
    assert ax.lines[0].get_xydata().tolist() == [[577, 234]]


@pytest.mark.parametrize(
    ("lens", "is_image"),
    [((2, 3, 8, 8), True), ((2, 8, 8, 1), True), ((8, 9, 4), True), ((1, 64, 8, 8), False),
     ((2, 3, 1, 1), False), ((3, 8), False), ((), False)],
)  # fmt: skip
def test_images_are_known_by_their_lens(lens: tuple[int, ...], is_image: bool):
    b = np.linspace(0, 1, int(np.prod(lens))).reshape(lens)
    found = TensorDifference(b * 0.9, b)
    assert found.is_image is is_image
    if not is_image:
        with pytest.raises(OperationError, match="not those of images"):
            found.plot_image()
        return
    picture = found.plot_image().images[0].get_array()
    side = found.value.shape[-2] if lens[-1] in (1, 4) else 8
    assert picture.shape[1] == 3 * side + 2  # value, reference, error, and gaps of one column


DEGENERATE = [
    (np.float32(1.5), np.float64(1.25), "the worst is 1.5, expected 1.25"),
    (np.empty((0, 3)), np.empty((0, 3)), "no elements: the lens are [0, 3]"),
    (np.full((2, 2), np.nan), np.full((2, 2), np.nan), "NaN on both sides in all elements (4)"),
    (np.full((2, 2), np.nan), np.ones((2, 2)), "4 not finite on one side only"),
    (np.ones((2, 2)), np.full((2, 2), np.nan), "is 1, expected NaN"),
    (np.ones((2, 3)), np.ones((3, 2)), "elements have no counterpart"),
    (np.ones(4, np.int8), np.ones(4), "all equal to the reference's"),
    (np.array([True, False]), np.array([True, True]), "at [1] is 0, expected 1"),
    (np.array([1e308, 1.0]), np.array([-1e308, 1.0]), "the worst at [0]"),
]


@pytest.mark.parametrize(("value", "reference", "words"), DEGENERATE)
def test_what_has_little_to_plot_says_so_in_words(value, reference, words: str):
    found = TensorDifference(np.asarray(value), np.asarray(reference))
    assert words in found.statement
    assert words in found._repr_mimebundle_()["text/plain"]
    figure = found.plot()
    figure.draw_without_rendering()
    assert len(figure.axes) >= 4
    assert found.plot_channels(figure.axes[0]) is figure.axes[0]
    assert found.plot_quantiles(figure.axes[1]) is figure.axes[1]


def test_other_lens_have_no_metrics():
    with pytest.raises(InputError, match="expected equal lens"):
        _ = TensorDifference(np.ones((2, 3)), np.ones((3, 2))).metrics


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_has_a_picture_with_words_and_hostile_names_are_text():
    evil = '<img src=x onerror="alert(1)">$\\frac'
    page = Tags(TensorDifference(np.ones(2), np.zeros(2), evil, (evil,))._repr_html_())
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 1
    assert "onerror" not in pictures[0]
    assert (pictures[0]["src"] or "").startswith("data:image/png;base64,")
    assert "the worst at [0] is 1, expected 0" in (pictures[0]["alt"] or "")
