"""The folder of what is kept between runs, and that nothing depends on it."""

import os
import stat

import pytest

from workbench.gpu.code.cache_folder import cache_folder, keep, kept, kept_json, trim
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


def test_whole_folders_go_unless_they_were_used_lately(tmp_path):
    for age, name in enumerate(("new", "old", "older")):
        program = tmp_path / "AB" / name / "add"
        program.mkdir(parents=True)
        (program / "code").write_bytes(bytes(10_000))
        for one in (program / "code", program, program.parent):
            os.utime(one, None if name == "new" else (1000 - age, 1000 - age))
    with knobs.scope(cache_bytes=1):
        trim(tmp_path, "*/*", idle=3600)
    assert [p.name for p in (tmp_path / "AB").iterdir()] == ["new"]


def test_ours_are_for_their_user_alone(tmp_path):
    with knobs.scope(cache=str(tmp_path / "a" / "b")):
        folder = cache_folder("kernels")
    assert {stat.S_IMODE(p.stat().st_mode) for p in (folder, folder.parent)} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
@pytest.mark.parametrize("part", ["", "kernels"])
def test_a_folder_that_others_can_write_to_is_refused_once(tmp_path, mode, part):
    root = tmp_path / f"of {mode}"
    (root / "kernels").mkdir(parents=True)
    (root / part).chmod(mode)
    with knobs.scope(cache=str(root)):
        with pytest.warns(UserWarning, match=r"chmod 700 '.*of .*WORKBENCH_CACHE") as warned:
            assert cache_folder("kernels") is None
        assert len(warned) == 1
        assert f"its mode is {mode:o}" in str(warned[0].message)
        assert cache_folder("kernels") is None  # and nothing is said again
        (root / part).chmod(0o700)
        assert cache_folder("kernels")


def test_a_folder_or_file_of_another_user_is_refused(tmp_path, monkeypatch):
    with knobs.scope(cache=str(tmp_path / "c")):
        folder = cache_folder("kernels")
        assert keep(folder / "a", b"code")
        assert kept(folder / "a") == b"code"
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
        with pytest.warns(UserWarning, match="it belongs to user"):
            assert cache_folder("kernels") is None
        assert kept(folder / "a") is None


def test_a_file_that_others_can_write_to_is_not_read(tmp_path):
    assert keep(tmp_path / "a", b"code")
    (tmp_path / "a").chmod(0o666)
    assert kept(tmp_path / "a") is None


def test_a_json_object_is_read(tmp_path):
    keep(tmp_path / "a.json", b'{"a": [1]}')
    assert kept_json(tmp_path / "a.json") == {"a": [1]}


@pytest.mark.parametrize("damaged", [b"", b"[1", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_an_empty_one(tmp_path, damaged):
    keep(tmp_path / "a.json", damaged)
    assert kept_json(tmp_path / "a.json") == {}
    assert kept_json(tmp_path / "missing.json") == {}
    assert kept_json(None) == {}
