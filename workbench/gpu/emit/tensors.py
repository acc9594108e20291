"""The C code for an instruction's element at an index: the building block of every kernel.

A function for each operation (``value_of``) computes an element of the result from elements of the
inputs; pointwise operations have an expression instead. The functions are in ``views.py`` and the
modules beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.builtin import Identity
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import PointwiseModule
from workbench.gpu.declarations import Declarations
from workbench.gpu.emit.index import Index, linear
from workbench.gpu.emit.roundings import Callers, hides_last_bits, is_only_computed_with
from workbench.gpu.emit.scalar import Scalar, c_type, loaded, memory_type, number, pointwise
from workbench.gpu.emit.writer import Writer

T = TypeVar("T")
Indices: TypeAlias = tuple[Index, ...]
At: TypeAlias = "Callable[[Indices], Scalar]"
"""A tensor inside a kernel: its element at an index."""
ValueOf: TypeAlias = "Callable[[Tensors, Instruction, Indices, int], Scalar]"
"""The element of an instruction's result at an index; the number is the result's, if there are several."""

Condition: TypeAlias = "Callable[[Instruction], bool]"


@dataclass(frozen=True)
class _Element:
    """A function for the element of an operation's result, and the condition under which it applies."""

    value: ValueOf
    when: Condition | None
    moves: bool
    """Whether the element is one of the first input's elements."""


_ELEMENTS: Declarations[_Element] = Declarations("an element", "workbench.gpu.emit")


def value_of(
    *ops: type[Operation], when: Condition | None = None, moves: bool = False
) -> Callable[[ValueOf], ValueOf]:
    """Declare how an element of these operations' results, and of those derived from them, is computed.

    Args:
        ops: The operations.
        when: Whether the function supports an instruction; by default it supports all.
        moves: Whether the function only maps the index to that of the first input's element.
    """

    def declare(function: ValueOf) -> ValueOf:
        for op in ops:
            _ELEMENTS.add(op, _Element(function, when, moves))
        return function

    return declare


def is_declared(op: Operation) -> bool:
    """Whether the element of the operation's result is declared, at least for some instructions."""
    return _ELEMENTS.of(op) is not None


def has_value(instruction: Instruction) -> bool:
    """Whether one work item can compute any element of an instruction from its inputs."""
    if any(
        s.is_dynamic or s.kind for s in (instruction.shape, *(i.shape for i in instruction.inputs))
    ):
        return False
    op = instruction.op
    if op.pointwise and op.expression is not None:
        return True
    element = _ELEMENTS.of(op)
    return element is not None and (element.when is None or element.when(instruction))


def is_scalar_work(instruction: Instruction) -> bool:
    """Whether an instruction of a fused body needs just one element of each input."""
    op = instruction.op
    return (
        op.name.startswith("@")
        or op.expression is not None
        or isinstance(op, Identity | PointwiseModule)
    )


@dataclass(frozen=True)
class Memory:
    """A tensor in memory: the name of a pointer, and the layout of the elements from there."""

    name: str
    shape: Shape
    offset: int = 0
    """The offset of the first element from the pointer, in elements."""


class Tensors:
    """Values of instructions in one kernel.

    Args:
        w: The writer of the kernel's code.
        lanes: Adjacent elements that a work item handles at once, for vector loads.
        is_cpu: Whether a core runs the work items, so that code without branches pays.
    """

    def __init__(self, w: Writer, lanes: int = 1, is_cpu: bool = False) -> None:
        """Create values without any binding."""
        self.w = w
        self.lanes = lanes
        self.is_cpu = is_cpu
        self._bound: dict[tuple[int, int], At] = {}
        self._memory: dict[int, Memory] = {}
        self._context: tuple[object, ...] = ()
        self._answers: dict[tuple[int, Callers], bool] = {}

    # Bindings

    def bind(self, instruction: Instruction, value: At | Memory, part: int = 0) -> None:
        """Bind an instruction to a tensor in memory, or to a function that gives its elements."""
        self._memory.pop(instruction.id, None)
        if isinstance(value, Memory) and not part:
            self._memory[instruction.id] = value
        at = value if not isinstance(value, Memory) else self._reader(value)
        self._bound[instruction.id, part] = at

    def place_of(
        self, instruction: Instruction, index: Sequence[Index]
    ) -> tuple[Memory, Index] | None:
        """The memory and the offset of an element, found through views; None if the element is computed."""
        place = self._key(instruction, index, 0)[-1]
        memory = self._memory.get(instruction.id)
        if memory is not None:
            return memory, linear(place, memory.shape.strides, memory.offset)
        element = _ELEMENTS.of(instruction.op)
        if (instruction.id, 0) in self._bound or element is None or not element.moves:
            return None
        if element.when is not None and not element.when(instruction):
            return None
        view = _View(self.w)
        element.value(view, instruction, place, 0)
        return None if view.read is None else self.place_of(*view.read)

    def _reader(self, memory: Memory) -> At:
        return lambda index: self.load(memory, index)

    @contextmanager
    def call(self, key: object, parameters: Mapping[Instruction, At]) -> Generator[None]:
        """A scope for the values of a body with given arguments, apart from its values with others.

        Args:
            key: Distinguishes this call from other calls of the same body in this kernel.
            parameters: The value of each of the body's parameters.
        """
        before, context = dict(self._bound), self._context
        self._bound.update({(p.id, 0): at for p, at in parameters.items()})
        self._context = (*context, key)
        try:
            yield
        finally:
            self._bound, self._context = before, context

    # Elements

    def at(self, instruction: Instruction, index: Sequence[Index], part: int = 0) -> Scalar:
        """The element at an index.

        Args:
            instruction: The instruction.
            index: One expression per dimension; for an axis of length 1 any expression,
                and for a tensor of one element any index.
            part: The number of the result, if the instruction has several.
        """
        key = self._key(instruction, index, part)
        return self.w.once(key, lambda: self._computed(instruction, key[-1], part))

    def once(self, instruction: Instruction, key: object, make: Callable[[], T]) -> T:
        """The result of ``make`` for an instruction and a key, such as a row's maximum; computed once."""
        return self.w.once((self._context, instruction.id, key), make)

    def remember(
        self, instruction: Instruction, index: Sequence[Index], value: Scalar, part: int = 0
    ) -> None:
        """Make ``at`` return a value that was computed along with another one, until the scope ends."""
        self.w.remember(self._key(instruction, index, part), value)

    def _key(
        self, instruction: Instruction, index: Sequence[Index], part: int
    ) -> tuple[str, tuple[object, ...], int, int, Indices]:
        lens = _lens(instruction.shape, part)
        if len(lens) != len(index):  # one element: {1} stands for any rank
            index = [Index()] * len(lens)
        place = tuple(Index() if n == 1 else i for i, n in zip(index, lens, strict=True))
        return "at", self._context, instruction.id, part, place

    def _computed(self, instruction: Instruction, index: Indices, part: int) -> Scalar:
        bound = self._bound.get((instruction.id, part))
        if bound is not None:
            return bound(index)
        if instruction.literal is not None and instruction.shape.elements == 1:
            return number(instruction.literal.numpy().reshape(-1)[0].item(), instruction.shape.type)
        op = instruction.op
        if op.pointwise and op.expression is not None:
            operands = [self.at(i, index) for i in instruction.inputs]
            return self._scalar(instruction, operands, ())
        element = _ELEMENTS.of(op)
        if element is None:
            raise OperationError(f"{instruction!r}: no kernel computes {op.name}")
        return element.value(self, instruction, index, part)

    def _scalar(
        self, instruction: Instruction, operands: Sequence[Scalar], callers: Callers
    ) -> Scalar:
        """A pointwise operation's result, without roundings that it can do without."""
        type, key = instruction.shape.type, (instruction.id, callers)
        if isinstance(instruction.op, Convert):
            if self._asked(key, lambda: is_only_computed_with(instruction, callers)):
                return Scalar(operands[0].text, type)
            return pointwise(self.w, instruction.op, operands, type)
        fast = self._asked(key, lambda: hides_last_bits(instruction, callers))
        return pointwise(self.w, instruction.op, operands, type, fast)

    def _asked(self, key: tuple[int, Callers], ask: Callable[[], bool]) -> bool:
        """The answer about an instruction, which has many elements."""
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]

    def body(
        self, module: Module, operands: Sequence[Scalar], callers: Callers = ()
    ) -> list[Scalar]:
        """The results of a body of scalar work for one element of each operand.

        Args:
            module: The body.
            operands: One element of each operand.
            callers: The instructions whose bodies it is in, if all that uses its results is known.
        """
        found: dict[int, Scalar] = {}
        names = sorted(module.parameters)
        given = dict(zip(names, operands, strict=True))
        for i in module:
            if i.parameter is not None:
                found[i.id] = given[i.parameter]
            elif i.literal is not None:
                found[i.id] = number(i.literal.numpy().reshape(-1)[0].item(), i.shape.type)
            elif isinstance(i.op, PointwiseModule):
                inner = [found[x.id] for x in i.inputs]
                found[i.id] = self.body(i.modules[0], inner, (*callers, i))[0]
            elif isinstance(i.op, Identity):
                found[i.id] = found[i.inputs[0].id]
            elif not i.op.name.startswith("@"):
                inner = [found[x.id] for x in i.inputs]
                found[i.id] = self._scalar(i, inner, callers)
        return [found[o.id] for o in module.outputs]

    def op(self, instruction: Instruction) -> Operation:
        """An instruction's operation with negative axes resolved."""
        return instruction.op.normalized([i.shape for i in instruction.inputs])

    # Control flow inside a work item

    def choose(
        self, condition: str, type: DType, yes: Callable[[], Scalar], no: Callable[[], Scalar]
    ) -> Scalar:
        """One of two values; only the chosen one is computed and loaded."""
        w = self.w
        name = w.name("c")
        w.line(f"{c_type(type)} {name};")
        with w.block(f"if ({condition})"):
            w.line(f"{name} = {yes().text};")
        with w.block("else"):
            w.line(f"{name} = {no().text};")
        return Scalar(name, type)

    def inside(self, index: Sequence[Index], lens: Sequence[int]) -> str:
        """The condition that an index lies within lens; "1" if it always does, "0" if it never does."""
        parts: list[str] = []
        for i, n in zip(index, lens, strict=True):
            low, high = i.range
            if high < 0 or low >= n:
                return "0"
            if low < 0:
                parts.append(f"{i.text()} >= 0")
            if high >= n:
                parts.append(f"{i.text()} < {n}")
        return " && ".join(parts) or "1"

    # Memory

    def load(self, memory: Memory, index: Sequence[Index]) -> Scalar:
        """An element of memory; adjacent elements that are read too share one vector load."""
        offset = linear(index, memory.shape.strides, memory.offset)
        type = memory.shape.type
        lanes = self.lanes
        if lanes == 1 or offset.divisor % lanes:
            return loaded(self.w, f"{memory.name}[{offset.text()}]", type)
        lane = offset.constant % lanes
        group = self._group(memory, offset - lane)
        return self.w.once(("lane", group, lane), lambda: self._lane(group, lane, type))

    def _group(self, memory: Memory, base: Index) -> _Group:
        def make() -> _Group:
            kind = memory_type(memory.shape.type)
            vector = vector_type(self.w, kind, self.lanes)
            name = self.w.define(
                vector, f"*(GLOBAL const {vector} *)({memory.name} + {base.text()})", "u"
            )
            return _Group(name, f"{memory.name}[{base.text()} + ", kind, set())

        return self.w.once(("group", memory, base), make)

    def _lane(self, group: _Group, lane: int, type: DType) -> Scalar:
        group.lanes.add(lane)

        def text() -> str:
            return f"{group.name}.v[{lane}]" if len(group.lanes) > 1 else f"{group.element}{lane}]"

        return loaded(self.w, self.w.define(group.kind, text, "e"), type)


class _View(Tensors):
    """Records the element that a view reads."""

    read: tuple[Instruction, Sequence[Index]] | None = None

    def at(self, instruction: Instruction, index: Sequence[Index], part: int = 0) -> Scalar:
        """Record the element; an instruction with several results is not in one memory."""
        self.read = None if part else (instruction, index)
        return Scalar("0", instruction.shape.type)


@value_of(PointwiseModule, when=lambda i: all(map(is_scalar_work, i.modules[0])))
def elementwise(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """One of a body's results for one element of each input."""
    operands = [t.at(x, index) for x in i.inputs]
    return t.body(i.modules[0], operands, (i,))[part]


@dataclass(frozen=True, eq=False)
class _Group:
    """Adjacent elements; they are loaded at once if more than one of them is read."""

    name: str
    element: str
    kind: str
    lanes: set[int]


def vector_type(w: Writer, kind: str, lanes: int) -> str:
    """The vector type of ``lanes`` adjacent elements."""
    name = f"{kind}x{lanes}"
    size = int(kind[1:]) // 8 * lanes
    w.need(f"typedef struct ALIGN({size}) {{ {kind} v[{lanes}]; }} {name};")
    return name


def _lens(shape: Shape, part: int) -> tuple[int, ...]:
    return shape.subs[part].lens if shape.subs is not None else shape.lens
