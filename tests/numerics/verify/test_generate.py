"""Made-up values: bit for bit those of MIGraphX's generators, which a C++ program was run to obtain."""

from collections.abc import Callable

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim, Shape
from workbench.numerics.verify.generate import (
    driver_inputs,
    fill_argument,
    filled,
    generate,
    generate_argument,
    random_bits,
    std_hash,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 6142509188972423790),
        ("a", 4993892634952068459),
        ("x", 13272411544345499535),
        ("input", 8955751799556310764),
        ("12345678", 10113836418918046885),
        ("123456789", 12315982496267331008),
        ("attention_mask_long_name", 2876183873332510724),
        ("été", 13865135146258435707),
    ],
)
def test_hashes_are_those_of_libstdcxx(text: str, expected: int) -> None:
    assert std_hash(text) == expected


@pytest.mark.parametrize(
    ("type", "seed", "expected"),
    [
        ("float", 0, [0.4375, 0.75, 0.1875, 0.25, 0.25, 0.9375, -0.75, 0.375]),
        ("half", 0, [0.4375, 0.75, 0.1875, 0.25, 0.25, 0.9375, -0.75, 0.375]),
        ("int8", 0, [-7, -12, -3, -4, -4, -15, 12, -6]),
        ("int8", 1, [-6, -12, -1, -5, -7, -11, 16, -3]),
        ("int8", -1, [8, -12, 4, 5, -4, 16, -11, -6]),
        ("bool", 1, [0, 0, 1, 1, 1, 1, 0, 1]),
    ],
)
def test_generated_values(type: str, seed: int, expected: list[float]) -> None:
    value = generate(Shape(type, [8]), seed)
    assert isinstance(value, np.ndarray)
    assert value.astype(np.float64).tolist() == expected
    assert value.dtype == DType.of(type).numpy


@pytest.mark.parametrize(
    ("type", "seed", "expected"),
    [
        ("float", 1, ["-0x1.2a4b86p-3", "-0x1.062cb2p-1", "0x1.b896a6p-1", "0x1.4b07c6p-3"]),
        ("double", 0, ["-0x1.ffffb2e64a92ep-1", "-0x1.fffe483b062cbp-1"]),
        ("int32", 1, [1203242, 366148, 2960175, -1588789, 2357769, 1940133]),
        ("int64", 1, [59772142509098, 9927292982852, 35852389264175, -2782238621237]),
        ("uint32", 1, [917349334, 523921852, 1997722833, 1247297077, 505153015]),
        ("int8", 12345, [2, -12, 14, 3, -12, 12, -15, -4]),
    ],
)
def test_values_in_the_drivers_mode(type: str, seed: int, expected: list[object]) -> None:
    value = generate(Shape(type, [len(expected)]), seed, "random")
    assert isinstance(value, np.ndarray)
    found = [x.hex() if isinstance(x, float) else x for x in value.tolist()]
    wanted = [float.fromhex(x).hex() if isinstance(x, str) else x for x in expected]
    assert found == wanted


def test_many_numbers_are_those_drawn_one_by_one() -> None:
    mask, (x, y, z) = (1 << 64) - 1, (123456789, 362436069, 521288629 ^ 7)
    expected: list[int] = []
    for _ in range(5000):
        x ^= x << 16 & mask
        x ^= x >> 5
        x ^= x << 1 & mask
        x, y, z = y, z, x ^ y ^ z
        expected.append(z)
    assert random_bits(5000, 7).tolist() == expected
    assert random_bits(193, 7).tolist() == expected[:193]
    assert random_bits(0).tolist() == []


def test_elements_come_in_the_order_of_memory() -> None:
    plain = generate(Shape("float", [6]), 3)
    turned = generate(Shape("float", [2, 3], [1, 2]), 3)
    repeated = generate(Shape("float", [2, 3], [0, 1]), 3)
    assert isinstance(plain, np.ndarray)
    assert np.array_equal(turned, plain.reshape(3, 2).T)
    assert np.array_equal(repeated, [plain[:3], plain[:3]])
    assert generate_argument(Shape("float", [2, 3], [1, 2]), 3).shape.strides == (1, 2)


def test_parts_of_a_tuple_start_anew() -> None:
    shape = Shape.tuple_of([Shape("float", [2]), Shape("int8", [3])])
    first, second = generate(shape)
    assert first.tolist() == [0.4375, 0.75]
    assert second.tolist() == [-7, -12, -3]
    assert filled(shape, 2)[1].tolist() == [2, 2, 2]


def test_constants() -> None:
    assert fill_argument(Shape("half", [2, 2]), 1).numpy().tolist() == [[1, 1], [1, 1]]
    assert generate(Shape("float", [0, 4])).shape == (0, 4)


def _program() -> wb.Program:
    program = wb.Program()
    x = program.main.add_parameter("x", Shape("float", [2]))
    y = program.main.add_parameter("y", Shape.dynamic(DType.FLOAT, [Dim(1, 4)]))
    program.main.add_return(x, y)
    return program


def test_inputs_of_the_driver() -> None:
    made = driver_inputs(_program(), batch=2)
    assert made["x"].tolist() == generate(Shape("float", [2]), std_hash("x"), "random").tolist()
    assert made["y"].shape == (2,)
    filled_in = driver_inputs(_program(), ["x"], ["y"], {"x": [5.0, 6.0]})
    assert filled_in["x"] == [5.0, 6.0]
    assert filled_in["y"].tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: driver_inputs(_program(), ["z"]), "no parameter is called 'z'; .*'x', 'y'"),
        (lambda: generate(Shape("float", [1 << 40])), "over"),
        (lambda: generate(Shape("float", [1 << 40, 2], [0, 0])), "over"),
        (lambda: filled(Shape.dynamic(DType.FLOAT, [Dim(1, 4)])), "dynamic"),
        (lambda: generate(Shape("float", [1]), mode="new"), "unknown mode 'new'"),
        (lambda: fill_argument(Shape.tuple_of([Shape("float", [1])])), "tuple"),
    ],
)
def test_what_cannot_be_made(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(wb.WorkbenchError, match=message):
        wrong()
