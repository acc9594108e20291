"""Arguments: buffers in and out, generated values, equality, printed forms, errors."""

import array
import copy

import ml_dtypes
import numpy as np
import pytest

from workbench.compat import migraphx


def floats(*lens):
    return migraphx.shape(lens=list(lens))


def drawn(count, seed=0):
    """The generator of MIGraphX's documentation, number by number."""
    x, y, z, mask, found = 123456789, 362436069, 521288629 ^ seed, (1 << 64) - 1, []
    for _ in range(count):
        x ^= (x << 16) & mask
        x ^= x >> 5
        x ^= (x << 1) & mask
        x, y, z = y, z, x ^ y ^ z
        found.append(z)
    return found


@pytest.mark.parametrize("seed", [0, 1, 12345, 1 << 40])
def test_generated_values_bit_for_bit(seed):
    def made(kind, count=1000):
        s = migraphx.shape(type=kind, lens=[count])
        return migraphx.generate_argument(s, seed).tolist()

    bits = drawn(1000, seed)
    assert made("float") == [z % 32 / 16 - 1 for z in bits]
    assert made("half") == made("double") == made("bf16") == made("float")
    assert made("int8") == [16 - z % 32 for z in bits]
    assert made("int32") == [(1 << 19) - z % (1 << 20) for z in bits]
    assert made("uint16") == [z % (1 << 10) for z in bits]
    assert made("uint64") == [z % (1 << 40) for z in bits]
    assert made("bool") == [z % 2 for z in bits]


def test_every_call_starts_from_the_seed():
    assert migraphx.generate_argument(floats(2, 3)) == migraphx.generate_argument(floats(2, 3))
    assert migraphx.generate_argument(floats(64)) != migraphx.generate_argument(floats(64), seed=1)


def test_values_lie_in_memory_in_the_order_of_the_strides():
    s = migraphx.shape(lens=[3, 2], strides=[1, 3])
    made = migraphx.generate_argument(s)
    flat = migraphx.generate_argument(floats(6)).tolist()
    assert made.tolist() == [flat[i] for i in (0, 3, 1, 4, 2, 5)]
    assert made.get_shape() == s
    assert memoryview(made).strides == (4, 12)


@pytest.mark.parametrize("kind", ["bf16", "fp8e4m3fnuz", "fp8e5m2", "fp4x2_type"])
def test_small_floats_in_any_order(kind):
    s = migraphx.shape(type=kind, lens=[2, 2], strides=[1, 2])
    flat = migraphx.generate_argument(migraphx.shape(type=kind, lens=[4])).tolist()
    assert migraphx.generate_argument(s).tolist() == [flat[i] for i in (0, 2, 1, 3)]


def test_buffers_are_shared():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = migraphx.argument(data)
    assert a.data_ptr() == data.ctypes.data
    data[0, 1] = 9
    assert a.tolist() == [0, 9, 2, 3, 4, 5]
    view = memoryview(a)
    assert (view.format, view.shape, view.strides) == ("f", (2, 3), (12, 4))
    assert np.asarray(a).ctypes.data == data.ctypes.data


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("?", "bool_type"), ("e", "half_type"), ("f", "float_type"), ("d", "double_type"),
        ("B", "uint8_type"), ("b", "int8_type"), ("H", "uint16_type"), ("h", "int16_type"),
        ("i", "int32_type"), ("q", "int64_type"), ("l", "int64_type"), ("I", "uint32_type"),
        ("Q", "uint64_type"), ("L", "uint64_type"),
    ],
)  # fmt: skip
def test_formats_of_buffers(format, name):
    a = migraphx.argument(np.ones(3, np.dtype(format)))
    assert a.get_shape().type_string() == name
    assert migraphx.argument(memoryview(a)).get_shape() == a.get_shape()
    assert a.tolist() == [1, 1, 1]


def test_buffers_that_are_no_arrays():
    assert migraphx.argument(array.array("f", [1, 2])).tolist() == [1, 2]
    assert migraphx.argument(bytearray(b"ab")).tolist() == [97, 98]
    assert migraphx.argument(memoryview(b"abcd").cast("B", (2, 2))).get_shape().lens() == [2, 2]


def test_strides_and_scalars():
    turned = migraphx.argument(np.zeros((2, 3), np.float32).T)
    assert repr(turned.get_shape()) == "float_type, {3, 2}, {1, 3}"
    assert repr(migraphx.argument(np.float32(2)).get_shape()) == "float_type, {1}, {0}"
    spread = migraphx.argument(np.broadcast_to(np.float32(2), (2, 3)))
    assert repr(spread.get_shape()) == "float_type, {2, 3}, {0, 0}"
    back = migraphx.argument(np.arange(3, dtype=np.int32)[::-1])
    assert back.tolist() == [2, 1, 0]


def test_bools_are_numbers_in_lists_and_bools_in_buffers():
    a = migraphx.argument(np.array([True, False]))
    assert repr(a.tolist()) == "[1, 0]"
    assert repr(a) == "1, 0"
    assert memoryview(a).format == "?"


def test_small_floats_are_generated_and_taken():
    a = migraphx.generate_argument(migraphx.shape(type="bf16", lens=[3]))
    assert a.get_shape().type_string() == "bf16_type"
    same = migraphx.argument(np.array(a.tolist(), ml_dtypes.bfloat16))
    assert a == same


@pytest.mark.parametrize("data", [[1.0], 3, None, "text"])
def test_what_is_no_buffer_is_a_type_error(data):
    with pytest.raises(TypeError, match="buffer"):
        migraphx.argument(data)


class Tensor:
    """A framework's tensor: no buffer protocol, but DLPack."""

    def __init__(self, array, error=None):
        self.array = array
        self.error = error

    def __dlpack__(self, **_):
        if self.error is not None:
            raise self.error
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tensors_come_through_dlpack_and_go_by_it():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = migraphx.argument(Tensor(array))
    assert repr(a.get_shape()) == "float_type, {2, 3}, {3, 1}"
    assert np.shares_memory(a, array)
    assert np.shares_memory(np.from_dlpack(a), array)
    with pytest.raises(RuntimeError, match=r"NumPy cannot read a Tensor: on a device"):
        migraphx.argument(Tensor(array, BufferError("on a device")))


@pytest.mark.parametrize("dtype", ["c8", "U3", "O", "M8[s]", ">f4", "i4,f4"])
def test_other_elements_are_runtime_errors(dtype):
    with pytest.raises(RuntimeError, match="unsupported data type"):
        migraphx.argument(np.zeros(2, dtype))


def test_equality_within_a_unit_in_the_last_place():
    one = np.float32([1, 2])
    near = np.nextafter(one, np.float32(9))
    assert migraphx.argument(one) == migraphx.argument(near)
    assert migraphx.argument(one) != migraphx.argument(np.nextafter(near, np.float32(9)))
    assert migraphx.argument(one) != migraphx.argument(one.astype(np.float64))
    assert migraphx.argument(one) != migraphx.argument(np.broadcast_to(np.float32(1), (2,)))
    for odd in (np.nan, np.inf):
        a = migraphx.argument(np.float32([odd]))
        assert a != copy.copy(a)
    with pytest.raises(TypeError, match="expected argument"):
        assert migraphx.argument(one) == one
    with pytest.raises(TypeError, match="unhashable"):
        hash(migraphx.argument(one))


@pytest.mark.parametrize("kind", ["bf16", "fp8e4m3fn", "fp8e5m2"])
def test_equality_of_small_floats(kind):
    s = migraphx.shape(type=kind, lens=[3])
    a, b = (migraphx.create_argument(s, [-1, 0.0, v]) for v in (1, 1.0))
    assert a == b
    assert a != migraphx.create_argument(s, [-1, 0, 2])


def test_numpy_takes_it_for_an_array_and_gives_arrays():
    a = migraphx.generate_argument(floats(2, 3))
    for made in (a + 1, np.exp(a), np.concatenate([a, a]), a[0], np.array(a), a.T[1:]):
        assert type(made) is np.ndarray
    assert np.array_equal(a, np.array(a))
    assert np.allclose([a], [np.array(a)])
    assert a, "an argument is there whatever it holds"


def test_copies():
    a = migraphx.generate_argument(migraphx.shape(lens=[3, 2], strides=[1, 3]))
    for made in (copy.copy(a), copy.deepcopy(a)):
        assert made == a
        assert made.data_ptr() != a.data_ptr()


def test_created_and_filled():
    made = migraphx.create_argument(floats(2, 2), [1, 2.5, 3, 4])
    assert made.tolist() == [1, 2.5, 3, 4]
    assert repr(made) == str(made) == "1, 2.5, 3, 4"
    turned = migraphx.create_argument(migraphx.shape(lens=[2, 2], strides=[1, 2]), [1, 2, 3, 4])
    assert turned.tolist() == [1, 2, 3, 4]
    assert migraphx.fill_argument(migraphx.shape(type="int8", lens=[2]), 3).tolist() == [3, 3]
    scalar = migraphx.fill_argument(migraphx.shape(type="bool", lens=[1], strides=[0]), True)
    assert scalar.tolist() == [1]
    with pytest.raises(RuntimeError, match="do not match: 3 values for float_type"):
        migraphx.create_argument(floats(2, 2), [1, 2, 3])
    with pytest.raises(TypeError, match="values"):
        migraphx.create_argument(floats(2), "ab")
    with pytest.raises(TypeError, match="shape"):
        migraphx.generate_argument([2, 3])


def test_dynamic_shapes_have_no_data():
    s = migraphx.shape(dyn_dims=[migraphx.shape.dynamic_dimension(1, 4)])
    for make in (migraphx.generate_argument, lambda s: migraphx.fill_argument(s, 1)):
        with pytest.raises(RuntimeError, match="dynamic"):
            make(s)
    with pytest.raises(RuntimeError, match="static"):
        migraphx.create_argument(s, [1])


def test_memory_at_an_address():
    data = np.arange(6, dtype=np.float32)
    turned = migraphx.shape(lens=[2, 3], strides=[1, 2])
    a = migraphx.argument_from_pointer(turned, data.ctypes.data)
    assert a.tolist() == [0, 2, 4, 1, 3, 5]
    assert a.data_ptr() == data.ctypes.data
    with pytest.raises(RuntimeError, match="address"):
        migraphx.argument_from_pointer(floats(1), 0)


def test_tuples():
    s = migraphx.shape(type="tuple_type", sub_shapes=[floats(2), migraphx.shape(type="int8")])
    a = migraphx.generate_argument(s)
    first, second = a.get_sub_objects()
    assert a.get_shape() == s
    assert (first.get_shape(), second.get_shape()) == (floats(2), migraphx.shape(type="int8"))
    assert a == copy.deepcopy(a)
    assert a != migraphx.generate_argument(s, 7)
    assert first.get_sub_objects() == []
    assert repr(migraphx.fill_argument(s, 3)) == "{ 3, 3 }, { 3 }, "
    with pytest.raises(RuntimeError, match="tuple"):
        a.tolist()


def test_files(tmp_path):
    s = migraphx.shape(type="tuple_type", sub_shapes=[floats(2), migraphx.shape(type="half")])
    for i, shape in enumerate((migraphx.shape(lens=[3, 2], strides=[1, 3]), s)):
        a = migraphx.generate_argument(shape)
        migraphx.argument.save(a, str(tmp_path / f"{i}.mxr"))
        assert migraphx.argument.load(str(tmp_path / f"{i}.mxr")) == a
    with pytest.raises(RuntimeError, match=r"none\.mxr"):
        migraphx.argument.load(tmp_path / "none.mxr")
    with pytest.raises(TypeError, match="expected argument"):
        migraphx.argument.save(3, tmp_path / "x.mxr")
