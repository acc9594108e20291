"""Values as msgpack and JSON, byte for byte as others write them."""

import math

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.compiler.errors import ModelError
from workbench.compiler.files.mxr import (
    msgpack_form,
    read_json,
    read_msgpack,
    write_json,
    write_msgpack,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner, min_size=1),
    max_leaves=30,
)


@given(VALUES)
def test_msgpack_is_what_the_package_writes(value):
    packed = write_msgpack(value)
    assert packed == msgpack.packb(value)
    assert read_msgpack(packed) == value


@pytest.mark.parametrize("count", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_counts_at_the_edges_of_their_codes(count):
    for value in ("a" * count, [1] * count, {str(i): i for i in range(count)} or []):
        assert write_msgpack(value) == msgpack.packb(value)
        assert read_msgpack(write_msgpack(value)) == value


def test_an_empty_object_is_written_as_an_empty_list():
    assert write_msgpack({}) == write_msgpack([]) == b"\x90"
    assert write_json({"a": {}}) == '{"a":{}}'


def test_floats_take_eight_bytes_and_four_are_read():
    assert write_msgpack(1.5) == msgpack.packb(1.5)
    assert read_msgpack(msgpack.packb(1.5, use_single_float=True)) == 1.5


def test_binary_data_is_a_list_of_pieces(monkeypatch):
    data = bytes(range(256)) * 3
    assert write_msgpack(data) == msgpack.packb([data])
    assert bytes(read_msgpack(write_msgpack(data))) == data
    assert bytes(read_msgpack(msgpack.packb(data))) == data, "one piece, as older files have it"
    monkeypatch.setattr(msgpack_form, "CHUNK", 100)
    packed = write_msgpack(data)
    assert len(msgpack.unpackb(packed)) == 8
    assert read_msgpack(packed) == data
    assert bytes(read_msgpack(write_msgpack(b""))) == b""


def test_json_has_sorted_keys_and_bytes_as_a_list():
    value = {"b": b"\x00\xff", "a": [1, -2, 0.5, True, None], "ä": "ö"}
    text = '{"a":[1,-2,0.5,true,null],"b":{"bytes":[0,255]},"ä":"ö"}'
    assert write_json(value) == text
    assert read_json(text) == value
    assert read_json(text.encode()) == value


def test_json_keeps_floats_that_it_has_no_number_for():
    assert write_json([math.inf, -math.inf, math.nan]) == '["inf","-inf","nan"]'
    with pytest.raises(ModelError, match="Infinity"):
        read_json("[Infinity]")


def test_what_is_no_value_is_refused():
    for write in (write_msgpack, write_json):
        with pytest.raises(ModelError, match="ndarray"):
            write([np.zeros(2)])
    with pytest.raises(ModelError, match="64 bits"):
        write_msgpack(1 << 64)


@given(VALUES, st.data())
def test_a_cut_off_value_is_refused(value, data):
    packed = write_msgpack(value)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(ModelError, match="byte"):
        read_msgpack(packed[:cut])


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        (b"", "byte 0"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\xdf\xff\xff\xff\xff", "truncated"),
        (b"\x9f" * 50 + b"\x01" * 20, "truncated"),
        (b"\xc6\xff\xff\xff\xff\x00", "truncated"),
        (b"\x91" * 5000 + b"\x01", "nested lists"),
        (b"\x01\x02", "1 bytes follow"),
        (b"\xc1", "byte 0: this is not msgpack"),
        (b"\xc7\x01\x01\x01", "extension"),
        (b"\xa2\xff\xff", "UTF-8"),
        (b"\x81\x01\x01", "not a string"),
        (b"\x82\xa1a\x01\xa1a\x02", "twice"),
        (b"\x92\xc4\x01a\x01", "a piece is not binary"),
    ],
)
def test_hostile_msgpack_is_refused_with_the_reason(packed, says):
    with pytest.raises(ModelError, match=says):
        read_msgpack(packed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ('{"a":1', "not JSON"),
        ("[" * 100_000, "too deep|not JSON"),
        ('{"a":1,"a":2}', "'a' occurs twice"),
        ('{"bytes":[256]}', "0 to 255"),
        ('{"bytes":["a"]}', "0 to 255"),
        (b"\xff", "UTF-8"),
        ("9" * 5000, "not JSON"),
    ],
)
def test_hostile_json_is_refused_with_the_reason(text, says):
    with pytest.raises(ModelError, match=says):
        read_json(text)
