"""HIP's device class on a device: NVIDIA's through the shim, and a fake one where there is none."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.hip_over_cuda import build
from workbench.gpu.devices.rocm import hip_python

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", params=["fake", pytest.param("cuda", marks=pytest.mark.gpu)])
def told(request, tmp_path_factory):
    """The output of a tour through the device; in a process of its own, because the tour loses the device."""
    if build.compiler() is None:
        pytest.skip("there is no C compiler")
    folder = build.build(tmp_path_factory.mktemp("hip_over_cuda"))
    environment = os.environ | {"ROCM_PATH": str(folder)}
    if request.param == "fake":
        driver = build.library(build.HERE / "fake_driver.c", folder / "lib" / "libfake.so")
        environment["HIP_OVER_CUDA_DRIVER"] = str(driver)
    tour = [sys.executable, "-m", "tests.gpu.hip_over_cuda.tour"]
    done = subprocess.run(
        tour, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_function_of_hip_that_devices_call_is_there():
    hip, _ = hip_python()
    folder = ROOT / "workbench" / "gpu" / "devices"
    named = re.findall(r"\bhip[A-Z]\w+", "".join(p.read_text() for p in folder.glob("*.py")))
    known = {name: getattr(hip, name, None) for name in named}
    functions = {name for name, x in known.items() if callable(x) and not isinstance(x, type)}
    exported = re.findall(
        r"EXPORT int (hip[A-Za-z]+)(?:R\d+)?\(", (build.HERE / "shim.c").read_text()
    )
    assert "hipEventQuery" in functions
    assert functions <= {*exported}


def test_a_device_says_what_it_is_and_warps_are_its_own(told):
    assert told["name"]
    assert told["arch"].startswith("sm_")
    assert told["warp"] == 32
    assert told["version"].startswith("HIP ")
    assert told["devices"] >= 1


def test_what_is_copied_and_computed_is_right(told):
    assert told["right"]
    assert told["copied"]
    assert told["again"]


def test_a_graph_runs_what_was_captured(told):
    assert told["graphs"]
    assert told["replayed"]


def test_events_measure_time_and_a_launch_is_cheap(told):
    assert 0 < told["seconds"] < 1
    assert told["done"]
    assert told["launch"] < 1e-3


def test_a_kernel_says_what_it_needs(told):
    assert told["registers"] > 0
    assert told["blocks"] > 0


def test_every_buffer_is_counted_and_given_back(told):
    assert told["in_use"] > 800_000
    assert told["left"] == 0
    assert told["taken"] == 0


def test_mistakes_are_named_and_the_device_goes_on(told):
    errors = told["errors"]
    assert "out of memory: 4 TiB asked for" in errors["memory"]
    assert "> " in errors["source"]
    assert "two" in errors["source"]
    assert "could not load kernel twice: hipError" in errors["image"]
    assert "could not find kernel thrice: hipErrorNotFound" in errors["kernel"]
    assert "there is no hip:99" in errors["index"]
    assert errors["capture"] == "in the middle of a capture"
    assert "the default stream cannot be captured" in errors["stream"]


def test_a_kernel_that_leaves_its_memory_loses_the_device_and_each_call_says_so(told):
    assert "hipErrorIllegalAddress" in told["lost"]
    assert "restart the process" in told["lost"]
    assert told["after"] == told["lost"]
