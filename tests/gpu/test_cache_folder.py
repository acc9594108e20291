"""The folder of what is kept between runs, and that nothing depends on it."""

from pathlib import Path

from workbench.gpu.code.cache_folder import cache_folder, keep, kept
from workbench.knobs import knobs


def test_the_folder_is_made_where_the_option_says(tmp_path):
    with knobs.scope(cache=str(tmp_path / "deep" / "er")):
        assert cache_folder("kernels") == tmp_path / "deep" / "er" / "kernels"
    assert (tmp_path / "deep" / "er" / "kernels").is_dir()


def test_by_default_it_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
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
