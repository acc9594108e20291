"""The numbers behind a tensor's pictures: bounded in size, fit for JSON, and nothing wrong is lost."""

import json
from math import inf, nan

import numpy as np
import pytest

from tests.numerics.metrics.test_tensor_difference import DEGENERATE
from workbench.numerics.metrics.tensor_difference import TensorDifference, inspect

WHOLE = slice(None)


@pytest.mark.parametrize(("value", "reference", "words"), DEGENERATE)
def test_an_overview_is_fit_for_json(value: object, reference: object, words: str):
    found = inspect(value, reference).overview()
    assert words in json.loads(json.dumps(found, allow_nan=False))["statement"]


def test_one_wrong_element_of_many_has_a_cell():
    b = np.ones((700, 900))
    a = b.copy()
    a[577, 234] = 1.5
    found = inspect(a, b).cells((WHOLE, WHOLE))
    assert found.errors.size <= 7500
    assert found.where is not None
    assert np.unravel_index(found.where[found.errors == 0.5], b.shape) == (577, 234)
    assert found.value[found.errors == 0.5] == 1.5


def test_what_is_not_finite_on_both_sides_has_a_cell():
    b = np.ones((1, 40_000))
    b[0, 31_234] = nan
    found = inspect(b, b).cells((WHOLE, WHOLE))
    assert np.isnan(found.value).sum() == 1
    assert not found.errors.any()


@pytest.mark.parametrize(
    ("lens", "index", "shape"),
    [((), (), (1, 1)), ((5,), (WHOLE,), (1, 5)), ((2, 3, 4), (WHOLE, 1, WHOLE), (2, 4)),
     ((9000, 2), (WHOLE, WHOLE), (256, 2)), ((1, 9000), (WHOLE, WHOLE), (1, 320))],
)  # fmt: skip
def test_a_slice_of_any_rank_is_rows_and_columns(lens, index, shape):
    b = np.arange(np.prod(lens), dtype=np.float64).reshape(lens)
    found = inspect(b + 1, b).cells(index)
    assert found.errors.shape == found.value.shape == shape
    assert (found.errors == 1).all()


def test_neighbours_stay_within_the_tensor():
    b = np.arange(20.0).reshape(4, 5)
    a = b.copy()
    a[0, 4] = -inf
    found = inspect(a, b).around((0, 4), (0, 1))
    assert (found["rows"], found["columns"]) == ([0, 1, 2], [2, 3, 4])
    assert found["value"][0] == ["2", "3", "−∞"]
    assert (found["reference"][0][2], found["error"][0][2]) == ("4", "∞")
    assert inspect(1.0, 2.0).around((), ()) == {
        "rows": [0], "columns": [0], "value": [["1"]], "reference": [["2"]], "error": [["1"]],
    }  # fmt: skip


def test_errors_by_index_count_what_is_not_finite():
    b = np.ones((3, 600))
    a = b.copy()
    a[1, 0], a[2, 599] = nan, 1.25
    rows, columns = inspect(a, b).overview()["channels"]
    assert (rows["lost"], rows["largest"]) == ([0, 1, 0], [0, 0, 0.25])
    assert len(columns["mean"]) == 256
    assert (columns["lost"][0], columns["largest"][255]) == (1, 0.25)


@pytest.mark.parametrize("lens", [(1, 4, 300, 200), (300, 200, 3), (1, 300, 200)])
def test_an_image_is_small_and_marks_what_is_not_finite(lens: tuple[int, ...]):
    b = np.random.default_rng(0).random(lens)
    a = b.copy()
    a.reshape(-1)[0] = nan
    found = TensorDifference(a, b).image((0,) * len(lens))
    assert found is not None
    rows, columns = found["lens"]
    assert rows * columns <= 7500
    assert found["value"].shape == (rows, columns, 3)
    assert (found["value"][0, 0] == [0, 0, 1]).all()
    assert found["errors"][0, 0] == inf
    assert not (found["value"][1:] == [0, 0, 1]).all(axis=2).any()
