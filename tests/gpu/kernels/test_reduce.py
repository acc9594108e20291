"""Reductions: every layout and type; rows shared by work items, and by blocks; bodies as one kernel."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.variants import Operand, cases, computed, expect_close, said
from tests.gpu.harness import Ran, program_of, run_all, run_plan, run_program
from tests.gpu.kernels.reduced_bodies import BODIES, layer_norm, softmax
from tests.gpu.kernels.reduced_bodies import given as program_given
from tests.gpu.kernels.warps import run_warped, warped, with_kernels, with_shuffles
from tests.models.registry import MODELS
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation, all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import draw
from workbench.gpu.choices import Choices
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import CUDA, OPENCL, Dialect
from workbench.gpu.lowering.lower import lower
from workbench.gpu.machine import Machine

OPERATIONS = all_operations()

some = settings(max_examples=20, deadline=None, derandomize=True)
REDUCTIONS = [n for n, op in OPERATIONS.items() if op.monoid is not None]
NAMES = [*REDUCTIONS, "softmax", "logsoftmax"]
TYPES = [
    DType.FLOAT, DType.HALF, DType.BF16, DType.DOUBLE, DType.INT32, DType.INT8, DType.UINT8, DType.INT64,
    DType.BOOL, DType.FP8E4M3FN,
]  # fmt: skip
AS_IT_IS = -1
WARPS = [AS_IT_IS, 0, 32, 64]
"""Kernels as the device has them, and as GPUs do: by halves in shared memory, and by shuffles."""
FEW = [AS_IT_IS, 32]
"""Those that differ most, where others would take long to compile."""


def run(program: Program, inputs: dict[str, np.ndarray], device: Device, warp: int) -> Ran:
    if warp == AS_IT_IS:
        return run_program(program, inputs, device)
    return run_warped(program, inputs, device, warp)


def expect_agreement(
    op: Operation, x: np.ndarray, device: Device, warp: int = AS_IT_IS, kernels: int | None = 1
) -> Ran:
    operand = Operand(x, DType.of(x.dtype))
    return expect_of(op, operand, run(program_of(op, [operand]), {"x0": x}, device, warp), kernels)


def expect_of(op: Operation, operand: Operand, ran: Ran, kernels: int | None = 1) -> Ran:
    """Expects the reference's values from so many kernels; None: a second one may join split rows."""
    wanted = computed(op, [operand])[0]
    may_be = (1, 2) if kernels is None else (kernels,)
    assert len(ran.plan.kernels) in may_be, said(op, [operand])
    assert not ran.plan.host, said(op, [operand])
    expect_close(ran.values[0], wanted, wanted.dtype, said(op, [operand]))
    return ran


def reducing(name: str, axes: tuple[int, ...], last: bool = False) -> Operation:
    kind = OPERATIONS[name]
    if name.startswith("arg"):
        return kind(axis=axes[0], select_last_index=last)
    return kind(axes=axes) if name.startswith("reduce") else kind(axis=axes[0])


def in_quarters(x: np.ndarray, op: Operation) -> np.ndarray:
    """Whole quarters, whose sums are exact in any order; a product stays near one instead."""
    if x.dtype.kind in "biu":
        return x
    if op.name == "reduce_prod":
        return (1 + x / 300).astype(x.dtype)
    return (np.round(x * 4) / 4).astype(x.dtype)


@st.composite
def reductions(draw_: st.DrawFn) -> tuple[Operation, np.ndarray]:
    lens = draw_(st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 33, 40]), min_size=1, max_size=4))
    while np.prod(lens) > 20000:
        lens[lens.index(max(lens))] = 2
    axes = draw_(st.lists(st.sampled_from(range(len(lens))), min_size=1, unique=True))
    op = reducing(draw_(st.sampled_from(NAMES)), tuple(axes), draw_(st.booleans()))
    order = draw_(st.permutations(range(len(lens))))
    type = draw_(st.sampled_from(TYPES))
    x = in_quarters(draw(type, [lens[a] for a in order], -3, 3, 5), op)
    x = x.transpose(np.argsort(order))
    return op, np.repeat(x, 2, axis=-1)[..., ::2] if draw_(st.booleans()) else x


# Values


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_one_kernel_each(name: str, device: Device):
    uses = [(op, operands) for op, operands in cases(name) if len(operands) == 1]
    for (op, (operand,)), ran in zip(uses, run_all(uses, device), strict=True):
        expect_of(op, operand, ran)


@some
@given(case=reductions())
def test_reductions_agree_with_the_reference(case: tuple[Operation, np.ndarray], device: Device):
    expect_agreement(*case, device, kernels=None)


@settings(some, max_examples=12)
@given(case=reductions(), warp=st.sampled_from(WARPS[1:]))
def test_work_items_of_a_row_agree_with_the_reference(
    case: tuple[Operation, np.ndarray], warp: int, device: Device
):
    expect_agreement(*case, device, warp, kernels=None)


@pytest.mark.parametrize("warp", FEW)
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min", "argmax", "argmin", "reduce_sum"])
@pytest.mark.parametrize(("lens", "axis"), [((3, 300), 1), ((300, 3), 0)])
def test_nan_and_infinities_are_what_the_reference_makes_of_them(
    name: str, lens: tuple[int, ...], axis: int, warp: int, device: Device
):
    x = draw(DType.FLOAT, lens, -3, 3, 1)
    rows = np.moveaxis(x, axis, -1)
    rows[0, [70, 200]] = np.nan
    rows[1, [5, 250]] = np.inf
    rows[1, 100] = -np.inf
    expect_agreement(reducing(name, (axis,)), x, device, warp)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("warp", FEW)
def test_of_equal_extremes_the_first_or_the_last_is_taken(last: bool, warp: int, device: Device):
    x = np.zeros((2, 3000), np.float16)
    x[1, [10, 1500, 2999]] = 1
    ran = expect_agreement(reducing("argmax", (1,), last), x, device, warp)
    assert ran.values[0].ravel().tolist() == ([2999, 2999] if last else [0, 10])


def test_rows_without_elements_give_what_the_reference_gives(device: Device):
    for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all"):
        expect_agreement(reducing(name, (1,)), np.zeros((3, 0), np.float32), device)


def test_axes_that_are_only_known_in_a_run_are_left_to_the_host(device: Device):
    program, m, (x, axes) = program_given(Shape("float", (2, 3)), Shape("int64", (1,)))
    m.add_return(m.add("reduce_sum", x, axes))
    assert [i.name for i in lower(program, device.dialect).host] == ["reduce_sum"]


# Rows that are split among blocks


@pytest.mark.parametrize("warp", FEW)
@pytest.mark.parametrize("name", ["reduce_mean", "reduce_max", "reduce_any", "argmin"])
@pytest.mark.parametrize(("lens", "axis"), [((1, 200_000), 1), ((50_000, 6), 0), ((60_000, 64), 0)])
def test_few_long_rows_are_two_kernels(
    name: str, lens: tuple[int, ...], axis: int, warp: int, device: Device
):
    x = draw(DType.FLOAT, lens, -1, 1, 3)
    if name == "reduce_mean":
        x = np.rint(x * 8)  # sums that are exact in whatever order
    expect_agreement(reducing(name, (axis,)), x, device, warp, kernels=2)


def test_a_sum_in_parts_is_the_same_every_time(device: Device):
    x = draw(DType.FLOAT, (1, 300_000), -1, 1, 3)
    op = reducing("reduce_sum", (1,))
    first, second = (expect_agreement(op, x, device, 32, kernels=2).values[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_two_sums_that_are_split_together_are_two_kernels(device: Device):
    program, m, (x,) = program_given(Shape("float", (2, 90_000)))
    body = program.create_module("body", bypass=True)
    p = body.add_parameter("p", x.shape)
    sums = [body.add("reduce_sum", y, axes=(1,)) for y in (p, body.add("mul", p, p))]
    body.add_return(*sums)
    split = m.add("split_fused_reduce", x, modules=[body], axes=(1,), assign="assign_add")
    m.add_return(*[m.add("get_tuple_elem", split, index=k) for k in range(2)])
    array = np.rint(draw(DType.FLOAT, (2, 90_000), -4, 4, 1))
    for warp in FEW:
        values, plan = run(program, {"x0": array}, device, warp)
        assert (len(plan.kernels), plan.host) == (2, [])
        for found, of in zip(values, (array, array**2), strict=True):
            np.testing.assert_array_equal(found, of.sum(1, keepdims=True))


# Bodies


def fused(program: Program) -> Program:
    return wb.compile(program, "cpu", passes="gpu").program


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("type", "warp"),
    [(DType.FLOAT, AS_IT_IS), (DType.FLOAT, 64), (DType.HALF, AS_IT_IS), (DType.HALF, 32)],
)
def test_bodies_are_one_kernel(name: str, type: DType, warp: int, device: Device):
    make, lens = BODIES[name]
    program = make(type, lens)
    inputs = generated_inputs(program)
    values, plan = run(fused(program), inputs, device, warp)
    assert (len(plan.kernels), plan.host) == (1, [])
    wanted = wb.compile(program, "ref").run(inputs)[0]
    tolerance = 1e-5 if type is DType.FLOAT else 4e-3
    scale = float(np.abs(wanted.astype(np.float64)).max())
    np.testing.assert_allclose(
        values[0].astype(np.float64), wanted.astype(np.float64), tolerance, tolerance * scale
    )


def test_reductions_over_other_axes_than_the_first_ones_are_still_a_kernel(device: Device):
    program, m, (x,) = program_given(Shape("float", (4, 50)))
    body = program.create_module("body", bypass=True)
    sums = body.add("reduce_sum", body.add_parameter("p", x.shape), axes=(1,))
    body.add_return(body.add("reduce_max", sums, axes=(0,)))
    m.add_return(m.add("fused_reduce", x, modules=[body], axes=(1,)))
    array = np.rint(draw(DType.FLOAT, (4, 50), -4, 4, 1))
    values, plan = run_program(program, {"x0": array}, device)
    assert (len(plan.kernels), plan.host) == (1, [])
    assert values[0].item() == array.sum(1).max()


@pytest.mark.parametrize("name", ["small_encoder", "small_decoder", "small_cnn"])
@pytest.mark.parametrize("dialect", [OPENCL, CUDA, warped(64)], ids=lambda d: d.name)
def test_every_fused_reduction_of_a_model_is_one_kernel(name: str, dialect):
    program = fused(wb.parse_onnx(MODELS[name].path, default_dim_value=1))
    plan = lower(program, dialect)
    wanted = [i for i in program.main if i.name == "fused_reduce"]
    assert wanted
    assert [s.instruction for s in plan.kernels if s.instruction.name == "fused_reduce"] == wanted
    assert not [i for i in plan.host if i.name == "fused_reduce"]


# Sources


@pytest.mark.parametrize(("make", "others"), [(softmax, 0), (layer_norm, 2)])
def test_rows_that_fit_registers_are_read_once(make, others: int):
    program, seen = fused(make(DType.HALF, (8192, 4096))), set[int]()
    for problem, texts in offered(program, CUDA).items():
        assert len(set(texts)) == len(texts)
        for text in texts:
            (step,) = lower(program, CUDA, Choices({problem: text})).kernels
            source, lanes = step.launch.kernel.source, int(text.split()[0])
            assert "for (" not in source
            vectors = 4096 // 8 // lanes
            assert source.count("= *(GLOBAL const u16x8 *)") == vectors * (1 + others)
            assert source.count("*(GLOBAL u16x8 *)") == vectors
            seen.add(lanes)
    assert seen == {32, 64, 128, 256}


def offered(program: Program, dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """The tilings of each reduction."""
    choices = Choices()
    lower(program, dialect, choices)
    return choices.offers


@pytest.mark.parametrize("columns", [2000, 2048])
@pytest.mark.parametrize("make", [softmax, layer_norm])
def test_every_tiling_gives_the_same(make, columns: int, device: Device):
    if device.kind != "opencl":
        pytest.skip("a larger device shares so few rows in one way only")
    small = replace(warped(32), machine=Machine(warp=32, units=1, threads=256))
    program = fused(make(DType.HALF, (24, columns)))
    inputs = generated_inputs(program)
    wanted = wb.compile(program, "ref").run(inputs)[0].astype(np.float64)
    ((problem, texts),) = offered(program, small).items()
    assert len(texts) > 2
    for text in texts:
        plan = lower(program, small, Choices({problem: text}))
        (found,) = run_plan(with_kernels(plan, with_shuffles), inputs, device).values
        np.testing.assert_allclose(found.astype(np.float64), wanted, 4e-3, 4e-3 * wanted.max())


def test_rows_without_a_result_for_each_element_have_one_tiling():
    assert not offered(one("reduce_sum", (1,), Shape("half", (8192, 4096))), CUDA)
    assert not offered(fused(softmax(DType.HALF, (8192, 4096))), OPENCL)


def one(name: str, axes: tuple[int, ...], shape: Shape) -> Program:
    program, m, (x,) = program_given(shape)
    m.add_return(m.add(reducing(name, axes), x))
    return program


def test_neighbouring_work_items_take_neighbouring_rows_where_those_lie_side_by_side():
    (step,) = lower(one("reduce_sum", (0,), Shape("float", (64, 1 << 18))), CUDA).kernels
    assert "*(GLOBAL const f32x4 *)(x0 + 4 * g1" in step.launch.kernel.source


def test_equal_work_has_one_source_whatever_else_the_program_computes():
    program = one("reduce_max", (1,), Shape("double", (5, 9)))
    more, m, (x,) = program_given(Shape("double", (5, 9)))
    m.add_return(m.add("reduce_max", m.add("exp", x), axes=(1,)))
    names = [lower(p, OPENCL).kernels[-1].launch.kernel.name for p in (program, more)]
    assert names[0] == names[1]
