"""Inputs of a run from an .npz file: every size is checked against the program before memory is taken."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape

MAX_BYTES = 1 << 31
"""The most bytes of an input whose lengths are ranges."""
_WIDEST = 16
"""Bytes of an element that may yet be converted to the parameter's type."""


def read_npz(path: str | Path, wanted: Mapping[str, Shape]) -> dict[str, Array]:
    """The arrays of a file.

    Args:
        path: The file.
        wanted: The shapes of a program's parameters, by name.

    Raises:
        InputError: It is no .npz file, is damaged, or has an array that no parameter can take.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError(
                "this is a folder, a pipe or a device; expected an .npz file of arrays"
            )
        with zipfile.ZipFile(path) as archive:
            return {
                name: _array(archive, info, wanted)
                for info in archive.infolist()
                for name in [_name(info)]
            }
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError, TypeError,
        ArithmeticError, RuntimeError, MemoryError,
    ) as error:  # fmt: skip
        said = str(error) or type(error).__name__
        raise InputError(f"{path}: expected an .npz file of arrays; {said}") from error


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, wanted: Mapping[str, Shape]) -> Array:
    """One array, if its header says that it has the size of a parameter, and it is that long."""
    name = _name(info)
    if name not in wanted:
        raise InputError(f"no parameter is called {name!r}; parameters are {', '.join(wanted)}")
    with archive.open(info) as file:
        lens, dtype = _header(file)
        size, most = prod(lens) * dtype.itemsize, _most(wanted[name])
        if size > most:
            raise InputError(
                f"input {name!r} of {list(lens)} {dtype} takes {size:,} bytes; parameter {wanted[name]} has "
                f"at most {most:,}"
            )
        if size != (there := info.file_size - file.tell()):
            raise InputError(
                f"input {name!r} of {list(lens)} {dtype} takes {size:,} bytes; {there:,} are there: the "
                "file is damaged"
            )
    with archive.open(info) as file:
        return cast("Array", np.lib.format.read_array(file, allow_pickle=False))


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise InputError(f"an array of format {version}; expected 1.0 or 2.0")
    try:
        lens, _, dtype = read(file)
    except Exception as error:  # NumPy reads what is damaged as Python, in several ways
        raise InputError(
            f"expected an .npz file of arrays; a header is damaged: {error}"
        ) from error
    if dtype.hasobject:
        raise InputError("an array of Python objects; expected numbers")
    return lens, dtype


def _most(shape: Shape) -> int:
    if shape.dims is not None or not shape.is_tensor:
        return MAX_BYTES
    return max(shape.elements, 1) * _WIDEST
