"""Values without dimensions: a shape of their own, through text, files, every operation and every target."""

import os
from collections.abc import Sequence

import numpy as np
import pytest

import workbench as wb
from tests.compiler.ops.test_operations import POINTWISE
from tests.compiler.variants import (
    Operand,
    cases,
    computed,
    expect_close,
    inferred,
    operand,
    said,
    shapes,
)
from tests.gpu.harness import as_built
from workbench.compiler.errors import ShapeError
from workbench.compiler.files.mxr import files as mxr
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.text.parsing import parse
from workbench.gpu.devices.registry import device

TARGETS = ["ref", "cpu", "gpu"]
RANK_0 = Shape("float")
ONE = np.array([2.5], np.float32)
SCALAR = np.array(2.5, np.float32)
INDEX = np.array(1)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)

# Operations that are not elementwise on operands without dimensions, or that give such.
MOVED: list[tuple[Operation, Sequence[np.ndarray]]] = [
    (make("reshape", dims=(1, 1)), [SCALAR]),
    (make("reshape", dims=()), [ONE]),
    (make("reshape"), [ONE, SCALAR]),
    (make("reshape_lazy", dims=(1,)), [SCALAR]),
    (make("reshape_lazy", dims=()), [ONE]),
    (make("unsqueeze", axes=(0, 1)), [SCALAR]),
    (make("squeeze", axes=(0,)), [ONE]),
    (make("squeeze"), [SCALAR]),
    (make("transpose"), [SCALAR]),
    (make("contiguous"), [SCALAR]),
    (make("identity"), [SCALAR]),
    (make("flatten", axis=0), [SCALAR]),
    (make("multibroadcast"), [SCALAR]),
    (make("multibroadcast", out_lens=(1,)), [SCALAR]),
    (make("multibroadcast", out_lens=(2, 3)), [SCALAR]),
    (make("multibroadcast"), [SCALAR, MATRIX]),
    (make("broadcast", axis=1, out_lens=(2, 3)), [SCALAR]),
    (make("scalar", scalar_bcst_dims=(2, 3)), [SCALAR]),
    (make("gather", axis=1), [MATRIX, INDEX]),
    (make("gather", axis=0), [MATRIX[0], INDEX]),
    (make("gathernd"), [MATRIX, np.array([1, 2])]),
    (make("convert", target_type=DType.HALF), [SCALAR]),
    (make("where"), [np.array(True), SCALAR, SCALAR]),
    (make("det"), [MATRIX[:, :2]]),
    (make("onehot", depth=3), [INDEX, ONE.repeat(2)]),
]  # fmt: skip


def program_of(op: Operation, operands: Sequence[np.ndarray]) -> Program:
    program = Program()
    inputs = [
        program.main.add_parameter(f"x{i}", Argument.of(x).shape) for i, x in enumerate(operands)
    ]
    program.main.add_return(program.main.add(op, *inputs))
    return program


def of_scalars(name: str) -> list[tuple[Operation, list[Operand]]]:
    """The first sample of an operation, each operand without dimensions."""
    op, operands = cases(name)[0]
    values = [x.with_array(np.asarray(x.array.reshape(-1)[0])) for x in operands]
    return [(op, values)] if inferred(op, shapes(values)) is not None else []


def test_it_is_a_shape_of_its_own():
    assert str(RANK_0) == "float_type, {}, {}"
    assert (RANK_0.ndim, RANK_0.elements, RANK_0.element_space, RANK_0.bytes) == (0, 1, 1, 4)
    assert RANK_0.standard
    assert RANK_0.packed
    assert not RANK_0.broadcasted
    others = [
        Shape.scalar(DType.FLOAT),
        Shape("float", (1,)),
        Shape.absent(),
        Shape.dynamic("float", [Dim(1, 2)]),
    ]
    assert RANK_0 not in others
    assert [s.has_rank_0 for s in (RANK_0, *others)] == [True, False, False, False, False]


def test_where_there_is_no_value_there_is_no_element():
    nothing = Shape.absent(DType.INT64)
    assert (nothing.elements, nothing.bytes, nothing.array_lens) == (0, 0, (0,))
    assert str(nothing) == str(Shape("int64"))


@pytest.mark.parametrize("value", [3.5, np.float32(3.5), np.array(3.5, np.float16)])
def test_a_literal_of_a_number_has_no_dimension(value):
    program = Program()
    assert program.main.add_literal(value).shape.has_rank_0
    program.follow_migraphx()
    made = program.main.add_literal(value)
    assert made.shape == Shape.scalar(made.shape.type)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["moved", "elementwise"])
def test_operations_compute_it_alike_on_every_target(kind: str, target: str):
    uses = moved() if kind == "moved" else [u for name in POINTWISE for u in of_scalars(name)]
    program, given = Program(), dict[str, np.ndarray]()
    made: list[Instruction] = []
    for op, operands in uses:
        names = [f"x{len(given) + i}" for i in range(len(operands))]
        given |= {n: x.array for n, x in zip(names, operands, strict=True)}
        pairs = zip(names, operands, strict=True)
        made.append(
            program.main.add(op, *[program.main.add_parameter(n, x.shape) for n, x in pairs])
        )
    program.main.add_return(*made)
    build = wb.compile(program, target)
    if target == "gpu":
        as_built(build, device(os.environ.get("WORKBENCH_DEVICE")))
    found = build.run(given).values()
    for value, instruction, (op, operands) in zip(found, made, uses, strict=True):
        (wanted,) = computed(op, operands, instruction.shape)
        assert value.shape == instruction.shape.lens, said(op, operands)
        expect_close(np.asarray(value), wanted, wanted.dtype, said(op, operands))


def moved() -> list[tuple[Operation, list[Operand]]]:
    return [(op, [operand(x) for x in arrays]) for op, arrays in MOVED]


def test_most_elementwise_operations_take_it():
    assert sum(len(of_scalars(name)) for name in POINTWISE) > 0.9 * len(POINTWISE)


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        (make("concat", axis=0), [SCALAR, SCALAR]),
        (make("gather", axis=0), [SCALAR, INDEX]),
        (make("reduce_sum", axes=(0,)), [SCALAR]),
        (make("softmax", axis=0), [SCALAR]),
        (make("slice", axes=(0,), starts=(0,), ends=(1,)), [SCALAR]),
        (make("multibroadcast", out_lens=()), [ONE]),
        (make("add"), [SCALAR, ONE]),
        (make("dot"), [SCALAR, SCALAR]),
    ],
    ids=str,
)
def test_what_needs_an_axis_refuses_it_by_name(op, operands):
    with pytest.raises(ShapeError, match=op.name):
        program_of(op, operands)


def test_text_and_files_keep_it(tmp_path):
    program = Program()
    x = program.main.add_parameter("x", RANK_0)
    vector = program.main.add("multibroadcast", program.main.add_literal(SCALAR), out_lens=(1,))
    program.main.add_return(program.main.add("add", x, program.main.add("squeeze", vector)))
    assert str(parse(str(program))) == str(program)
    wb.save(program, tmp_path / "p.wb")
    mxr.save(program, tmp_path / "p.mxr")
    for again in (wb.load(tmp_path / "p.wb"), mxr.load(tmp_path / "p.mxr")):
        assert str(again) == str(program)
        assert not again.scalars
        (found,) = wb.compile(again, "cpu").run({"x": SCALAR}).values()
        assert found == np.asarray(5, np.float32)


def test_a_vector_that_repeats_its_element_is_no_index_of_rank_0():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    index = program.main.add(
        "multibroadcast", program.main.add_parameter("i", Shape("int64")), out_lens=(1,)
    )
    assert index.shape == Shape.scalar(DType.INT64)
    program.main.add_return(program.main.add("gather", x, index))
    for target in TARGETS:
        (found,) = wb.compile(program, target).run({"x": MATRIX, "i": INDEX}).values()
        np.testing.assert_array_equal(found, MATRIX[[1]], target)


def test_text_with_migraphxs_scalar_takes_it_for_rank_0():
    program = parse(
        'module: "main"\ni = @param:i -> int64_type, {1}, {0}\nx = @param:x -> float_type, {2, 3}, {3, 1}\n'
        "@2 = gather[axis=0](x,i)\n@3 = gather[axis=0](@2,i)\n@4 = unsqueeze[axes={0}](@3)\n"
    )
    assert [str(i.shape) for i in list(program.main)[-3:]] == [
        "float_type, {3}, {1}", "float_type, {1}, {0}", "float_type, {1}, {1}",
    ]  # fmt: skip
    for target in TARGETS:
        (found,) = wb.compile(program, target).run({"x": MATRIX, "i": np.array([1])}).values()
        np.testing.assert_array_equal(found, MATRIX[[1], 1], target)
