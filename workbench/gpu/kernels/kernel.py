"""A kernel: its source, its grid and its arguments."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Shape
from workbench.compiler.report.run_plan import TileMap
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.index import Index, Variable
from workbench.gpu.emit.scalar import memory_type
from workbench.gpu.emit.tensors import Memory, Tensors
from workbench.gpu.emit.writer import Writer

Size: TypeAlias = tuple[int, int, int]
BLOCK = 256
"""Work items of a block, by default."""

_LARGE = 1 << 31
_DIGITS = 16
"""Hexadecimal digits of the digest in a kernel's name. Code is found by name, so 8 would soon collide."""
ORDER = "AFTER_OTHERS();"
"""The line before which a kernel neither writes memory nor reads what other kernels write."""
NEXT = "NEXT_MAY_BEGIN();"
"""The line from which on blocks of the next kernel may take what is free; by default a kernel begins with it.

Until this kernel ends they only wait. If it takes long, they do so where others still compute, and two of
them may share a multiprocessor while another one has none.
"""
_GROUP = re.compile(r"\bGROUP\((\d)\)")
_OF_BLOCKS = re.compile(r"\b(SHARED|BARRIER|LOCAL)\b")
"""Words that only a kernel itself may use."""
_ENTRY = "ENTRY"
"""A placeholder for the kernel's name until its source is known."""


@dataclass(frozen=True)
class Root:
    """Memory that is allocated as one piece; a kernel's pointer points to the start of one."""

    kind: str
    """``parameter``, ``literal``, ``value`` or ``scratch``."""
    id: int
    """The id of the instruction; for scratch memory, of the one that uses it."""
    part: int = 0
    """The number of the result, or of the scratch memory, if the instruction has several."""
    bytes: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Place:
    """A tensor in memory: its shape, and the offset of its first element."""

    root: Root
    shape: Shape
    offset: int = 0
    """The offset from the start of the root's memory, in elements."""

    @property
    def end(self) -> int:
        """The bytes from the start of the root's memory to the end of the tensor."""
        return (self.offset + self.shape.element_space) * self.shape.type.size


@dataclass(frozen=True)
class Kernel:
    """The source of a kernel, the same in every dialect, and its launch parameters."""

    name: str
    source: str
    """Functions, types and the kernel; the dialect's prologue is prepended."""
    grid: Size
    block: Size
    shared: int = 0
    """Bytes of dynamic shared memory, without the arrays that the source declares."""
    units: str = ""
    """The matrix units that it multiplies on; empty if it uses none."""
    maps: tuple[TileMap, ...] = ()
    """The maps that it has as arguments after its pointers."""

    @property
    def matrix(self) -> bool:
        """Whether it multiplies on matrix units."""
        return bool(self.units)


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments."""

    kernel: Kernel
    arguments: tuple[Root, ...]
    writes: frozenset[Root]
    """The arguments that it writes."""
    schedule: str = ""
    """The schedule: the module of this package that wrote the kernel."""
    problem: str = ""
    """The problem of which this is one of several variants; empty if there is one kernel only."""


def scheduled(launches: Iterable[Launch], by: Callable[..., object]) -> list[Launch]:
    """Launches with their schedule set, if it is not, to the module of a function."""
    name = by.__module__.rpartition(".")[2]
    return [one if one.schedule else replace(one, schedule=name) for one in launches]


class Builder:
    """Writes one kernel: its parameters, its statements, and the complete source.

    Args:
        dialect: The dialect of the device.
        purpose: A few words for the kernel's name.
        places: Every tensor in memory that it reads or writes; large ones need 64-bit indices.
        lanes: Adjacent elements that a work item handles at once.
    """

    def __init__(
        self, dialect: Dialect, purpose: str, places: Sequence[Place], lanes: int = 1
    ) -> None:
        """Start a kernel without parameters."""
        self.dialect = dialect
        wide = any(p.offset + p.shape.element_space >= _LARGE for p in places)
        self.w = Writer("i64" if wide or any(p.shape.elements >= _LARGE for p in places) else "i32")
        self.tensors = Tensors(self.w, lanes, dialect.machine.is_cpu)
        self._purpose = re.sub(r"\W+", "_", purpose).strip("_")[:60] or "kernel"
        self._pointers: dict[tuple[Root, str], str] = {}
        self._writes: set[Root] = set()
        self.shared = 0
        """Bytes of dynamic shared memory."""
        self.matrix = False
        """Whether the kernel multiplies on matrix units."""
        self.units = "matrix"
        """The units, if it does."""
        self._maps: dict[TileMap, str] = {}

    def memory(self, place: Place, writes: bool = False) -> Memory:
        """A tensor in memory that the kernel reads, or writes."""
        key = (place.root, memory_type(place.shape.type))
        if key not in self._pointers:
            self._pointers[key] = f"{'y' if writes else 'x'}{len(self._pointers)}"
        if writes:
            self._writes.add(place.root)
        return Memory(self._pointers[key], place.shape, place.offset)

    def root(self, name: str) -> Root:
        """The memory that a pointer points to."""
        return next(root for (root, _), known in self._pointers.items() if known == name)

    def scratch(self, root: Root, type: DType, writes: bool = False) -> str:
        """The pointer to scratch memory of an element type."""
        return self.memory(Place(root, Shape(type, (1,))), writes).name

    def tile_map(
        self, name: str, offset: int, axes: Sequence[tuple[int, int]], box: Sequence[int]
    ) -> str:
        """The name of a map of memory that the kernel reads.

        Args:
            name: The pointer's name.
            offset: The first element.
            axes: The length and the stride of each axis, the last one contiguous.
            box: The lens of a tile.
        """
        number = list(self._pointers.values()).index(name)
        lens, strides = zip(*axes, strict=True)
        made = TileMap(number, offset, lens, strides, tuple(box))
        return self._maps.setdefault(made, f"map{len(self._maps)}")

    def launch(self, grid: int | Size, block: int = BLOCK) -> Launch:
        """The finished kernel, with its arguments."""
        size = (grid, 1, 1) if isinstance(grid, int) else grid
        parameters = ", ".join(self._parameter(*item) for item in self._pointers.items())
        parameters += "".join(f", TILE_MAP({name})" for name in self._maps.values())
        definitions = "".join(f"{d}\n" for d in self.w.definitions)
        body = self.w.text()
        if block == 1 and self.dialect.machine.is_cpu and not _OF_BLOCKS.search(body):
            function, body = self._apart(parameters, body)
            definitions += function
        first = "".join(f"  {line}\n" for line in (NEXT, ORDER) if line not in body)
        text = f"{definitions}KERNEL({block}) {_ENTRY}({parameters}) {{\n{first}{body}\n}}\n"
        digest = hashlib.sha256(f"{text}{block}{[*self._maps]}".encode()).hexdigest()[:_DIGITS]
        name = f"{self._purpose}_{digest}"
        source = text.replace(_ENTRY, name)
        maps = tuple(self._maps)
        units = self.units if self.matrix else ""
        kernel = Kernel(name, source, size, (block, 1, 1), self.shared, units, maps)
        return Launch(kernel, tuple(r for r, _ in self._pointers), frozenset(self._writes))

    def _apart(self, parameters: str, body: str) -> tuple[str, str]:
        """A function with the body of a block, and the kernel's body, which calls it.

        PoCL makes three functions of a kernel for its own callers, and compiles what is in it three times.
        """
        axes = sorted(set(_GROUP.findall(body)))
        given = ", ".join([*self._pointers.values(), *(f"GROUP({a})" for a in axes)])
        taken = ", ".join([parameters, *(f"i32 group{a}" for a in axes)])
        inside = _GROUP.sub(r"group\1", body)
        function = f"APART void {_ENTRY}_block({taken}) {{\n{inside}\n}}\n"
        return function, f"  {_ENTRY}_block({given});"

    def _parameter(self, key: tuple[Root, str], name: str) -> str:
        root, kind = key
        const = "" if root in self._writes else "const "
        alone = sum(r == root for r, _ in self._pointers) == 1
        return f"GLOBAL {const}{kind} *{'RESTRICT ' if alone else ''}{name}"


def work_item(b: Builder, items: int) -> Index:
    """The number of this work item; work items past the last one return."""
    w = b.w
    flat = w.define(w.integer_type, f"({w.integer_type})GROUP(0) * {BLOCK} + LOCAL(0)", "t")
    if items % BLOCK:
        w.line(f"if ({flat} >= {items}) return;")
    return Index.of(Variable(flat, 0, items - 1))


def blocks_of(items: int) -> int:
    """The number of blocks that hold a number of work items."""
    return -(-items // BLOCK)
