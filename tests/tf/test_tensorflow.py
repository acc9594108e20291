"""Beside TensorFlow itself: `make tensorflow` installs it apart, and says where its Python is."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.tf import test_agreement, test_retinaface
from tests.tf.agreement import differences
from workbench.compiler.tf import parse_tf

VARIABLE = "WORKBENCH_TENSORFLOW"
HERE = Path(__file__).parent
pytestmark = pytest.mark.tensorflow


def tensorflow(script: str, *arguments: str | Path) -> None:
    """Run a script of this folder where TensorFlow is."""
    python = os.environ.get(VARIABLE)
    assert python, f"run `make tensorflow`, or set {VARIABLE} to a Python that has TensorFlow"
    command = [python, str(HERE / script), *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not finished.returncode, finished.stderr[-2000:]


def test_goldens_are_what_tensorflow_computes(tmp_path: Path) -> None:
    target = tmp_path / "goldens.npz"
    tensorflow("make_goldens.py", target)
    with np.load(target) as fresh:
        assert set(fresh.files) == set(test_agreement.ARRAYS.files)
        for key in fresh.files:
            if not key.endswith("/graph"):
                np.testing.assert_allclose(
                    fresh[key], test_agreement.ARRAYS[key], 1e-5, 1e-5, err_msg=key
                )


@pytest.mark.parametrize("shift", [0, 40, 150])
def test_a_detector_finds_the_same_faces(tmp_path: Path, shift: int) -> None:
    image = np.roll(test_retinaface.photograph(), shift, axis=2)
    np.savez(tmp_path / "in.npz", x=image)
    given, found = tmp_path / "in.npz", tmp_path / "out.npz"
    tensorflow("run_graph.py", test_retinaface.graph(), given, found, "Identity")
    with np.load(found) as arrays:
        wanted = dict(arrays)
    program = test_retinaface.imported()
    for target in ("ref", "cpu"):
        assert not differences(program, target, {"x": image}, wanted, is_nhwc=True)


def test_a_detector_agrees_node_by_node(tmp_path: Path) -> None:
    image, lens = (
        test_retinaface.photograph(),
        [1, 3, test_retinaface.HEIGHT, test_retinaface.WIDTH],
    )
    kinds = {"Relu", "Relu6", "LeakyRelu", "ConcatV2", "ResizeNearestNeighbor", "Softmax"}
    nodes = test_retinaface.imported().source_nodes.values()
    names = [n.name for n in nodes if n.op_type in kinds]
    program = parse_tf(test_retinaface.graph(), map_input_dims={"x": lens}, output_names=names)
    np.savez(tmp_path / "in.npz", x=image)
    found = tmp_path / "out.npz"
    tensorflow("run_graph.py", test_retinaface.graph(), tmp_path / "in.npz", found, *names)
    with np.load(found) as arrays:
        wanted = dict(arrays)
    assert not differences(program, "cpu", {"x": image}, wanted, is_nhwc=True, tolerance=1e-4)
