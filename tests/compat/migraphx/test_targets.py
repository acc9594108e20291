"""Targets, what stands in where there is no device, and scripts that say `import migraphx`."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from workbench.compat import migraphx
from workbench.compat.migraphx import targets
from workbench.compiler.builds.targets import Target

S = migraphx.shape(lens=[2, 3])


def relu():
    p = migraphx.program()
    mm = p.get_main_module()
    mm.add_return([mm.add_instruction(migraphx.op("relu"), [mm.add_parameter("x", S)])])
    return p


def test_targets():
    assert repr(migraphx.get_target("ref")) == "<target 'ref'>"
    assert repr(migraphx.get_target("gpu")) == "<target 'gpu'>"
    for name in ("fpga", "tpu", ""):
        with pytest.raises(RuntimeError, match="targets are ref, cpu, gpu"):
            migraphx.get_target(name)
    for wrong in (None, 3):
        with pytest.raises(TypeError, match="name: expected str"):
            migraphx.get_target(wrong)
    with pytest.raises(TypeError, match="get_target"):
        migraphx.target()


def test_modes_of_compilation():
    assert [m.value for m in migraphx.compile_modes] == [0, 50, 100]
    p = relu()
    p.compile(migraphx.get_target("ref"), compile_mode=migraphx.compile_modes.eager)
    assert p.is_compiled()


@pytest.fixture
def no_device(monkeypatch):
    monkeypatch.setattr(targets, "_here", set())
    monkeypatch.setattr(Target, "available", False)


@pytest.mark.usefixtures("no_device")
def test_without_a_device_the_cpu_stands_in():
    with pytest.warns(UserWarning, match="'cpu' stands in"):
        gpu = migraphx.get_target("gpu")
    p = relu()
    p.compile(gpu, offload_copy=False)
    assert p.get_parameter_names() == ["x"]
    assert p.run({"x": np.ones((2, 3), np.float32)})[0].tolist() == [1] * 6


@pytest.mark.usefixtures("no_device")
def test_memory_of_the_host_stands_in_for_the_device():
    a = migraphx.generate_argument(S)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        there = migraphx.to_gpu(a)
        back = migraphx.from_gpu(there)
        empty = migraphx.allocate_gpu(s=S, host=True)
        migraphx.gpu_sync()
    assert len(warned) == 4
    assert all("no device memory" in str(w.message) for w in warned)
    assert a == there == back
    assert len({x.data_ptr() for x in (a, there, back)}) == 3
    assert empty.tolist() == [0] * 6
    assert {w.filename for w in warned} == {__file__}, "the warning names the line of the caller"


def test_the_host_runs_what_no_device_was_asked_for():
    p = relu()
    with pytest.warns(UserWarning, match="ihipStream_t"):
        (out,) = p.run_async({"x": np.ones((2, 3), np.float32)}, 0, "ihipStream_t")
    assert out.tolist() == [1] * 6
    with pytest.raises(TypeError, match="stream"):
        p.run_async({}, "0", "ihipStream_t")


SCRIPT = """
import sys
import migraphx
import neighbour
print(migraphx.__version__, sys.argv[1:], __name__, neighbour.NAME)
s = migraphx.shape(lens=[2])
print(s)
"""


def run(*arguments, cwd):
    command = [sys.executable, "-m", "workbench.compat.migraphx", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_a_script_that_imports_migraphx(tmp_path, monkeypatch):
    root = migraphx.__file__.split("/workbench/", maxsplit=1)[0]
    monkeypatch.setenv("PYTHONPATH", root)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text(
        "import migraphx.sym as s\nNAME = type(s.lit(1)).__module__\n"
    )
    for arguments in (("script.py", "-a", "b"), ("-m", "script", "-a", "b")):
        done = run(*arguments, cwd=tmp_path)
        assert done.stderr == ""
        assert done.stdout == (
            f"{migraphx.__version__} ['-a', 'b'] __main__ workbench.compat.migraphx.sym\n"
            "float_type, {2}, {1}\n"
        )
    assert "no such script" in run("none.py", cwd=tmp_path).stderr
    assert "usage" in run(cwd=tmp_path).stdout
