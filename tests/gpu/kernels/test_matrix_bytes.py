"""Products and convolutions of 8-bit integers and floats on matrix units: exact sums, layouts, every code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.harness import Ran
from tests.gpu.kernels.matrix_units import run_on_matrix_units, with_matrix_units
from tests.gpu.kernels.test_matrix import planned
from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes import pipelines
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.kernels import matrix
from workbench.gpu.lowering.lower import lower

WARPS = matrix.Blocking(32, 32, 128, 16, 16, 4, 0.35, size=1)
SQUARE = matrix.Blocking(64, 64, 64, 32, 32, 4, 0.67, size=1)
GROUP = matrix.Blocking(64, 64, 128, 64, 64, 3, 0.39, 3, 4, 1)
WIDE = matrix.Blocking(128, 32, 128, 64, 32, 1, 0.43, 3, 4, 1)
ONE = matrix.Blocking(16, 16, 64, 16, 16, 4, 0.2, size=1)
"""A single warp."""


def product(
    m: int,
    k: int,
    n: int,
    turned: str = "",
    type: Any = "int8",
    batch: Sequence[int] = (),
    op: str = "quant_dot",
) -> Program:
    """A product; the operands that are named in `turned` are transposed views."""
    program = Program()
    operands: list[Any] = []
    for name, (rows, columns) in {"a": (m, k), "b": (k, n)}.items():
        lens = (*batch, *((columns, rows) if name in turned else (rows, columns)))
        x = program.main.add_parameter(name, Shape(type, lens))
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        operands.append(
            program.main.add("transpose", x, permutation=order) if name in turned else x
        )
    program.main.add_return(program.main.add(op, *operands))
    return program


def drawn(program: Program) -> dict[str, Any]:
    """Inputs of a program: integers of the whole range, its ends among them, and small floats."""
    values, made = np.random.default_rng(5), {}
    for name, i in sorted(program.main.parameters.items()):
        type = i.shape.type
        if not type.is_integral:
            made[name] = values.standard_normal(i.shape.lens).astype(type.numpy)
            continue
        ends = np.iinfo(type.numpy)
        x = values.integers(ends.min, ends.max, i.shape.lens, type.numpy, endpoint=True)
        made[name] = np.where(values.random(i.shape.lens) < 0.2, type.numpy.type(ends.min), x)
    return made


def ran(program: Program, inputs: dict[str, Any], device: Device, capability: int = 80) -> Ran:
    """The results of a program whose products are all on matrix units."""
    found = run_on_matrix_units(program, inputs, device, capability)
    assert any(s.launch.kernel.matrix for s in found.plan.kernels)
    return found


def expect_equal(program: Program, device: Device, capability: int = 80) -> None:
    """The kernels give exactly what the reference gives."""
    inputs = drawn(program)
    found = ran(program, inputs, device, capability).values[0]
    wanted = np.asarray(wb.compile(program, "ref", record=False).run(inputs)[0])
    np.testing.assert_array_equal(np.asarray(found).reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("blocking", "lens", "turned", "type"),
    [
        (
            WARPS,
            (40, 144, 48),
            "b",
            "int8",
        ),  # both are contiguous along terms; eight columns at once
        (
            WARPS,
            (48, 144, 48),
            "",
            "int8",
        ),  # columns are contiguous: pairs are turned, four at once
        (WARPS, (48, 80, 64), "ab", "uint8"),
        (SQUARE, (80, 96, 80), "a", "int8"),
        (
            SQUARE,
            (33, 77, 51),
            "a",
            "uint8",
        ),  # rows that loads of 16 bytes cannot take, odd columns
        (SQUARE, (70, 64, 34), "b", "int8"),  # two columns at once
        (GROUP, (70, 272, 72), "b", "int8"),
        (WIDE, (130, 77, 33), "b", "uint8"),
    ],
)
def test_a_product_of_integers_is_exact_in_every_layout(
    blocking, lens, turned, type, device: Device
):
    with planned(blocking):
        capability = 90 if blocking.warps > 1 else 80
        expect_equal(product(*lens, turned, type), device, capability)


def test_parts_and_batches_of_integers_are_exact(device: Device):
    with planned(WARPS, 3):
        expect_equal(product(20, 700, 32, batch=(2,)), device)


def test_low_bits_are_kept_where_the_result_is_a_byte(device: Device):
    expect_equal(product(20, 70, 24, op="dot"), device)


def test_sums_past_the_range_wrap_around(device: Device):
    terms = 33040  # 255 · 255 · 33040 is 2³¹ and a little
    inputs = {"a": np.full((9, terms), 255, np.uint8), "b": np.full((terms, 16), 255, np.uint8)}
    inputs["a"][1:] = 1
    program = product(9, terms, 16, type="uint8")
    with planned(ONE):
        (found,) = ran(program, inputs, device).values
    wanted = inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64)
    assert wanted.max() > np.iinfo(np.int32).max
    np.testing.assert_array_equal(found, wanted.astype(np.int32))
    reference = wb.compile(program, "ref", record=False).run(inputs)[0]
    np.testing.assert_array_equal(np.asarray(reference), wanted.astype(np.int32))


@pytest.mark.parametrize("lens", [(16, 1, 16), (16, 0, 16), (16, 8, 1), (0, 8, 16)])
def test_axes_may_have_one_element_or_none(lens, device: Device):
    program = product(*lens)
    inputs = drawn(program)
    found = run_on_matrix_units(program, inputs, device, 80).values[0]
    wanted = inputs["a"].astype(np.int64) @ inputs["b"].astype(np.int64)
    np.testing.assert_array_equal(found, wanted.astype(np.int32))


@pytest.mark.parametrize(("channels", "type"), [(16, "int8"), (3, "int8"), (16, "fp8e5m2_type")])
def test_a_convolution_is_right_at_its_padding(channels: int, type: str, device: Device):
    program = Program()
    x = program.main.add_parameter("x", Shape(type, (2, 2 * channels, 7, 8)))
    w = program.main.add_parameter("w", Shape(type, (32, channels, 3, 3)))
    attributes: dict[str, Any] = {"padding": [1] * 4, "stride": [2, 1], "group": 2}
    y = program.main.add("quant_convolution", x, w, **attributes)
    program.main.add_return(program.main.add("relu", y))
    expect_equal(program, device)


def test_what_is_before_and_after_a_product_is_part_of_its_kernel(device: Device):
    program = Program()
    add = program.main.add

    def one(value: float, lens: Sequence[int], type: Any = np.float32) -> Any:
        return add(
            "multibroadcast", program.main.add_literal(np.array([value], type)), out_lens=lens
        )

    x = program.main.add_parameter("x", Shape("float", (24, 40)))
    quantized = add("quantizelinear", x, one(0.02, (24, 40)), one(0, (24, 40), np.int8))
    weights = np.random.default_rng(2).integers(-128, 128, (40, 29), np.int8)
    sums = add("quant_dot", quantized, program.main.add_literal(weights))
    made = add("dequantizelinear", sums, one(0.001, (24, 29)))
    bias = add(
        "broadcast",
        program.main.add_parameter("bias", Shape("float", (29,))),
        axis=1,
        out_lens=(24, 29),
    )
    after = add("relu", add("add", made, bias))
    program.main.add_return(
        add("quantizelinear", after, one(0.1, (24, 29)), one(0, (24, 29), np.int8))
    )
    fused = wb.compile(program, "cpu", passes="gpu", record=False).program
    inputs = drawn(program)
    found = ran(fused, inputs, device)
    assert len(found.plan.kernels) == 1
    wanted = wb.compile(program, "ref", record=False).run(inputs)[0]
    np.testing.assert_array_equal(found.values[0], np.asarray(wanted))


def quantized() -> Program:
    """A dense layer whose input and constant are quantized to int8, and dequantized."""
    program = Program()
    add = program.main.add
    x: Any = program.main.add_parameter("x", Shape("float", (24, 40)))
    weights = np.random.default_rng(2).standard_normal((40, 32)).astype(np.float32)
    operands: list[Any] = []
    for value in (x, program.main.add_literal(weights)):
        lens = value.shape.lens
        parts = [program.main.add_literal(np.array([v], t)) for v, t in ((0.02, "f4"), (0, "i1"))]
        wide = [add("multibroadcast", p, out_lens=lens) for p in parts]
        operands.append(add("dequantizelinear", add("quantizelinear", value, *wide), *wide))
    program.main.add_return(add("dot", *operands))
    return program


def test_a_quantized_constant_is_multiplied_as_it_is_where_matrix_units_take_bytes(device: Device):
    program = quantized()
    passes = pipelines.gpu(multiply_quantized=True)
    inputs = drawn(program)
    found = ran(wb.compile(program, "cpu", passes=passes, record=False).program, inputs, device)
    assert [s.launch.kernel.units for s in found.plan.kernels] == ["matrix i8"]
    wanted = np.asarray(wb.compile(program, "ref", record=False).run(inputs)[0])
    np.testing.assert_allclose(found.values[0], wanted, 0, 1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(("target", "units"), [("cuda:sm_80", "matrix i8"), ("cuda:sm_75", "")])
def test_a_target_has_quantized_products_where_it_has_matrix_units(target: str, units: str):
    build = wb.compile(quantized(), target="gpu", device=target, record=False)
    kernels = build.runner.plan().kernels
    assert max(step.launch.kernel.units for step in kernels) == units


@pytest.mark.parametrize("type", FP8, ids=lambda t: t.type_name)
def test_each_code_of_a_small_float_is_multiplied_exactly(type: DType, device: Device):
    codes = np.arange(256, dtype=np.uint8).view(type.numpy).reshape(256, 1)
    ones = np.full((1, 16), 0.5, type.numpy)
    (found,) = ran(product(256, 1, 16, type=type), {"a": codes, "b": ones}, device).values
    wanted = codes.astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, (256, 16)))


@pytest.mark.parametrize(
    ("type", "lens", "turned", "op"),
    [
        ("fp8e4m3fn_type", (40, 272, 48), "", "quant_dot"),
        ("fp8e4m3fnuz_type", (33, 77, 51), "ab", "quant_dot"),
        ("fp8e5m2_type", (40, 144, 48), "b", "dot"),
    ],
)
def test_sums_of_small_floats_are_as_near_as_those_of_floats(
    type, lens, turned, op, device: Device
):
    program = product(*lens, turned, type, op=op)
    inputs = drawn(program)
    with planned(WARPS):
        (found,) = ran(program, inputs, device).values
    exact = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    exact = [x.T if name in turned else x for name, x in zip("ab", exact, strict=True)]
    wanted = exact[0] @ exact[1]
    if op == "dot":
        wanted = wanted.astype(np.float32).astype(found.dtype).astype(np.float64)
    error = np.abs(found.astype(np.float64) - wanted).max() / np.abs(wanted).max()
    assert error <= (0 if op == "dot" else 4e-7)


@pytest.mark.parametrize(
    ("type", "arch", "turned", "words"),
    [
        ("int8", "sm_80", "", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
        ("int8", "sm_89", "ab", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
        ("int8", "sm_90", "", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
        ("uint8", "sm_90", "b", 'k32.s32.u8.u8 "\n'),
        ("fp8e4m3fn_type", "sm_80", "", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        ("fp8e4m3fn_type", "sm_89", "b", "cvt.rn.f16x2.e4m3x2"),
        ("fp8e5m2fnuz_type", "sm_90", "ab", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ],
)
def test_each_architecture_has_the_instructions(type: str, arch: str, turned: str, words: str):
    compiler = compiler_for(f"cuda:{arch}")
    (step,) = lower(product(2048, 768, 2304, turned, type), compiler.dialect).kernels
    source = step.launch.kernel.source
    assert words in source
    assert compiler.compile(compiler.dialect.prologue + source, step.launch.kernel.name)


@pytest.mark.parametrize("type", ["int8", "fp8e4m3fn_type"])
def test_channels_of_convolutions_of_bytes_are_last(type: str):
    program = Program()
    x = program.main.add_parameter("x", Shape(type, (1, 8, 6, 6)))
    w = program.main.add_parameter("w", Shape(type, (16, 8, 3, 3)))
    program.main.add_return(program.main.add("quant_convolution", x, w, padding=[1, 1]))
    build = wb.compile(program, "cpu", passes="gpu", record=False)
    (made,) = (i for i in build.program.main if "convolution" in i.op.name)
    assert all(i.shape.strides[1] == 1 for i in made.inputs)


def test_rows_of_constants_begin_where_loads_may_and_terms_are_contiguous_for_warp_groups():
    program = Program()
    x = program.main.add_parameter("x", Shape("int8", (16, 35)))
    values = np.arange(35 * 13, dtype=np.int16).astype(np.int8).reshape(35, 13)
    program.main.add_return(program.main.add("quant_dot", x, program.main.add_literal(values)))
    (flat,) = lower(program, with_matrix_units(80)).literals.values()
    assert np.array_equal(np.resize(flat, 35 * 16).reshape(35, 16)[:, :13], values)
    (flat,) = lower(program, with_matrix_units(90)).literals.values()
    assert np.array_equal(np.resize(flat, 13 * 48).reshape(13, 48)[:, :35].T, values)


def test_constants_that_are_read_as_first_operands_keep_their_rows():
    program = Program()
    both = program.main.add_literal(
        np.arange(32 * 32, dtype=np.int16).astype(np.int8).reshape(32, 32)
    )
    x = program.main.add_parameter("x", Shape("int8", (32, 32)))
    made = [program.main.add("quant_dot", x, both), program.main.add("quant_dot", both, x)]
    program.main.add_return(*made)
    (flat,) = lower(program, with_matrix_units(90)).literals.values()
    assert np.array_equal(flat, np.arange(32 * 32, dtype=np.int16).astype(np.int8))


def test_scaled_operands_keep_their_kernels():
    program = Program()
    shapes = [Shape("int8", (64, 64))] * 2 + [Shape("float", (64, 64))] * 2
    given = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    program.main.add_return(program.main.add("quant_dot", *given))
    assert not any(s.launch.kernel.matrix for s in lower(program, with_matrix_units(90)).kernels)
