"""The value store: what comes out is what went in, in memory or not; the folder goes with the store."""

import gc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.compiler.errors import InputError, OperationError
from workbench.numerics.capture.store import ValueStore

TYPES = [
    np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, np.complex64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu,
    ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float4_e2m1fn,
]  # fmt: skip
LENS = [(), (0,), (3, 0, 2), (1,), (2, 3)]


def folders(where: Path) -> list[Path]:
    return sorted(where.iterdir())


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal bits, type and lens."""
    return (
        found.dtype == wanted.dtype
        and found.shape == wanted.shape
        and found.tobytes() == wanted.tobytes()
    )


@pytest.mark.parametrize("budget", [0, 1 << 20])
@pytest.mark.parametrize("type", TYPES, ids=lambda t: np.dtype(t).name)
def test_every_type_and_rank_survives(type: type, budget: int, tmp_path: Path):
    values = [np.arange(np.prod(lens, dtype=int)).reshape(lens).astype(type) for lens in LENS]
    with ValueStore(budget, tmp_path) as store:
        store.update(enumerate(values))
        assert all(same(store[k], value) for k, value in enumerate(values))


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_tuples_and_layouts_survive(budget: int, tmp_path: Path):
    odd = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    value = (
        odd.transpose(2, 0, 1),
        (odd[::-1, :, ::2], ()),
        np.broadcast_to(np.float16(3), (2, 5)),
    )
    with ValueStore(budget, tmp_path) as store:
        store["t"] = value
        first, (second, none), third = store["t"]
    assert same(first, value[0])
    assert same(second, value[1][0])
    assert none == ()
    assert same(third, value[2])


def test_nan_payloads_and_negative_zero_survive(tmp_path: Path):
    bits = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32)
    with ValueStore(0, tmp_path) as store:
        store["x"] = bits.view(np.float32)
        assert store["x"].view(np.uint32).tolist() == bits.tolist()


steps = st.lists(
    st.tuples(st.sampled_from(["set", "get", "delete"]), st.integers(0, 4), st.integers(0, 40)),
    max_size=40,
)


@given(steps, st.integers(0, 100))
def test_it_is_a_mapping_within_its_budget(steps: list[tuple[str, int, int]], budget: int):
    known: dict[int, np.ndarray] = {}
    with ValueStore(budget) as store:
        for number, (what, key, size) in enumerate(steps):
            if what == "set":
                known[key] = np.full(size, number, np.uint8)
                store[key] = known[key].copy()
            elif key not in known:
                with pytest.raises(KeyError):
                    _ = store[key] if what == "get" else store.__delitem__(key)
            elif what == "get":
                assert same(store[key], known[key])
            else:
                del known[key], store[key]
            assert set(store) == set(known)
            assert store.used <= store.peak <= budget
        assert all(same(store[k], v) for k, v in known.items())


def test_the_least_recently_used_goes_first(tmp_path: Path):
    one = np.zeros(100, np.uint8)
    with ValueStore(300, tmp_path) as store:
        for key in "abc":
            store[key] = one.copy()
        assert store["a"] is store["a"]
        assert not folders(tmp_path)
        store["d"] = one.copy()
        assert "1 in files" in repr(store)
        held = {key: store[key] for key in "acd"}
        assert all(store[key] is held[key] for key in "acd")
        assert same(store["b"], one)
        assert store.peak == 300


def test_a_value_beyond_the_budget_is_only_in_the_folder(tmp_path: Path):
    with ValueStore(99, tmp_path) as store:
        store["small"] = np.zeros(99, np.uint8)
        store["large"] = np.zeros(100, np.uint8)
        assert "1 in files" in repr(store)
        assert same(store["large"], np.zeros(100, np.uint8))
        assert store.used == 99


def test_deleting_frees_memory_and_file(tmp_path: Path):
    with ValueStore(0, tmp_path) as store:
        store["x"] = (np.zeros(3), np.zeros(4))
        (folder,) = folders(tmp_path)
        assert len(folders(folder)) == 2
        store["x"] = np.ones(3)
        assert len(folders(folder)) == 1
        del store["x"]
        assert not folders(folder)
        assert "x" not in store
        assert len(store) == 0


def test_the_folder_goes_with_the_store(tmp_path: Path):
    store = ValueStore(0, tmp_path)
    store["x"] = np.zeros(3)
    assert folders(tmp_path)
    del store
    gc.collect()
    assert not folders(tmp_path)


def test_a_closed_store_is_empty_and_can_be_filled_again(tmp_path: Path):
    store = ValueStore(0, tmp_path)
    store["x"] = np.zeros(3)
    store.close()
    assert not folders(tmp_path)
    assert "x" not in store
    store["x"] = np.ones(2)
    assert same(store["x"], np.ones(2))
    store.close()


def test_values_are_read_only_and_views_are_copied(tmp_path: Path):
    base = np.zeros(8)
    with ValueStore(1 << 10, tmp_path) as store:
        store["x"] = base[2:4]
        base += 1
        assert store["x"].tolist() == [0, 0]
        with pytest.raises(ValueError, match="read-only"):
            store["x"][0] = 1
    base += 1  # the caller's own array stays writable


def test_a_full_disk_is_an_error_that_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with ValueStore(100, tmp_path) as store:
        store["a"] = np.zeros(100, np.uint8)
        monkeypatch.setattr(np, "save", full)
        with pytest.raises(OperationError, match=r"'a' of 100 bytes .* No space left .* TMPDIR"):
            store["b"] = np.ones(50, np.uint8)
        assert same(store["a"], np.zeros(100, np.uint8))
        assert "b" not in store
        assert not folders(folders(tmp_path)[0])


def test_bad_arguments_are_refused(tmp_path: Path):
    with pytest.raises(OperationError, match="-1 bytes; expected at least 0"):
        ValueStore(-1)
    store = ValueStore(0, tmp_path / "absent")
    with pytest.raises(OperationError, match=r"absent.*TMPDIR"):
        store["x"] = np.zeros(1)
    with pytest.raises(InputError, match="'x' is a list"):
        store["x"] = [1, 2]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="'x' is an array of Python objects"):
        store["x"] = np.array([object()])
    assert "x" not in store
