"""TensorView without a browser: slices as they are asked for, of bounded size, and the static form."""

import base64
import json

import numpy as np
import pytest

import workbench as wb
from tests.widgets.views import tensor, unpacked
from workbench.widgets import TensorView


def cells(view: TensorView, name: str) -> np.ndarray:
    """The cells as the browser gets them."""
    found = unpacked(view.detail)["cells"]
    data = np.frombuffer(base64.b64decode(found[name]), np.float32)
    return data.reshape(found["shape"])


def test_it_opens_where_the_worst_element_is():
    view = TensorView(tensor())
    assert (view.slice, view.at) == ("1,2,:,:", "1,2,2,4")
    assert np.argwhere(np.isinf(cells(view, "errors"))).tolist() == [[2, 4], [2, 5]]
    assert np.isnan(cells(view, "value")[2, 5])


def test_slice_and_element_follow_each_other():
    view = TensorView(tensor())
    view.slice = "0,:,3,:"
    errors = view.tensor.errors[0, :, 3, :]
    row, column = np.unravel_index(errors.argmax(), errors.shape)
    assert view.at == f"0,{row},3,{column}"
    assert unpacked(view.detail)["slice"] == "0,:,3,:"
    assert cells(view, "errors") == pytest.approx(errors, rel=1e-6)
    view.at = "1,0,5,6"
    assert view.slice == "1,:,5,:"
    assert unpacked(view.detail)["around"]["columns"] == [4, 5, 6]


def test_what_is_beyond_the_axes_is_brought_back():
    view = TensorView(tensor())
    view.slice = "9,9,:,:"
    assert view.slice == "1,2,:,:"
    view.at = "0,0,99,0"
    assert view.at == "0,0,5,0"
    view.slice = ":"
    assert view.slice == "1,2,:,:"


def test_the_largest_tensor_is_sent_within_200_kb():
    wanted = np.random.default_rng(0).standard_normal((1, 4, 512, 512))
    view = TensorView(wb.inspect(wanted.astype(np.float32), wanted))
    assert unpacked(view.detail)["image"]["shape"]
    assert len(view.data) + len(view.detail) <= 200_000


@pytest.mark.parametrize(
    ("value", "reference"),
    [(1.0, 2.0), (np.empty((0, 3)), np.empty((0, 3))), (np.ones((2, 3)), np.ones((3, 2))),
     (np.full(5, np.nan), np.full(5, np.nan)), (np.array([1e308, -1e308]), np.array([-1e308, 5e-324])),
     (np.array([True, False]), np.array([True, True]))],
)  # fmt: skip
def test_anything_is_shown(value: object, reference: object):
    view = TensorView(wb.inspect(value, reference))
    json.dumps([unpacked(view.data), unpacked(view.detail)], allow_nan=False)
    assert "<table>" in view.to_static()
    assert view.summary() in view._repr_mimebundle_()[0]["text/plain"]


def test_the_static_form_has_the_picture_and_the_distances():
    page = TensorView(tensor()).to_static()
    assert "[1, 2, :, :]" in page
    assert page.count("<path") > 5
    for words in ("NaN", "infinite", "max ulp", "Around [1, 2, 2, 4]"):
        assert words in page


def test_a_difference_shows_itself_as_the_inspector():
    data = tensor()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"].startswith("@7 convolution from @7 convolution: 252 float16")


def test_a_view_whose_cell_ran_again_lets_go_of_the_tensor():
    view = TensorView(tensor())
    view.retire()
    assert (view.tensor, view.data, view.detail) == (None, b"", b"")
