"""NCCL's binding and its communicators, against a library over host memory; on GPUs against NCCL itself."""

import ctypes
import gc
import json
import os
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.gpu.hip_over_cuda import build
from workbench.compiler.errors import DeviceError, EvaluationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.collectives import AllGather, AllReduce, Combine, ReduceScatter
from workbench.compiler.run import team as teams
from workbench.gpu.devices import cuda
from workbench.gpu.devices.nccl import Nccl, nccl
from workbench.gpu.devices.registry import device as chosen
from workbench.gpu.run import runner
from workbench.gpu.run.nccl_team import connected
from workbench.knobs import knobs

HERE = Path(__file__).parent
ADD, MUL, MIN, MAX, LOCAL = Combine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the stand-in for NCCL."""
    if not sys.platform.startswith("linux") or build.compiler() is None:
        pytest.skip("there is no C compiler for Linux")
    made = tmp_path_factory.mktemp("fake_nccl")
    build.library(HERE / "fake_nccl.c", made / "libnccl.so.2", "-pthread")
    return made


@pytest.fixture
def library(folder):
    """The stand-in; afterwards no communicator is left."""
    found = Nccl(str(folder / "libnccl.so.2"))
    yield found
    gc.collect()
    assert found._library.fake_alive() == 0


def device(index, kind="cuda"):
    """A stand-in for a device whose memory is the host's and whose work is done at once."""

    def copy(to, source, bytes, _):
        ctypes.memmove(to, source, bytes)

    return SimpleNamespace(
        kind=kind, index=index, spec=f"{kind}:{index}", copy=copy,
        record=lambda stream: stream, is_done=lambda _: True,
    )  # fmt: skip


def instruction(op, shape):
    program = Program()
    return program.main.add(op, program.main.add_parameter("x", shape))


def exchange(team, op, values, streams):
    """The results of all replicas, each in its thread."""
    shape = Shape(values[0].dtype.name, values[0].shape)
    results = [np.empty_like(op.result(values[: op.size], 0)) for _ in values]

    def work(k):
        one = team.communicators[k]
        one.enqueue(op, values[k].ctypes.data, results[k].ctypes.data, shape, streams[k])
        one.settle(streams[k])

    team.run([partial(work, k) for k in range(len(values))])
    return results


def forms():
    """Every collective of four replicas, in groups of two kinds and all together."""
    for size, stride in (4, 1), (2, 1), (2, 2):
        groups = {"replicas": 4, "size": size, "stride": stride}
        yield AllGather(**groups)
        for op in ADD, MUL, MIN, MAX:
            yield AllReduce(**groups, combine=op)
            yield ReduceScatter(**groups, combine=op)
        yield ReduceScatter(**groups, combine=LOCAL)


def test_results_are_those_of_the_definition(library):
    ops = list(forms())
    shape = Shape("float", (4, 3))
    team = connected(
        [device(k + 3) for k in range(4)], [instruction(o, shape) for o in ops], library
    )
    rng = np.random.default_rng(1)
    for op, dtype in product(ops, ("float32", "int32", "int64", "float64")):
        values = [(rng.normal(size=(4, 3)) * 9).astype(dtype) for _ in range(4)]
        found = exchange(team, op, values, [11, 12, 13, 14])
        for k, result in enumerate(found):
            members = op.members(k)
            wanted = op.result([values[m] for m in members], members.index(k))
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
    for op in AllReduce(4, 4, 1, MIN), AllGather(4, 2, 2):
        flags = [rng.random((4, 3)) > 0.3 for _ in range(4)]
        for k, result in enumerate(exchange(team, op, flags, [11, 12, 13, 14])):
            members = op.members(k)
            wanted = op.result([flags[m] for m in members], members.index(k))
            np.testing.assert_array_equal(result, wanted)
    assert team.way == "NCCL 2.27.6"
    library._library.fake_notes.restype = ctypes.c_char_p
    notes = library._library.fake_notes().decode().splitlines()
    assert "all_reduce 12 type 7 op 0 device 3 stream 11" in notes
    assert "all_reduce 12 type 1 op 3 device 6 stream 14" in notes
    assert "all_gather 48 type 1 op -1 device 4 stream 12" in notes
    assert "reduce_scatter 3 type 8 op 1 device 5 stream 13" in notes
    assert "reduce_scatter 6 type 4 op 2 device 5 stream 13" in notes


def test_what_cannot_be_connected_is_refused(library):
    sums = instruction(AllReduce(2, 2), Shape("float", (5,)))
    with pytest.raises(DeviceError, match=r"different kinds: cuda:0, opencl:0;.*those of cuda or"):
        connected([device(0), device(0, "opencl")], [sums], library)
    one = device(0)
    with pytest.raises(
        DeviceError, match=r"cuda:0 has two of 2 replicas; expected a device for each"
    ):
        connected([one, one], [sums], library)
    shorts = instruction(AllReduce(2, 2), Shape("int16", (5,)))
    with pytest.raises(DeviceError, match=r"combines int16_type, which NCCL and RCCL do not"):
        connected([one, device(1)], [shorts], library)
    with pytest.raises(
        DeviceError, match=r"connect devices 0, 77: unhandled cuda error .*1\); the last"
    ):
        connected([one, device(77)], [sums], library)
    gathered = instruction(AllGather(2, 2), Shape("int16", (5,)))
    assert connected([one, device(1)], [gathered], library).way == "NCCL 2.27.6"
    assert connected([one, device(1)], [], None).way == "nothing"
    twice = device(0, "opencl")
    assert connected([twice, twice], [sums], None).way == "host memory"


@pytest.mark.parametrize(
    ("count", "said"),
    [(13, "could not start all_reduce: some other"), (17, "could not finish a collective: some")],
)
def test_errors_end_a_run(library, count, said):
    """At the call, and after it while the device still runs."""
    op, devices = AllReduce(2, 2), [device(0), device(1)]
    for one in devices:
        one.is_done = lambda _: False
    team = connected(devices, [instruction(op, Shape("float", (count,)))], library)
    values = [np.ones(count, np.float32)] * 2
    with pytest.raises(DeviceError, match=said) as error:
        exchange(team, op, values, [1, 1])
    assert "ncclResult_t" in str(error.value)
    with pytest.raises(EvaluationError, match="make a new session"):
        exchange(team, op, values, [1, 1])


def test_a_collective_that_waits_for_a_replica_that_failed_is_aborted(library, monkeypatch):
    """It waits in the library, where no flag of ours is seen."""
    monkeypatch.setattr(teams, "GRACE", 0.1)
    op, shape = AllReduce(2, 2), Shape("float", (5,))
    team = connected([device(0), device(1)], [instruction(op, shape)], library)
    values = [np.ones(5, np.float32) for _ in range(2)]
    ends = []

    def waits():
        address = values[0].ctypes.data
        try:
            team.communicators[0].enqueue(op, address, address, shape, 1)
        finally:
            ends.append(team.meeting.failure)

    def fails():
        raise DeviceError("cuda:1: the device is lost")

    with pytest.raises(DeviceError, match="the device is lost"):
        team.run([waits, fails])
    assert len(ends) == 1


def test_a_device_that_never_ends_is_not_waited_for_long(library):
    op, devices = AllReduce(2, 2), [device(0), device(1)]
    devices[1].is_done = lambda _: False
    team = connected(devices, [instruction(op, Shape("float", (5,)))], library)
    with (
        knobs.scope(collective_seconds=0.05),
        pytest.raises(
            EvaluationError, match=r"replica 1 waited 0.05 s for the others at all_reduce"
        ),
    ):
        exchange(team, op, [np.ones(5, np.float32)] * 2, [1, 1])


def test_a_device_that_dies_ends_the_others(library):
    """They would wait for it for ever."""

    def dies(_):
        raise DeviceError("cuda:1: the device is lost")

    op, devices = AllReduce(2, 2), [device(0), device(1)]
    devices[0].is_done, devices[1].is_done = lambda _: False, dies
    team = connected(devices, [instruction(op, Shape("float", (5,)))], library)
    with pytest.raises(DeviceError, match="the device is lost") as error:
        exchange(team, op, [np.ones(5, np.float32)] * 2, [1, 1])
    assert error.value.__notes__ == ["in replica 1 of 2"]


def test_the_library_is_found_in_its_package_or_missed(folder, tmp_path, monkeypatch):
    with pytest.raises(DeviceError, match=r"RCCL .librccl.so.1. was not found.*AMD's ROCm has it"):
        nccl("hip")
    place = tmp_path / "nvidia/nccl/lib"
    place.mkdir(parents=True)
    (place / "libnccl.so.2").symlink_to(folder / "libnccl.so.2")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert str(nccl("cuda")).startswith("NCCL 2.")
    (tmp_path / "not a library").write_text("text")
    with pytest.raises(DeviceError, match=r"NCCL: could not open .*not a library"):
        Nccl(str(tmp_path / "not a library"))
    old = build.library(HERE / "fake_nccl.c", tmp_path / "old.so", "-DVERSION=2708")
    with pytest.raises(DeviceError, match=r"is NCCL 2.7.8; expected NCCL 2.10 or newer"):
        Nccl(str(old))
    bare = build.library(HERE / "fake_nccl.c", tmp_path / "bare.so", "-DOLD")
    with pytest.raises(DeviceError, match=r"has no ncclCommGetAsyncError; expected NCCL 2.10"):
        Nccl(str(bare))


def told(folder, *arguments):
    """The output of a session of two replicas on the devices of a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[2])}
    if folder is not None:
        environment["LD_LIBRARY_PATH"] = str(folder)
    command = [sys.executable, "-m", "tests.gpu.devices.replicas_tour", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_session_runs_on_two_devices_of_a_fake_driver(folder):
    pytest.importorskip("cuda.bindings.driver")
    options = "-DDEVICES=2", "-pthread"
    build.library(HERE / "fake_cuda.c", folder / "libcuda.so.1", *options)
    found = told(folder, "cuda:0", "cuda:1")
    assert found["sums"] == [[[11.0, 22.0], [11.0, 22.0]]] * 2
    assert found["state"] == [11.0, 22.0]
    assert found["gathered"] == [[[1.0, 2.0, 10.0, 20.0]] * 2] * 2
    assert found["way"] == "NCCL 2.27.6"
    assert found["runs on"] == ["cuda: a fake GPU"] * 2
    assert found["kinds"].count("collective") == 2
    assert "cuda:0 has two of 2 replicas" in found["twice"]


def needs_cuda():
    if os.environ.get("WORKBENCH_DEVICE", "cuda") != "cuda":
        pytest.skip("NCCL runs on NVIDIA's devices")


@pytest.mark.gpu
def test_collectives_of_one_rank_on_a_gpu():
    """NCCL itself, on one device: in place, into other memory, and in order with kernels and copies."""
    needs_cuda()
    here = chosen("cuda:0")
    sums, parts, gathered = AllReduce(), ReduceScatter(combine=MAX), AllGather()
    shape = Shape("float", (1000,))
    team = connected([here], [instruction(op, shape) for op in (sums, parts, gathered)])
    one = team.communicators[0]
    x = np.arange(1000, dtype=np.float32)
    buffer, stream = here.allocate(8192), here.stream()
    source, target = (here.pointer(buffer, k * 4096, 4096) for k in range(2))
    found = np.empty_like(x)

    def work():
        for to, op in product((source, target), (sums, parts, gathered)):
            here.upload(source, x, stream)
            here.fill(target, 4096, 1, stream)
            one.enqueue(op, source, to, shape, stream)
            here.copy(target, to, 4000, stream)
            one.settle(stream)
            here.download(found, target, stream)
            np.testing.assert_array_equal(found, x)

    team.run([work])
    here.free(buffer)
    with pytest.raises(DeviceError, match=r"could not connect devices 0, 0.*ncclResult_t"):
        nccl("cuda").connect([0, 0])


@pytest.mark.gpu
def test_two_replicas_on_one_gpu_meet_in_host_memory(monkeypatch):
    """All of a session but NCCL: threads, streams and state on a GPU; users are refused this."""
    from tests.compat.popart.test_replicas_apart import training

    needs_cuda()
    with pytest.raises(DeviceError, match=r"cuda:0 has two of 2 replicas"):
        training(target="gpu", devices=["cuda:0", "cuda:0"])
    monkeypatch.setattr(runner, "connected", lambda devices, _: teams.host_team(len(devices)))
    found, _ = training(target="gpu", devices=["cuda:0", "cuda:0"])
    np.testing.assert_allclose(found, training()[0], rtol=1e-5)


@pytest.mark.gpu
def test_a_session_runs_on_two_gpus():
    """On a machine that has them; training gives what one program gives, too."""
    from tests.compat.popart.test_replicas_apart import floats, run, training

    needs_cuda()
    if len(cuda.found()) < 2:
        pytest.skip("there is one GPU here")
    found = told(None, "cuda:0", "cuda:1")
    assert found["sums"] == [[[11.0, 22.0], [11.0, 22.0]]] * 2
    assert found["state"] == [11.0, 22.0]
    assert found["gathered"] == [[[1.0, 2.0, 10.0, 20.0]] * 2] * 2
    assert found["way"].startswith("NCCL 2.")
    devices = {"target": "gpu", "devices": ["cuda:0", "cuda:1"]}
    np.testing.assert_allclose(training(**devices)[0], training()[0], rtol=1e-5)
    rows = np.arange(10, dtype=np.float32).reshape(2, 5) + 1
    for one, other in zip(run(floats, rows), run(floats, rows, **devices), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
