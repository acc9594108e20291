"""A session: actions compile when they must, keep what they found, and can be repeated by code."""

from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.widgets.networks import residual
from workbench.compiler.errors import InputError, OperationError
from workbench.widgets.session.session import ACTIONS, Session
from workbench.widgets.session.settings import Settings

CPU = Settings(target="cpu")


def test_an_action_compiles_once_and_again_when_settings_change():
    session = Session(residual(2), settings=CPU)
    session.do("run")
    first = session.build
    session.do("compare")
    assert session.build is first
    assert not session.is_stale
    session.settings = Settings(target="cpu", seed=1)
    assert not session.is_stale, "another seed is no other build"
    session.settings = Settings(target="cpu", off=("fuse_pointwise",))
    assert session.is_stale
    assert session.report is not None, "it stays until there is another build"
    session.do("run")
    assert session.build is not first
    assert session.report is None


def test_its_code_repeats_what_was_done():
    session = Session(residual(2), settings=Settings(target="cpu", seed=2))
    for action in ("profile", "compare", "bisect"):
        session.do(action)
    names = {"program": residual(2)}
    exec(session.code(), names)
    assert len(names["result"].timings()) == len(session.result.timings())
    assert names["report"].counts == session.report.counts
    assert names["found"].summary == session.bisection.summary


def test_the_code_of_inputs_from_a_file_reads_that_file(tmp_path: Path):
    program = residual(2)
    arrays = {n: np.full(s.lens, 0.5, s.type.numpy) for n, s in program.parameters.items()}
    np.savez(tmp_path / "in.npz", **arrays)
    session = Session(program, settings=Settings(target="cpu", inputs=str(tmp_path / "in.npz")))
    session.do("run")
    names = {"program": program}
    exec(session.code(), names)
    for key in session.result:
        np.testing.assert_array_equal(names["result"][key], session.result[key])
    assert np.array_equal(session.result.inputs["image"], arrays["image"])


def test_what_fails_leaves_everything_as_it_was(tmp_path: Path):
    session = Session(residual(2), settings=CPU)
    session.do("run")
    kept = session.build, session.result
    session.settings = Settings(target="cpu", inputs=str(tmp_path / "missing.npz"))
    with pytest.raises(InputError, match=r"missing\.npz"):
        session.do("run")
    with pytest.raises(OperationError, match=f"expected one of {', '.join(ACTIONS)}"):
        session.do("sing")
    assert (session.build, session.result) == kept
    assert session.did == ["run"]


def test_a_build_is_opened_as_it_is():
    build = wb.compile(residual(2), "cpu")
    session = Session(build.source, settings=CPU, build=build)
    assert session.ready() is build
    assert session.kernels() is None, "NumPy launches no kernels"
