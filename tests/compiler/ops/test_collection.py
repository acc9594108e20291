"""Operations on sequences and optionals: shapes, values, text and refusals on small programs."""

import re

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.operation import Operation, all_operations, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import parse, to_text

OPERATIONS = all_operations()

OPS = sorted(n for n, op in OPERATIONS.items() if op.__module__.endswith(".collection"))
F = Shape("float_type", [2])
ANY = Shape.dynamic(F.type, [Dim(0, 9)])
S, MAYBE, SCALAR = (
    Shape.sequence_of(ANY),
    Shape.sequence_of(F, "optional"),
    Shape("int64_type"),
)
A, B, C = np.float32([1, 2]), np.float32([3]), np.float32([4, 5])
MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
M = Shape("float_type", [3, 2])


def at(position: int) -> np.ndarray:
    return np.array(position)


# Operation, shapes and values of its inputs, shape and value of its result.
CASES = [
    (make("sequence_construct"), [F, F], [A, C], Shape.sequence_of(F), [A, C]),
    (make("sequence_construct"), [], [], Shape.sequence_of(), []),
    (make("sequence_insert"), [S, F], [[B], A], S, [B, A]),
    (make("sequence_insert"), [S, F, SCALAR], [[B, C], A, at(-1)], S, [B, A, C]),
    (make("sequence_erase"), [S], [[A, B]], S, [A]),
    (make("sequence_erase"), [S, SCALAR], [[A, B], at(0)], S, [B]),
    (make("sequence_at"), [S, SCALAR], [[A, B], at(-1)], ANY, B),
    (make("sequence_length"), [S], [[A, B]], SCALAR, at(2)),
    (make("sequence_length"), [S], [[]], SCALAR, at(0)),
    (
        make("split_to_sequence", axis=0),
        [M],
        [MATRIX],
        Shape.sequence_of(Shape(F.type, [1, 2])),
        list(MATRIX[:, None]),
    ),
    (
        make("split_to_sequence", axis=-2, keepdims=False),
        [M],
        [MATRIX],
        Shape.sequence_of(F),
        list(MATRIX),
    ),
    (
        make("split_to_sequence", axis=0),
        [M, SCALAR],
        [MATRIX, at(2)],
        Shape.sequence_of(Shape.dynamic(F.type, [Dim(0, 3), 2])),
        [MATRIX[:2], MATRIX[2:]],
    ),
    (
        make("split_to_sequence", axis=1),
        [M, Shape("int64_type", [2])],
        [MATRIX, np.array([2, 0])],
        Shape.sequence_of(Shape.dynamic(F.type, [3, Dim(0, 2)])),
        [MATRIX, MATRIX[:, 2:]],
    ),
    (
        make("concat_from_sequence"),
        [S],
        [[A, B]],
        Shape.dynamic(F.type, [Dim(0, 2**31 - 1)]),
        np.float32([1, 2, 3]),
    ),
    (
        make("concat_from_sequence", axis=-1, new_axis=True),
        [Shape.sequence_of(F)],
        [[A, C]],
        Shape.dynamic(F.type, [2, Dim(0, 2**31 - 1)]),
        np.stack([A, C], 1),
    ),
    (make("optional"), [F], [A], MAYBE, A),
    (make("optional"), [], [], Shape.sequence_of(None, "optional"), None),
    (make("optional_has_element"), [MAYBE], [A], Shape("bool_type"), np.array([True])),
    (
        make("optional_has_element"),
        [MAYBE],
        [None],
        Shape("bool_type"),
        np.array([False]),
    ),
    (make("optional_get_element"), [MAYBE], [A], F, A),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{len(case[1])}")


def program_of(op: Operation, shapes: list[Shape]) -> Program:
    program = Program("one")
    inputs = [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(shapes)]
    program.main.add_return(program.main.add(op, *inputs))
    return program


def assert_same(found: object, wanted: object) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
    elif wanted is not None:
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_every_operation_of_the_file_has_a_case():
    assert {case[0].name for case in CASES} == set(OPS)


@every_case
def test_shape_and_value(case: tuple):
    op, shapes, values, shape, wanted = case
    program = program_of(op, shapes)
    assert program.main.outputs[0].shape == shape
    given = {f"x{i}": v for i, v in enumerate(values)}
    assert_same(Interpreter(program).run(given)[0], wanted)


@every_case
def test_the_text_parses_back(case: tuple):
    program = program_of(case[0], case[1])
    assert to_text(parse(to_text(program))) == to_text(program)


TAKES_ANY = {"sequence_construct", "optional"}


@pytest.mark.parametrize("case", [c for c in CASES if c[0].name not in TAKES_ANY])
def test_other_kinds_of_values_are_refused(case: tuple):
    op, shapes = case[:2]
    other = S if shapes[0].is_tensor else F
    with pytest.raises(ShapeError, match=op.name):
        op.compute_shape([other, *shapes[1:]])
    with pytest.raises(ShapeError, match=op.name):
        op.compute_shape([*shapes, *[F] * 3])


@pytest.mark.parametrize(
    ("op", "values", "message"),
    [
        (make("sequence_at"), [(A,), at(1)], "position 1 in a sequence of 1; expected -1 to 0"),
        (make("sequence_insert"), [(A,), B, at(3)], "position 3 in a sequence of 1"),
        (make("sequence_erase"), [()], "position -1 in a sequence of 0"),
        (make("concat_from_sequence"), [()], "an empty sequence"),
        (make("optional_get_element"), [()], "no value"),
        (
            make("split_to_sequence"),
            [MATRIX, np.array([1, 1])],
            "slices of lengths [1, 1] along an axis",
        ),
    ],
)
def test_what_cannot_be_had_says_so(op: Operation, values: list, message: str):
    with pytest.raises(EvaluationError, match=re.escape(message)):
        op.compute(*values)
