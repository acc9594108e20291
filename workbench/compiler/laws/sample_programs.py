"""Small random programs that match a pattern, so that a rule can be tried without writing any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Operation, all_operations, find, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.sampling import Edge, edges
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.custom import Custom
from workbench.compiler.rewrite.pattern import Pattern

Lens = tuple[int, ...]

LENS: tuple[Lens, ...] = (
    (2, 3), (3, 2), (2, 2, 3), (4,), (1, 3), (1,), (2, 1, 2), (3, 3), (2, 4), (1, 4, 2, 2), (2, 3, 1, 4),
)  # fmt: skip
EMPTY: tuple[Lens, ...] = ((0,), (2, 0), (0, 3), (1, 0, 2))
TYPES = (
    DType.FLOAT, DType.FLOAT, DType.FLOAT, DType.DOUBLE, DType.HALF, DType.INT32, DType.INT64,
    DType.UINT8, DType.BOOL,
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, -1, 0.5, 4)
ANY = (
    "add", "mul", "sub", "div", "max", "neg", "exp", "relu", "sqrt", "abs", "transpose", "reshape",
    "squeeze", "unsqueeze", "multibroadcast", "broadcast", "slice", "concat", "reduce_sum", "reduce_max",
    "dot", "convert", "contiguous", "pow", "where", "softmax",
)  # fmt: skip
"""Operations drawn where a pattern leaves the choice open."""

_DEPTH = 3


class Unfit(Exception):  # noqa: N818
    """A random draw that cannot be completed; another draw may succeed."""


class Grower:
    """One random program, built from its result towards its parameters."""

    def __init__(self, random: Random, edge: Edge | None = None) -> None:
        """An empty program, whose constants may be at an edge of their types."""
        self.random = random
        self.edge = edge
        self.program = Program("sample")
        self.bound: dict[str, Instruction] = {}

    def grow(self, pattern: Pattern) -> Instruction:
        """An instruction intended to match the pattern, returned by the program.

        Raises:
            Unfit: The random draw could not be completed.
        """
        root = self._root(pattern)
        inner = [i for i in self.program.main if i.inputs and i is not root]
        shown = [self.random.choice(inner)] if inner and self.random.random() < 0.2 else []
        result = self.program.main.add("identity", root) if self._chance(0.3) else root
        self.program.main.add_return(result, *shown)
        for instruction in list(reversed(self.program.main)):
            unused = not instruction.users and instruction is not self.program.main.last
            if unused and self.program.find(instruction.id) is instruction:
                self.program.main.remove(instruction)
        return root

    def _root(self, pattern: Pattern) -> Instruction:
        while pattern.choices:
            pattern = self.random.choice(pattern.choices)
        names = _roots(pattern)
        if not names:
            raise Unfit
        name = self.random.choice(names)
        samples = _samples(find(name))
        if samples and (not (name in MAKERS or find(name).pointwise) or self._chance(0.3)):
            op, shapes, _ = self.random.choice(samples)
            return self._named(pattern, self._apply(op, self._inputs(pattern, shapes, 0)))
        return self._value(pattern, self._shape(), 0, name)

    def _shape(self) -> Shape:
        empty = self.edge is not None and self._chance(0.1)
        return Shape(self.random.choice(TYPES), self.random.choice(EMPTY if empty else LENS))

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _value(self, pattern: Pattern, shape: Shape, depth: int, name: str = "") -> Instruction:
        """An instruction with these lens that matches a pattern, as far as that can be checked here."""
        known = self.bound.get(pattern.binding or "")
        if known is not None:
            if (known.shape.type, known.shape.lens) != (shape.type, shape.lens):
                raise Unfit
            return known
        if pattern.choices:
            return self._value(self.random.choice(pattern.choices), shape, depth, name)
        if pattern.ops or name:
            name = name or self.random.choice(sorted(pattern.ops or ()))
            return self._named(pattern, self._made(name, pattern, shape, depth))
        return self._named(pattern, self._leaf(pattern, shape, depth))

    def _named(self, pattern: Pattern, made: Instruction) -> Instruction:
        if not pattern.suits(made):
            raise Unfit
        if pattern.binding is not None:
            self.bound[pattern.binding] = made
        return made

    def _made(self, name: str, pattern: Pattern, shape: Shape, depth: int) -> Instruction:
        """An operation of that name whose result has these lens."""
        maker = MAKERS.get(name)
        if maker is not None:
            op, shapes = maker(self.random, name, shape)
        elif find(name).pointwise:
            op, shapes = make(name), [shape] * self._arity(name, pattern)
        else:
            op, shapes = self._sampled(name, shape)
        made = self._apply(op, self._inputs(pattern, shapes, depth + 1))
        if (made.shape.type, made.shape.lens) != (shape.type, shape.lens):
            raise Unfit
        return made

    def _sampled(self, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
        """A sample of the operation whose result has these lens."""
        wanted = (shape.type, shape.lens)
        found = [s for s in _samples(find(name)) if s.result == wanted]
        if not found:
            raise Unfit
        sample = self.random.choice(found)
        return sample.op, sample.shapes

    @staticmethod
    def _arity(name: str, pattern: Pattern) -> int:
        if pattern.inputs is not None:
            return len(pattern.inputs)
        samples = _samples(find(name))
        if not samples:
            raise Unfit
        return len(samples[0].shapes)

    def _inputs(self, pattern: Pattern, shapes: Sequence[Shape], depth: int) -> list[Instruction]:
        patterns = pattern.inputs or (Pattern(),) * len(shapes)
        if len(patterns) != len(shapes):
            raise Unfit
        pairs = list(zip(patterns, shapes, strict=True))
        if len(pairs) == 2 and pairs[0][1] == pairs[1][1] and self._chance(0.5):
            made = [self._value(p, s, depth) for p, s in reversed(pairs)]
            return made if self._commutes(pattern) else made[::-1]
        return [self._value(p, s, depth) for p, s in pairs]

    def _commutes(self, pattern: Pattern) -> bool:
        return pattern.ops is not None and all(find(n).commutative for n in pattern.ops)

    def _apply(self, op: Operation, inputs: Sequence[Instruction]) -> Instruction:
        try:
            return self.program.main.add(op, *inputs)
        except WorkbenchError as error:
            raise Unfit from error

    # Leaves

    def _leaf(self, pattern: Pattern, shape: Shape, depth: int) -> Instruction:
        """A value that passes the pattern's test: a parameter, a constant, or a computed value."""
        kinds = [self._parameter, self._literal, self._uniform, self._repeated, self._computed]
        tested = pattern.structure is not None or pattern.kind is not None
        weights = (5, 3, 3, 3, 2) if tested else (8, 2, 1, 1, 2)
        for kind in self._shuffled(kinds, weights):
            try:
                made = kind(shape, depth)
            except Unfit:
                continue
            if pattern.suits(made):
                return made
        raise Unfit

    def _shuffled(self, kinds: list[Any], weights: Sequence[int]) -> list[Any]:
        order = sorted(
            zip(kinds, weights, strict=True), key=lambda k: -(self.random.random() ** (1 / k[1]))
        )
        return [kind for kind, _ in order]

    def _parameter(self, shape: Shape, _: int) -> Instruction:
        parameters = [
            p
            for p in self.program.main.parameters.values()
            if (p.shape.type, p.shape.lens) == (shape.type, shape.lens)
        ]
        if parameters and self._chance(0.3):
            return self.random.choice(parameters)
        name = f"p{len(self.program.main.parameters)}"
        if shape.ndim > 1 and self._chance(0.15):
            turned = Shape(shape.type, shape.lens[::-1])
            x = self.program.main.add_parameter(name, turned)
            return self._apply(
                make("transpose", permutation=tuple(reversed(range(shape.ndim)))), [x]
            )
        return self.program.main.add_parameter(name, Shape(shape.type, shape.lens))

    def _literal(self, shape: Shape, _: int) -> Instruction:
        return self.program.main.add_literal(numbers(self.random, shape, self.edge))

    def _uniform(self, shape: Shape, _: int) -> Instruction:
        ends = _ends(shape.type, self.edge) if self._chance(0.3) else ()
        value = self.random.choice(ends or NUMBERS)
        if not ends and value < 0 and shape.type.numpy.kind in "ub":
            value = 1
        lens = shape.lens if self._chance(0.5) else (1,)
        one = self.program.main.add_literal(np.full(lens, value).astype(shape.type.numpy))
        return one if lens == shape.lens else self._spread(one, shape)

    def _spread(self, value: Instruction, shape: Shape) -> Instruction:
        return self._apply(make("multibroadcast", out_lens=shape.lens), [value])

    def _repeated(self, shape: Shape, depth: int) -> Instruction:
        """A broadcast of a constant or a parameter."""
        name = self.random.choice(["multibroadcast", "broadcast"])
        op, shapes = MAKERS[name](self.random, name, shape)
        kind = self._literal if self._chance(0.7) else self._parameter
        return self._apply(op, [kind(shapes[0], depth)])

    def _computed(self, shape: Shape, depth: int) -> Instruction:
        if depth >= _DEPTH:
            raise Unfit
        return self._made(self.random.choice(ANY), Pattern(), shape, depth + 1)


class _Sample(NamedTuple):
    op: Operation
    shapes: list[Shape]
    """The shapes of the operands."""
    result: tuple[DType, Lens] | None
    """The result's type and lens; None unless it is a single tensor with known lens."""


def _roots(pattern: Pattern) -> list[str]:
    """The operations that may be the root; for a kind, all built-in operations of that kind."""
    among = pattern.ops or (ANY if pattern.kind is None else _own())
    return [n for n in sorted(among) if pattern.may_be(find(n))]


def _own() -> list[str]:
    return [name for name, op in all_operations().items() if not issubclass(op, Custom)]


@cache
def _samples(kind: type[Operation]) -> tuple[_Sample, ...]:
    """The samples of an operation without their arrays, which would take most of the time to draw."""
    found: list[_Sample] = []
    for op, operands in kind.samples():
        shapes = [v.shape if isinstance(v, Argument) else Argument.of(v).shape for v in operands]
        found.append(_Sample(op, shapes, _result(op, shapes)))
    return tuple(found)


def _result(op: Operation, shapes: list[Shape]) -> tuple[DType, Lens] | None:
    try:
        result = op.compute_shape(shapes)
    except WorkbenchError:
        return None
    return (result.type, result.lens) if result.subs is None else None


def numbers(random: Random, shape: Shape, edge: Edge | None = None) -> Any:
    """Random values with exact sums and products: quarters for floats, small integers otherwise.

    With an edge, half of the arrays have values at that edge of their type, some or all of them.
    """
    count = int(np.prod(shape.lens))
    if shape.type.is_float:
        values = [random.randint(-8, 8) / 4 for _ in range(count)]
    else:
        low = 0 if shape.type.numpy.kind in "ub" else -3
        values = [random.randint(low, 1 if shape.type is DType.BOOL else 4) for _ in range(count)]
    array = np.array(values, np.float64).reshape(shape.lens).astype(shape.type.numpy)
    ends = _ends(shape.type, edge)
    if ends and random.random() < 0.5:
        share = random.choice((0.3, 1))
        for at in np.ndindex(shape.lens):
            if random.random() < share:
                array[at] = np.array(random.choice(ends)).astype(array.dtype)
    return array


def _ends(type: DType, edge: Edge | None) -> tuple[float, ...]:
    """Values at an edge; doubles whose products are finite, for nothing wider tells what a sum should be."""
    if type is DType.DOUBLE and edge is Edge.LARGE:
        return 2.0**300, -(2.0**300)
    return edges(type).get(edge, ()) if edge is not None else ()


# Operands for results with given lens

Maker = Callable[[Random, str, Shape], tuple[Operation, list[Shape]]]


def _of(shape: Shape, lens: Sequence[int]) -> Shape:
    return Shape(shape.type, tuple(lens))


def _transpose(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    order = list(range(shape.ndim))
    random.shuffle(order)
    lens = [0] * shape.ndim
    for place, axis in enumerate(order):
        lens[axis] = shape.lens[place]
    return make(name, permutation=tuple(order)), [_of(shape, lens)]


def _reshape(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    n = shape.elements
    pairs = [(a, n // a) for a in (1, 2, 3, 4) if n % a == 0]
    lens = random.choice([(n,), random.choice(pairs), (*random.choice(pairs), 1)])
    return make(name, dims=shape.lens), [_of(shape, lens)]


def _squeeze(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    axis = random.randint(0, shape.ndim)
    return make(name, axes=(axis,)), [_of(shape, (*shape.lens[:axis], 1, *shape.lens[axis:]))]


def _unsqueeze(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    ones = [i for i, n in enumerate(shape.lens) if n == 1]
    if not ones or shape.ndim == 1:
        raise Unfit
    axis = random.choice(ones)
    return make(name, axes=(axis,)), [_of(shape, (*shape.lens[:axis], *shape.lens[axis + 1 :]))]


def _multibroadcast(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    kept = [n if random.random() < 0.5 else 1 for n in shape.lens]
    dropped = random.randint(0, shape.ndim - 1)
    return make(name, out_lens=shape.lens), [_of(shape, kept[dropped:])]


def _broadcast(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    axis = random.randrange(shape.ndim)
    end = random.randint(axis + 1, shape.ndim) if random.random() < 0.3 else axis + 1
    return make(name, axis=axis, out_lens=shape.lens), [_of(shape, shape.lens[axis:end])]


def _slice(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    axis = random.randrange(shape.ndim)
    start, more = random.randint(0, 2), random.randint(0, 2)
    n = shape.lens[axis]
    lens = (*shape.lens[:axis], start + n + more, *shape.lens[axis + 1 :])
    return make(name, axes=(axis,), starts=(start,), ends=(start + n,)), [_of(shape, lens)]


def _concat(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    axes = [i for i, n in enumerate(shape.lens) if n > 1]
    if not axes:
        raise Unfit
    axis = random.choice(axes)
    n = shape.lens[axis]
    parts = [1] * n if random.random() < 0.5 else [n // 2, n - n // 2]
    shapes = [_of(shape, (*shape.lens[:axis], p, *shape.lens[axis + 1 :])) for p in parts]
    return make(name, axis=axis), shapes


def _reduce(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    ones = [i for i, n in enumerate(shape.lens) if n == 1]
    if not ones:
        raise Unfit
    axis = random.choice(ones)
    lens = (*shape.lens[:axis], random.choice([2, 3, 4]), *shape.lens[axis + 1 :])
    return make(name, axes=(axis,)), [_of(shape, lens)]


def _dot(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    if shape.ndim < 2:
        raise Unfit
    k = random.choice([2, 3, 4])
    *batch, m, n = shape.lens
    return make(name), [_of(shape, (*batch, m, k)), _of(shape, (*batch, k, n))]


def _convolution(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    if shape.ndim != 4 or not shape.type.is_float:
        raise Unfit
    n, channels, *spatial = shape.lens
    taken, kernel = random.choice([1, 2, 3]), random.choice([1, 1, 2])
    lens = (n, taken, *[s + kernel - 1 for s in spatial])
    return make(name), [_of(shape, lens), _of(shape, (channels, taken, kernel, kernel))]


def _softmax(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    return make(name, axis=random.randrange(shape.ndim)), [shape]


def _convert(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    source = random.choice([shape.type, *TYPES])
    return make(name, target_type=shape.type), [Shape(source, shape.lens)]


def _where(_: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    return make(name), [Shape(DType.BOOL, shape.lens), shape, shape]


def _compared(random: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    if shape.type is not DType.BOOL:
        raise Unfit
    return make(name), [Shape(random.choice(TYPES), shape.lens)] * 2


def _same(_: Random, name: str, shape: Shape) -> tuple[Operation, list[Shape]]:
    return make(name), [shape]


MAKERS: dict[str, Maker] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "multibroadcast": _multibroadcast,
    "broadcast": _broadcast,
    "slice": _slice,
    "concat": _concat,
    "dot": _dot,
    "convolution": _convolution,
    "convert": _convert,
    "where": _where,
    **dict.fromkeys(
        ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"), _reduce
    ),
    **dict.fromkeys(("softmax", "logsoftmax"), _softmax),
    **dict.fromkeys(("equal", "greater", "less"), _compared),
    **dict.fromkeys(("contiguous", "identity"), _same),
}
"""By operation: an instance whose result has the given lens, and the shapes of its operands."""
