"""A kernel: its source, how many work items run it, and what it is given."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import memory_type
from workbench.gpu.emit.tensors import Memory, Tensors
from workbench.gpu.emit.writer import Writer

Size: TypeAlias = tuple[int, int, int]
BLOCK = 256
"""Work items of a block where nothing asks for another number."""

_LARGE = 1 << 31
_DIGITS = 16
"""Of the digest in a kernel's name: code is found by its name, and 8 digits are soon the same by chance."""
_ENTRY = "ENTRY"
"""Stands for the kernel's name until its source is known."""


@dataclass(frozen=True)
class Root:
    """Memory that is allocated as one piece: a kernel's pointers point to the starts of such."""

    kind: str
    """``parameter``, ``literal``, ``value`` or ``scratch``."""
    id: int
    """The instruction's; of scratch memory, the one it is for."""
    part: int = 0
    """Which of several results, or which scratch memory."""
    bytes: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Place:
    """A tensor in memory: its shape, and where its first element lies."""

    root: Root
    shape: Shape
    offset: int = 0
    """Elements from the start of the root's memory."""


@dataclass(frozen=True)
class Kernel:
    """The source of a kernel, the same in every dialect, and how it is launched."""

    name: str
    source: str
    """Functions, types and the kernel; a dialect's prologue goes before it."""
    grid: Size
    block: Size
    shared: int = 0
    """Bytes of dynamic shared memory; what a source declares itself is not counted."""


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments."""

    kernel: Kernel
    arguments: tuple[Root, ...]
    writes: frozenset[Root]
    """The arguments that it writes."""
    schedule: str = ""
    """How work items share the work: the module of this package that wrote it."""


def scheduled(launches: Iterable[Launch], by: Callable[..., object]) -> list[Launch]:
    """Launches that say whose schedule they are of: that of the module of a function, unless they say so."""
    name = by.__module__.rpartition(".")[2]
    return [one if one.schedule else replace(one, schedule=name) for one in launches]


class Builder:
    """Writes one kernel: pointers to memory, statements, and then the whole.

    Args:
        dialect: What the kernel is for.
        purpose: What it does, in a few words; becomes its name.
        places: Every tensor in memory that it reads or writes: large ones need wide indices.
        lanes: Neighbouring elements that a work item handles at once.
    """

    def __init__(
        self, dialect: Dialect, purpose: str, places: Sequence[Place], lanes: int = 1
    ) -> None:
        """No pointer is there yet."""
        self.dialect = dialect
        wide = any(p.offset + p.shape.element_space >= _LARGE for p in places)
        self.w = Writer("i64" if wide or any(p.shape.elements >= _LARGE for p in places) else "i32")
        self.tensors = Tensors(self.w, lanes)
        self._purpose = re.sub(r"\W+", "_", purpose).strip("_")[:60] or "kernel"
        self._pointers: dict[tuple[Root, str], str] = {}
        self._writes: set[Root] = set()

    def memory(self, place: Place, writes: bool = False) -> Memory:
        """A tensor in memory that the kernel reads, or writes."""
        key = (place.root, memory_type(place.shape.type))
        if key not in self._pointers:
            self._pointers[key] = f"{'y' if writes else 'x'}{len(self._pointers)}"
        if writes:
            self._writes.add(place.root)
        return Memory(self._pointers[key], place.shape, place.offset)

    def scratch(self, root: Root, type: DType, writes: bool = False) -> str:
        """The pointer to scratch memory of an element type."""
        return self.memory(Place(root, Shape(type, (1,))), writes).name

    def launch(self, grid: int | Size, block: int = BLOCK) -> Launch:
        """The kernel that was written, with its arguments."""
        size = (grid, 1, 1) if isinstance(grid, int) else grid
        body = self.w.text()
        parameters = ", ".join(self._parameter(*item) for item in self._pointers.items())
        definitions = "".join(f"{d}\n" for d in self.w.definitions)
        text = f"{definitions}KERNEL({block}) {_ENTRY}({parameters}) {{\n{body}\n}}\n"
        digest = hashlib.sha256(f"{text}{block}".encode()).hexdigest()[:_DIGITS]
        name = f"{self._purpose}_{digest}"
        kernel = Kernel(name, text.replace(_ENTRY, name), size, (block, 1, 1))
        return Launch(kernel, tuple(r for r, _ in self._pointers), frozenset(self._writes))

    def _parameter(self, key: tuple[Root, str], name: str) -> str:
        root, kind = key
        const = "" if root in self._writes else "const "
        alone = sum(r == root for r, _ in self._pointers) == 1
        return f"GLOBAL {const}{kind} *{'RESTRICT ' if alone else ''}{name}"


def work_item(b: Builder, items: int) -> Index:
    """The number of this work item; those beyond the last one return."""
    w = b.w
    flat = w.define(w.integer_type, f"({w.integer_type})GROUP(0) * {BLOCK} + LOCAL(0)", "t")
    if items % BLOCK:
        w.line(f"if ({flat} >= {items}) return;")
    return Index.of(Variable(flat, 0, items - 1))


def blocks_of(items: int) -> int:
    """The number of blocks that hold so many work items."""
    return -(-items // BLOCK)
