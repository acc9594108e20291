"""Convolutions and products, each element by one work item."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.compiler.variants import computed, expect_close
from tests.gpu.emit.agreement import LAYOUTS, is_possible, laid_out, operands
from tests.gpu.harness import program_of, run_plan
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.sampling import digits, noise
from workbench.compiler.ops.contract import Dot, QuantDot
from workbench.compiler.ops.convolve import Convolution, ConvolutionBackwards, QuantConvolution
from workbench.compiler.ops.deform import DeformConvolution
from workbench.compiler.ops.elementwise import draw
from workbench.compiler.ops.windows import PaddingMode
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import CUDA, OPENCL
from workbench.gpu.kernels import elementwise as kernels
from workbench.gpu.lowering.lower import Lowering
from workbench.gpu.lowering.plan import KernelStep

some = settings(max_examples=12, deadline=None, derandomize=True)
TYPES = [DType.FLOAT, DType.HALF, DType.BF16, DType.DOUBLE, DType.INT8, DType.INT32, DType.UINT64]


class Direct(Lowering):
    """Lowers every instruction element by element, whatever schedule it has."""

    def _compute(self, instruction):
        inputs, outputs = self.inputs(instruction), self.outputs(instruction)
        launch = kernels.elementwise(self.dialect, instruction.name, instruction, inputs, outputs)
        self.steps.append(KernelStep(instruction, launch))


def expect_agreement(device: Device, op: Operation, *arrays: np.ndarray) -> None:
    """Compares with the reference, where each element is computed by one work item."""
    given_ = operands(*arrays)
    plan = Direct(program_of(op, given_), device.dialect).plan()
    found = run_plan(plan, {f"x{k}": x for k, x in enumerate(arrays)}, device).values
    for a, b in zip(found, computed(op, given_), strict=True):
        expect_close(a, b, b.dtype, str(op))


def element_types() -> st.SearchStrategy[DType]:
    return st.sampled_from(TYPES)


def each(rank: int, low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(low, high)] * rank)


def test_a_cpus_loops_over_taps_have_no_branches():
    """A compiler for CPUs takes several times as long for branches in loops that it unrolls."""
    op = Convolution((1, 1), (1, 1), (1, 1), 2)
    program = program_of(op, operands(noise(1, 2, 5, 5), noise(2, 1, 3, 3, seed=1)))
    sources = {
        d.name: Direct(program, d).plan().kernels[0].launch.kernel.source for d in (OPENCL, CUDA)
    }
    loops = {name: text[text.index("for (") :] for name, text in sources.items()}
    assert "if (" not in loops["opencl"]
    assert "if (" in loops["cuda"]


def test_taps_outside_an_image_with_infinities_or_an_empty_one_add_nothing(device: Device):
    image = np.full((1, 1, 3, 3), np.inf, np.float32)
    op = Convolution((2, 2), (1, 1), (1, 1), 1)
    expect_agreement(device, op, image, noise(1, 1, 3, 3, seed=1))
    expect_agreement(device, op, noise(1, 1, 0, 3), noise(1, 1, 3, 3, seed=1))


@some
@given(data=st.data(), type=element_types(), rank=st.integers(1, 3), group=st.integers(1, 3))
def test_convolutions_agree_with_the_reference(
    data: st.DataObject, type: DType, rank: int, group: int, device: Device
):
    lens = data.draw(each(rank, 1, 7))
    size = data.draw(each(rank, 1, 3))
    channels, filters = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    layout = data.draw(st.sampled_from(LAYOUTS))
    x = laid_out(draw(type, (2, channels * group, *lens), -4, 4), layout)
    w = draw(type, (filters * group, channels, *size), -4, 4, seed=1)
    op = Convolution(
        padding=data.draw(st.one_of(each(rank, 0, 2), each(2 * rank, 0, 2))),
        stride=data.draw(each(rank, 1, 3)),
        dilation=data.draw(each(rank, 1, 2)),
        group=group,
        padding_mode=data.draw(st.sampled_from(PaddingMode)),
    )
    assume(is_possible(op, x, w))
    expect_agreement(device, op, x, w)


@some
@given(data=st.data(), type=element_types(), rank=st.integers(1, 3), group=st.integers(1, 3))
def test_transposed_convolutions_agree_with_the_reference(
    data: st.DataObject, type: DType, rank: int, group: int, device: Device
):
    channels, filters = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    x = draw(type, (2, channels * group, *data.draw(each(rank, 1, 5))), -4, 4)
    w = draw(type, (channels * group, filters, *data.draw(each(rank, 1, 3))), -4, 4, seed=1)
    op = ConvolutionBackwards(
        data.draw(each(rank, 0, 2)), data.draw(each(rank, 1, 3)), data.draw(each(rank, 1, 2)),
        group=group,
    )  # fmt: skip
    assume(is_possible(op, x, w))
    expect_agreement(device, op, x, w)


@some
@given(data=st.data(), rank=st.integers(1, 2), group=st.integers(1, 2), moved=st.integers(1, 2))
def test_deformed_convolutions_agree_with_the_reference(
    data: st.DataObject, rank: int, group: int, moved: int, device: Device
):
    lens, size = data.draw(each(rank, 2, 6)), data.draw(each(rank, 1, 2))
    stride, padding = data.draw(each(rank, 1, 2)), data.draw(each(2 * rank, 0, 1))
    op = DeformConvolution(padding, stride, (1,) * rank, group, moved)
    spans = zip(lens, size, stride, padding[:rank], padding[rank:], strict=True)
    outputs = [(n + b + e - k) // s + 1 for n, k, s, b, e in spans]
    taps = moved * int(np.prod(size))
    x, w = noise(2, 4, *lens), noise(2 * group, 4 // group, *size, seed=1)
    offset = noise(2, taps * rank, *outputs, seed=2) * 3
    mask = [noise(2, taps, *outputs, seed=3)] if data.draw(st.booleans()) else []
    expect_agreement(device, op, x, w, offset, *mask)


def test_offsets_that_are_not_numbers_or_huge_reach_nothing(device: Device):
    x, w = noise(1, 1, 4), noise(1, 1, 1)
    offset = np.array([[[np.nan, np.inf, -np.inf, 1e30]]], np.float32)
    expect_agreement(device, DeformConvolution((0,), (1,), (1,)), x, w, offset)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("type", [DType.INT8, DType.UINT8, DType.FLOAT, DType.FP8E4M3FN])
def test_quantized_products_and_convolutions_agree_with_the_reference(
    type: DType, scaled: bool, device: Device
):
    a, b = draw(type, (2, 3, 5), 0, 9), draw(type, (2, 5, 4), 0, 9, seed=1)
    x, w = draw(type, (2, 4, 5, 5), 0, 9), draw(type, (4, 2, 3, 3), 0, 9, seed=1)
    scales = [noise(*v.shape, type=np.float16) for v in (a, b, x, w)] if scaled else []
    expect_agreement(device, QuantDot(), a, b, *scales[:2])
    op = QuantConvolution(padding=(1, 0, 0, 1), group=2)
    expect_agreement(device, op, x, w, *scales[2:])


@pytest.mark.parametrize("type", [t for t in DType if t not in (DType.TUPLE, DType.FP4X2)])
def test_products_of_every_type_agree_with_the_reference(type: DType, device: Device):
    a, b = draw(type, (2, 3, 9), -4, 4), draw(type, (2, 4, 9), -4, 4, seed=1)
    expect_agreement(device, Dot(), a, b.transpose(0, 2, 1))


def test_integers_keep_their_low_bits(device: Device):
    a, b = digits(3, 8, type=np.int64) << 58, digits(8, 3, type=np.int64) << 5
    expect_agreement(device, Dot(), a, b)
    a, b = digits(3, 8, type=np.int32) << 27, digits(8, 3, type=np.int32) << 5
    expect_agreement(device, Dot(), a, b)
