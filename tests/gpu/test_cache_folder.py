"""The folder of what is kept between runs, and that nothing depends on it."""

import os

from workbench.gpu.code.cache_folder import cache_folder, keep, kept, trim
from workbench.knobs import knobs


def test_the_folder_is_made_where_the_option_says(tmp_path):
    with knobs.scope(cache=str(tmp_path / "deep" / "er")):
        assert cache_folder("kernels") == tmp_path / "deep" / "er" / "kernels"
    assert (tmp_path / "deep" / "er" / "kernels").is_dir()


def test_by_default_it_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("x") == tmp_path / ".cache" / "graph-workbench" / "x"


def test_a_folder_that_cannot_be_made_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    with knobs.scope(cache=str(tmp_path / "file")):
        assert cache_folder("kernels") is None


def test_a_file_is_kept_whole(tmp_path):
    assert keep(tmp_path / "a", b"one")
    assert keep(tmp_path / "a", b"two")
    assert kept(tmp_path / "a") == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_cannot_be_kept_is_no_error(tmp_path):
    assert not keep(tmp_path / "missing" / "a", b"one")
    assert kept(tmp_path / "missing" / "a") is None
    (tmp_path / "folder").mkdir()
    assert not keep(tmp_path / "folder", b"one")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_what_was_not_used_for_the_longest_time_goes_first(tmp_path):
    for age, name in enumerate(("read", "newest", "older", "oldest")):
        assert keep(tmp_path / name, bytes(100))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    os.utime(tmp_path / "read", (1, 1))
    assert kept(tmp_path / "read")
    with knobs.scope(cache_bytes=250):
        trim(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"read", "newest"}
    with knobs.scope(cache_bytes=0):
        trim(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"read", "newest"}
