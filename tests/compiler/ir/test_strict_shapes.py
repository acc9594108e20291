"""Dynamic shapes by MIGraphX's rules to the letter, as programs of the drop-in have them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.pointwise import Relu
from workbench.compiler.ops.recurrent import Direction
from workbench.compiler.passes.base import pass_named
from workbench.compiler.run import reference
from workbench.compiler.text.printing import parse

MOST = (1 << 64) - 1


def ranges(*dims, type=DType.FLOAT):
    return Shape.dynamic(type, [Dim(*d) for d in dims])


def static(*lens, type=DType.FLOAT):
    return Shape(type, lens)


def added(program, name, inputs, attributes):
    values = [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(inputs)]
    return program.main.add(make(name, **attributes), *values).shape


def strict_program():
    program = Program()
    program.keeps_fixed = program.strict = True
    return program


WIDE = ranges((1, 4), (2, 4, (2,)), (2, 4))
CASES = [
    ("dot", [ranges((1, 20), (5, 5)), static(5, 8)], {}, ranges((1, 20), (8, 8))),
    ("dot", [ranges((1, 20), (5, 5), (5, 5)), static(1, 5, 8)], {}, ranges((1, 1), (5, 5), (8, 8))),
    ("dot", [ranges((0, MOST), (5, 5)), ranges((5, 5), (6, 8, (8,)))], {}, None),
    ("multibroadcast", [static(3, 6), ranges((0, MOST), (6, 6))], {}, ranges((3, 3), (6, 6))),
    ("multibroadcast", [WIDE, ranges((2, 5, (2,)), (2, 4))], {}, ranges((1, 4), (2, 4), (2, 4))),
    ("multibroadcast", [static(5, 1, 1, 1), WIDE], {}, Shape.dynamic(WIDE.type, [5, *WIDE.dims])),
    ("reduce_sum", [ranges((2, 3), (2, 4))], {"axes": (0, 1)}, ranges((1, 1), (1, 1))),
    ("squeeze", [ranges((1, 4), (1, 1), (3, 3))], {}, ranges((1, 4), (3, 3))),
    ("gathernd", [ranges((2, 2), (2, 2)), static(2, 2, type=DType.INT64)], {}, ranges((2, 2))),
    (
        "gathernd",
        [ranges((6, 7, (7,)), (3, 3), (1, 4)), static(2, 5, 1, type=DType.INT64)],
        {"batch_dims": 1},
        ranges((2, 2), (5, 5), (1, 4)),
    ),
    (
        "concat",
        [ranges((1, 3, (3,)), (1, 5, (5,))), ranges((1, 3, (3,)), (1, 4, (4,)))],
        {"axis": 1},
        ranges((1, 3, (3,)), (2, 9)),
    ),
    (
        "pooling",
        [ranges((4, 4), (3, 3), (4, 12, (8,)))],
        {"lengths": (1,), "stride": (3,), "padding": (0,), "dilations": (1,)},
        ranges((4, 4), (3, 3), (2, 4, (3,))),
    ),
    (
        "slice",
        [ranges((2, 3, (3,)), (7, 7))],
        {"axes": (1,), "starts": (1,), "ends": (10,)},
        ranges((2, 3), (6, 6)),
    ),
    (
        "roialign",
        [static(3, 4, 5, 6), static(2, 4), static(2, type=DType.INT64)],
        {},
        static(2, 4, 1, 1),
    ),
    (
        "gru",
        [static(2, 2, 3), static(1, 12, 3), static(1, 12, 4), static(1, 24), static(1, 2, 4)],
        {"hidden_size": 4, "direction": Direction.REVERSE},
        static(2, 1, 2, 4),
    ),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "expected"), CASES)
def test_shapes_of_ranges(name, inputs, attributes, expected):
    found = added(strict_program(), name, inputs, attributes)
    assert found == (expected or ranges((0, MOST), (6, 8, (8,))))


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [
        ("add", [static(1, 4, 4), ranges((1, 1), (4, 4), (4, 4))], {}),
        ("where", [static(2, 2, type=DType.BOOL), static(2, 2), ranges((2, 2), (2, 2))], {}),
        ("mul", [ranges((2, 3), (3, 3)), ranges((2, 3), (2, 3))], {}),
        ("multibroadcast", [static(3, 6), ranges((1, 2), (6, 6))], {}),
        ("concat", [ranges((1, 3), (4, 4)), static(3, 4)], {"axis": 1}),
        ("concat", [ranges((1, 5), (4, 4)), ranges((1, 4), (4, 4))], {"axis": 1}),
        ("slice", [ranges((2, 3), (7, 8))], {"axes": (1,), "starts": (0,), "ends": (1,)}),
        ("unique", [static(10, 4, 3)], {"axis": -1}),
    ],
)
def test_what_is_refused_of_ranges_here_only(name, inputs, attributes):
    assert added(Program(), name, inputs, attributes)
    with pytest.raises(ShapeError, match=name):
        added(strict_program(), name, inputs, attributes)


def test_single_lengths_are_static_but_where_a_text_says_otherwise():
    program = strict_program()
    added(program, "dot", [ranges((1, 20), (5, 5), (5, 5)), static(1, 5, 8)], {})
    assert "dot(x0,x1) -> dynamic, float_type, {1, 5, 8}" in str(program)
    assert str(parse(str(program))) == str(program)
    assert program.clone().strict
    settled = added(Program(), "dot", [ranges((1, 20), (5, 5), (5, 5)), static(1, 5, 8)], {})
    assert settled == static(1, 5, 8)


def steps(strict):
    """Build a program step by step; say each shape, or why it is refused."""
    program = strict_program() if strict else Program()
    shapes = [
        ranges((1, 20), (5, 5), (5, 5)),
        static(1, 5, 8),
        static(3, 4),
        ranges((1, 5), (4, 4)),
        ranges((1, 4), (4, 4)),
    ]
    a, b, c, d, e = [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(shapes)]
    for op, inputs in [("dot", (a, b)), ("multibroadcast", (c, d)), ("add", (d, e))] * 20:
        try:
            yield str(program.main.add(make(op), *inputs).shape)
        except ShapeError as error:
            yield str(error)


def test_programs_that_are_built_together_keep_their_own_rules():
    strict, usual = list(steps(True)), list(steps(False))
    assert all(a != b for a, b in zip(strict, usual, strict=True))
    in_turn = zip(steps(True), steps(False), strict=True)
    assert list(in_turn) == list(zip(strict, usual, strict=True))
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda by: list(steps(by)), [True, False] * 4)
        assert list(found) == [strict, usual] * 4


@dataclass(frozen=True)
class Choosy(Relu):
    """An operation that strict rules allow on one shape only."""

    only: Shape | None = None

    def shape_by(self, rules, inputs, modules=()):
        if rules.strict and inputs[0] != self.only:
            raise ShapeError(f"relu: {inputs[0]}")
        return super().shape_by(rules, inputs, modules)


PASSES_THAT_ASK = [
    ("eliminate_contiguous", {}, Shape("float", (3, 2), (1, 3))),
    ("truncate_float", {"ins_names": "relu", "float_type": "half"}, static(3, 2)),
    (
        "eliminate_data_type",
        {"unsupported_types": "float", "unsupported_ops": "relu", "target_type": "double"},
        static(3, 2),
    ),
    ("split_single_dyn_dim", {}, ranges((1, 3), (2, 2))),
]


@pytest.mark.parametrize(("name", "options", "shape"), PASSES_THAT_ASK)
def test_passes_ask_by_the_rules_of_the_program(name, options, shape):
    for program in (Program(), strict_program()):
        x = program.main.add_parameter("x", shape)
        taken = program.main.add("contiguous", x).shape
        made = program.main.add(Choosy(taken), program.main.last)
        program.main.add_return(program.main.add("contiguous", made))
        before = str(program)
        pass_named(name, **options).apply(program)
        assert (str(program) == before) is program.strict


def test_strict_rules_leave_some_things_to_a_run():
    corners, scores = static(1, 6, 4), static(1, 1, 5)
    inputs = [corners, scores]
    with pytest.raises(ShapeError):
        added(Program(), "nonmaxsuppression", inputs, {"use_dyn_output": True})
    with pytest.raises(ShapeError):
        added(strict_program(), "nonmaxsuppression", inputs, {})
    made = added(strict_program(), "nonmaxsuppression", inputs, {"use_dyn_output": True})
    assert str(made) == "dynamic, int64_type, {[0..6], 3}"
    program = strict_program()
    added(program, "nonmaxsuppression", inputs, {"use_dyn_output": True})
    arrays = {f"x{i}": np.zeros(s.lens, np.float32) for i, s in enumerate(inputs)}
    with pytest.raises(EvaluationError, match="with equal B and N"):
        reference.run(program, arrays)


def test_a_seed_of_a_range():
    seed, like = ranges((0, 1), type=DType.UINT64), static(3)
    with pytest.raises(ShapeError):
        added(Program(), "random_uniform", [seed, like], {})
    program = strict_program()
    assert added(program, "random_uniform", [seed, like], {}) == like
    given = {"x0": np.array([7], np.uint64), "x1": np.zeros(3, np.float32)}
    assert (reference.run(program, given)[0] > 0).all()
    with pytest.raises(EvaluationError, match="no element"):
        reference.run(program, given | {"x0": np.zeros(0, np.uint64)})


def test_strides_of_no_elements_are_products_of_lens():
    image, kernel = static(2, 3, 4, 4), static(5, 3, 6, 6)
    made = added(strict_program(), "convolution", [image, kernel], {})
    assert str(made) == "float_type, {2, 5, 0, 0}, {0, 0, 0, 1}"
