"""Values by key, in memory up to a budget of bytes; the rest is in a temporary folder."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from workbench.compiler.builds.build import VALUE_BYTES
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.dtypes import Array

_USER_DEFINED = 2
"""The code of ``dtype.isbuiltin`` of a type that NumPy does not know, such as bfloat16."""

Value: TypeAlias = "Array | tuple[Value, ...]"


class _Saved(NamedTuple):
    """An array in a file; user-defined types are stored as unsigned integers of the same bits."""

    path: Path
    type: np.dtype[Any]


Saved: TypeAlias = "_Saved | list[Saved]"


class ValueStore(MutableMapping[Any, Any]):
    """Arrays, and tuples of arrays, by key; those used least recently are moved to a temporary folder.

    Values come back read-only, because a change to one that lies in a file would be lost. An array that owns
    its memory is kept as it is, and so is a view of the whole of one, so do not write to it later; a view
    of a part is copied. The folder is made when it is
    first needed, and removed with the store, by ``close`` or at the end of a ``with`` block.
    """

    def __init__(self, budget: int = VALUE_BYTES, folder: str | Path | None = None) -> None:
        """An empty store.

        Args:
            budget: Bytes of arrays to keep in memory; a larger array goes to the folder at once.
            folder: The parent of the temporary folder; by default the system's (``TMPDIR``).

        Raises:
            OperationError: The budget is negative.
        """
        if budget < 0:
            raise OperationError(f"a budget of {budget} bytes; expected at least 0")
        self.budget = budget
        self.used = 0
        """Bytes of the values in memory now."""
        self.peak = 0
        """The most bytes of values that were in memory at once."""
        self._parent = folder
        self._folder: Path | None = None
        self._close: Any = None
        self._numbers = count()
        self._known: dict[Hashable, None] = {}
        self._held: dict[Hashable, Value] = {}
        """Values in memory, the least recently used first."""
        self._saved: dict[Hashable, Saved] = {}

    # As a mapping

    def __setitem__(self, key: Hashable, value: Value) -> None:
        """Add or replace a value.

        Raises:
            InputError: It is no array of numbers, nor a tuple of such arrays.
            OperationError: It has to be written to the folder, which is full or cannot be written.
        """
        own = _own(value, key)
        self.pop(key, None)
        self._hold(key, own)
        self._known[key] = None

    def __getitem__(self, key: Hashable) -> Any:
        """The value; one that lies in the folder is read, and kept in memory if it is within the budget."""
        if key in self._held:
            value = self._held[key] = self._held.pop(key)  # now the last, so used most recently
            return value
        value = _read(self._saved[key])
        if _bytes(value) <= self.budget:
            self._hold(key, value)
        return value

    def __delitem__(self, key: Hashable) -> None:
        """Forget a value, in memory and in the folder."""
        del self._known[key]
        self.used -= _bytes(self._held.pop(key, ()))
        for file in _files(self._saved.pop(key, [])):
            file.path.unlink(missing_ok=True)

    def __contains__(self, key: object) -> bool:
        """Whether there is a value of this key; nothing is read."""
        return key in self._known

    def __iter__(self) -> Iterator[Any]:
        """The keys, in the order in which they were added."""
        return iter(self._known)

    def __len__(self) -> int:
        """The number of values."""
        return len(self._known)

    # Memory and files

    def _hold(self, key: Hashable, value: Value) -> None:
        """Keep a value in memory, after room is made for it; one above the budget is written at once."""
        size = _bytes(value)
        if size > self.budget:
            self._save(key, value)
            return
        while self.used + size > self.budget:
            self._spill(next(iter(self._held)))
        self._held[key] = value
        self.used += size
        self.peak = max(self.peak, self.used)

    def _spill(self, key: Hashable) -> None:
        """Free the memory of a value; its file, if it has been spilled before, is still right."""
        if key not in self._saved:
            self._save(key, self._held[key])
        self.used -= _bytes(self._held.pop(key))

    def _save(self, key: Hashable, value: Value) -> None:
        folder, written = self._made_folder(), list[Path]()
        try:
            self._saved[key] = self._write(value, folder, written)
        except OSError as error:
            for path in written:
                path.unlink(missing_ok=True)
            raise OperationError(
                f"value {key!r} of {_bytes(value):,} bytes cannot be written to {folder}: "
                f"{error.strerror or error}; make room there, set TMPDIR to another folder, give a "
                f"larger budget than {self.budget:,} bytes, or ask for fewer values"
            ) from error

    def _write(self, value: Value, folder: Path, written: list[Path]) -> Saved:
        if isinstance(value, tuple):
            return [self._write(part, folder, written) for part in value]
        path = folder / f"{next(self._numbers)}.npy"
        written.append(path)
        np.save(path, _plain(value), allow_pickle=False)
        return _Saved(path, value.dtype)

    def _made_folder(self) -> Path:
        if self._folder is None:
            try:
                made = tempfile.mkdtemp(prefix="workbench-values-", dir=self._parent)
            except OSError as error:
                raise OperationError(
                    f"no folder for values beyond {self.budget:,} bytes can be made: {error}; set TMPDIR "
                    "to a folder that can be written, or give a larger budget"
                ) from error
            self._folder = Path(made)
            self._close = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return self._folder

    def close(self) -> None:
        """Forget all values and remove the folder; the store can be filled again."""
        for keys in (self._known, self._held, self._saved):
            keys.clear()
        self.used = 0
        if self._close is not None:
            self._close()
        self._folder = self._close = None

    def __enter__(self) -> ValueStore:
        """The store; it is closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def __repr__(self) -> str:
        """Number of values, and how much of them is in memory."""
        spilled = len(self) - len(self._held)
        return (
            f"<ValueStore: {len(self)} values, {self.used:,} bytes in memory, {spilled} in files>"
        )


def _own(value: Any, key: Hashable) -> Value:
    """The value in memory of its own, read-only."""
    if isinstance(value, tuple):
        return tuple(_own(part, key) for part in cast("tuple[Any, ...]", value))
    if not _is_plain(value):
        raise InputError(
            f"value {key!r} is {_described(value)}; expected an array of numbers, or a tuple of arrays"
        )
    array: Array = np.asarray(value)
    return read_only(array if _is_whole(array) else array.copy(order="K"))


def _is_whole(array: Array) -> bool:
    """Whether an array keeps no more memory from being freed than its own elements."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.flags.owndata and owner.nbytes == array.nbytes


def read_only(value: Value) -> Value:
    """The same memory, as arrays through which it cannot be changed."""
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    view = value.view()
    view.flags.writeable = False
    return view


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject


def _described(value: object) -> str:
    objects = isinstance(value, np.ndarray | np.generic)
    return "an array of Python objects" if objects else f"a {type(value).__name__}"


def _bytes(value: Value) -> int:
    return sum(map(_bytes, value)) if isinstance(value, tuple) else value.nbytes


def _plain(array: Array) -> Array:
    """The array in a type that an .npy file can have: the bits of user-defined types as integers."""
    return array.view(f"u{array.itemsize}") if array.dtype.isbuiltin == _USER_DEFINED else array


def _read(saved: Saved) -> Value:
    if isinstance(saved, list):
        return tuple(map(_read, saved))
    array: Array = np.load(saved.path, allow_pickle=False).view(saved.type)
    array.flags.writeable = False
    return array


def _files(saved: Saved) -> Iterable[_Saved]:
    if isinstance(saved, _Saved):
        return [saved]
    return [file for part in saved for file in _files(part)]
