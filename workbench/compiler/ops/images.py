"""Decoding of image files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import ANY, expect, expect_rank, ranged
from workbench.compiler.ir.shape import Dim, Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
_LARGEST = 1 << 28
"""The largest number of pixels of an image, as a small file can declare any size."""


@operation
class ImageDecode(Operation):
    """The pixels ``[height, width, channels]`` of an image, from the bytes of its file.

    The file is a BMP, JPEG, JPEG 2000, TIFF, PNG, WebP or PNM; it is read with Pillow. The
    ``pixel_format`` is RGB, BGR or Grayscale.
    """

    name = "image_decode"
    flat = True
    on_host = "a compressed file"
    family = Family.MOVEMENT
    pixel_format: str = "RGB"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Three dimensions, of which only the number of channels is known."""
        expect_count(self, inputs, 1)
        expect_static(self, inputs)
        expect_rank(self, inputs, 1, 1)
        data = inputs[0]
        expect(self, data.type is DType.UINT8, f"input {data}; expected bytes, of uint8_type")
        known = self.pixel_format in _MODES
        expect(self, known, f"pixel_format {self.pixel_format!r}; expected {', '.join(_MODES)}")
        channels = len(_MODES[self.pixel_format])
        return ranged(DType.UINT8, [ANY, ANY, Dim(channels, channels)])

    def compute(self, *inputs: Any) -> Any:
        """Decode with Pillow; BGR reverses the channels."""
        pixels = _decoded(np.ascontiguousarray(inputs[0]).tobytes(), _MODES[self.pixel_format])
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        return np.ascontiguousarray(pixels[..., ::-1] if self.pixel_format == "BGR" else pixels)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """A PNM of two by one pixels."""
        data = np.frombuffer(b"P6 2 1 255\n\x01\x02\x03\xf0\x80\x10", np.uint8)
        yield from ((cls(kind), [data]) for kind in _MODES)


def _decoded(data: bytes, mode: str) -> Array:
    """The pixels of a file; any defect of it is an EvaluationError."""
    try:
        from PIL import Image  # noqa: PLC0415
    except ImportError as error:
        raise EvaluationError("image_decode: reading images needs Pillow; install it") from error
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            warnings.simplefilter("ignore")
            if image.width * image.height > _LARGEST:
                raise EvaluationError(
                    f"image_decode: an image of {image.width}×{image.height} pixels; "
                    f"expected at most {_LARGEST:,}"
                )
            return np.asarray(image.convert(mode))
    except EvaluationError:
        raise
    except Exception as error:  # a damaged file can make Pillow raise nearly anything
        raise EvaluationError(
            f"image_decode: the {len(data)} bytes are not an image: {error}"
        ) from error
