"""Movement: margins, pieces, buffers and windows as rows, element by element and several at once."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.variants import computed, expect_close, said
from tests.gpu.emit.agreement import expect_agreement, operands
from tests.gpu.harness import program_of, run_one, run_plan
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import grid, noise
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.attention import ConcatPastPresent, GqaRotaryEmbedding
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.convolve import Im2col
from workbench.compiler.ops.index import Gather, GatherElements, GatherNd
from workbench.compiler.ops.movement import Allocate, Concat, Fill, Pad, PadMode
from workbench.compiler.ops.packing import PackInt4, UnpackInt4
from workbench.compiler.ops.pointwise import Add, Neg, Relu
from workbench.compiler.ops.view import Load
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.fuse.fuse_concat import FuseConcat
from workbench.compiler.passes.fuse.fuse_pointwise import FusePointwise
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device
from workbench.gpu.dialect import Dialect
from workbench.gpu.lowering.lower import lower


@pytest.mark.parametrize("mode", PadMode)
@pytest.mark.parametrize("pads", [(2, 1, 0, 3), (0, -1, 5, 2), (7, 9, 8, 6)])
def test_margins_agree_with_the_reference(mode: PadMode, pads: tuple[int, ...], device: Device):
    expect_agreement(device, Pad(mode=mode, pads=pads, value=1.5), grid(3, 4))
    expect_agreement(device, Pad(mode=mode, pads=pads, value=1.5), grid(4, 3).T)


@pytest.mark.parametrize("type", [np.bool_, np.int8, np.uint64, np.float16])
def test_a_margin_holds_the_nearest_value_that_its_type_has(type: type, device: Device):
    for value in (-3.4e38, 0.0, 7.0, 1e40):
        expect_agreement(device, Pad(pads=(0, 2), value=value), np.ones(3, type))


def test_pieces_without_elements_are_passed_over(device: Device):
    expect_agreement(device, Concat(axis=1), grid(2, 0), grid(2, 3), grid(2, 0), grid(2, 2))


def test_buffers_begin_as_zeros_and_are_filled_with_one_value(device: Device):
    expect_agreement(device, Allocate(shape=Shape("half", (2, 3))))
    expect_agreement(device, Fill(), np.array([2.5], np.float32), grid(2, 3))


@pytest.mark.parametrize("type", ["float", "half", "int64", "double", "fp8e4m3fn_type"])
@pytest.mark.parametrize("offset", [0, 3, 16])
def test_elements_are_put_together_from_bytes_at_any_offset(type: str, offset: int, device: Device):
    given = operands(np.arange(96, dtype=np.uint8))
    op = Load(Shape(type, (2, 3)), offset)
    values, plan = run_one(op, given, device)
    in_place = offset % op.shape.type.size == 0
    assert (len(plan.kernels), plan.host) == (int(not in_place), [])
    np.testing.assert_array_equal(values[0], computed(op, given)[0])


# Several neighbours at once


def with_access(dialect: Dialect, access: int) -> Dialect:
    """Kernels that load so many bytes at once, for a machine that one work item keeps busy."""
    machine = replace(dialect.machine, access=access, units=1, threads=1)
    return replace(dialect, machine=machine)


def accesses(device: Device, op: Operation, *arrays: np.ndarray) -> tuple[int, int]:
    """Vector loads and stores of the one kernel, whose result is the reference's."""
    given = operands(*arrays)
    program: Program = program_of(op, given)
    plan = lower(program, with_access(device.dialect, 16))
    (step,) = plan.kernels
    (found,) = run_plan(plan, {f"x{k}": x for k, x in enumerate(arrays)}, device).values
    (wanted,) = computed(op, given)
    expect_close(found, wanted, wanted.dtype, said(op, given))
    source = step.launch.kernel.source
    loads = source.count("*(GLOBAL const")
    return loads, source.count("*(GLOBAL ") - loads


def along_the_last_axis() -> Iterator[tuple[int, Operation, list[np.ndarray]]]:
    places = np.array([[1, -2], [0, 4]])
    angles = [noise(5, 8), noise(5, 8)]
    yield 3, Concat(axis=1), [noise(8, 16), noise(8, 32), noise(8, 4)]
    yield 3, Concat(axis=0), [noise(8, 16), noise(3, 16), noise(5, 16)]
    yield 2, Concat(axis=1), [noise(8, 16, 8, type=np.float16), noise(8, 3, 8, type=np.float16)]
    yield 1, Pad(pads=(0, 4, 0, 8)), [noise(8, 16)]
    yield 1, Pad(pads=(1, 0, 2, 0)), [noise(8, 16)]
    yield 1, Gather(axis=0), [noise(5, 16), places]
    yield 1, GatherElements(axis=0), [noise(8, 16), np.zeros((4, 16), np.int32)]
    yield 2, GatherNd(), [noise(2, 5, 16), places]
    yield 9, GqaRotaryEmbedding(2, 1), [noise(2, 4, 3, 16), np.array([1, 2]), *angles]
    yield 2, ConcatPastPresent(), [noise(2, 4, 3, 16), np.array([1, 2]), noise(2, 4, 7, 16)]
    yield 2, PackInt4(), [np.ones((8, 128), np.int8)]


@pytest.mark.parametrize(
    ("loads", "op", "arrays"), [pytest.param(*c, id=c[1].name) for c in along_the_last_axis()]
)
def test_pieces_that_begin_at_whole_accesses_are_read_with_them(
    loads: int, op: Operation, arrays: list[np.ndarray], device: Device
):
    assert accesses(device, op, *arrays) == (loads, 1)


@pytest.mark.parametrize(
    ("op", "arrays"),
    [
        (Concat(axis=1), [noise(8, 16), noise(8, 30), noise(8, 6)]),
        (Pad(pads=(1, 1, 2, 3)), [noise(8, 16)]),
        (Im2col(padding=(1, 1)), [noise(1, 4, 8, 8), noise(4, 4, 3, 3)]),
        (UnpackInt4(), [np.arange(128, dtype=np.int8).reshape(2, 64)]),
    ],
)
def test_other_pieces_are_read_one_by_one(op: Operation, arrays: list[np.ndarray], device: Device):
    assert accesses(device, op, *arrays) == (0, 1)


# Elementwise work around pieces


@pytest.mark.parametrize("width", [16, 30])
def test_work_on_pieces_and_on_their_concatenation_is_one_kernel(width: int, device: Device):
    program = Program()
    main = program.main
    x, y = (main.add_parameter(n, Shape("half", (8, k))) for n, k in (("x", width), ("y", 18)))
    z = main.add_parameter("z", Shape("float", (8, width + 18)))
    joined = main.add(Concat(axis=1), main.add(Relu(), x), main.add(Neg(), y))
    main.add_return(main.add(Add(), main.add(Convert(DType.FLOAT), joined), z))
    for one in (FusePointwise(), FuseConcat()):
        run_pass(one, program)
    assert [i.name for i in main if not i.name.startswith("@")] == ["fused_concat"]
    inputs = generated_inputs(program, 0)
    for access in (0, 16):
        plan = lower(program, with_access(device.dialect, access))
        (found,) = run_plan(plan, inputs, device).values
        (wanted,) = run(program, inputs)
        expect_close(found, wanted, np.float32, "fused_concat")
        assert (len(plan.kernels), plan.host) == (1, [])
