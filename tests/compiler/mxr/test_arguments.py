"""Arguments in MIGraphX's files."""

import numpy as np
import pytest

from workbench.compiler.errors import ModelError
from workbench.compiler.files import mxr
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.shape import Shape


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6, dtype=np.int16).reshape(2, 3).T,
        np.broadcast_to(np.float64([1, 2]), (3, 2)),
        np.float16(2),
        np.zeros((2, 0), np.uint8),
    ],
    ids=["packed", "transposed", "broadcast", "scalar", "empty"],
)
def test_an_argument_comes_back(array):
    argument = Argument.of(array)
    found = mxr.read_argument(mxr.write_argument(argument))
    assert isinstance(found, Argument)
    assert found.same_as(argument)


def test_memory_is_written_as_it_lies():
    grid = np.arange(6, dtype=np.uint8).reshape(2, 3)
    value = mxr.to_argument_value(Argument.of(grid.T))
    assert value["shape"]["strides"] == [1, 3]
    assert bytes(value["data"]) == bytes(range(6))
    wide = Argument(Shape("uint8", (2, 2), (3, 1)), grid[:, :2])
    assert bytes(mxr.to_argument_value(wide)["data"]) == bytes([0, 1, 0, 3, 4])


def test_tuples_come_back():
    a, b = Argument.of(np.float32([1, 2])), Argument.of(np.int8(3))
    found = mxr.read_argument(mxr.write_argument([a, [b, a]]))
    assert isinstance(found, tuple)
    assert found[0] == a
    assert found[1] == (b, a)
    value = mxr.to_argument_value([a, b])
    assert list(value) == ["shape", "sub"]
    assert value["shape"]["type"] == "tuple_type"


def test_data_of_another_size_is_refused():
    value = mxr.to_argument_value(Argument.of(np.float32([1, 2])))
    for broken, says in (
        (value | {"data": b"\0" * 7}, "7 bytes of data; expected 8"),
        (value | {"data": None}, "0 bytes"),
        (value | {"data": "text"}, "expected bytes"),
        (value | {"shape": value["shape"] | {"lens": [1 << 60]}}, "expected"),
        (value | {"shape": value["shape"] | {"lens": [1 << 60], "strides": [0]}}, "expected 4"),
        (
            value
            | {"data": b"0000", "shape": value["shape"] | {"lens": [1 << 60], "strides": [0]}},
            "repeats",
        ),
        (value | {"shape": value["shape"] | {"lens": [-2]}}, "negative"),
        (value | {"shape": value["shape"] | {"lens": [2.0]}}, "expected an integer"),
        (value | {"shape": value["shape"] | {"lens": [True]}}, "expected an integer"),
        (value | {"shape": value["shape"] | {"type": "florp"}}, "florp"),
        (value | {"shape": None}, "'type' is missing"),
        ({}, "'shape' is missing"),
        ([], "expected an object"),
        ({"shape": value["shape"], "sub": []}, "its parts are"),
    ):
        with pytest.raises((ModelError, ValueError), match=says):
            mxr.from_argument_value(broken)
