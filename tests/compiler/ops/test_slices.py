"""Slices: their normal form, in which axes and bounds count from the front and stay within the lens."""

import pytest

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.slicing import Slice

X = Shape(DType.FLOAT, (4, 6))


@pytest.mark.parametrize(
    "cut",
    [Slice((0,), (1,), (3,)), Slice((1, 0), (0, 4), (6, 4)), Slice((1,), (5,), (2,)), Slice()],
)
def test_a_slice_in_normal_form_stays_itself(cut: Slice):
    assert cut.normalized([X]) is cut


@pytest.mark.parametrize(
    ("cut", "normal"),
    [
        (Slice((-1,), (0,), (6,)), Slice((1,), (0,), (6,))),
        (Slice((0,), (-3,), (-1,)), Slice((0,), (1,), (3,))),
        (Slice((1,), (2,), (1 << 40,)), Slice((1,), (2,), (6,))),
        (Slice((0, 1), (0, -99), (4, 7)), Slice((0, 1), (0, 0), (4, 6))),
    ],
)
def test_other_slices_are_brought_to_it(cut: Slice, normal: Slice):
    assert cut.normalized([X]) == normal


@pytest.mark.parametrize("axes", [(0, 0), (0, -2), (2,)])
def test_axes_that_do_not_exist_or_come_twice_are_refused(axes: tuple[int, ...]):
    bounds = (1,) * len(axes)
    with pytest.raises(ShapeError):
        Slice(axes, (0,) * len(axes), bounds).normalized([X])
