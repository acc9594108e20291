"""Windows over an input: each element by one work item, taps outside left out."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.compiler.variants import Operand
from tests.gpu.emit.agreement import LAYOUTS, expect_agreement, is_possible, laid_out
from tests.gpu.harness import program_of, run_one
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ops.elementwise import draw
from workbench.compiler.ops.pool import Lrn, Pooling, PoolingMode
from workbench.compiler.ops.pool_indices import MaxPoolIndices
from workbench.compiler.ops.windows import PaddingMode
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower

some = settings(max_examples=15, deadline=None, derandomize=True)
TYPES = [DType.FLOAT, DType.HALF, DType.DOUBLE, DType.INT8, DType.UINT8, DType.FP8E5M2, DType.BOOL]


@st.composite
def inputs(draw_: st.DrawFn) -> np.ndarray:
    rank = draw_(st.integers(1, 3))
    lens = draw_(st.tuples(st.integers(1, 2), st.integers(1, 3), *[st.integers(1, 7)] * rank))
    array = draw(draw_(st.sampled_from(TYPES)), lens, -4, 4, draw_(st.integers(0, 9)))
    return laid_out(array, draw_(st.sampled_from(LAYOUTS)))


def windows(rank: int) -> st.SearchStrategy[dict[str, tuple[int, ...]]]:
    def each(low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
        return st.tuples(*[st.integers(low, high)] * rank)

    padding = st.one_of(each(0, 2), st.tuples(*[st.integers(0, 2)] * (2 * rank)))
    sizes = {"lengths": each(1, 3), "stride": each(1, 3), "dilations": each(1, 2)}
    return st.fixed_dictionaries({**sizes, "padding": padding})


@some
@given(x=inputs(), data=st.data())
def test_poolings_agree_with_the_reference(x: np.ndarray, data: st.DataObject, device: Device):
    op = Pooling(
        mode=data.draw(st.sampled_from(PoolingMode)),
        padding_mode=data.draw(st.sampled_from(PaddingMode)),
        ceil_mode=data.draw(st.booleans()),
        count_include_pad=data.draw(st.booleans()),
        lp_order=data.draw(st.integers(0, 3)),
        dyn_global=data.draw(st.integers(0, 9)) == 0,
        **data.draw(windows(x.ndim - 2)),
    )
    assume(is_possible(op, x))
    expect_agreement(device, op, x)


@some
@given(x=inputs(), data=st.data())
def test_places_of_maxima_agree_with_the_reference(
    x: np.ndarray, data: st.DataObject, device: Device
):
    flags = {name: data.draw(st.booleans()) for name in ("ceil_mode", "column_major")}
    op = MaxPoolIndices(**flags, **data.draw(windows(x.ndim - 2)))
    assume(is_possible(op, x))
    expect_agreement(device, op, x)


@pytest.mark.parametrize("op", [
    Pooling(PoolingMode.MAX, lengths=(2, 2), padding=(1, 1)),
    MaxPoolIndices(lengths=(2, 2), padding=(1, 1)),
])  # fmt: skip
def test_not_a_number_wins_every_window_it_is_in(op: Operation, device: Device):
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 1, 2], x[0, 0, 3, 3], x[0, 0, 0, 0] = np.nan, np.inf, -np.inf
    expect_agreement(device, op, x)


def test_windows_in_the_padding_alone_give_what_the_reference_does(device: Device):
    x = np.ones((1, 1, 2), np.float32)
    one = {"stride": (3,), "lengths": (1,), "dilations": (1,), "padding": (2, 3)}
    for mode in PoolingMode:
        expect_agreement(device, Pooling(mode, **one), x)
    expect_agreement(device, MaxPoolIndices(**one), x)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 7])
def test_the_norm_of_a_whole_number_is_the_number(order: int, device: Device):
    one = {"padding": (0,), "stride": (1,), "lengths": (1,), "dilations": (1,)}
    op = Pooling(PoolingMode.LPNORM, **one, lp_order=order)
    x = np.arange(-127, 128).astype(np.int8).reshape(1, 1, -1)
    values, _ = run_one(op, [Operand(x, DType.INT8)], device)
    wanted = abs(x)
    np.testing.assert_array_equal(values[0], wanted)
    np.testing.assert_array_equal(op.compute(x), wanted)


@pytest.mark.parametrize("type", [DType.FLOAT, DType.HALF, DType.DOUBLE])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_neighbouring_channels_normalise_as_in_the_reference(
    type: DType, size: int, device: Device
):
    x = draw(type, (2, 5, 3), -4, 4)
    expect_agreement(device, Lrn(alpha=0.2, beta=0.6, bias=1.5, size=size), x)


def test_windows_that_fit_ask_no_questions(device: Device):
    x = np.zeros((1, 2, 6, 6), np.float32)
    given = [Operand(x, DType.FLOAT)]

    def source(**padding: tuple[int, ...]) -> str:
        op = Pooling(stride=(2, 2), lengths=(2, 2), **padding)
        plan = lower(program_of(op, given), device.dialect)
        return plan.kernels[0].launch.kernel.source

    assert "covered" not in source()
    assert "if (l" not in source()
    assert "covered" in source(padding=(1, 1))


def test_equal_work_is_one_kernel_whatever_it_is_called(device: Device):
    x = np.zeros((1, 2, 6, 6), np.float32)
    names = {
        run_one(Pooling(lengths=(2, 2)), [Operand(x, DType.FLOAT)], device)
        .plan.kernels[0].launch.kernel.name
        for _ in range(2)
    }  # fmt: skip
    assert len(names) == 1
