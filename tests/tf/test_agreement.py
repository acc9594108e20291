"""Graphs that TensorFlow made, and what it computed of them (goldens.npz, by make_goldens.py)."""

from pathlib import Path

import numpy as np
import pytest

from tests.tf.agreement import differences
from workbench.compiler.tf import parse_tf

ARRAYS = np.load(Path(__file__).parent / "goldens.npz")
NAMES = sorted({key.partition("/")[0] for key in ARRAYS.files})


def arrays(name: str, kind: str) -> dict[str, np.ndarray]:
    """The inputs or outputs of a case."""
    start = f"{name}/{kind}:"
    return {k.removeprefix(start): ARRAYS[k] for k in ARRAYS.files if k.startswith(start)}


@pytest.mark.parametrize("is_nhwc", [True, False], ids=["nhwc", "as_it_is"])
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_tensorflow(name: str, is_nhwc: bool) -> None:
    wanted = arrays(name, "out")
    graph = ARRAYS[f"{name}/graph"].tobytes()
    program = parse_tf(graph, is_nhwc=is_nhwc, output_names=list(wanted))
    for target in ("ref", "cpu"):
        found = differences(program, target, arrays(name, "in"), wanted, is_nhwc=is_nhwc)
        assert not found, target
