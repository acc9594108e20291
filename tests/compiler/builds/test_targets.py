"""Targets of other packages: registered or installed, they run, and are listed when they are broken."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.runner import Runner
from workbench.compiler.builds.targets import (
    Target,
    all_targets,
    register,
    target_named,
    unregister,
)
from workbench.compiler.errors import OperationError
from workbench.compiler.passes import pipelines
from workbench.compiler.run.reference import Interpreter

TOY = """
from workbench.compiler.builds.runner import NumPyRunner
from workbench.compiler.builds.targets import Target
from workbench.compiler.passes import pipelines


class Toy(Target):
    def prepare(self, program, **_):
        return NumPyRunner(program)


TOY = Toy("toy", "NumPy by another name", pipelines.ref)
"""


class Doubling(Runner):
    """Runs a program and doubles what comes out, so that it is seen to have run."""

    name = "an abacus"

    def __init__(self, program, device):
        super().__init__(program)
        self.device = device

    def run(self, inputs=None, hook=None, progress=False):
        return [2 * value for value in Interpreter(self.program).run(inputs, hook=hook)]


@dataclass(frozen=True)
class Abacus(Target):
    """A target with devices, of which none need be here."""

    takes_device = True

    def prepare(self, program, *, device=None, **_):
        return Doubling(program, device)


@pytest.fixture
def program() -> wb.Program:
    made = wb.Program()
    x = made.main.add_parameter("x", wb.Shape("float", (2,)))
    made.main.add_return(made.main.add("relu", x))
    return made


@pytest.fixture
def abacus() -> Iterator[Target]:
    yield register(Abacus("abacus", "beads", pipelines.ref))
    unregister("abacus")


@pytest.mark.usefixtures("abacus")
def test_a_registered_target_compiles_and_runs(program):
    build = wb.compile(program, target="abacus", device="left")
    assert build.runner.device == "left"
    assert [s.name for s in build.recording] == pipelines.ref().names()
    given = {"x": np.array([-1, 3], np.float32)}
    assert build.run(given)[0].tolist() == [0, 6]
    assert build.run(given, precision="float64")[0].tolist() == [0, 3]
    assert wb.targets().loc["abacus", "what"] == "beads"
    assert len(wb.compare(build, given).table()) == 1


@pytest.mark.usefixtures("abacus")
def test_what_a_runner_lacks_is_refused_with_its_name(program):
    build = wb.compile(program, target="abacus")
    for ask in (build.plan, build.kernels):
        with pytest.raises(OperationError, match="an abacus runs no kernels"):
            ask()
    with pytest.raises(OperationError, match="an abacus does not measure"):
        build.run(profile=True)


def test_two_targets_of_one_name_are_refused(abacus):
    with pytest.raises(OperationError, match="registered twice"):
        register(abacus)
    with pytest.raises(OperationError, match="registered twice"):
        register(Abacus("gpu", "beads", pipelines.ref))


def test_each_pass_is_in_a_targets_pipeline_or_says_where_it_runs():
    used = {name for t in all_targets().values() for name in t.pipeline().names()}
    named = {p: set(pipelines.PIPELINES[p].names()) for p in pipelines.PIPELINES}
    for name, kind in wb.passes().items():
        assert bool(kind.apart) != (name in used), name
        assert ("`backend`" in kind.apart) == (name in named["backend"] - used), name


def test_options_of_a_pipeline_are_checked():
    assert target_named("gpu").pipeline(fast_math=False) == pipelines.gpu(fast_math=False)
    with pytest.raises(OperationError, match="no option 'fast_math'"):
        target_named("ref").pipeline(fast_math=False)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a package with an entry point on the path."""

    def put(name: str, place: str, code: str) -> None:
        module = place.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(code)
        facts = tmp_path / f"{module}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[graph_workbench.targets]\n{name} = {place}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return put


def test_an_installed_package_brings_a_target(program, install):
    install("toy", "toy_target:TOY", TOY)
    assert wb.targets().loc["toy", "available"]
    found = wb.compile(program, target="toy").run({"x": np.array([-1, 3], np.float32)})
    assert found[0].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("raises", "raise ImportError('no beads')", "ImportError: no beads"),
        ("empty", "", "AttributeError"),
        ("other", "TOY = 3", "expected a Target named 'other'"),
        ("gpu", TOY, "has a target 'gpu' of its own"),
    ],
)
def test_a_broken_target_is_listed_with_the_reason(program, install, name, code, says):
    install(name, f"broken_{name}:TOY", code)
    table = wb.targets()
    row = f"broken_{name}:TOY" if name == "gpu" else name
    assert not table.loc[row, "available"]
    assert says in table.loc[row, "missing"]
    assert target_named("auto").name in {"cpu", "gpu"}
    with pytest.raises(OperationError, match="cannot be used"):
        wb.compile(program, target=row)


def test_a_target_whose_answers_are_errors_is_listed_with_them(install):
    install("sly", "sly:SLY", TOY.replace("def prepare", "device = property(lambda _: 1 / 0)\n\n    "
            "def prepare").replace('"toy"', '"sly"').replace("TOY =", "SLY ="))  # fmt: skip
    assert "ZeroDivisionError" in wb.targets().loc["sly", "missing"]
