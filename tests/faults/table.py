"""All faults and all controls."""

from tests.faults import (
    bodies,
    calibration,
    controls,
    dumps,
    fused,
    kernels,
    models_changed,
    precision,
    rules,
    twins,
)
from tests.faults.fault import Control, Fault

ROOMS = (
    models_changed, rules, kernels, fused, precision, calibration, bodies, dumps, twins,
)  # fmt: skip
FAULTS: list[Fault] = [fault for room in ROOMS for fault in room.FAULTS]
CONTROLS: list[Control] = controls.CONTROLS
