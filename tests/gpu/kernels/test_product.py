"""Products as tiles: every layout, type and size; few rows; sums in parts; work before and after; groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.variants import Operand, computed, expect_close, operand, parts, said
from tests.gpu.harness import Ran, program_of, run_program, samples
from tests.gpu.kernels.warps import run_warped
from tests.models import registry
from tests.models.test_models import parse, relative_rms
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import Interpreter
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.lowering.lower import lower

OPERATIONS = all_operations()

WARPS = (0, 32)
"""Kernels as the device wants them, and as those with warps do."""
TYPES = ("float", "double", "half", "bf16", "int8", "uint8", "int32", "int64")
DOT = OPERATIONS["dot"]


def run(program: Program, inputs: dict[str, np.ndarray], device: Device, warp: int) -> Ran:
    if warp:
        return run_warped(program, inputs, device, warp)
    return run_program(program, inputs, device)


def expect_agreement(
    op: Operation, operands: list[Operand], device: Device, warp: int = 0, kernels: int | None = 1
) -> Ran:
    """So many kernels, no host step, and what the reference gives in the order of sums that it has.

    None stands for one kernel, or two where a sum is long enough to be shared; a CPU may copy operands.
    """
    arrays = {f"x{k}": np.asarray(x.array) for k, x in enumerate(operands)}
    ran = run(program_of(op, operands), arrays, device, warp)
    (wanted,) = computed(op, operands)
    may_be = (1, 2, 3) if kernels is None else (kernels,)
    assert len(ran.plan.kernels) in (may_be if wanted.size else (0,))
    assert not ran.plan.host
    found = ran.values[0]
    if found.dtype in (np.float32, np.float64):
        scale = np.abs(wanted).max(initial=0) * np.finfo(found.dtype).eps * 64
        np.testing.assert_allclose(found, wanted, 1e-5, scale, err_msg=said(op, operands))
    else:
        expect_close(found, wanted, found.dtype, said(op, operands))
    return ran


def matrix(type: str, *lens: int, seed: int = 0) -> np.ndarray:
    """Whole numbers in quarters: products and their sums are exact in every type that is drawn."""
    whole = np.random.default_rng(seed).integers(0 if type == "uint8" else -4, 5, lens)
    kind = DType.of(type)
    return (whole / 4 if kind.is_float else whole).astype(kind.numpy)


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("name", ["dot", "quant_dot"])
def test_every_sample_agrees_in_one_kernel(name: str, warp: int, device: Device):
    for op, operands in samples(name):
        expect_agreement(op, operands, device, warp)


LAYOUTS = {
    "plain": lambda x: x,
    "turned": lambda x: np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2),
    "gappy": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
}


@given(
    lens=st.tuples(*[st.integers(1, 70)] * 3),
    batch=st.sampled_from([(), (2,), (2, 3)]),
    type=st.sampled_from(TYPES),
    layouts=st.tuples(*[st.sampled_from(sorted(LAYOUTS))] * 2),
    warp=st.sampled_from(WARPS),
)
@settings(max_examples=12, deadline=None)
def test_products_of_any_size_type_and_layout_agree(
    lens: tuple[int, int, int],
    batch: tuple[int, ...],
    type: str,
    layouts: tuple[str, str],
    warp: int,
    device: Device,
):
    m, n, k = lens
    a, b = matrix(type, *batch, m, k), matrix(type, *batch, k, n, seed=1)
    laid = [LAYOUTS[how](x) for how, x in zip(layouts, (a, b), strict=True)]
    expect_agreement(DOT(), [operand(x) for x in laid], device, warp, kernels=None)


@pytest.mark.parametrize(("m", "n"), [(1, 700), (3, 515), (515, 1), (130, 200)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("warp", WARPS)
def test_products_of_several_tiles_agree(m: int, n: int, turned: bool, warp: int, device: Device):
    a, b = matrix("float", m, 40), matrix("float", 40, n, seed=1)
    given = [np.asfortranarray(x) if turned else x for x in (a, b)]
    expect_agreement(DOT(), [operand(x) for x in given], device, warp, kernels=None)


@pytest.mark.parametrize(("m", "n"), [(2, 5), (20, 9), (33, 40)])
def test_long_sums_in_few_tiles_are_shared_and_added_in_order(m: int, n: int, device: Device):
    noise = np.random.default_rng(0).standard_normal
    given = [operand(noise(lens).astype(np.float32)) for lens in ((m, 1100), (1100, n))]
    first, second = (expect_agreement(DOT(), given, device, 32, kernels=2) for _ in range(2))
    assert first.values[0].tobytes() == second.values[0].tobytes()


def test_a_product_of_no_terms_is_zero(device: Device):
    given = [operand(np.ones(lens, np.float32)) for lens in ((3, 0), (0, 4))]
    expect_agreement(DOT(), given, device)


@pytest.mark.parametrize("spec", ["cuda:sm_90", "hip:gfx90a"])
@pytest.mark.parametrize("name", ["dot", "quant_dot", "convolution", "quant_convolution"])
def test_sources_are_legal_in_every_dialect(name: str, spec: str):
    try:
        compiler = compiler_for(spec)
        assert compiler is not None
        for op, operands in samples(name):
            for step in lower(program_of(op, operands), compiler.dialect).kernels:
                kernel = step.launch.kernel
                compiler.compile(compiler.dialect.prologue + kernel.source, kernel.name)
    except DeviceError as error:
        if "does not compile" in str(error):
            raise
        pytest.skip(str(error))


# Groups


def values(shape: Shape) -> np.ndarray:
    """Noise, repeated where the shape repeats it."""
    own = [n if s else 1 for n, s in zip(shape.lens, shape.strides, strict=True)]
    noise = np.random.default_rng(0).standard_normal(own).astype(shape.type.numpy)
    return np.broadcast_to(noise, shape.lens)


class Grouped:
    """A program whose one instruction is a group, and its body."""

    def __init__(self, tag: str, *shapes: Shape) -> None:
        self.program, self.tag = Program(), tag
        self.body = self.program.create_module("body", bypass=True)
        self.inputs = [self.program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
        self.parameters = [
            self.body.add_parameter(f"x{k}", Shape(s.type, s.lens)) for k, s in enumerate(shapes)
        ]

    def __call__(self, name: str, *inputs: Instruction, **attributes: object) -> Instruction:
        return self.body.add(OPERATIONS[name](**attributes), *inputs)

    def ran(self, device: Device, warp: int, *results: Instruction) -> Ran:
        self.body.add_return(*results)
        op = OPERATIONS["group"](tag=self.tag)
        main = self.program.main
        main.add_return(main.add(op, *self.inputs, modules=[self.body]))
        given = {f"x{k}": values(i.shape) for k, i in enumerate(self.inputs)}
        ran = run(self.program, given, device, warp)
        wanted = [p for v in Interpreter(self.program).run(given) for p in parts(v)]
        for found, one in zip(ran.values, wanted, strict=True):
            np.testing.assert_allclose(found, one, 1e-4, 1e-4)
        assert ran.plan.host == []
        return ran


def expect_one(ran: Ran, device: Device, warp: int) -> None:
    """One kernel, and on a CPU at most one more, which copies an operand into panels."""
    *before, _ = (s.launch.kernel.name for s in ran.plan.kernels)
    assert len(before) <= (device.dialect.machine.is_cpu and not warp)
    assert all("panels" in name for name in before)


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("rows", [3, 37])
def test_work_after_and_before_a_product_is_in_its_kernel(rows: int, warp: int, device: Device):
    row = Shape("float", (2, rows, 20), (0, 0, 1))
    g = Grouped("dot", Shape("float", (2, rows, 24)), Shape("float", (2, 24, 20)), row)
    x, y, bias = g.parameters
    total = g("add", g("dot", g("tanh", x), y), bias)
    expect_one(g.ran(device, warp, g("relu", total), total), device, warp)


@pytest.mark.parametrize("warp", WARPS)
def test_views_around_a_product_move_no_memory(warp: int, device: Device):
    g = Grouped("dot", Shape("float", (2, 12, 3, 8)), Shape("float", (2, 3, 8, 20)))
    x, y = g.parameters
    product = g("dot", g("transpose", x, permutation=(0, 2, 1, 3)), y)
    turned = g("transpose", product, permutation=(0, 2, 1, 3))
    flat = g("reshape", turned, dims=(2, 12, 60))
    expect_one(g.ran(device, warp, g("relu", flat)), device, warp)


def test_two_products_in_a_group_are_two_kernels(device: Device):
    g = Grouped("dot", *[Shape("float", (9, 9))] * 3)
    x, y, z = g.parameters
    first = g("relu", g("dot", x, y))
    assert len(g.ran(device, 0, g("tanh", g("dot", first, z))).plan.kernels) == 3


def test_a_group_of_any_tag_is_lowered_part_by_part(device: Device):
    g = Grouped("something", Shape("float", (9, 12)), Shape("float", (12, 7)))
    x, y = g.parameters
    scores = g("mul", g("dot", x, y), g("dot", x, y))
    top = g("multibroadcast", g("reduce_max", scores, axes=(1,)), out_lens=(9, 7))
    g.ran(device, 0, g("sub", scores, top), x, scores)


def test_results_and_tables_of_a_group_that_no_part_computes_are_copied(device: Device):
    g = Grouped("something", Shape("float", (4, 5)))
    table = g.body.add_literal(np.arange(20, dtype=np.float32).reshape(4, 5))
    (x,) = g.parameters
    turned = g("transpose", x, permutation=(1, 0))
    g.ran(device, 0, turned, table, g("add", x, table))


@pytest.mark.parametrize("name", ["small_encoder", "small_cnn"])
def test_the_groups_of_models_have_kernels(name: str, device: Device):
    model = registry.MODELS[name]
    inputs = model.inputs()
    program = wb.compile(parse(model, inputs), "cpu", passes="gpu").program
    ran = run_program(program, inputs, device)
    wanted = [p for v in Interpreter(program).run(inputs) for p in parts(v)]
    assert ran.plan.host == []
    for found, one in zip(ran.values, wanted, strict=True):
        assert relative_rms(found, one) < 1e-5
