"""The devices here, and the messages where there is none."""

import os
import subprocess
import sys

import pytest

import workbench as wb
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices import registry
from workbench.knobs import knobs

HIDE = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
from workbench.gpu.devices import registry
from workbench.compiler.errors import DeviceError
for row in registry.available():
    print(row.device, "|", row.name, "|", row.missing)
try:
    print(registry.device({spec!r}).spec)
except DeviceError as error:
    print("DeviceError", error)
"""
FORK = """
import os
from workbench.compiler.errors import DeviceError
from workbench.gpu.devices import registry
opened = registry.device("opencl") if {open} else registry.available()
child = os.fork()
if child:
    sys_exit = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(registry.device("opencl").allocate(64).bytes, sys_exit, flush=True)
else:
    for call in (lambda: registry.device("opencl"), lambda: opened.allocate(64), registry.devices):
        try:
            print(call(), flush=True)
        except (DeviceError, AttributeError) as error:
            print(type(error).__name__, error, flush=True)
    os._exit(0)
"""
EVERY = ["pyopencl", "cuda.bindings.driver", "cuda.bindings.nvrtc", "hip"]


def printed(code: str, **variables: str) -> str:
    environment = os.environ | variables
    environment.pop("WORKBENCH_DEVICE", None)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment | variables,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_has_a_row_for_each_device_and_each_kind_without_one():
    table = wb.devices()
    assert "opencl:0" in table.index
    assert set(table["kind"]) == {"hip", "cuda", "opencl"}
    assert table.loc["opencl:0", "missing"] == ""
    assert table.loc["opencl:0", "compute_units"] > 0
    for _, row in table[table["missing"] != ""].iterrows():
        assert row["name"] == ""


def test_a_device_is_one_object_however_it_is_named():
    assert registry.device("opencl") is registry.device("opencl:0")
    assert registry.device("opencl").spec == "opencl:0"
    with knobs.scope(device="opencl:0"):
        assert registry.device() is registry.device("opencl")
        assert registry.compiler_for() is registry.device("opencl").compiler


def test_without_a_name_the_best_one_is_chosen():
    with knobs.scope(device=""):
        assert registry.device().spec == registry.available()[0].device


def test_the_variable_chooses():
    code = "from workbench.gpu.devices.registry import device; print(device().spec)"
    assert printed(code, WORKBENCH_DEVICE="opencl") == "opencl:0\n"


@pytest.mark.parametrize("spec", ["vulkan", "gpu:0", ":", "0"])
def test_an_unknown_device_is_refused_with_what_there_is(spec):
    with pytest.raises(
        DeviceError, match=r"unknown device .*expected e.g. cuda.*Available: .*opencl:0"
    ):
        registry.device(spec)


@pytest.mark.parametrize("spec", ["cuda:sm_90", "hip:gfx90a"])
def test_an_architecture_is_no_device(spec):
    assert registry.is_architecture(spec)
    with pytest.raises(DeviceError, match=f"{spec} names an architecture"):
        registry.device(spec)


@pytest.mark.parametrize("spec", [None, "", "cuda", "cuda:1", "opencl:0"])
def test_a_device_is_no_architecture(spec):
    assert not registry.is_architecture(spec)


def test_without_packages_each_kind_says_which_to_install():
    out = printed(HIDE.format(hidden=EVERY, spec=None))
    rows = {line.split(" | ")[0]: line for line in out.splitlines()[:3]}
    assert "pip install hip-python" in rows["hip"]
    assert "pip install 'graph-workbench[cuda]'" in rows["cuda"]
    assert "pip install pyopencl pocl-binary-distribution" in rows["opencl"]
    assert "DeviceError no device to run kernels on was found:" in out


def test_one_kind_without_its_package_does_not_hinder_another():
    out = printed(HIDE.format(hidden=["cuda.bindings.driver", "hip"], spec="opencl"))
    assert out.splitlines()[-1] == "opencl:0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("opened", [True, False])
def test_a_forked_process_is_told_that_its_parents_device_is_not_its_own(opened):
    out = printed(FORK.format(open=opened)).splitlines()
    assert out[0].startswith("DeviceError this process was forked from one that had used opencl")
    if opened:
        assert out[1].startswith("DeviceError opencl:0 was opened before this process was forked")
    assert out[-1] == "64 0"
