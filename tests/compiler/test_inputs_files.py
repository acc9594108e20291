"""Inputs from files: arrays by name, one array, an image; anything else is refused before memory is taken."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from workbench.compiler.errors import InputError

PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)


def taking(*shapes: wb.Shape) -> wb.Program:
    """A program with these parameters."""
    program = wb.Program()
    made = [program.main.add_parameter(f"p{k}", shape) for k, shape in enumerate(shapes)]
    program.main.add_return(*made)
    return program


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """An image of four rows and six columns."""
    Image.fromarray(PIXELS).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_an_image_is_laid_out_as_the_parameter(picture: Path):
    floats = wb.read_inputs(taking(wb.Shape("float", (1, 3, 4, 6))), picture)["p0"]
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats[0], np.moveaxis(PIXELS, 2, 0).astype(np.float32) / 255)
    whole = wb.read_inputs(taking(wb.Shape("uint8", (1, 4, 6, 3))), picture)["p0"]
    np.testing.assert_array_equal(whole[0], PIXELS)
    half = wb.read_inputs(taking(wb.Shape("half", (1, 1, 2, 3))), picture)["p0"]
    assert (half.shape, half.dtype) == ((1, 1, 2, 3), np.float16)
    program = taking(wb.Shape("float", (1, 4, 8, 8)))
    assert wb.compile(program, "ref").run(wb.read_inputs(program, picture))[0].shape == (1, 4, 8, 8)


def test_one_array_is_the_only_parameters(tmp_path: Path):
    values = np.array(2.5, np.float32)
    np.save(tmp_path / "a.npy", values)
    found = wb.read_inputs(taking(wb.Shape("float", ())), tmp_path / "a.npy")
    assert found["p0"].shape == ()
    assert found["p0"] == values
    with pytest.raises(InputError, match=r"2 parameters, so an \.npz file with p0, p1"):
        wb.read_inputs(taking(wb.Shape("float", ()), wb.Shape("float", ())), tmp_path / "a.npy")


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_what_is_none_of_these_is_refused_with_its_name(tmp_path: Path, picture: Path):
    image, vector = taking(wb.Shape("float", (1, 3, 4, 4))), taking(wb.Shape("float", (3,)))
    huge = tmp_path / "huge.npy"
    np.save(huge, np.zeros(8, np.float32))
    huge.write_bytes(huge.read_bytes().replace(b"(8,)", b"(9999999999999,)".ljust(4)))
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}, []], object), allow_pickle=True)
    long = tmp_path / "long.npy"
    np.save(long, np.zeros(4096))
    for program, path, said in [
        (image, written(tmp_path / "a.png", b"\x89PNG no image"), "expected an image"),
        (vector, picture, "an image fits 1 × C × H × W"),
        (image, tmp_path / "missing.png", "cannot be read"),
        (vector, tmp_path / "missing.npy", "cannot be read"),
        (vector, written(tmp_path / "b.npy", b"\x93NUMPY"), "expected an .npy file"),
        (vector, objects, "an array of Python objects"),
        (vector, long, "takes 32,768 bytes"),
        (vector, huge, "huge.npy: "),
        (vector, tmp_path, "expected an .npz or .npy file, or an image"),
        (vector, tmp_path / "a.txt", "expected an .npz or .npy file, or an image"),
    ]:
        with pytest.raises(InputError, match=said) as refused:
            wb.read_inputs(program, path)
        assert path.name in str(refused.value)
