"""The behaviour that all devices share: memory, kernels, order, time, errors."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.devices.kernels import ADD, SUM, built, memory, scalars
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices import peaks
from workbench.gpu.devices.base import Peaks
from workbench.gpu.devices.pool import ALIGNMENT

PLACE = """
KERNEL(4) place(GLOBAL i32 *b) {
  i32 g = GROUP(0) + 2 * (GROUP(1) + 3 * GROUP(2));
  b[g * 4 + LOCAL(0)] = g * 4 + LOCAL(0);
}
"""
DIVIDE = """
KERNEL(64) divide(GLOBAL const f32 *a, GLOBAL const f32 *b, GLOBAL f32 *c) {
  i32 i = GROUP(0) * 64 + LOCAL(0);
  c[i] = a[i] / b[i];
}
"""


def added(device, function, array, c, stream=None):
    """array + c, computed there."""
    half = -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    with memory(device, 2 * half) as buffer:
        a = device.pointer(buffer, 0, array.nbytes)
        b = device.pointer(buffer, half, array.nbytes)
        device.upload(a, array, stream)
        grid = (-(-array.size // 64), 1, 1)
        device.launch(function, grid, (64, 1, 1), 0, [a, b, *scalars(array.size, c)], stream)
        result = np.empty_like(array)
        device.download(result, b, stream)
    return result


@pytest.mark.parametrize("size", [0, 1, 3, 255, 256, 257, 100_003])
def test_bytes_of_any_count_come_back(device, size):
    given = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    with memory(device, size) as buffer:
        pointer = device.pointer(buffer, 0, size)
        device.upload(pointer, given)
        back = np.zeros_like(given)
        device.download(back, pointer)
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.bool_, np.int64, np.float64])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 4)])
def test_arrays_of_any_type_and_shape_come_back(device, dtype, shape):
    given = np.ones(shape, dtype)
    with memory(device, given.nbytes) as buffer:
        pointer = device.pointer(buffer, 0, given.nbytes)
        device.upload(pointer, given)
        back = np.zeros_like(given)
        device.download(back, pointer)
    assert (back == given).all()


def test_an_array_with_gaps_is_refused(device):
    with memory(device, 64) as buffer:
        pointer = device.pointer(buffer, 0, 64)
        with pytest.raises(
            DeviceError, match=r"cannot copy an array of shape.*expected a contiguous one"
        ):
            device.upload(pointer, np.ones((4, 4), np.float32)[:, :2])


def test_parts_of_a_buffer_are_its_bytes(device):
    given = np.arange(1024, dtype=np.uint8)
    with memory(device, given.size) as buffer:
        device.upload(device.pointer(buffer, 0, given.size), given)
        back = np.empty(100, np.uint8)
        device.download(back, device.pointer(buffer, 512, 100))
        np.testing.assert_array_equal(back, given[512:612])
        device.upload(device.pointer(buffer, 256, 100), back)
        whole = np.empty_like(given)
        device.download(whole, device.pointer(buffer, 0, given.size))
    np.testing.assert_array_equal(whole[256:356], given[512:612])
    np.testing.assert_array_equal(whole[:256], given[:256])


def test_an_empty_part_may_stand_at_the_end(device):
    with memory(device, 512) as buffer:
        pointer = device.pointer(buffer, 512, 0)
        device.upload(pointer, np.empty(0, np.float32))
        device.fill(pointer, 0)
        device.copy(pointer, pointer, 0)


@pytest.mark.parametrize(("offset", "bytes"), [(256, 512), (0, 513), (-256, 8), (1, 8)])
def test_a_part_outside_of_its_buffer_is_refused(device, offset, bytes):
    with memory(device, 512) as buffer, pytest.raises(DeviceError, match=rf"{device.spec}.*byte"):
        device.pointer(buffer, offset, bytes)


@pytest.mark.parametrize("bytes", [0, 1, 15, 16, 1000, 1024])
@pytest.mark.parametrize("value", [0, 1, 255])
def test_fill_sets_each_byte_and_no_other(device, bytes, value):
    with memory(device, 1280) as buffer:
        all_of_it = device.pointer(buffer, 0, 1280)
        device.fill(all_of_it, 1280, 7)
        device.fill(device.pointer(buffer, 256, bytes), bytes, value)
        back = np.empty(1280, np.uint8)
        device.download(back, all_of_it)
    assert (back[256 : 256 + bytes] == value).all()
    assert (back[256 + bytes :] == 7).all()
    assert (back[:256] == 7).all()


def test_copies_stay_on_the_device(device):
    given = np.arange(300, dtype=np.float32)
    with memory(device, given.nbytes) as one, memory(device, given.nbytes) as two:
        source, to = (device.pointer(b, 0, given.nbytes) for b in (one, two))
        device.upload(source, given)
        device.copy(to, source, given.nbytes)
        back = np.empty_like(given)
        device.download(back, to)
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 10_000])
def test_a_kernel_runs(device, size):
    array = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(added(device, built(device, ADD, "add"), array, 0.5), array + 0.5)


def test_blocks_share_memory_and_wait_for_each_other(device):
    function = built(device, SUM, "sum")
    array = np.random.default_rng(0).integers(0, 9, (5, 64)).astype(np.float32)
    with memory(device, array.nbytes) as one, memory(device, 20) as two:
        a, b = device.pointer(one, 0, array.nbytes), device.pointer(two, 0, 20)
        device.upload(a, array)
        device.launch(function, (5, 1, 1), (64, 1, 1), 0, [a, b])
        back = np.empty(5, np.float32)
        device.download(back, b)
    np.testing.assert_array_equal(back, array.sum(1))


def test_a_grid_has_three_axes(device):
    function = built(device, PLACE, "place")
    back = np.empty(2 * 3 * 5 * 4, np.int32)
    with memory(device, back.nbytes) as buffer:
        pointer = device.pointer(buffer, 0, back.nbytes)
        device.launch(function, (2, 3, 5), (4, 1, 1), 0, [pointer])
        device.download(back, pointer)
    np.testing.assert_array_equal(back, np.arange(back.size))


def test_a_grid_without_blocks_does_nothing(device):
    function = built(device, ADD, "add")
    with memory(device, 256) as buffer:
        p = device.pointer(buffer, 0, 256)
        device.launch(function, (0, 1, 1), (64, 1, 1), 0, [p, p, *scalars(0, 1)])
        device.synchronize()


def test_division_is_rounded_as_ieee_says_and_keeps_nan_and_infinity(device):
    function = built(device, DIVIDE, "divide")
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 1024)).astype(np.float32)
    a[:6], b[:6] = [1, -1, 0, np.nan, np.inf, 1e-40], [0, 0, 0, 1, 2, 1]
    back = np.empty_like(a)
    with memory(device, 3 * a.nbytes) as buffer:
        parts = [device.pointer(buffer, k * a.nbytes, a.nbytes) for k in range(3)]
        device.upload(parts[0], a)
        device.upload(parts[1], b)
        device.launch(function, (16, 1, 1), (64, 1, 1), 0, parts)
        device.download(back, parts[2])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(back, a / b)


def test_a_prepared_launch_runs_again_with_its_own_arguments(device):
    function = built(device, ADD, "add")
    with memory(device, 512) as buffer:
        a, b = device.pointer(buffer, 0, 256), device.pointer(buffer, 256, 256)
        device.fill(a, 512)
        there = device.prepare(function, (1, 1, 1), (64, 1, 1), 0, [a, b, *scalars(64, 1)])
        back = device.prepare(function, (1, 1, 1), (64, 1, 1), 0, [b, a, *scalars(64, 2)])
        for _ in range(3):
            there(None)
            back(None)
        result = np.empty(64, np.float32)
        device.download(result, a)
    assert (result == 9).all()


def test_a_stream_keeps_order(device):
    function, stream = built(device, ADD, "add"), device.stream()
    array = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(added(device, function, array, 3, stream), array + 3)
    device.synchronize(stream)


def test_threads_share_a_device(device):
    function = built(device, ADD, "add")

    def work(k):
        array = np.full(5000, k, np.float32)
        stream = device.stream() if k % 2 else None
        return all((added(device, function, array, c, stream) == k + c).all() for c in range(20))

    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(work, range(4)))


def test_events_tell_time(device):
    function = built(device, ADD, "add")
    with memory(device, 8 << 20) as buffer:
        a, b = device.pointer(buffer, 0, 4 << 20), device.pointer(buffer, 4 << 20, 4 << 20)
        run = device.prepare(function, (1 << 14, 1, 1), (64, 1, 1), 0, [a, b, *scalars(1 << 20, 1)])
        run(None)
        events = [device.record()]
        for _ in range(3):
            run(None)
            events.append(device.record())
    parts = [device.elapsed(x, y) for x, y in pairwise(events)]
    assert all(0 < part < 10 for part in parts)
    assert device.elapsed(events[0], events[-1]) == pytest.approx(sum(parts), rel=1e-3)


def test_facts_of_a_kernel_are_told_where_the_runtime_knows_them(device):
    facts = device.function_facts(built(device, SUM, "sum"), 64)
    assert facts.shared >= 0
    if device.kind == "cuda":
        assert facts.shared == 256
        assert 0 < facts.registers < 256
        assert facts.blocks > 1


def test_facts_of_a_device(device):
    facts = device.facts
    assert facts.name
    assert facts.arch
    assert facts.compute_units > 0
    assert facts.threads >= 256
    assert facts.memory > 1 << 28
    assert facts.warp == device.dialect.warp


def test_a_kernel_that_does_not_compile_shows_its_line(device):
    wrong = "\nKERNEL(64) wrong(GLOBAL f32 *a) {\n  a[0] = missing;\n}\n"
    with pytest.raises(DeviceError, match=r"kernel wrong does not compile") as caught:
        device.compiler.compile(device.dialect.prologue + wrong, "wrong")
    line = (device.dialect.prologue + wrong).splitlines().index("  a[0] = missing;") + 1
    assert "missing" in str(caught.value)
    assert f"> {line} |   a[0] = missing;" in str(caught.value)


def test_a_damaged_code_object_is_refused(device):
    code = device.compiler.compile(device.dialect.prologue + ADD, "add")
    with pytest.raises(DeviceError, match="could not load kernel add"):
        device.load(type(code)(b"not a code object"), "add")
    with pytest.raises(DeviceError, match="subtract"):
        device.load(code, "subtract")


def test_code_of_one_source_has_one_key(device):
    assert device.compiler.key == type(device)(device.index).compiler.key
    assert device.compiler.key.startswith(device.kind)


def test_a_device_that_is_full_goes_on(device):
    with memory(device, 1024) as buffer:
        pointer = device.pointer(buffer, 0, 1024)
        device.fill(pointer, 1024, 3)
        before = device.in_use
        with pytest.raises(
            DeviceError, match=rf"{device.spec} .* is out of memory: 16 TiB asked for"
        ):
            device.allocate(1 << 44)
        assert device.in_use == before
        back = np.empty(1024, np.uint8)
        device.download(back, pointer)
    assert (back == 3).all()


def test_freed_memory_is_used_again_until_it_is_trimmed(device):
    device.trim()
    with memory(device, 1 << 20) as buffer:
        first = buffer.memory
    with memory(device, (1 << 20) - 100) as buffer:
        assert buffer.memory is first
    taken = device.pool.taken
    device.trim()
    assert device.pool.taken <= taken - (1 << 20)


def test_a_buffer_is_freed_once(device):
    buffer = device.allocate(100)
    device.free(buffer)
    with pytest.raises(DeviceError, match="is used after it was freed"):
        device.free(buffer)
    with pytest.raises(DeviceError, match="is used after it was freed"):
        device.pointer(buffer, 0, 100)


def test_peaks_are_measured_and_kept(device, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(peaks, "_known", {})
    found = device.peaks()
    assert found.bandwidth > 1e8
    assert found.flops["f32"] > 1e8
    assert device.peaks() is found
    monkeypatch.setattr(peaks, "_known", {})
    monkeypatch.setattr(peaks, "measured", lambda _: pytest.fail("measured again"))
    assert device.peaks() == found


@pytest.mark.parametrize(
    "text", ["[1", '{"flops": {"f32": 1e9}, "bandwidth": -1}', '{"flops": {"f32": NaN}}', "{}"]
)
def test_a_damaged_file_of_peaks_is_written_anew(device, tmp_path, monkeypatch, text):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    wanted = {f"matrix{k}": 1e12 for k in ("", " f32", " i8")} | {"f32": 1e9}
    monkeypatch.setattr(peaks, "measured", lambda _: Peaks(1e10, wanted))
    for _ in range(2):
        monkeypatch.setattr(peaks, "_known", {})
        assert device.peaks() == Peaks(1e10, wanted)
        (path,) = (tmp_path / "peaks").glob("*.json")
        path.write_text(text)
