"""Kernels of reductions, with the elementwise work around them: blocks of work items share rows.

Each reduction of a body is a stage: every work item folds its elements of the row, then the work items
of the row combine their partial results. Elements that fit in registers are read once for all stages.
Few long rows are split among blocks, whose partial results a second kernel combines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, cast

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.fused import FusedReduce, SplitFusedReduce
from workbench.compiler.ops.reduce import ArgExtreme, LogSoftmax, Reduction, Softmax, reduced_axes
from workbench.compiler.report.result import kernel_text
from workbench.compiler.rewrite.bodies import needed_for
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.reductions import Fold, Parts, fold_of, is_reducible
from workbench.gpu.emit.scalar import Scalar
from workbench.gpu.emit.tensors import At, Indices, Memory, has_value
from workbench.gpu.kernels.elementwise import store
from workbench.gpu.kernels.kernel import Builder, Launch, Place
from workbench.gpu.kernels.reduce_team import Chunk, Team
from workbench.gpu.kernels.reduce_tiling import (
    Space,
    Tiling,
    parts_for,
    space_of,
    tiling_of,
    tilings_of,
)
from workbench.gpu.kernels.schedules import schedule

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_MANY = 12
"""Operations in the body of a reduction that are too many to become vectors without a loop."""
_ALONG_FROM = 32
"""Number of rows from which the partial results of adjacent rows are adjacent in memory."""


class _UnfitError(Exception):
    """A body reads a reduction's result at rows that the work item does not have."""


@dataclass(frozen=True)
class Work:
    """The work of a reducing kernel."""

    instruction: Instruction
    """The instruction that the kernel computes."""
    space: Space
    stages: tuple[Instruction, ...]
    """The reductions over the space, in topological order."""
    results: tuple[Instruction, ...]
    targets: tuple[Place, ...]
    places: Mapping[Instruction, Place]
    """The operands in memory."""
    given: Mapping[Instruction, Instruction] = field(default_factory=dict[Instruction, Instruction])
    """The values of a body's parameters."""
    size: int = 4
    """Bytes of an element of the largest operand."""

    @property
    def gives_rows(self) -> bool:
        """Whether every result has one element per row."""
        return all(r.shape.elements == self.space.rows for r in self.results)

    @property
    def passes(self) -> int:
        """The number of passes over the elements: one per reduction, and one to store a result."""
        return len(self.stages) + (not self.gives_rows)

    @property
    def is_joint(self) -> bool:
        """Whether no reduction depends on another, so that all partial results can be combined at once."""
        return not any(set(self.stages) & needed_for([s.inputs[0]]) for s in self.stages)


# Kernels


class _Kernel:
    """Writes one kernel of reductions."""

    def __init__(self, lowering: Lowering, work: Work, tiling: Tiling, purpose: str) -> None:
        lanes = max(tiling.row_vector, tiling.column_vector) if lowering.machine.access else 1
        places = [*work.places.values(), *work.targets]
        self.b = Builder(lowering.dialect, purpose, places, lanes)
        self.work, self.tiling, self.w = work, tiling, self.b.w
        is_long = len(work.stages) == 1 and _operations(work.instruction) > _MANY
        in_loops = lowering.machine.is_cpu and is_long
        self.team = Team(self.b, tiling, in_loops)
        for one, place in work.places.items():
            self.b.tensors.bind(one, self._reader(place))
        for parameter, one in work.given.items():
            self.b.tensors.bind(parameter, self._alias(one))
        self._rows = {self._row_of(self.index(r)): k for k, r in enumerate(self.team.rows)}

    def _reader(self, place: Place) -> At:
        return lambda index: self.b.tensors.load(self.b.memory(place), index)

    def _alias(self, one: Instruction) -> At:
        return lambda index: self.b.tensors.at(one, index)

    def index(self, row: Index, column: Index | None = None) -> Indices:
        """The index of an element, or of a row's result."""
        return self.work.space.index(row, column or Index(), self.w)

    def _row_of(self, index: Indices) -> Indices:
        return tuple(index[a] for a in self.work.space.kept)

    def fold(self, stage: Instruction) -> Fold:
        """The fold of a stage's elements."""
        return fold_of(stage, self.w.integer_type)

    def element(self, stage: Instruction, fold: Fold, row: Index, column: Index) -> Parts:
        """The partial result of one element of a stage."""
        return fold.one(self.w, self.b.tensors.at(stage.inputs[0], self.index(row, column)), column)

    def bind(self, stage: Instruction, fold: Fold, found: Sequence[Parts]) -> None:
        """Bind a stage to its results, for later stages."""
        values = [fold.result(self.w, parts) for parts in found]

        def at(index: Indices) -> Scalar:
            row = self._rows.get(self._row_of(index))
            if row is None:
                raise _UnfitError
            return values[row]

        self.b.tensors.bind(stage, at)

    def run_stages(self) -> None:
        """Write all reductions, one after another."""
        for stage in self.work.stages:
            fold = self.fold(stage)
            found = self.team.folded(fold, lambda r, c, s=stage, f=fold: self.element(s, f, r, c))
            self.bind(stage, fold, found)

    def store_results(self) -> None:
        """Store every result: one per row by its first work item, others by each work item its elements."""
        for result, place in zip(self.work.results, self.work.targets, strict=True):
            target = self.b.memory(place, writes=True)
            if result.shape.elements == self.work.space.rows:
                with self.team.when(self.team.is_first):
                    self._store(result, target, [self.index(r) for r in self.team.rows])
            else:
                self._store_all(result, target)

    def _store_all(self, result: Instruction, target: Memory) -> None:
        with self.team.each() as chunks:
            self._store_chunks(result, target, chunks)
        if not self.tiling.is_kept:
            self._store_chunks(result, target, self.team.rest())

    def _store_chunks(self, result: Instruction, target: Memory, chunks: Sequence[Chunk]) -> None:
        for columns, condition in chunks:
            with self.team.when(condition):
                self._store_chunk(result, target, columns)

    def _store_chunk(self, result: Instruction, target: Memory, columns: Sequence[Index]) -> None:
        """Store elements of adjacent columns, or of adjacent rows in one column."""
        if len(self.team.rows) == 1:
            self._store(result, target, [self.index(self.team.rows[0], c) for c in columns])
            return
        for column in columns:
            self._store(result, target, [self.index(r, column) for r in self.team.rows])

    def _store(self, result: Instruction, target: Memory, indices: Sequence[Indices]) -> None:
        store(self.b, target, indices, [self.b.tensors.at(result, i) for i in indices])

    def launch(self) -> Launch:
        """The finished kernel."""
        return self.b.launch((self.tiling.blocks, self.tiling.parts, 1), self.tiling.block)


def launches(lowering: Lowering, work: Work) -> list[Launch] | None:
    """The kernel of a reduction, or two if few long rows are split among blocks."""
    s, purpose = work.space, kernel_text(work.instruction)
    offers = tilings_of(s.rows, s.columns, s.along, s.run, work.size, lowering.machine, work.passes)
    problem = _problem(work) if len(offers) > 1 and not work.gives_rows else ""
    tiling = lowering.choices.pick(problem, offers) if problem else offers[0]
    if work.gives_rows and work.is_joint:
        tiling = parts_for(tiling, lowering.machine)
    try:
        if tiling.parts > 1:
            return _split(lowering, work, tiling, purpose)
        kernel = _Kernel(lowering, work, tiling, purpose)
        kernel.run_stages()
        kernel.store_results()
    except _UnfitError:
        return None
    return [replace(kernel.launch(), problem=problem)]


def _problem(work: Work) -> str:
    """All that the choice of a tiling depends on, but for the elementwise work."""
    s, stages = work.space, " and ".join(stage.name for stage in work.stages)
    return f"{stages} of {s.rows} rows of {s.columns}, {work.size} bytes each"


def _operations(instruction: Instruction) -> int:
    """The number of operations in an instruction's bodies."""
    return sum(1 + _operations(i) for m in instruction.modules for i in m)


# Rows that are split among blocks


def _split(lowering: Lowering, work: Work, tiling: Tiling, purpose: str) -> list[Launch]:
    """A kernel that stores partial results in scratch memory, and one that combines them."""
    first = _Kernel(lowering, work, tiling, f"{purpose} parts")
    side_by_side = tiling.rows >= _ALONG_FROM
    lens = (tiling.parts, tiling.rows) if side_by_side else (tiling.rows, tiling.parts)
    run = lens[1]
    second_tiling = tiling_of(tiling.rows, tiling.parts, not side_by_side, run, 4, lowering.machine)
    second = _Kernel(lowering, work, second_tiling, f"{purpose} joined")
    scratch = _scratch(lowering, work, first, lens)

    def place(row: Index, part: Index) -> Indices:
        return (part, row) if side_by_side else (row, part)

    for stage in work.stages:
        fold = first.fold(stage)
        found = first.team.folded(fold, lambda r, c, s=stage, f=fold: first.element(s, f, r, c))
        _store_parts(first, found, scratch[stage], place)
    for stage in work.stages:
        _join_parts(second, stage, scratch[stage], place)
    second.store_results()
    return [first.launch(), second.launch()]


def _scratch(
    lowering: Lowering, work: Work, kernel: _Kernel, lens: tuple[int, int]
) -> dict[Instruction, list[Place]]:
    """Memory for the partial results of every stage."""
    numbers = iter(range(2 * len(work.stages)))
    return {
        stage: [
            lowering.scratch(work.instruction, next(numbers), Shape(type, lens))
            for type in kernel.fold(stage).types
        ]
        for stage in work.stages
    }


def _store_parts(kernel: _Kernel, found: Sequence[Parts], places: Sequence[Place], at: Any) -> None:
    team, b = kernel.team, kernel.b
    with team.when(team.is_first):
        for k, place in enumerate(places):
            values = [Scalar(parts[k], place.shape.type) for parts in found]
            indices = [at(row, team.part) for row in team.rows]
            store(b, b.memory(place, writes=True), indices, values)


def _join_parts(kernel: _Kernel, stage: Instruction, places: Sequence[Place], at: Any) -> None:
    fold, b = kernel.fold(stage), kernel.b

    def element(row: Index, part: Index) -> Parts:
        index = at(row, part)
        return tuple(b.tensors.load(b.memory(place), index).text for place in places)

    kernel.bind(stage, fold, kernel.team.folded(fold, element))


# Schedules


@schedule(Reduction, ArgExtreme)
def reduction(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a single reduction of a tensor in memory."""
    if not is_reducible(instruction):
        return None
    x = instruction.inputs[0]
    if lowering.is_folded(x) or not x.shape.elements:
        return None
    place = lowering.place(x)
    work = Work(
        instruction,
        space_of(x.shape.lens, reduced_axes(instruction), place.shape),
        (instruction,),
        (instruction,),
        tuple(lowering.outputs(instruction)),
        {x: place},
        size=place.shape.type.size,
    )
    return launches(lowering, work)


@schedule(FusedReduce, SplitFusedReduce)
def fused(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of a body of reductions and elementwise work."""
    body = instruction.modules[0]
    needed = needed_for(body.outputs)
    own = [i for i in body if i in needed]
    found = [i for i in own if is_reducible(i)]
    if not found or not all(_is_work(i) for i in own):
        return None
    named = [p for _, p in sorted(body.parameters.items())]
    given = dict(zip(named, instruction.inputs, strict=True))
    places = dict(lowering.inputs(instruction)) | dict(_tables(lowering, instruction, own))
    work = _fitting(lowering, instruction, found, places)
    if work is None:
        return None
    return launches(lowering, replace(work, given=given))


def _is_work(i: Instruction) -> bool:
    return i.literal is not None or i.name.startswith("@") or has_value(i)


def _tables(
    lowering: Lowering, instruction: Instruction, own: Sequence[Instruction]
) -> Iterator[tuple[Instruction, Place]]:
    """The places of a body's constants of several elements."""
    tables = [i for i in own if i.literal is not None and i.shape.elements > 1]
    for number, one in enumerate(tables):
        assert one.literal is not None
        yield one, lowering.constant(instruction, number, one.literal.numpy())


def _fitting(
    lowering: Lowering,
    instruction: Instruction,
    found: Sequence[Instruction],
    places: Mapping[Instruction, Place],
) -> Work | None:
    """The work of a body, if all its reductions and results have the first reduction's rows."""
    lens, axes = found[0].inputs[0].shape.lens, reduced_axes(found[0])
    shapes = [p.shape for p in places.values() if p.shape.lens == lens]
    if not prod(lens):
        return None
    largest = max(shapes, key=lambda s: s.element_space * s.type.size, default=Shape("float", lens))
    space = space_of(lens, axes, largest)
    body = instruction.modules[0]
    rows = tuple(1 if a in axes else n for a, n in enumerate(lens))
    if any(o.shape.lens not in (rows, lens) for o in body.outputs):
        return None
    stages = [i for i in found if _is_stage(i, space)]
    targets = tuple(lowering.outputs(instruction))
    results = tuple(body.outputs)
    return Work(
        instruction, space, tuple(stages), results, targets, places, size=largest.type.size
    )  # fmt: skip


def _is_stage(one: Instruction, space: Space) -> bool:
    x = one.inputs[0].shape
    axes = {a for a in reduced_axes(one) if x.lens[a] > 1}
    return x.lens == space.lens and axes == set(space.reduced)


@schedule(Softmax, LogSoftmax)
def normalisation(lowering: Lowering, instruction: Instruction) -> list[Launch] | None:
    """The kernels of softmax and log-softmax, as a body of reductions and elementwise work."""
    x = instruction.inputs[0]
    if lowering.is_folded(x) or x.shape.type is DType.FP4X2:
        return None
    place = lowering.place(x)
    axis = cast("Any", instruction.op.normalized([x.shape])).axis
    parameter, stages, result = _normalisation_body(instruction.op, x.shape, axis)
    targets = tuple(lowering.outputs(instruction))
    space = space_of(x.shape.lens, [axis], place.shape)
    size = place.shape.type.size
    work = Work(instruction, space, stages, (result,), targets, {parameter: place}, size=size)
    return launches(lowering, work)


def _normalisation_body(
    op: Operation, shape: Shape, axis: int
) -> tuple[Instruction, tuple[Instruction, ...], Instruction]:
    """Parameter, reductions and result of a softmax in f32 at least; integers in double."""
    body = Program().main
    parameter = body.add_parameter("x", shape)
    type = shape.type
    exact = type.size > 1 and type.is_float
    wide = DType.FLOAT if type.is_float else DType.DOUBLE
    x = parameter if exact else body.add("convert", parameter, target_type=wide)
    most = body.add("reduce_max", x, axes=(axis,))
    shifted = body.add("sub", x, body.add("multibroadcast", most, out_lens=shape.lens))
    powers = body.add("exp", shifted)
    total = body.add("reduce_sum", powers, axes=(axis,))
    if isinstance(op, Softmax):
        result = body.add("div", powers, body.add("multibroadcast", total, out_lens=shape.lens))
    else:
        spread = body.add("multibroadcast", body.add("log", total), out_lens=shape.lens)
        result = body.add("sub", shifted, spread)
    if type.is_integral and type is not DType.BOOL:  # keep the low bits, as any sum does
        result = body.add("convert", result, target_type=DType.INT64)
    result = result if exact else body.add("convert", result, target_type=type)
    return parameter, (most, total), result
