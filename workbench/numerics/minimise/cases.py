"""Cases: a program with its inputs, and smaller ones made of it by cutting its graph and its axes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation, Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import Row, Rows, build, rows_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.recurrent import Recurrent
from workbench.compiler.run.failures import RAISED
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.run.steps import uses
from workbench.numerics.capture.evaluator import as_typed
from workbench.numerics.verify.excerpts import reached

_LENS = ("out_lens", "dims")
"""The attributes of operations that hold lens of results."""


@dataclass(frozen=True)
class Case:
    """A program, and an array for each of its parameters. Smaller ones keep the ids of instructions."""

    program: Program
    inputs: Mapping[str, Value]

    @property
    def ids(self) -> list[int]:
        """The instructions of the main module that are neither given nor ``@return``, in order."""
        return [i.id for i in self.program.main if not _is_given(i)]

    @property
    def elements(self) -> int:
        """The number of elements of all inputs together."""
        return sum(map(_elements, self.inputs.values()))

    def values(self) -> dict[int, Value]:
        """The values of the main module in float64, rounded to their types; those before a failure, if any.

        A value that a copy cannot replace is left out: a tuple, and a recurrent network, whose last states
        are read from the value itself.
        """
        found: dict[int, Value] = {}

        def keep(i: Instruction, value: Value, _: object) -> None:
            if _can_be_given(i) and not isinstance(value, tuple):
                found[i.id] = np.array(as_typed(value, i.shape))

        with suppress(EvaluationError):  # the values before are known
            Interpreter(self.program, float64=True).run(self.inputs, hook=keep)
        return found

    def with_input(self, name: str, array: Array) -> Case:
        """The case with another array for one parameter; the program is the same object."""
        return replace(self, inputs={**self.inputs, name: array})

    # The graph

    def cut(
        self, keep: Iterable[int], values: Mapping[int, Value], outputs: Collection[int] = ()
    ) -> Case | None:
        """The case with some instructions only; values that they read become parameters or literals.

        Constants become literals. Results are those of the kept instructions that were results or that no
        kept one reads. What no result depends on is left out.

        Args:
            keep: Ids of instructions of the main module.
            values: Values by id; where one is missing that is needed, its instruction is kept.
            outputs: Ids of the results; by default as above.

        Returns:
            The case; None if it has no instruction, or no fewer results or instructions than this one.
        """
        main = {i.id: i for i in self.program.main}
        kept = _closed(keep, main, values)
        results = list(outputs) or _results(kept, main, self.program)
        kept = _closed(_needed(results, kept, main), main, values)
        old = len(self.ids), len(self.program.outputs)
        if not kept or not (len(kept) < old[0] or (len(kept) == old[0] and len(results) < old[1])):
            return None
        return _excerpt(self, [main[id] for id in main if id in kept], results, values)

    # Lengths

    def fixed(self) -> Case | None:
        """The case with the lengths of its inputs in place of ranges.

        Returns:
            The case; None if there are no ranges, or an operation refuses the lengths.
        """
        if not any(s.is_dynamic for s in self.program.parameters.values()):
            return None
        if not all(i.shape.dims is not None or _is_plain(i) for i in self.program.main):
            return None
        return _reshaped(self, lambda array: array, lambda op: op)

    @property
    def lengths(self) -> list[int]:
        """The lengths above 1 of all axes of parameters and literals, the most frequent first."""
        arrays = [a for a in _given(self) if isinstance(a, np.ndarray)]
        found = [n for a in arrays for n in a.shape if n > 1]
        return sorted(set(found), key=lambda n: (-found.count(n), -n))

    def shortened(self, old: int, new: int, last: bool = False) -> Case | None:
        """The case with every axis of one length cut to another length: inputs, literals, attributes.

        Args:
            old: The length.
            new: The length in its place.
            last: Keep the last elements instead of the first ones.

        Returns:
            The case; None if an operation refuses the lengths, if lengths are ranges, or if there are modules
            or tuples, which are left alone.
        """
        if not all(map(_is_plain, self.program.main)):
            return None
        part = slice(-new, None) if last else slice(new)

        def shorter(array: Array) -> Array:
            return array[tuple(part if n == old else slice(None) for n in array.shape)]

        return _reshaped(self, shorter, lambda op: _with_lens(op, old, new))


def _is_given(i: Instruction) -> bool:
    return isinstance(i.op, Param | Literal | Return)


def _is_plain(i: Instruction) -> bool:
    """Whether the lens of a value are known and nothing but its operation and operands decides them."""
    is_known = i.shape.dims is None and i.shape.is_tensor and not i.modules
    return is_known or isinstance(i.op, Return)


def _can_be_given(i: Instruction) -> bool:
    """Whether a parameter or a literal can stand in place of an instruction."""
    return i.shape.is_tensor and not isinstance(i.op, Recurrent | Param | Literal | Return)


def _elements(value: Value) -> int:
    return sum(map(_elements, value)) if isinstance(value, tuple) else value.size


def _given(case: Case) -> Iterator[Value]:
    yield from case.inputs.values()
    for i in case.program.main:
        if i.literal is not None:
            yield i.literal.numpy()


# The graph


def _closed(
    keep: Iterable[int], main: Mapping[int, Instruction], values: Mapping[int, Value]
) -> set[int]:
    """These instructions, and those whose values are needed but not known."""
    found: set[int] = set()
    stack = [id for id in keep if not _is_given(main[id])]
    while stack:
        if (id := stack.pop()) in found:
            continue
        found.add(id)
        read = [main[x] for x in uses(main[id]) if x in main]
        stack += [i.id for i in read if not _is_given(i) and i.id not in values]
    return found


def _results(kept: set[int], main: Mapping[int, Instruction], program: Program) -> list[int]:
    """The results of an excerpt: the program's own, then values without a user that are not constant."""
    own = [o.id for o in program.outputs if o.id in kept]
    read = {x for id in kept for x in uses(main[id])}
    ends = [id for id in main if id in kept and id not in read and id not in own]
    varying = [id for id in ends if not main[id].is_constant]
    return own + varying or ends


def _needed(
    results: Iterable[int], kept: Collection[int], main: Mapping[int, Instruction]
) -> set[int]:
    """The kept instructions that results depend on."""
    found: set[int] = set()
    stack = list(results)
    while stack:
        if (id := stack.pop()) in kept and id not in found:
            found.add(id)
            stack += uses(main[id])
    return found


def _excerpt(
    case: Case, kept: Sequence[Instruction], results: Sequence[int], values: Mapping[int, Value]
) -> Case:
    """The program of these instructions, with what they read before them and a ``@return`` after them."""
    rows = rows_of(case.program)
    main = {i.id: i for i in case.program.main}
    inside = {i.id for i in kept}
    read = dict.fromkeys(x for i in kept for x in uses(i) if x in main and x not in inside)
    given = dict(_named(main, [id for id in main if id in read]))
    first = [_as_given(rows.instructions[id], name, values) for id, name in given.items()]
    first = list(_numbered(first))
    last = _return(rows.instructions, kept[0].module.has_return, results)
    own = [*first, *(rows.instructions[i.id] for i in kept), last]
    inner = {id: r for id, r in rows.instructions.items() if id not in main}
    rows.instructions = inner | {r.id: r._replace(order=k) for k, r in enumerate(own)}
    rows = _used(rows, results == [o.id for o in case.program.outputs])
    names = {r.op.parameter: r.id for r in first if isinstance(r.op, Param)}
    inputs = {n: case.inputs[n] if n in case.inputs else values[id] for n, id in names.items()}
    return Case(build(rows), inputs)


def _named(main: Mapping[int, Instruction], ids: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Each given value with the name of its parameter: its own, a new one, or none for a constant."""
    taken = {i.parameter for i in main.values()}
    for id in ids:
        i = main[id]
        name = i.parameter or ("" if i.is_constant else f"v{id}")
        while i.parameter is None and name in taken:
            name += "_"
        yield id, name


def _as_given(row: Row, name: str, values: Mapping[int, Value]) -> Row:
    """The row of a literal or a parameter in place of an instruction."""
    if isinstance(row.op, Param | Literal):
        return row
    row = row._replace(inputs=(), modules=(), sources=(), symbols=())
    if name:
        return row._replace(op=Param(parameter=name, order=1 << 30))
    return row._replace(op=Literal(), literal=Argument(row.shape, np.array(values[row.id])))


def _return(rows: Mapping[int, Row], has_return: bool, results: Sequence[int]) -> Row:
    """The row of a ``@return`` of these results: the program's own, if it has one."""
    op, shapes = Return(), [rows[id].shape for id in results]
    main = next(r.module for id, r in rows.items() if id == results[0])
    own = [r for r in rows.values() if isinstance(r.op, Return) and r.module == main]
    id = own[0].id if has_return else max(rows) + 1
    return Row(id, main, 0, op, op.compute_shape(shapes), tuple(results), (), (), None)


def _numbered(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows with the parameters among them numbered anew, in their order."""
    orders = [r.op.order for r in rows if isinstance(r.op, Param)]
    places = iter(np.argsort(np.argsort(orders, kind="stable"), kind="stable").tolist())
    for row in rows:
        op = row.op
        yield row._replace(op=replace(op, order=next(places))) if isinstance(op, Param) else row


def _used(rows: Rows, same_outputs: bool) -> Rows:
    """The rows without modules that nothing calls, and without facts about instructions that are gone."""
    keys = reached(rows)
    left = {id: r for id, r in rows.instructions.items() if r.module in keys}
    sources = {s for r in left.values() for s in r.sources}
    return replace(
        rows,
        modules={k: m for k, m in rows.modules.items() if k in keys},
        instructions=left,
        source_nodes={k: n for k, n in rows.source_nodes.items() if k in sources},
        tensors={k: id for k, id in rows.tensors.items() if id in left},
        output_names=rows.output_names if same_outputs else (),
    )


# Lengths


def _with_lens(op: Operation, old: int, new: int) -> Operation:
    """The operation with one length in place of another in the attributes that are lens."""
    given = {k: v for k, v in op.attributes().items() if k in _LENS and v}
    return replace(op, **{k: tuple(new if n == old else n for n in v) for k, v in given.items()})


def _reshaped(
    case: Case, arrays: Callable[[Array], Array], operations: Callable[[Operation], Operation]
) -> Case | None:
    """The case with other arrays and operations, and all shapes inferred again; None if one refuses."""
    try:
        return _remade(case, arrays, operations)
    except RAISED:
        return None


def _remade(
    case: Case, arrays: Callable[[Array], Array], operations: Callable[[Operation], Operation]
) -> Case:
    rows = rows_of(case.program)
    main = {i.id for i in case.program.main}
    inputs = {n: np.array(arrays(a)) for n, a in case.inputs.items() if isinstance(a, np.ndarray)}
    changed = {id: _resized(r, inputs, arrays) for id, r in rows.instructions.items() if id in main}
    rows.instructions |= changed
    program = build(rows)
    for i in program.main:
        if not isinstance(i.op, Param | Literal):
            program.main.set_op(i, operations(i.op))
    return Case(program, inputs)


def _resized(row: Row, inputs: Mapping[str, Array], arrays: Callable[[Array], Array]) -> Row:
    if isinstance(row.op, Param):
        return row._replace(shape=_shape(row.shape, inputs[row.op.parameter].shape))
    if row.literal is None:
        return row
    array = np.array(arrays(row.literal.numpy()))
    shape = _shape(row.shape, array.shape)
    return row._replace(shape=shape, literal=Argument(shape, array))


def _shape(old: Shape, lens: tuple[int, ...]) -> Shape:
    """A shape with these lens, its axes in the order in memory that the old one has."""
    if old.dims is not None:
        return Shape(old.type, lens)
    return old if old.array_lens == lens else old.with_lens(lens)
