"""Inputs of a run from a file: arrays by name, one array, or an image for a program that takes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.files.npz import read_npy, read_npz, reading
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"})
MOST_PIXELS = 1 << 26
"""The most pixels of an image that is read."""


def read_inputs(program: Program, path: str | Path) -> dict[str, Array]:
    """The inputs of a program in a file.

    Args:
        program: The program.
        path: An ``.npz`` file with an array by parameter; or, for a program with one parameter, an ``.npy``
            file, or an image. An image is resized to the parameter's height and width, as NCHW or NHWC with
            1, 3 or 4 channels: floats from 0 to 1, or bytes. Normalize it in the model, or pass an array.

    Raises:
        InputError: The file cannot be read, or does not fit the parameters.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return read_npz(path, program.parameters)
    if path.suffix != ".npy" and path.suffix.lower() not in IMAGES:
        raise InputError(f"{path}: expected an .npz or .npy file, or an image")
    if len(program.parameters) != 1:
        raise InputError(
            f"{path} is one array; the program has {len(program.parameters)} parameters, so an .npz file "
            f"with {', '.join(program.parameters)} is expected"
        )
    name, shape = next(iter(program.parameters.items()))
    if path.suffix == ".npy":
        return {name: read_npy(path, name, shape)}
    return {name: _image(path, name, shape)}


def _image(path: Path, name: str, shape: Shape) -> Array:
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    channels, height, width, first = _layout(path, name, shape)
    with reading(path, "an image"):
        try:
            pixels = _pixels(path, channels, (width, height))
        except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError) as error:
            raise InputError(f"expected an image: {error}") from error
    pixels = pixels.reshape(height, width, channels)
    arranged = np.moveaxis(pixels, 2, 0) if first else pixels
    made: Any = arranged[None].astype(np.float32) / 255 if shape.type.is_float else arranged[None]
    return np.ascontiguousarray(made.astype(shape.type.numpy))


def _pixels(path: Path, channels: int, size: tuple[int, int]) -> Array:
    from PIL import Image  # noqa: PLC0415

    with Image.open(path) as image:
        if image.width * image.height > MOST_PIXELS:
            raise InputError(f"{image.width} × {image.height} pixels; at most {MOST_PIXELS:,}")
        return np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]).resize(size))


def _layout(path: Path, name: str, shape: Shape) -> tuple[int, int, int, bool]:
    """Channels, height and width of a parameter, and whether channels come before them."""
    lens = [d.min for d in shape.dims] if shape.dims is not None else list(shape.lens)
    if len(lens) == 4 and lens[0] == 1 and min(lens) > 0:
        ways = [(lens[1], lens[2], lens[3], True), (lens[3], lens[1], lens[2], False)]
        # 4 × 6 × 3 is an image of three channels, not one of four that is three wide.
        for way in sorted(ways, key=lambda way: way[0]):
            if way[0] in (1, 3, 4):
                return way
    raise InputError(
        f"{path}: parameter {name!r} is {shape}; an image fits 1 × C × H × W or 1 × H × W × C with 1, 3 or 4 "
        "channels: pass an array"
    )
