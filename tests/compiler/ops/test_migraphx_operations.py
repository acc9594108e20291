"""MIGraphX's operations: all there, with its attributes and defaults; meanings that samples do not show."""

import re
from pathlib import Path

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import all_operations, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import parse, to_text

OPERATIONS = all_operations()

GOLDEN = Path(__file__).parents[2] / "golden" / "operations.txt"
LINES = GOLDEN.read_text(encoding="utf-8").splitlines()
random = np.random.default_rng(0)


def test_there_are_157():
    assert len(LINES) == 157


@pytest.mark.parametrize("line", LINES)
def test_names_attributes_and_defaults(line: str):
    named = re.match(r"unknown:|@?\w+", line)
    assert named
    assert str(OPERATIONS[named[0]]()) == line


def test_comments_keep_their_text():
    program = Program()
    program.main.add(make("@comment", text="mul -> add, as in [3](a)"))
    program.main.add_return(program.main.add_parameter("x", Shape("float", (2,))))
    again = parse(to_text(program))
    assert to_text(again) == to_text(program)
    assert "= @comment: mul -> add, as in [3](a) -> float_type" in to_text(program)
    with pytest.raises(ShapeError, match="expected one line"):
        make("@comment", text="two\nlines").compute_shape([])


# Memory


def test_load_reads_bytes():
    memory = np.arange(40, dtype=np.uint8)
    op = make("load", shape=Shape("uint16", (2, 3), (1, 2)), offset=4)
    found = op.compute(memory)
    wanted = np.frombuffer(memory.tobytes()[4:16], np.uint16).reshape(3, 2).T
    np.testing.assert_array_equal(found, wanted)
    assert str(op) == "load[offset=4,end=16]"
    with pytest.raises(EvaluationError, match="load: bytes 30 to 42; expected at most 40"):
        make("load", shape=Shape("uint16", (2, 3)), offset=30).compute(memory)
    with pytest.raises(ShapeError, match="expected a standard shape"):
        op.compute_shape([Shape("uint8", (4, 10), (1, 4))])


@pytest.mark.parametrize("float64", [False, True])
def test_fixed_pad_fills_up_to_the_largest_lens(float64: bool):
    program = Program()
    x = program.main.add_parameter("x", Shape.dynamic(DType.FLOAT, [Dim(1, 4), Dim(3, 3)]))
    padded = program.main.add("fixed_pad", x)
    assert padded.shape == Shape("float", (4, 3))
    program.main.add_return(padded)
    for rows in (1, 3, 4):
        given = random.standard_normal((rows, 3)).astype(np.float32)
        (found,) = Interpreter(program, float64).run({"x": given})
        np.testing.assert_array_equal(found, np.pad(given, ((0, 4 - rows), (0, 0))))


# Packing


def test_the_first_of_a_pair_is_in_the_low_half():
    packed = make("pack_int4").compute(np.array([[1, -2, 7, -8, 99, -99]], np.int8))
    assert packed.view(np.uint8).tolist() == [[0xE1, 0x87, 0x87]]
    assert make("unpack_int4").compute(packed).tolist() == [[1, -2, 7, -8, 7, -8]]
    packed = make("pack_int4").compute(np.array([1, 15, 200, 0], np.uint8))
    assert packed.tolist() == [0xF1, 0x0F]


def test_4_bit_floats_round_to_even():
    ties = {0.25: 0, 0.75: 1, 1.25: 1, 1.75: 2, 2.5: 2, 3.5: 4, 5: 4, 5.01: 6, 1e9: 6, np.inf: 6,
            0.26: 0.5, 2.49: 2, 2.51: 3}  # fmt: skip
    x = np.array(list(ties), np.float32)
    x = np.concatenate([x, -x])
    found = make("unpack_fp4").compute(make("pack_fp4").compute(x)).astype(np.float32)
    wanted = np.array(list(ties.values()), np.float32)
    np.testing.assert_array_equal(found, np.concatenate([wanted, -wanted]))
    assert make("pack_fp4").compute(np.array([-0.0, np.nan], np.float32)).tolist() == [0x08]


@pytest.mark.parametrize("name", ["pack_int4", "pack_fp4"])
def test_only_pairs_are_packed(name: str):
    kind = "int8" if name == "pack_int4" else "float"
    with pytest.raises(ShapeError, match="expected an even number"):
        make(name).compute_shape([Shape(kind, (2, 3))])
    assert make(name, axis=0).compute_shape([Shape(kind, (2, 3))]).lens == (1, 3)


# Attention with a cache


def test_new_rows_are_written_over_the_cache():
    past = random.standard_normal((2, 3, 6, 4)).astype(np.float32)
    one, lens = random.standard_normal((2, 3, 1, 4)).astype(np.float32), np.array([5, 2])
    found, wanted = make("concat_past_present").compute(one, lens, past), past.copy()
    for batch, place in enumerate(lens):
        wanted[batch, :, place] = one[batch, :, 0]
    np.testing.assert_array_equal(found, wanted)
    several = random.standard_normal((2, 3, 4, 4)).astype(np.float32)
    found = make("concat_past_present").compute(several, lens, past)
    np.testing.assert_array_equal(found, np.concatenate([several, past[:, :, 4:]], 2))
    with pytest.raises(EvaluationError, match="position 6; expected 0 to 5"):
        make("concat_past_present").compute(one, np.array([6, 0]), past)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("length", [1, 3])
def test_pairs_are_turned_by_the_angle_of_their_position(interleaved: bool, length: int):
    heads, groups, half, size = 2, 1, 2, 5
    x = random.standard_normal((2, heads + 2 * groups, length, size)).astype(np.float32)
    angles, lens = random.standard_normal((7, half)), np.array([6, 3])
    tables = [t.astype(np.float32) for t in (np.cos(angles), np.sin(angles))]
    op = make("gqa_rotary_embedding", num_heads=heads, kv_num_heads=groups, interleaved=interleaved)
    found = op.compute(x, lens, *tables)
    for b, h, s, i in np.ndindex(x.shape):
        place = lens[b] if length == 1 else s
        if h >= heads + groups or i >= 2 * half:
            assert found[b, h, s, i] == x[b, h, s, i]
            continue
        pair = i // 2 if interleaved else i % half
        first = i % 2 == 0 if interleaved else i < half
        other = (i + 1 if first else i - 1) if interleaved else (i + half) % (2 * half)
        sign = -1 if first else 1
        wanted = x[b, h, s, i] * tables[0][place, pair]
        wanted += sign * x[b, h, s, other] * tables[1][place, pair]
        np.testing.assert_allclose(found[b, h, s, i], wanted, 1e-5, 1e-6)
    with pytest.raises(ShapeError, match="expected 4 heads"):
        op.compute_shape([Shape("float", (2, 5, 1, 5)), *map(Shape, ["int32", "float", "float"],
                          [(2,), (7, 2), (7, 2)])])  # fmt: skip
