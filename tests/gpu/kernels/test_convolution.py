"""Convolutions as products: any rank, window and layout, and what is left to single work items."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.compiler.variants import inferred, operand, shapes
from tests.gpu.harness import samples
from tests.gpu.kernels.test_product import TYPES, WARPS, Grouped, expect_agreement, matrix
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.windows import PaddingMode
from workbench.gpu.devices.base import Device

OPERATIONS = all_operations()

CONVOLUTION = OPERATIONS["convolution"]


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("name", ["convolution", "quant_convolution"])
def test_every_sample_agrees_in_one_kernel(name: str, warp: int, device: Device):
    for op, operands in samples(name):
        is_cpu = device.dialect.machine.is_cpu and not warp
        expect_agreement(op, operands, device, warp, kernels=None if is_cpu else 1)


@st.composite
def windows(draw: st.DrawFn) -> tuple[object, tuple[int, ...], tuple[int, ...]]:
    """A convolution, and the lens of its input and weights."""
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    each = st.tuples(*[st.integers(1, 3)] * rank)
    channels, filters = draw(st.integers(1, 17)), draw(st.integers(1, 33))
    mode = draw(st.sampled_from(list(PaddingMode)))
    op = CONVOLUTION(
        padding=draw(st.tuples(*[st.integers(0, 2)] * (2 * rank))),
        stride=draw(each),
        dilation=draw(each),
        group=groups,
        padding_mode=mode,
    )
    lens = draw(st.tuples(*[st.integers(1, 12)] * rank))
    size = draw(st.tuples(*[st.integers(1, 4)] * rank))
    x = (draw(st.integers(1, 2)), channels * groups, *lens)
    return op, x, (filters * groups, channels, *size)


@given(
    case=windows(),
    type=st.sampled_from(TYPES),
    last=st.tuples(st.booleans(), st.booleans()),
    warp=st.sampled_from(WARPS),
)
@settings(max_examples=12, deadline=None)
def test_convolutions_of_any_window_type_and_layout_agree(
    case: tuple, type: str, last: tuple[bool, bool], warp: int, device: Device
):
    op, *lens = case
    arrays = [matrix(type, *n, seed=k) for k, n in enumerate(lens)]
    given = [channels_last(x) if turn else x for x, turn in zip(arrays, last, strict=True)]
    operands = [operand(x) for x in given]
    assume(inferred(op, shapes(operands)) is not None)
    expect_agreement(op, operands, device, warp, kernels=None)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("warp", WARPS)
def test_convolutions_of_several_tiles_agree(size: int, last: bool, warp: int, device: Device):
    x, w = matrix("float", 2, 40, 13, 13), matrix("float", 72, 40, size, size, seed=1)
    given = [channels_last(v) if last else v for v in (x, w)]
    op = CONVOLUTION(padding=(size // 2,) * 2)
    expect_agreement(op, [operand(v) for v in given], device, warp, kernels=None)


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("filters", [1, 8])
def test_bias_and_activation_are_in_the_kernel_of_a_convolution(
    filters: int, warp: int, device: Device
):
    bias = Shape("float", (2, 2 * filters, 9, 9), (0, 1, 0, 0))
    shapes = Shape("float", (2, 6, 9, 9)), Shape("float", (2 * filters, 3, 3, 3))
    g = Grouped("convolution", *shapes, bias)
    x, w, b = g.parameters
    total = g("add", g("convolution", x, w, padding=(1, 1), group=2), b)
    plan = g.ran(device, warp, g("relu", total)).plan
    assert len([s for s in plan.kernels if "panels" not in s.launch.kernel.name]) == 1
