"""Kernels of top-k: blocks sort rows in shared memory, and long rows in parts.

They sort keys: unsigned integers in the order of the elements, NaN the greatest, followed by the
element's position, which breaks ties. So the order is total, and equal to that of a stable sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.select import TopK
from workbench.gpu.emit.choices import axis_of
from workbench.gpu.emit.index import Index, Variable, linear, split
from workbench.gpu.emit.scalar import Scalar, c_type, stored
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.tensors import Indices
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import BLOCK, Builder, Launch, Place
from workbench.gpu.kernels.schedules import schedule

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_ORDER = {
    "f": "DEVICE {U} order_{T}({T} x) {{ {U} b = {BITS}(x == 0 ? ({T})0 : x); {U} s = ({U})1 << {TOP};"
    " return x != x ? ~({U})0 : b & s ? ~b : b | s; }}",
    "i": "DEVICE {U} order_{T}({T} x) {{ return ({U})({W})x ^ (({U})1 << {TOP}); }}",
    "u": "DEVICE {U} order_{T}({T} x) {{ return ({U})x; }}",
}
_SHARED = 32 << 10
"""Most bytes of shared memory that a block sorts in."""
_LEAST = 512
"""Least number of elements that a block sorts; short rows share a block."""


@dataclass(frozen=True)
class _Keys:
    """The sort keys of elements: unsigned numbers, of which the last is the position in the row."""

    fields: tuple[str, ...]
    """Their C types. A single one has the position in its low half."""
    given: bool
    """Whether an input gives the order of equal elements."""
    largest: bool

    @property
    def room(self) -> int:
        """The number of elements that a block can sort: a power of two."""
        size = sum(4 if f == "u32" else 8 for f in self.fields)
        return 1 << ((_SHARED // size).bit_length() - 1)


@dataclass(frozen=True)
class _Stage:
    """One stage of sorting rows or parts of rows, which keeps some elements of each."""

    rows: int
    length: int
    """Elements of a row."""
    parts: int
    """Parts per row."""
    part: int
    """Elements per part."""
    kept: int

    @property
    def sorted(self) -> int:
        """Elements that are sorted together: a power of two."""
        return 1 << max(self.part - 1, 1).bit_length()


@schedule(TopK)
def topk(lowering: Lowering, i: Instruction) -> list[Launch] | None:
    """Kernels that sort each row: its parts first, and then the elements that those kept."""
    op, x = cast("Any", i.op), i.inputs[0].shape
    n = x.lens[axis_of(i)]
    k: int = op.k
    keys = _keys(i)
    if not k or (n > keys.room and k > keys.room // 2):
        return None
    rows = x.elements // n
    source: list[Place] | None = None
    made: list[Launch] = []
    while n > keys.room:
        parts = -(-n // keys.room)
        stage = _Stage(rows, n, parts, keys.room, k)
        n = parts * k
        shape = Shape(DType.UINT64, (rows, n))
        places = [
            lowering.scratch(i, len(made) * 3 + at, shape.with_type(_TYPES[f]))
            for at, f in enumerate(keys.fields)
        ]
        made.append(_sort(lowering, i, keys, stage, source, places))
        source = places
    made.append(_sort(lowering, i, keys, _Stage(rows, n, 1, n, k), source, None))
    return made


_TYPES = {"u32": DType.UINT32, "u64": DType.UINT64}


def _keys(i: Instruction) -> _Keys:
    op, given = cast("Any", i.op), len(i.inputs) == 2
    wide = c_type(i.inputs[0].shape.type) in ("f64", "i64", "u64")
    far = given and i.inputs[1].shape.type.size == 8
    fields = ("u64",) if not wide and not given else ("u64", "u32")
    return _Keys(("u64", "u64", "u32") if far or (wide and given) else fields, given, op.largest)


# One kernel


@dataclass
class _Sort:
    """The builder of a sorting kernel."""

    b: Builder
    i: Instruction
    keys: _Keys
    stage: _Stage
    arrays: list[str]

    @property
    def w(self) -> Writer:
        """The writer of the kernel's code."""
        return self.b.w

    def place(self, row: Index, position: Index) -> Indices:
        """The index of an element of a row."""
        lens, axis = self.i.inputs[0].shape.lens, axis_of(self.i)
        rest = split(row, (*lens[:axis], *lens[axis + 1 :]), self.w)
        return (*rest[:axis], position, *rest[axis:])


def _sort(
    lowering: Lowering,
    i: Instruction,
    keys: _Keys,
    stage: _Stage,
    source: list[Place] | None,
    target: list[Place] | None,
) -> Launch:
    """A kernel that sorts elements, or keys kept in scratch memory, and writes the best of them."""
    inputs = lowering.inputs(i)
    places = [*(p for _, p in inputs), *(source or []), *(target or lowering.outputs(i))]
    b = Builder(lowering.dialect, i.name, places)
    for one, place in inputs:
        if source is None or target is None:
            b.tensors.bind(one, b.memory(place))
    size = stage.sorted
    together = max(1, _LEAST // size)
    block = min(BLOCK, max(32, size * together // 2))
    w = b.w
    s = _Sort(b, i, keys, stage, [w.array(f, size * together, "s", "SHARED") for f in keys.fields])
    first = w.define(w.integer_type, f"({w.integer_type})GROUP(0) * {together}", "g")
    segments = stage.rows * stage.parts
    with w.loop(size * together, "LOCAL(0)", str(block)) as at:
        segment, position = at.divmod(size, w)
        _fill(s, at, segment + Index.of(Variable(first, 0, segments - 1)), position, source)
    w.line("BARRIER();")
    _bitonic(s, size, together, block)
    with w.loop(stage.kept * together, "LOCAL(0)", str(block)) as at:
        segment, position = at.divmod(stage.kept, w)
        row = segment + Index.of(Variable(first, 0, segments - 1))
        with w.block(f"if ({row.text()} < {segments})"):
            _write(
                s,
                segment * size + position,
                row,
                position,
                target or lowering.outputs(i),
                target is None,
            )
    return b.launch(-(-segments // together), block)


def _bounded(w: Writer, index: Index, count: int) -> Index:
    """The same index, known to be less than ``count``."""
    low, high = index.range
    if high < count and low >= 0:
        return index
    return Index.of(Variable(w.integer(index.text()), 0, count - 1))


def _fill(s: _Sort, at: Index, segment: Index, position: Index, source: list[Place] | None) -> None:
    """Load one element's key into shared memory; positions past a part's end get the last key."""
    w, stage = s.w, s.stage
    outside = [
        f"{segment.text()} >= {stage.rows * stage.parts}",
        f"{position.text()} >= {stage.part}",
    ]
    with w.block(f"if ({' || '.join(outside)})"):
        _set(s, at, [f"~({f})0" for f in s.keys.fields])
    with w.block("else"):
        inside = _bounded(w, segment, stage.rows * stage.parts)
        row, part = inside.divmod(stage.parts, w)
        element = part * stage.part + _bounded(w, position, stage.part)
        with w.block(f"if ({element.text()} >= {stage.length})"):
            _set(s, at, [f"~({f})0" for f in s.keys.fields])
        with w.block("else"):
            element = _bounded(w, element, stage.length)
            _set(
                s, at, _key(s, row, element) if source is None else _known(s, row, element, source)
            )


def _set(s: _Sort, at: Index, values: list[str]) -> None:
    for array, value in zip(s.arrays, values, strict=True):
        s.w.line(f"{array}[{at.text()}] = {value};")


def _known(s: _Sort, row: Index, element: Index, source: list[Place]) -> list[str]:
    index = row * s.stage.length + element
    return [f"{s.b.memory(p).name}[{index.text()}]" for p in source]


def _key(s: _Sort, row: Index, element: Index) -> list[str]:
    """The numbers that an element is compared by."""
    keys, w, index = s.keys, s.w, s.place(row, element)
    own = _ordered(w, s.b.tensors.at(s.i.inputs[0], index))
    own = f"~{own}" if keys.largest else own
    position = f"(u32)({element.text()})"
    if keys.fields == ("u64",):
        return [f"((u64){own} << 32) | {position}"]
    if not keys.given:
        return [own, position]
    given = _ordered(w, s.b.tensors.at(s.i.inputs[1], index))
    if len(keys.fields) == 3:
        return [f"(u64){own}", f"(u64){given}", position]
    return [f"((u64){own} << 32) | (u64){given}", position]


def _ordered(w: Writer, value: Scalar) -> str:
    """A value as an unsigned number in the same order, in a variable."""
    kind = c_type(value.type)
    wide = kind in ("f64", "i64", "u64")
    u, top = ("u64", 63) if wide else ("u32", 31)
    bits = "F64_BITS" if wide else "F32_BITS"
    w.need(_ORDER[kind[0]].format(T=kind, U=u, W="i64" if wide else "i32", TOP=top, BITS=bits))
    return w.let(u, f"order_{kind}({value.text})")


def _bitonic(s: _Sort, size: int, together: int, block: int) -> None:
    """Sort each run of ``size`` elements of the shared arrays, least first."""
    w = s.w
    with (
        w.block(f"for (i32 span = 2; span <= {size}; span *= 2)"),
        w.block("for (i32 step = span / 2; step > 0; step /= 2)"),
    ):
        with w.block(f"for (i32 p = LOCAL(0); p < {size * together // 2}; p += {block})"):
            w.line("const i32 a = 2 * p - (p & (step - 1));")
            w.line("const i32 b = a + step;")
            w.line(f"const i32 up = (a & {size - 1} & span) == 0;")
            with w.block(f"if (({_less(s.arrays, 'b', 'a')}) == up)"):
                for array, kind in zip(s.arrays, s.keys.fields, strict=True):
                    w.line(f"const {kind} held_{array} = {array}[a];")
                    w.line(f"{array}[a] = {array}[b];")
                    w.line(f"{array}[b] = held_{array};")
        w.line("BARRIER();")


def _less(arrays: list[str], a: str, b: str) -> str:
    first, *rest = arrays
    less = f"{first}[{a}] < {first}[{b}]"
    return f"{less} || ({first}[{a}] == {first}[{b}] && ({_less(rest, a, b)}))" if rest else less


def _write(
    s: _Sort, at: Index, row: Index, position: Index, target: list[Place], is_last: bool
) -> None:
    """Store a key in scratch memory, or the element and its position in the results."""
    w, stage = s.w, s.stage
    if not is_last:
        index = (row * stage.kept + position).text()
        for array, place in zip(s.arrays, target, strict=True):
            w.line(f"{s.b.memory(place, writes=True).name}[{index}] = {array}[{at.text()}];")
        return
    n = s.i.inputs[0].shape.lens[axis_of(s.i)]
    place = w.integer(f"({w.integer_type})(u32){s.arrays[-1]}[{at.text()}]")
    bounded = _bounded(w, row, stage.rows)
    where = s.place(bounded, Index.of(Variable(place, 0, n - 1)))
    given = s.b.tensors.at(s.i.inputs[1], where) if s.keys.given else Scalar(place, DType.INT32)
    found = (s.b.tensors.at(s.i.inputs[0], where), converted(w, given, DType.INT64))
    index = s.place(bounded, position)
    for one, value in zip(target, found, strict=True):
        memory = s.b.memory(one, writes=True)
        offset = linear(index, one.shape.strides, one.offset)
        w.line(f"{memory.name}[{offset.text()}] = {stored(w, value)};")
