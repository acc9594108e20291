"""Products, convolutions and attention on matrix units: layouts, lengths, types, and what is past the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.kernels.matrix_units import run_on_matrix_units, with_matrix_units
from tests.gpu.kernels.test_attention import Net, compiled
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.report.timings import DEVICE
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.kernels import bulk, matrix, warpgroup
from workbench.gpu.lowering.lower import lower
from workbench.gpu.report.timings import Taken, rows_of

TOLERANCE = {"half": 2e-3, "bf16": 1.6e-2, "float": 4e-7}


def drawn(program: Program) -> dict[str, Any]:
    """Inputs of a program, about normally distributed."""
    values = np.random.default_rng(5)
    return {
        name: values.standard_normal(i.shape.lens).astype(i.shape.type.numpy)
        for name, i in sorted(program.main.parameters.items())
    }


def product(
    m: int, k: int, n: int, turned: str = "", type: str = "half", batch: Sequence[int] = ()
) -> Program:
    """A product; the operands that are named in `turned` are transposed views."""
    program = Program()
    operands: list[Any] = []
    for name, (rows, columns) in {"a": (m, k), "b": (k, n)}.items():
        flip = name in turned
        lens = (*batch, *((columns, rows) if flip else (rows, columns)))
        x = program.main.add_parameter(name, Shape(type, lens))
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        operands.append(program.main.add("transpose", x, permutation=order) if flip else x)
    program.main.add_return(program.main.add("dot", *operands))
    return program


@contextmanager
def planned(blocking: matrix.Blocking, parts: int = 1) -> Iterator[None]:
    """Every product has this blocking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "plans_for", lambda *_: [matrix.Plan(blocking, parts)])
        yield


def expect(program: Program, device: Device, capability: int, tolerance: float) -> None:
    """The kernels give what the reference gives in double precision."""
    inputs = drawn(program)
    ran = run_on_matrix_units(program, inputs, device, capability)
    build = wb.compile(program, "ref", record=False)
    wanted = np.asarray(build.run(inputs, precision="float64")[0]).astype(np.float64)
    found = np.asarray(ran.values[0]).astype(np.float64).reshape(wanted.shape)
    assert any(s.launch.kernel.matrix for s in ran.plan.kernels)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    scale = np.nanmax(np.abs(wanted))
    assert np.nanmax(np.abs(found - wanted), initial=0.0) <= tolerance * scale


WARPS = matrix.Blocking(32, 32, 64, 16, 16, 4, 0.35)
SQUARE = matrix.Blocking(64, 64, 64, 32, 32, 4, 0.67)
TEAMS = bulk.Blocking(64, 64, 64, 64, 64, 1, 0.2, 4, 4, bulk=True, teams=2)
TOGETHER = bulk.Blocking(128, 128, 64, 64, 128, 1, 0.5, 3, 4, bulk=True)
MANY = bulk.Blocking(128, 192, 64, 128, 192, 1, 0.6, 2, 4, bulk=True, teams=2)
FLOATS = matrix.Blocking(32, 32, 32, 16, 16, 4, 0.8, size=4)
GROUP = warpgroup.Blocking(64, 64, 64, 64, 64, 3, 0.39, 3, 4)
WIDE = warpgroup.Blocking(128, 128, 64, 64, 128, 1, 0.43, 3, 4)


@pytest.mark.parametrize(
    ("blocking", "lens", "turned", "type"),
    [
        (WARPS, (40, 72, 40), "", "half"),  # not a whole number of tiles, eight columns at once
        (WARPS, (33, 77, 50), "a", "bf16"),  # rows that loads of 16 bytes cannot take, two columns
        (SQUARE, (70, 64, 33), "b", "half"),  # an odd number of columns: rows at once
        (GROUP, (70, 200, 72), "", "half"),
        (GROUP, (64, 130, 64), "a", "half"),
        (GROUP, (66, 72, 65), "b", "bf16"),
        (WIDE, (130, 64, 128), "ab", "half"),
        (TEAMS, (70, 200, 72), "", "half"),
        (TEAMS, (72, 136, 64), "ab", "bf16"),
        (TEAMS, (66, 72, 65), "b", "half"),  # an odd number of columns, through memory of its own
        (MANY, (130, 64, 200), "", "half"),
        (TOGETHER, (136, 192, 128), "ab", "half"),
        (FLOATS, (40, 72, 40), "", "float"),
        (FLOATS, (33, 77, 50), "a", "float"),
        (FLOATS, (35, 40, 33), "b", "float"),
        (FLOATS, (32, 36, 36), "ab", "float"),
    ],
)
def test_a_product_is_right_in_every_layout(blocking, lens, turned, type, device: Device):
    with planned(blocking):
        capability = warpgroup.CAPABILITY if blocking.warps > 1 else 80
        expect(product(*lens, turned, type), device, capability, TOLERANCE[type])


def test_blocks_go_on_to_further_parts(device: Device, monkeypatch):
    monkeypatch.setattr(bulk, "UNITS", 4)
    with planned(TEAMS):
        plan = lower(product(200, 64, 136), with_matrix_units(warpgroup.CAPABILITY))
        assert plan.kernels[0].launch.kernel.grid[0] == 4
        expect(product(200, 64, 136), device, warpgroup.CAPABILITY, TOLERANCE["half"])


@pytest.mark.parametrize(("blocking", "type"), [(WARPS, "half"), (FLOATS, "float")])
def test_parts_of_long_sums_are_added_up(blocking, type, device: Device):
    with planned(blocking, 3):
        expect(product(20, 700, 24, type=type, batch=(2,)), device, 80, TOLERANCE[type])


def test_a_product_of_floats_is_ieee_at_the_ends_of_the_range(device: Device):
    values = np.random.default_rng(3)
    a, b = (values.standard_normal(lens).astype(np.float32) for lens in ((20, 40), (40, 24)))
    a[0, 3], a[1, 5], a[2, 7] = np.inf, -np.inf, np.nan
    b[3, 1], b[5, 4] = 0, np.inf
    a[:, 9] = b[9] = 0
    a[4, 9], b[9, 0] = 1e-38, np.finfo(np.float32).max  # rounded up, it would be infinite
    ran = run_on_matrix_units(product(20, 40, 24, type="float"), {"a": a, "b": b}, device, 80)
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(np.asarray(ran.values[0]).reshape(20, 24), wanted, 1e-4, 1e-5)


def by_weights(*lens: int, columns: int = 72) -> Program:
    """A product with a constant, which all matrices of the batch share."""
    program, values = Program(), np.random.default_rng(7)
    x = program.main.add_parameter("a", Shape("half", lens))
    weights = values.standard_normal((lens[-1], columns)).astype(np.float16)
    y = program.main.add_literal(weights)
    if lens[:-2]:
        y = program.main.add("multibroadcast", y, out_lens=(*lens[:-2], lens[-1], columns))
    program.main.add_return(program.main.add("dot", x, y))
    return program


@pytest.mark.parametrize("blocking", [TEAMS, TOGETHER], ids=str)
def test_a_product_with_constants_that_are_loaded_early_is_right(blocking, device: Device):
    with planned(blocking):
        expect(by_weights(130, 72), device, warpgroup.CAPABILITY, TOLERANCE["half"])


@pytest.mark.parametrize(("program", "copies"), [(by_weights(64, 72), 1), (product(64, 72, 64), 0)])
def test_only_constants_are_loaded_before_other_kernels_have_ended(program: Program, copies: int):
    with planned(TOGETHER):
        plan = lower(program, with_matrix_units(warpgroup.CAPABILITY))
    (step,) = plan.kernels
    body = step.launch.kernel.source.partition("KERNEL(")[2]
    before, *after = body.split("AFTER_OTHERS();")
    assert before.count("copy_tile_2(") == copies
    assert len(after) == 2  # the warp that loads, and those that multiply
    assert "y2[" not in before


@pytest.mark.parametrize(
    ("program", "capability", "last"),
    [
        # Long: when its sums are there.
        (product(256, 4096, 256, type="float"), 80, "COPIES_WAIT("),
        (product(16, 64, 16, type="float"), 80, None),
        (product(1024, 4096, 1024), 80, "COPIES_WAIT("),
        (product(16, 64, 16), 80, None),
        (product(64, 72, 64), warpgroup.CAPABILITY, "copy_tile_2("),  # when all is asked for
    ],
)
def test_the_next_kernel_begins_when_it_takes_nothing_from_this_one(
    program: Program, capability: int, last: str | None
):
    plan = lower(program, with_matrix_units(capability))
    (source,) = (s.launch.kernel.source for s in plan.kernels if s.launch.kernel.matrix)
    before, after = source.partition("KERNEL(")[2].split("NEXT_MAY_BEGIN();")
    if last is None:
        assert "AFTER_OTHERS();" not in before
    else:
        assert last in before
        assert last not in after


@pytest.mark.parametrize("lens", [(50, 72), (3, 50, 72)])
def test_columns_of_constants_are_contiguous_for_instructions_of_four_warps(lens, device: Device):
    program = by_weights(*lens, columns=70)
    weights = next(i.literal for i in program.main if i.literal is not None).numpy()
    plan = lower(program, with_matrix_units(warpgroup.CAPABILITY))
    (flat,) = plan.literals.values()
    assert np.array_equal(flat.reshape(70, 72), weights.T)
    assert not any(step.launch.schedule == "elementwise" for step in plan.kernels)
    expect(program, device, warpgroup.CAPABILITY, TOLERANCE["half"])


def test_matrices_that_share_constants_are_one_product(device: Device):
    program = by_weights(3, 50, 72)
    plan = lower(program, with_matrix_units(warpgroup.CAPABILITY))
    assert [s.launch.problem.split(",")[0] for s in plan.kernels] == ["dot half 150x72x72"]
    expect(program, device, warpgroup.CAPABILITY, TOLERANCE["half"])


def test_columns_past_a_slice_are_not_part_of_the_sums(device: Device):
    program = Program()
    a = program.main.add_parameter("a", Shape("half", (20, 80)))
    b = program.main.add_parameter("b", Shape("half", (77, 24)))
    cut = program.main.add("slice", a, axes=[1], starts=[0], ends=[77])
    program.main.add_return(program.main.add("dot", cut, b))
    expect(program, device, 80, TOLERANCE["half"])


def test_elements_out_of_order_between_the_ends_of_a_load_are_not_copied_as_they_are(
    device: Device,
):
    program = Program()
    x = program.main.add_parameter("x", Shape("half", (20, 8, 2, 2, 2)))
    turned = program.main.add("transpose", x, permutation=(0, 1, 3, 2, 4))  # 0 1 4 5 2 3 6 7
    a = program.main.add("reshape", turned, dims=(20, 64))
    b = program.main.add_parameter("b", Shape("half", (64, 24)))
    program.main.add_return(program.main.add("dot", a, b))
    expect(compiled(program), device, 80, TOLERANCE["half"])


@pytest.mark.parametrize("channels", [16, 3])
def test_a_convolution_is_right_at_its_padding(channels: int, device: Device):
    program = Program()
    lens = (2, channels, 7, 8)
    last = Shape.permuted("half", lens, (0, 2, 3, 1))
    x = program.main.add_parameter("x", last)
    w = program.main.add_parameter("w", Shape.permuted("half", (24, channels, 3, 3), (0, 2, 3, 1)))
    attributes: dict[str, Any] = {"padding": [1] * 4, "stride": [2, 1], "dilation": [1, 1]}
    y = program.main.add("convolution", x, w, **attributes)
    program.main.add_return(program.main.add("relu", y))
    expect(program, device, 80, TOLERANCE["half"])


def test_attention_masks_rows_and_keys_past_the_last_tile(device: Device):
    net = Net("half", b=1, h=2, m=70, n=77, d=24, e=40)
    weights = net.main.add("softmax", net.causal(net.scaled(net.scores())), axis=3)
    net.done(net.product(net.guarded(weights)))
    expect(compiled(net.program), device, 80, 3 * TOLERANCE["half"])


def long(device: Device, length: int) -> int:
    """A length, several times as long on a GPU: where its work is written out, no tile replaces another."""
    return length if device.kind == "opencl" else 9 * length


def test_attention_of_groups_of_warps_skips_what_a_causal_mask_hides(device: Device):
    m, n = long(device, 140), long(device, 150)
    net = Net("bf16", b=1, h=2, m=m, n=n, d=24, e=72)
    net.done(net.output(net.causal(net.scaled(net.scores()))))
    expect(compiled(net.program), device, 90, 3 * TOLERANCE["bf16"])


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("hides", [False, True])
def test_only_a_mask_that_is_causal_is_not_loaded(hides: bool, hole: bool, device: Device):
    net = Net("half", b=1, h=2, m=40, n=45, d=16, e=32)
    seen = np.tril(np.ones((net.m, net.n), bool), 3)
    seen[7, 1] = not hole
    wide = net.main.add("multibroadcast", net.main.add_literal(seen ^ hides), out_lens=net.lens)
    sides = [net.scaled(net.scores()), net.constant(-np.inf)]
    scores = net.main.add("where", wide, *(sides[::-1] if hides else sides))
    program = compiled(net.done(net.output(scores)).program)
    expect(program, device, 80, 3 * TOLERANCE["half"])
    (step,) = lower(program, with_matrix_units(80)).kernels
    assert len(step.launch.arguments) == (5 if hole else 4)


def test_attention_of_groups_of_warps_computes_other_scores_and_guards(device: Device):
    net = Net("half", b=1, h=2, m=70, n=long(device, 141), d=72, e=40)
    weights = net.main.add("softmax", net.masked(net.scaled(net.scores())), axis=3)
    net.done(net.product(net.guarded(weights)))
    expect(compiled(net.program), device, 90, 3 * TOLERANCE["half"])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_each_architecture_gets_its_own_instructions(arch: str):
    compiler = compiler_for(f"cuda:{arch}")
    plan = lower(product(2048, 768, 768), compiler.dialect)
    (step,) = plan.kernels
    source = step.launch.kernel.source
    assert ("wgmma" in source, "mma.sync" in source) == (arch == "sm_90", arch != "sm_90")
    assert compiler.compile(compiler.dialect.prologue + source, step.launch.kernel.name)


def test_channels_of_half_convolutions_are_last_and_those_of_float_are_not():
    for type, last in (("half", True), ("float", False)):
        program = Program()
        x = program.main.add_parameter("x", Shape(type, (1, 8, 6, 6)))
        w = program.main.add_parameter("w", Shape(type, (16, 8, 3, 3)))
        program.main.add_return(program.main.add("convolution", x, w, padding=[1, 1]))
        build = wb.compile(program, "cpu", passes="gpu", record=False)
        (made,) = (i for i in build.program.main if "convolution" in i.op.name)
        assert [i.shape.strides[1] == 1 for i in made.inputs] == [last, last]
        assert build.program.main.outputs[0].shape.standard


def test_rows_of_a_constant_begin_where_loads_may():
    program = Program()
    x = program.main.add_parameter("x", Shape("half", (16, 32)))
    values = np.arange(32 * 13, dtype=np.float16).reshape(32, 13)
    program.main.add_return(program.main.add("dot", x, program.main.add_literal(values)))
    for capability, row in ((80, 16), (0, 13)):
        (flat,) = lower(program, with_matrix_units(capability)).literals.values()
        rows = np.resize(flat, 32 * row).reshape(32, row)
        assert np.array_equal(rows[:, :13], values)


def test_other_types_and_devices_keep_their_kernels():
    for program, capability in ((product(64, 64, 64, type="double"), 90), (product(64, 64, 64), 0)):
        plan = lower(program, with_matrix_units(capability))
        assert not any(s.launch.kernel.matrix for s in plan.kernels)


@pytest.mark.parametrize(
    ("type", "capability", "units"),
    [
        ("double", 80, "f64"),
        ("float", 80, "matrix f32"),
        ("half", 80, "matrix"),
        ("int8", 90, "matrix i8"),
        ("fp8e5m2_type", 80, "matrix"),
        ("half", 0, "f32"),
    ],
)
def test_a_kernel_is_held_against_the_peak_of_its_units(type, capability, units):
    plan = lower(product(64, 64, 64, type=type), with_matrix_units(capability))
    taken = Taken.of(len(plan.steps))
    taken.steps[0].append(1e-6)
    taken.launches[0].append(1e-6)
    (row,) = (row for row in rows_of(plan, taken) if row.where == DEVICE)
    assert row.type == units
