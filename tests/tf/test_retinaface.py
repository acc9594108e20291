"""A trained face detector, a frozen graph of 1746 nodes: images, open lens, choice of boxes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.models import samples
from tests.models.cache import cached
from tests.models.wheels import WHEELS, create, installed
from tests.tf.agreement import differences, laid_out
from workbench.compiler.ir.program import Program
from workbench.compiler.tf import parse_tf

KNOWN = Path(__file__).parent / "retinaface.npy"
"""The faces of the photograph as TensorFlow finds them: box, five marks, and two scores each."""
HEIGHT, WIDTH = 192, 384


def graph() -> Path:
    """The graph's file, fetched first where the cache lacks it."""
    at_hand = installed(WHEELS["retinaface_pb"])
    return at_hand or cached("retinaface_pb.pb", lambda path: create("retinaface_pb", path))


def photograph() -> np.ndarray:
    """A portrait beside its mirror image, colours from 0 to 255, as TensorFlow takes it."""
    face = np.rint((samples.photograph(HEIGHT, WIDTH // 2) + 1) * 127.5)
    return np.concatenate([face, face[:, :, ::-1]], 2).astype(np.float32)


@cache
def imported() -> Program:
    """The program for images of this size."""
    return parse_tf(graph(), map_input_dims={"x": [1, 3, HEIGHT, WIDTH]})


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_faces_are_those_that_tensorflow_finds(target: str) -> None:
    wanted = {"Identity": np.load(KNOWN)}
    assert not differences(imported(), target, {"x": photograph()}, wanted, is_nhwc=True)


def test_layout_is_of_no_consequence() -> None:
    program = parse_tf(graph(), is_nhwc=False, map_input_dims={"x": [1, HEIGHT, WIDTH, 3]})
    wanted = {"Identity": np.load(KNOWN)}
    assert not differences(program, "cpu", {"x": photograph()}, wanted, is_nhwc=False)


def test_features_before_the_boxes_are_of_use_by_themselves() -> None:
    names = [n.name for n in imported().source_nodes.values() if n.op_type == "ConcatV2"][-3:]
    program = parse_tf(graph(), map_input_dims={"x": [1, 3, HEIGHT, WIDTH]}, output_names=names)
    result = wb.compile(program, "cpu").run({"x": laid_out(photograph(), is_nhwc=True)})
    for name in names:
        assert np.isfinite(np.asarray(result[name])).all()


def test_open_lens_ask_for_the_images_size() -> None:
    program = parse_tf(graph(), map_input_dims={"x": [1, 3, 64, 96]})
    assert program.main.parameters["x"].shape.lens == (1, 3, 64, 96)
