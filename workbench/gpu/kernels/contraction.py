"""The kernels of ``dot`` and ``quant_dot``, and the common part of every product's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.contract import Dot, QuantDot
from workbench.compiler.ops.view import Transpose
from workbench.compiler.report.result import kernel_text
from workbench.gpu.declarations import Declarations
from workbench.gpu.emit.index import Index, Variable, joined, linear
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import Indices, Tensors
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels import (
    adjacent,
    bulk,
    matrix,
    matrix_bytes,
    matrix_float,
    matrix_tiles,
    operands,
    panels,
    rows,
    strips,
    warpgroup,
)
from workbench.gpu.kernels.elementwise import store as store_neighbours
from workbench.gpu.kernels.kernel import Builder, Launch, Place, blocks_of, work_item
from workbench.gpu.kernels.narrow import MOST_ROWS, Narrow, cut_for, parts_for
from workbench.gpu.kernels.product import (
    Address,
    Cell,
    Ints,
    Operand,
    Product,
    Source,
    Value,
    as_work,
    result_of,
    split_over,
    work_type,
)
from workbench.gpu.kernels.schedules import schedule
from workbench.gpu.kernels.sources import Sources, nearer, sources, step, strides_of
from workbench.gpu.kernels.tiled import Tiled
from workbench.gpu.kernels.tiles import tiles_for

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_FEW = 264
"""Number of blocks below which the terms of a sum are split among several: two for each unit of an H100."""
_FEW_COLUMNS = 15
"""Most columns that are too few for a CPU's vectors."""
_LONG = 128
"""Least number of terms per block when they are split."""

_SMALL = {0: 0, 1: 1 << 13, 2: 1 << 16}
"""Multiplications of a product on a CPU that kernels of their own for so many copies do not pay for."""

Maker: TypeAlias = "Callable[[Lowering, Instruction], Product | None]"
"""A function that describes an instruction as a matrix product; None if that does not pay."""

_MAKERS: Declarations[Maker] = Declarations("a product", "workbench.gpu.kernels")

_STORED = {"f32": DType.FLOAT, "f64": DType.DOUBLE, "u32": DType.UINT32, "u64": DType.UINT64}


@dataclass(frozen=True)
class Result:
    """A value computed elementwise from a product, and its place."""

    instruction: Instruction
    place: Place
    views: tuple[Instruction, ...] = ()
    """The views from the product to the value; each is one to one."""

    def index(self, index: Indices, w: Writer) -> Indices:
        """The index of the value's element for an element of the product."""
        for view in self.views:
            index = forward(view, index, w)
        return index


def forward(view: Instruction, index: Indices, w: Writer) -> Indices:
    """The index in a view's result of an element of its input."""
    source = view.inputs[0].shape
    if isinstance(view.op, Transpose):
        permutation: Ints = view.op.normalized([source]).attributes()["permutation"]
        return tuple(index[a] for a in permutation)
    if source.lens == view.shape.lens:
        return index
    return split_over(joined(index, source.lens), view.shape.lens, w)


def product_of(*ops: type[Operation]) -> Callable[[Maker], Maker]:
    """Declare how operations are matrix products, which gives them kernels, alone and in groups."""

    def declare(make: Maker) -> Maker:
        for op in ops:
            _MAKERS.add(op, make)
        schedule(*ops)(_alone)
        return make

    return declare


def product_maker(op: Operation) -> Maker | None:
    """The function that describes an operation as a matrix product; None if it is not one."""
    return _MAKERS.of(op)


def _alone(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a product, whose operands may be computed on the fly."""
    make = product_maker(instruction.op)
    product = make(lowering, instruction) if make is not None else None
    if product is None:
        return None
    return launches(lowering, product, [Result(instruction, lowering.place(instruction))])


@product_of(Dot, QuantDot)
def dot_product(lowering: Lowering, heart: Instruction) -> Product | None:
    """A ``dot`` or ``quant_dot`` as a product; None if no kernel supports its types."""
    if any(i.shape.type is DType.FP4X2 for i in heart.inputs):
        return None
    a, b = (strides_of(lowering, i) for i in heart.inputs[:2])
    *lens, m, n = heart.shape.lens
    k = heart.inputs[0].shape.lens[-1]
    by_k = (nearer(a, -1, -2), nearer(b, -2, -1))

    def operand(side: int, own: int) -> Operand:
        along, size = by_k[side], heart.inputs[side].shape.type.size
        value, address = _element(heart, side), _address(heart, side)
        return Operand(value, along, k if along else own, size, address=address)

    made = Product(heart, tuple(lens), m, n, k, operand(0, m), operand(1, n), _as_stored)
    if made.batch > 1 and _is_shared(heart):
        even = not lowering.machine.is_cpu and _are_even(a[:-1], (*lens, m))
        return made.stacked() if even or m <= MOST_ROWS else made
    return made


def _are_even(strides: Sequence[int], lens: Sequence[int]) -> bool:
    """Whether the rows of all matrices follow each other by the same stride."""
    axes = [(s, n) for s, n in zip(strides, lens, strict=True) if n != 1]
    return all(far == near * count for (far, _), (near, count) in pairwise(axes))


def _is_shared(heart: Instruction) -> bool:
    """Whether all matrices of a batch are multiplied with the same one."""
    second = heart.inputs[1]
    is_repeated = isinstance(second.op, Multibroadcast) and len(heart.inputs) < 4
    return is_repeated and all(n == 1 for n in second.inputs[0].shape.lens[:-2])


def _as_stored(w: Writer, batch: Indices, row: Index, column: Index) -> Indices:  # noqa: ARG001
    """The index in the result of an element of a product."""
    return (*batch, row, column)


def _element(heart: Instruction, side: int) -> Value:
    """The function that gives an operand's element, times its scale if it has one."""
    work = work_type(heart)

    def value(t: Tensors, batch: Indices, across: Index, k: Index) -> Scalar:
        index = (*batch, k, across) if side else (*batch, across, k)
        return scaled(t, heart, side, index, work)

    return value


def _address(heart: Instruction, side: int) -> Address:
    """The function that gives the place of an operand's element, if it is in memory."""

    def address(t: Tensors, batch: Indices, across: Index, k: Index) -> Source | None:
        return source_of(
            t, heart.inputs[side], (*batch, k, across) if side else (*batch, across, k)
        )

    return address


def source_of(
    t: Tensors, instruction: Instruction, index: Indices, inside: str = "1"
) -> Source | None:
    """The place of an element, if it is in memory; the index may have to be inside of the tensor."""
    found = t.place_of(instruction, index)
    return None if found is None else Source(found[0].name, found[1], inside)


def scaled(t: Tensors, heart: Instruction, side: int, index: Indices, work: str) -> Scalar:
    """An operand's element, times its scale if the operation has scales."""
    x = t.at(heart.inputs[side], index)
    if len(heart.inputs) < 4:
        return x
    scale = t.at(heart.inputs[2 + side], index)
    factors = [as_work(t.w, v, work) for v in (x, scale)]
    return Scalar(t.w.let(work, " * ".join(factors)), _STORED[work])


# Common to all products


def launches(lowering: Lowering, product: Product, results: Sequence[Result]) -> list[Launch]:
    """The kernels of a product and its epilogue."""
    if adjacent.suits(lowering, product):
        return _of_adjacent(lowering, product, results)
    product = _turned(lowering, product, results)
    if not lowering.machine.is_cpu and product.m <= MOST_ROWS:
        cut = cut_for(product)
        return _launches(
            lowering, product, results, parts_for(product, cut),
            lambda b, parts: Narrow(b, product, cut, parts),
        )  # fmt: skip
    if lowering.machine.is_cpu and rows.suits(product):
        return _launches(lowering, product, results, 1, lambda b, _: rows.Rows(b, product))
    make = _on_matrix_units if lowering.machine.matrix and matrix.suits(product) else _in_tiles
    if lowering.machine.is_cpu and panels.suits(product) and not _is_small(lowering, product):
        make = _in_panels
    problem = _problem(product)
    return [replace(one, problem=problem) for one in make(lowering, product, results, problem)]


def _in_tiles(
    lowering: Lowering, product: Product, results: Sequence[Result], problem: str
) -> list[Launch]:
    lens = (product.batch, product.m, product.n)
    tiles = tiles_for(lowering.dialect, product.bytes, *lens, product.k)
    tile = lowering.choices.pick(problem, tiles)
    lanes = 4 if lowering.machine.access and product.n % 4 == 0 else 1
    return _launches(
        lowering, product, results, _parts(lowering, product, tile.blocks(*lens)),
        lambda b, parts: Tiled(b, product, tile, parts, lanes),
    )  # fmt: skip


def _is_small(lowering: Lowering, product: Product) -> bool:
    """Whether copying an operand into panels takes longer than multiplying without."""
    work = product.batch * product.m * product.n * product.k
    if work >= max(_SMALL.values()):
        return False
    width = panels.cuts_for(lowering.machine, product)[0].width
    copies = sum(operands.is_copied(lowering, product, side, width) for side in (0, 1))
    return work < _SMALL[copies]


def _of_adjacent(lowering: Lowering, product: Product, results: Sequence[Result]) -> list[Launch]:
    way = strips if strips.suits(product) else adjacent
    zeros = way.zeros_for(lowering, product)
    read = sources(lowering, product.heart.inputs)
    after = sources(lowering, [r.instruction for r in results], stop=[product.heart])
    b = _bound(lowering, product, results, [*read, *after], [zeros])
    make = strips.Strips if way is strips else adjacent.Adjacent
    kernel = make(b, product, zeros)
    return [b.launch(kernel.write(_Write(b, product, results)), kernel.threads)]


def _in_panels(
    lowering: Lowering, product: Product, results: Sequence[Result], problem: str
) -> list[Launch]:
    """A kernel for each operand that is copied into panels, and the one that multiplies."""
    cut = lowering.choices.pick(problem, panels.cuts_for(lowering.machine, product))
    a, before = operands.read(lowering, product, 0, cut.height, 0)
    b, after = operands.read(lowering, product, 1, cut.width, 1)
    read = dict([*a.sources, *b.sources])
    after_heart = sources(lowering, [r.instruction for r in results], stop=[product.heart])
    builder = _bound(
        lowering, product, results, [*read.items(), *after_heart], (*a.places, *b.places)
    )
    kernel = panels.Panels(builder, product, cut, (a, b))
    made = builder.launch(kernel.write(_Write(builder, product, results)), kernel.threads)
    return [*before, *after, made]


def _on_matrix_units(
    lowering: Lowering, product: Product, results: Sequence[Result], problem: str
) -> list[Launch]:
    plan = lowering.choices.pick(problem, matrix.plans_for(product, _blockings(lowering, product)))
    make = _writer(product, plan.blocking)
    return _launches(
        lowering, product, results, plan.parts, lambda b, parts: make(b, product, plan.blocking, parts)
    )  # fmt: skip


def _blockings(lowering: Lowering, product: Product) -> Sequence[matrix.Blocking]:
    """The ways in which matrix units can divide a product."""
    type, capability = product.heart.inputs[0].shape.type, lowering.machine.matrix
    if type is DType.FLOAT:
        return matrix_float.BLOCKINGS
    if type in matrix_tiles.BYTES:
        return matrix_bytes.offers_for(product, capability)
    if capability != warpgroup.CAPABILITY:
        return matrix.BLOCKINGS
    offers = bulk if bulk.suits(lowering, product) else warpgroup
    return (*matrix.BLOCKINGS, *offers.blockings_for(product))


def _writer(product: Product, blocking: matrix.Blocking) -> type[matrix.Matrix]:
    """The class that writes the kernel of a product on matrix units."""
    type = product.heart.inputs[0].shape.type
    if type in matrix_tiles.BYTES:
        return matrix_bytes.writer_of(product, blocking)
    if blocking.warps > 1:
        return bulk.Bulk if blocking.bulk else warpgroup.Warpgroup
    return matrix_float.FloatMatrix if type is DType.FLOAT else matrix.Matrix


def _problem(product: Product) -> str:
    """All that the choice of a product's kernel depends on, but for what is computed before and after it."""
    heart = product.heart
    near = "terms" if product.a.along_k else "rows"
    near += f" and {'terms' if product.b.along_k else 'columns'}"
    size = f"{product.m}x{product.k}x{product.n}"
    size = f"{product.batch} of {size}" if product.batch > 1 else size
    return f"{heart.op.name} {heart.inputs[0].shape.type.name.lower()} {size}, {near} contiguous"


def _launches(
    lowering: Lowering,
    product: Product,
    results: Sequence[Result],
    parts: int,
    make: Callable[[Builder, int], Tiled | Narrow | rows.Rows | matrix.Matrix],
) -> list[Launch]:
    """One kernel; a second one adds up if the terms of a sum are split among blocks."""
    b = _builder(lowering, product, results, parts > 1)
    kernel = make(b, parts)
    if parts == 1:
        return [b.launch(kernel.write(_Write(b, product, results)), kernel.threads)]
    shared = _scratch(lowering, product, parts)
    target = b.memory(shared, writes=True)

    def keep(cells: Sequence[Cell], sums: Sequence[str]) -> None:
        values = [Scalar(s, target.shape.type) for s in sums]
        store_neighbours(b, target, [(kernel.part, _number(product, c)) for c in cells], values)

    first = b.launch(kernel.write(keep), kernel.threads)
    return [first, _joined(lowering, product, results, shared)]


def _turned(lowering: Lowering, product: Product, results: Sequence[Result]) -> Product:
    """The product, transposed if needed, so that columns are contiguous in the result and numerous enough."""
    first, w = results[0], Writer()
    row, column = (
        Variable(name, 0, n - 1) for name, n in (("row", product.m), ("column", product.n))
    )
    batch = tuple(Index() for _ in product.lens)
    index = first.index(product.place(w, batch, Index.of(row), Index.of(column)), w)
    offset = linear(index, first.place.shape.strides)
    ways = [step(offset, name) for name in ("row", "column")]
    flip = not nearer(ways, 1, 0) and nearer(ways, 0, 1)
    m, n = (product.n, product.m) if flip else (product.m, product.n)
    few = MOST_ROWS if not lowering.machine.is_cpu else 1 if panels.suits(product) else _FEW_COLUMNS
    if n <= few < m:
        flip = not flip
    return product.swapped() if flip else product


def _parts(lowering: Lowering, product: Product, blocks: int) -> int:
    """The number of blocks that a sum is split among: several for few tiles and long sums."""
    if lowering.machine.is_cpu or blocks >= _FEW or product.k < 2 * _LONG:
        return 1
    return min(-(-2 * _FEW // blocks), product.k // _LONG)


def _builder(
    lowering: Lowering, product: Product, results: Sequence[Result], partial: bool
) -> Builder:
    """A builder with everything bound that the kernel reads."""
    heart = product.heart
    after = [] if partial else [r.instruction for r in results]
    read = [*sources(lowering, heart.inputs), *sources(lowering, after, stop=[heart])]
    return _bound(lowering, product, results, read)


def _bound(
    lowering: Lowering,
    product: Product,
    results: Sequence[Result],
    read: Sources,
    more: Sequence[Place] = (),
) -> Builder:
    """A builder with these values bound; it reads other places, too."""
    known = dict(read)
    places = [*known.values(), *(r.place for r in results), *more]
    b = Builder(lowering.dialect, kernel_text(product.heart), places)
    for instruction, place in known.items():
        b.tensors.bind(instruction, b.memory(place))
    return b


class _Write:
    """Computes the epilogue of finished sums and stores it."""

    def __init__(self, b: Builder, product: Product, results: Sequence[Result]) -> None:
        self.b, self.product, self.results = b, product, results
        self.targets = [b.memory(r.place, writes=True) for r in results]

    def __call__(self, cells: Sequence[Cell], sums: Sequence[str]) -> None:
        b, product = self.b, self.product
        found = [product.place(b.w, *cell) for cell in cells]
        for result, target in zip(self.results, self.targets, strict=True):
            places = [result.index(index, b.w) for index in found]
            values: list[Scalar] = []
            for place, text in zip(places, sums, strict=True):
                b.tensors.bind(product.heart, lambda _, text=text: result_of(b.w, product, text))
                values.append(b.tensors.at(result.instruction, place))
            store_neighbours(b, target, places, values)


# Sums that are split among blocks


def _scratch(lowering: Lowering, product: Product, parts: int) -> Place:
    cells = product.batch * product.m * product.n
    return lowering.scratch(product.heart, 0, Shape(_STORED[product.work], (parts, cells)))


def _number(product: Product, cell: Cell) -> Index:
    batch, row, column = cell
    return joined((*batch, row, column), (*product.lens, product.m, product.n))


def _joined(
    lowering: Lowering, product: Product, results: Sequence[Result], partial: Place
) -> Launch:
    """A kernel that adds up the blocks' partial sums, and stores the epilogue's results."""
    read = sources(lowering, [r.instruction for r in results], stop=[product.heart])
    places = [partial, *(p for _, p in read), *(r.place for r in results)]
    b = Builder(lowering.dialect, f"{kernel_text(product.heart)}_parts", places)
    for instruction, place in read:
        b.tensors.bind(instruction, b.memory(place))
    source, write, w = b.memory(partial), _Write(b, product, results), b.w
    parts, cells = partial.shape.lens
    number = work_item(b, cells)
    total = w.variable(product.work, "0")
    with w.loop(parts) as part:
        w.line(f"{total} += {b.tensors.load(source, (part, number)).text};")
    *batch, row, column = split_over(number, (*product.lens, product.m, product.n), w)
    write([(tuple(batch), row, column)], [total])
    return b.launch(blocks_of(cells))
