"""Arrays from an .npz file: every size is checked against the program before memory is taken."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Container, Generator, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.shape import Shape

MAX_BYTES = 1 << 31
"""The most bytes of an input whose lengths are ranges."""
_INPUT = ("input", "parameter")
_WIDEST = 16
"""Bytes of an element that may yet be converted to the parameter's type."""


def read_npz(path: str | Path, wanted: Mapping[str, Shape]) -> dict[str, Array]:
    """The inputs of a run in a file.

    Args:
        path: The file.
        wanted: The shapes of a program's parameters, by name.

    Raises:
        InputError: It is no .npz file, is damaged, or has an array that no parameter can take.
    """
    return dict(arrays_of(path, wanted))


def read_npy(path: str | Path, name: str, shape: Shape) -> Array:
    """The array of an ``.npy`` file, as the input of a parameter.

    Raises:
        InputError: It is no such file, is damaged, or takes more bytes than the parameter.
    """
    with reading(path, "an .npy file"), Path(path).open("rb") as file:
        lens, dtype = _header(file)
        _check(name, (lens, dtype), Path(path).stat().st_size - file.tell(), shape, _INPUT)
        file.seek(0)
        return cast("Array", np.lib.format.read_array(file, allow_pickle=False))


def arrays_of(
    path: str | Path,
    wanted: Mapping[str, Shape],
    what: tuple[str, str] = _INPUT,
    skip: Container[str] = (),
) -> Iterator[tuple[str, Array]]:
    """The arrays of a file with their names, one at a time.

    Args:
        path: The file.
        wanted: The shapes that arrays of these names must fit; there must be no others in the file.
        what: The terms for an array and for its place in the program, in messages.
        skip: Names of arrays that are not read.

    Raises:
        InputError: It is no .npz file, is damaged, or has an array that does not fit.
    """
    with _opened(path) as archive:
        for info in archive.infolist():
            if _name(info) not in skip:
                yield _name(info), _array(archive, info, wanted, what)


def names_in(path: str | Path) -> list[str]:
    """The names of the arrays of a file.

    Raises:
        InputError: It is no .npz file.
    """
    with _opened(path) as archive:
        return [_name(info) for info in archive.infolist()]


@contextmanager
def _opened(path: str | Path) -> Generator[zipfile.ZipFile]:
    """An open file; all errors name it."""
    with reading(path, "an .npz file of arrays"), zipfile.ZipFile(Path(path)) as archive:
        yield archive


@contextmanager
def reading(path: str | Path, expected: str) -> Generator[None]:
    """Errors inside name the file, and what was expected."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"this is a folder, a pipe or a device; expected {expected}")
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError, TypeError,
        ArithmeticError, RuntimeError, MemoryError,
    ) as error:  # fmt: skip
        said = str(error) or type(error).__name__
        raise InputError(f"{path}: expected {expected}; {said}") from error


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _array(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    wanted: Mapping[str, Shape],
    what: tuple[str, str],
) -> Array:
    """One array, if its header says that it has the size of a parameter, and it is that long."""
    name, place = _name(info), what[1]
    if name not in wanted:
        raise InputError(f"no {place} is called {name!r}; {place}s are {', '.join(wanted)}")
    with archive.open(info) as file:
        header = _header(file)
        _check(name, header, info.file_size - file.tell(), wanted[name], what)
    with archive.open(info) as file:
        return cast("Array", np.lib.format.read_array(file, allow_pickle=False))


def _check(
    name: str,
    header: tuple[tuple[int, ...], np.dtype[Any]],
    there: int,
    wanted: Shape,
    what: tuple[str, str],
) -> None:
    """Refuse an array that is larger than its place, or shorter than its header says."""
    (given, place), (lens, dtype) = what, header
    size, most = prod(lens) * dtype.itemsize, _most(wanted)
    if size > most:
        raise InputError(
            f"{given} {name!r} of {list(lens)} {dtype} takes {size:,} bytes; {place} {wanted} has "
            f"at most {most:,}"
        )
    if size != there:
        raise InputError(
            f"{given} {name!r} of {list(lens)} {dtype} takes {size:,} bytes; {there:,} are there: the "
            "file is damaged"
        )


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
