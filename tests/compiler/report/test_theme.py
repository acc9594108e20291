"""The colours of new figures: they fit any page in a notebook, and leave everybody else's alone."""

import matplotlib.pyplot as plt
import pytest

import workbench as wb
from tests.widgets.networks import residual
from workbench.compiler.report import theme


@pytest.fixture
def plan() -> wb.Build:
    return wb.compile(residual(1), "cpu").memory()


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theme, "_in_notebook", lambda: True)


def ground(ax: plt.Axes) -> float:
    """The opacity of the figure's background."""
    return ax.figure.get_facecolor()[3]


@pytest.mark.usefixtures("notebook")
def test_in_a_notebook_the_page_shines_through_and_the_ink_is_read_on_both(plan):
    before = dict(plt.rcParams)
    ax = plan.plot()
    assert ground(ax) == 0
    assert ax.xaxis.label.get_color() == theme.INK
    assert dict(plt.rcParams) == before


@pytest.mark.usefixtures("notebook")
def test_what_a_first_figure_sets_for_the_notebook_stays():
    was = plt.isinteractive()
    try:
        theme.on_any_page(lambda: plt.rcParams.update(interactive=not was))()
        assert plt.isinteractive() is not was
    finally:
        plt.rcParams["interactive"] = was


@pytest.mark.usefixtures("notebook")
def test_given_axes_and_chosen_styles_keep_their_colours(plan):
    _, own = plt.subplots()
    assert plan.plot(own) is own
    assert ground(own) == 1
    with plt.style.context("dark_background"):
        assert plan.plot().xaxis.label.get_color() == "white"


def test_outside_of_a_notebook_figures_are_as_usual(plan):
    ax = plan.plot()
    assert ground(ax) == 1
    assert ax.xaxis.label.get_color() == "black"


def test_the_ink_has_its_contrast_on_both_pages():
    def luminance(color: str) -> float:
        parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    ink = luminance(theme.INK)
    assert (1.05) / (ink + 0.05) >= 4.5
    assert (ink + 0.05) / (luminance("#111111") + 0.05) >= 3
