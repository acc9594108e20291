"""Many runs at once, with constants replaced meanwhile, and models that are closed under way."""

# pyright: reportPrivateUsage=false

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest

from tests.compat.aitemplate.models import SIZE, meaning, room, scaled, some, there
from workbench.compat.aitemplate import Model

X = some(2, 4, SIZE)
SETS = [some(10 + k, SIZE, SIZE) for k in range(4)]
WANTED = [meaning(X, c, c) for c in SETS]


def is_one_of(found: np.ndarray) -> bool:
    return any(np.allclose(found, w, rtol=1e-4, atol=1e-4) for w in WANTED)


@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_no_run_sees_half_of_a_replaced_set_of_constants(target: str):
    with Model.of(scaled(), ["y"], {"w": SETS[0]}, ["v"], 3, target) as model:
        model.set_constant_with_tensor("v", SETS[0])
        done = Event()
        swaps: list[int] = []

        def replace() -> None:
            while not done.is_set():
                one = SETS[len(swaps) % len(SETS)]
                model.set_many_double_buffer_constants_with_tensors({"w": one, "v": one})
                model.fold_constants(double_buffer=True)
                model.swap_constants()
                swaps.append(0)

        def runs(_: int) -> int:
            stream, y = model.new_stream(), np.zeros((4, SIZE), np.float32)
            return sum(
                is_one_of(model.run_with_tensors([X], [y], stream)["y"]) for _turn in range(60)
            )

        other = Thread(target=replace)
        other.start()
        with ThreadPoolExecutor(4) as pool:
            right = list(pool.map(runs, range(4)))
        done.set()
        other.join()
        assert right == [60] * 4
        assert len(swaps) > 1
        if (device := model._memory.device) is not None:
            used = device.in_use
            for _ in range(20):
                runs(0)
            assert device.in_use <= used


def test_runs_without_waiting_end_right_and_hold_only_what_is_in_flight():
    with Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, num_runtimes=2) as model:
        (x,), outputs = there(model, X), [room(model) for _ in range(12)]
        streams = [model.new_stream() for _ in range(3)]
        for k, y in enumerate(outputs):
            model.run([x], [y], streams[k % 3], sync=False)
        model.set_constant_with_tensor("w", SETS[1])  # waits for all of them
        for y in outputs:
            np.testing.assert_allclose(model.ait_data_to_numpy(y), WANTED[0], rtol=1e-4, atol=1e-4)


def test_a_run_waits_for_a_runtime():
    with Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, target="cpu") as model:
        slot = model._open().take()
        y = np.zeros((4, SIZE), np.float32)
        waiting = Thread(target=model.run_with_tensors, args=([X], [y]))
        waiting.start()
        sleep(0.05)
        assert waiting.is_alive()
        model._open().give(slot)
        waiting.join()
        assert is_one_of(y)


@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_a_model_that_is_closed_under_way_ends_its_runs_and_refuses_more(target: str):
    model = Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, (), 2, target)
    started = Event()

    def runs(_: int) -> str:
        y = np.zeros((4, SIZE), np.float32)
        try:
            for _turn in range(100_000):
                assert is_one_of(model.run_with_tensors([X], [y])["y"])
                started.set()
        except RuntimeError as error:
            return str(error)
        return "not closed"

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(runs, k) for k in range(3)]
        started.wait()
        model.close()
        assert all("Cannot use closed AIT library" in j.result() for j in jobs)


def test_a_run_prefers_the_runtime_that_ran_in_its_stream():
    with Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, num_runtimes=3) as model:
        pool, streams = model._open(), [model.new_stream() for _ in range(3)]
        first = [pool.take(s) for s in streams]
        assert len(set(map(id, first))) == 3
        for slot, stream in zip(first, streams, strict=True):
            slot.stream = stream
            pool.give(slot)
        for k in (2, 0, 1, 1, 2):
            slot = pool.take(streams[k])
            assert slot is first[k]
            pool.give(slot)
        other = pool.take(model.new_stream())  # has none: the one that waits for longest
        assert other is first[0]
        pool.give(other)


def test_a_run_that_is_interrupted_is_awaited_and_leaves_its_runtime(
    monkeypatch: pytest.MonkeyPatch,
):
    with Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, target="gpu") as model:
        (x,), y, stream = there(model, X), room(model), model.new_stream()
        device = model._memory.device
        assert device is not None
        waited: list[object] = []
        finish, record = device.synchronize, device.record

        def interrupted(_: object = None) -> None:
            monkeypatch.setattr(device, "record", record)
            raise KeyboardInterrupt  # between the last launch and the event after it

        monkeypatch.setattr(device, "record", interrupted)
        monkeypatch.setattr(device, "synchronize", lambda s=None: (waited.append(s), finish(s)))
        with pytest.raises(KeyboardInterrupt):
            model.run([x], [y], stream)
        assert waited == [stream]
        monkeypatch.undo()
        model.run([x], [y], model.new_stream())
        assert is_one_of(model.ait_data_to_numpy(y))


def test_a_lost_device_is_an_error_of_each_run_and_the_model_still_closes():
    model = Model.of(scaled(), ["y"], {"w": SETS[0], "v": SETS[0]}, target="gpu")
    (x,), y = there(model, X), room(model)
    device = model._memory.device
    assert device is not None
    model.run([x], [y], sync=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "lost", "it is gone")
        for _ in range(3):  # more than there are runtimes
            with pytest.raises(RuntimeError, match="ModelContainerRun: it is gone"):
                model.run([x], [y])
        model.close()
    with pytest.raises(RuntimeError, match="closed"):
        model.run([x], [y])
