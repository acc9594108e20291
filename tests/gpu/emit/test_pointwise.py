"""Pointwise operations on a device: every element type, any bits."""

from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.ops.test_operations import SAMPLED
from tests.compiler.variants import TYPES, Operand, expect_close
from tests.gpu.emit.bodies import Made, Use, bits, edges, together
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.ops.elementwise import Pointwise, draw
from workbench.compiler.ops.quant import Dequantizelinear, Quantizelinear
from workbench.gpu.devices.base import Device

OPERATIONS = all_operations()

QUANTIZATION = ["quantizelinear", "dequantizelinear"]
NAMES = [
    n for n in SAMPLED
    if issubclass(OPERATIONS[n], Pointwise) and OPERATIONS[n].expression
    and n not in ["convert", "bit_cast", *QUANTIZATION]
]  # fmt: skip
COUNT = 64
FEW = 16
few = settings(max_examples=5, deadline=None, derandomize=True, phases=[Phase.generate])
contents = st.binary(min_size=8 * COUNT, max_size=8 * COUNT)


@cache
def usual(kind: type[Pointwise], type: DType) -> list[np.ndarray]:
    """Operands within the domains of an operation."""
    last = len(kind.domains) - 1
    ranges = [kind.domains[min(k, last)] for k in range(kind.arity)]
    return [draw(type, (COUNT,), *bounds, seed=k) for k, bounds in enumerate(ranges)]


def operands(kind: type[Pointwise], type: DType, content: bytes) -> list[Operand]:
    """Elements within the domains, then edges, then any bits; later operands in other orders."""
    found: list[Operand] = []
    for k, array in enumerate(usual(kind, type)):
        of = DType.of(array.dtype)
        ends = np.tile(edges(of), FEW) if k else np.repeat(edges(of), FEW)
        any_bits = np.roll(bits(of, content[: COUNT * of.size]), k)
        found.append(Operand(np.concatenate([array, ends, any_bits]), of))
    return found


def expect_as_the_reference(made: Made) -> None:
    """Close; integers of functions of real numbers may be truncated on either side of a whole one."""
    (op, given), found, wanted = made
    assert isinstance(op, Pointwise)
    if not op.exact and DType.of(wanted.dtype).is_integral:
        limits = np.maximum(1, 1e-12 * np.abs(wanted.astype(np.float64)))
        apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        assert (apart <= limits).all(), f"{op} of {given[0].type.name}"
        return
    with np.errstate(all="ignore"):
        expect_close(found, wanted, wanted.dtype, f"{op} of {given[0].type.name}")


@pytest.mark.parametrize("name", NAMES)
@few
@given(content=contents)
def test_kernels_compute_what_the_reference_does_on_any_bits_of_any_type(
    name: str, device: Device, content: bytes
):
    kind = OPERATIONS[name]
    assert issubclass(kind, Pointwise)
    for op in kind.variants():
        for made in together([Use(op, operands(kind, t, content)) for t in TYPES], device):
            expect_as_the_reference(made)


def scales(type: DType, values: list[float]) -> np.ndarray:
    return np.array([values[k % len(values)] for k in range(COUNT)]).astype(type.numpy)


def expect_all_close(uses: list[Use], device: Device) -> None:
    for made in together(uses, device):
        with np.errstate(all="ignore"):
            expect_close(made.found, made.wanted, made.wanted.dtype, str(made.use))


any_scales = st.lists(st.floats(2**-6, 16, width=16), min_size=1, max_size=8)


@pytest.mark.parametrize("source", [t for t in TYPES if t.is_float], ids=lambda t: t.name)
@few
@given(content=contents, factors=any_scales)
def test_kernels_quantize_as_the_reference_does(
    source: DType, content: bytes, factors: list[float], device: Device
):
    x = Operand(bits(source, content[: COUNT * source.size]), source)
    scale = Operand(scales(source, factors), source)
    uses = [Use(Quantizelinear(t), [x, scale]) for t in TYPES]
    for target in (DType.INT8, DType.UINT8, DType.INT32, DType.FP8E4M3FN):
        zero = Operand(draw(target, (COUNT,), 0, 9), target)
        uses.append(Use(Quantizelinear(), [x, scale, zero]))
    expect_all_close(uses, device)


@pytest.mark.parametrize("source", TYPES, ids=lambda t: t.name)
@few
@given(content=contents, factors=any_scales)
def test_kernels_dequantize_as_the_reference_does(
    source: DType, content: bytes, factors: list[float], device: Device
):
    x = Operand(bits(source, content[: COUNT * source.size]), source)
    zero = Operand(draw(source, (COUNT,), 0, 9), source)
    uses: list[Use] = []
    for target in (DType.FLOAT, DType.HALF, DType.BF16, DType.DOUBLE):
        scale = Operand(scales(target, factors), target)
        uses += [Use(Dequantizelinear(), [x, scale]), Use(Dequantizelinear(), [x, scale, zero])]
    expect_all_close(uses, device)


def test_an_optimized_kernel_keeps_the_sign_of_an_infinity():
    zeros = np.full(16, -0.0, np.float32)
    for name in ("fp8e5m2", "fp8e4m3fn"):
        type = DType.of(name)
        b = wb.Builder()
        program = b.program(b.input("x", (16,), type).apply("rsqrt"))
        given = {"x": zeros.astype(type.numpy)}
        found, wanted = (wb.compile(program, target=t).run(given)[0] for t in ("gpu", "ref"))
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
