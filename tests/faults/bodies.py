"""Changes in the bodies of Loop, Scan and If: the node inside the body is named."""

import numpy as np

from tests.faults.changed import operator, swapped
from tests.faults.fault import Fault, Wanted
from tests.faults.models_changed import programs
from tests.models.registry import Inputs

KIND = "body"


def _cold() -> Inputs:
    """Inputs with a negative sum, which take the branch `cold`."""
    return {"x": np.array([[-1, 2, -3], [0.5, -2, 1]], np.float32)}


FAULTS = [
    Fault(
        "loop_adds", KIND, "small_loop",
        programs("small_loop", operator("/body/Mul_7", "Add")),
        Wanted(("/body/Mul_7",), ("model",)),
    ),
    Fault(
        "scan_subtracts", KIND, "small_scan",
        programs("small_scan", operator("/body/Add_0", "Sub")),
        Wanted(("/body/Add_0",), ("model",)),
    ),
    Fault(
        "branch_swapped", KIND, "small_branches",
        programs("small_branches", swapped("/cold/Sub_0"), inputs=_cold),
        Wanted(("/cold/Sub_0",), ("model",)),
    ),
]  # fmt: skip
