"""Runs without copies between host and device: replayed as a graph on copies, and launched on lent memory."""

from unittest.mock import patch

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Contender, Outcome, Timing, race
from tests.bench.serving import WIDTH, layers
from workbench.gpu.run import lent
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.executable import Executable

BURST = 20
SUBJECTS = ("200 products", "20 products")
REPLAYED, LAUNCHED = "replayed", "launched"


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Wall time of a run among twenty that nothing waits for in between."""
    build = wb.compile(layers(int(subject.split(maxsplit=1)[0])), target="gpu", record=False)
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    array = DeviceArray.of(executable.device, on_device.noise((1, WIDTH), np.float32))

    def launched(_: object) -> None:
        with patch.object(lent, "COPIED_PER_LAUNCH", -1):
            _burst(executable, array)

    contenders = {
        REPLAYED: Contender(lambda _: _burst(executable, array)),
        LAUNCHED: Contender(launched),
    }
    found = race("async", subject, contenders, seconds=seconds)
    times = [
        Timing("async", subject, n, tuple(s / BURST for s in t.seconds)) for n, t in found.items()
    ]
    ratio = found[REPLAYED].median / found[LAUNCHED].median
    return Outcome(tuple(times), (Claim("async", subject, f"{REPLAYED} / {LAUNCHED}", ratio, 1.0),))


def _burst(executable: Executable, array: DeviceArray) -> None:
    for _ in range(BURST):
        executable.run_async({"x": array})
    executable.device.synchronize()
