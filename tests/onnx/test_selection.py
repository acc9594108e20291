"""Results whose length is data: exact by default, padded to the most that there can be on request."""

import numpy as np
import pytest

from tests.onnx.models import Case
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

X = np.array([[0, 3, 0], [4, 0, 0]], np.float32)
BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [3, 3, 4, 4]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7]]], np.float32)

NON_ZERO = Case("NonZero", [X])
SUPPRESSED = Case("NonMaxSuppression", [BOXES, SCORES, np.array([3]), np.array([0.5], np.float32)])
COMPRESS = Case("Compress", [X, np.array([True, False, True])], {"axis": 1})


def run(case: Case, **options):
    program = parse_onnx(case.model(), **options)
    return program.main.outputs[0].shape, reference.run(program, case.arrays())[0]


def test_non_zero_is_padded_on_request():
    shape, found = run(NON_ZERO)
    assert shape.is_dynamic
    assert found.tolist() == [[0, 1], [1, 0]]
    shape, found = run(NON_ZERO, use_dyn_output=False)
    assert shape.lens == (2, 6)
    assert found.tolist() == [[0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]


def test_boxes_are_padded_on_request():
    shape, found = run(SUPPRESSED)
    assert shape.is_dynamic
    assert found.tolist() == [[0, 0, 0], [0, 0, 2]]
    shape, found = run(SUPPRESSED, use_dyn_output=False)
    assert shape.lens == (3, 3)
    assert found.tolist() == [[0, 0, 0], [0, 0, 2], [0, 0, 0]]


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_compressed_is_never_padded(exact):
    _, found = run(COMPRESS, use_dyn_output=exact)
    assert found.tolist() == [[0, 0], [4, 0]]


def test_scores_have_to_exceed_the_threshold():
    limits = [np.array([3]), np.array([0.5], np.float32), np.array([0.7], np.float32)]
    _, found = run(Case("NonMaxSuppression", [BOXES, SCORES, *limits]))
    assert found.tolist() == [[0, 0, 0]]


def test_a_limit_that_is_left_out_has_its_default():
    given = [BOXES, SCORES, np.array([3]), None, np.array([0.75], np.float32)]
    _, found = run(Case("NonMaxSuppression", given))
    assert found.tolist() == [[0, 0, 0]]
