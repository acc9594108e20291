"""Lowering: each instruction becomes kernels, a view, a copy or a host step, and each value gets a place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.builtin import BuiltinOutline, Comment, Identity, Return
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction, detached
from workbench.compiler.ir.module import Module, captured
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast, Scalar
from workbench.compiler.ops.buffers import Copy, Write
from workbench.compiler.ops.collectives import Collective
from workbench.compiler.ops.contract import Dot, QuantDot
from workbench.compiler.ops.control import If, Loop
from workbench.compiler.ops.fused import Group
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.streams import RecordEvent, SetStream, WaitEvent
from workbench.compiler.report.result import kernel_text
from workbench.gpu.choices import Choices
from workbench.gpu.dialect import Dialect
from workbench.gpu.emit.tensors import has_value
from workbench.gpu.kernels import matrix_bytes, matrix_tiles, warpgroup
from workbench.gpu.kernels.elementwise import elementwise
from workbench.gpu.kernels.kernel import Kernel, Launch, Place, Root, scheduled
from workbench.gpu.kernels.schedules import schedule_of
from workbench.gpu.lowering.arena import arranged, roots_of
from workbench.gpu.lowering.host import why_on_host
from workbench.gpu.lowering.layout import laid_out
from workbench.gpu.lowering.loops import loops
from workbench.gpu.lowering.places import overlap, parts_of, viewed
from workbench.gpu.lowering.plan import (
    BranchStep,
    CollectiveStep,
    HostStep,
    KernelStep,
    Plan,
    Step,
    flat,
    padded,
)
from workbench.gpu.lowering.repeats import Repeats
from workbench.gpu.machine import Machine

_MARKERS = (Return, Comment, BuiltinOutline, RecordEvent, WaitEvent, SetStream)


_TURNED = {*matrix_bytes.INTEGERS, *matrix_tiles.TYPES}
"""Types of constants whose columns are contiguous as second operands of instructions of four warps."""


class Lowering:
    """Lowers one program for one dialect. Schedules get places and scratch memory from it.

    Args:
        program: The compiled program, without dynamic shapes.
        dialect: The dialect that kernels are printed in.
        choices: Picks variants of kernels.
        made: Called with most kernels when they are made.
    """

    def __init__(
        self,
        program: Program,
        dialect: Dialect,
        choices: Choices | None = None,
        made: Callable[[Kernel], None] | None = None,
    ) -> None:
        """Start without places."""
        self.program = program
        self.choices = choices or Choices()
        self.dialect = dialect
        self._tell = made
        self.places: dict[tuple[int, int], Place] = {}
        self.steps: list[Step] = []
        self.literals: dict[Root, Array] = {}
        self.values: dict[int, tuple[Place, ...]] = {}
        """The places of values so far, by the instruction's id."""
        self._folded: dict[int, bool] = {}
        self._repeats = Repeats()

    # For schedules

    def place(self, instruction: Instruction, part: int = 0) -> Place:
        """The place of a value."""
        return self.places[instruction.id, part]

    def outputs(self, instruction: Instruction) -> list[Place]:
        """The places of an instruction's results."""
        return [self.place(instruction, k) for k in range(len(parts_of(instruction.shape)))]

    def inputs(self, instruction: Instruction) -> list[tuple[Instruction, Place]]:
        """The values that an instruction reads from memory; constants of one element are inlined."""
        found: dict[Instruction, Place] = {}
        for one in instruction.inputs:
            self._reach(one, found)
        return list(found.items())

    def _reach(self, one: Instruction, found: dict[Instruction, Place]) -> None:
        if not self.is_folded(one):
            found[one] = self.place(one)

    def is_folded(self, one: Instruction) -> bool:
        """Whether a value is a constant of one element, possibly broadcast: it is not read from memory."""
        known = self._folded.get(one.id)
        if known is None:
            known = one.literal is not None and one.shape.elements == 1
            if not known and isinstance(one.op, Multibroadcast | Broadcast | Scalar | Contiguous):
                known = self.is_folded(one.inputs[0])
            self._folded[one.id] = known
        return known

    def scratch(self, instruction: Instruction, number: int, shape: Shape) -> Place:
        """Scratch memory for the kernels of one instruction."""
        root = Root("scratch", instruction.id, number, padded(shape.bytes))
        return Place(root, shape)

    def constant(self, instruction: Instruction, number: int, array: Array) -> Place:
        """A table that a kernel of an instruction reads."""
        flat = np.ascontiguousarray(array)
        shape = Shape(flat.dtype.name, flat.shape)
        root = Root("literal", instruction.id, number + 1, padded(flat.nbytes))
        self.literals[root] = flat.reshape(-1)
        return Place(root, shape)

    @property
    def machine(self) -> Machine:
        """The machine that the kernels are made for."""
        return self.dialect.machine

    # The walk

    def plan(self) -> Plan:
        """The plan of the whole program."""
        for instruction in self.program.main:
            self.walk(instruction)
        outputs = tuple(tuple(self._anywhere(o)) for o in self.program.main.outputs)
        results = list(dict.fromkeys(p.root for parts in outputs for p in parts))
        own = tuple(r for r in results if r.kind == "value")
        offsets, arena = arranged(self.steps, set(own))
        parameters = self.program.main.parameters.items()
        named = {n: p for n, i in parameters if (p := self.places.get((i.id, 0))) is not None}
        read = self._read(outputs)
        literals = {r: a for r, a in self.literals.items() if r in read}
        return Plan(
            self.program,
            self.dialect,
            tuple(self.steps),
            literals,
            named,
            outputs,
            self.values,
            offsets,
            arena,
            own,
        )

    def walk(self, instruction: Instruction) -> None:
        """Lower one instruction: append its steps, and give its value a place."""
        self._find_place(instruction)
        self.values[instruction.id] = tuple(self._anywhere(instruction))

    def _find_place(self, instruction: Instruction) -> None:
        if isinstance(instruction.op, _MARKERS):
            if instruction in self.program.main.outputs:
                self._on_host(instruction, "a marker has no value")
            return
        if instruction.parameter is not None:
            if _is_known(instruction.shape):
                self._own(instruction, "parameter")
        elif instruction.literal is not None:
            self._literal(instruction)
        elif (places := viewed(instruction, self.places)) is not None:
            self._put(instruction, places)
        elif isinstance(instruction.op, Write | Copy):
            self._write(instruction)
        elif _is_known(instruction.shape):
            self._value(instruction)
        else:
            self._on_host(instruction, _unknown(instruction))

    def _value(self, instruction: Instruction) -> None:
        why = loops(self, instruction) if isinstance(instruction.op, Loop) else None
        if why == "":
            return
        self._own(instruction, "value")
        if why:
            self._on_host(instruction, why)
        elif isinstance(instruction.op, Collective):
            self._exchange(instruction, instruction.op)
        elif self._decides(instruction):
            self._branch(instruction)
        else:
            self._compute(instruction)

    def _anywhere(self, instruction: Instruction) -> list[Place]:
        """The places of a value; empty if it is on the host."""
        known = (instruction.id, 0) in self.places
        return self.outputs(instruction) if known else []

    def _own(self, instruction: Instruction, kind: str) -> None:
        shapes = [_apart(s) if kind == "value" else s for s in parts_of(instruction.shape)]
        roots = [Root(kind, instruction.id, k, padded(_bytes(s))) for k, s in enumerate(shapes)]
        self._put(instruction, [Place(r, s) for r, s in zip(roots, shapes, strict=True)])

    def _put(self, instruction: Instruction, places: Sequence[Place]) -> None:
        for part, place in enumerate(places):
            self.places[instruction.id, part] = place

    def _literal(self, instruction: Instruction) -> None:
        assert instruction.literal is not None
        shape = self._aligned(instruction)
        root = Root("literal", instruction.id, 0, padded(_bytes(shape)))
        self.literals[root] = laid_out(instruction.literal.numpy(), shape)
        self._put(instruction, [Place(root, shape)])

    def _aligned(self, instruction: Instruction) -> Shape:
        """The layout of a constant; rows of a product's operand begin where matrix units' loads may.

        Its columns do, and are contiguous, if it is the second operand of an instruction of four warps.
        """
        shape = instruction.shape
        lens, type, chunk = shape.lens, shape.type, matrix_tiles.ACCESS // shape.type.size
        if not (
            self.machine.matrix
            and type in {*matrix_tiles.FLOATS, *matrix_tiles.BYTES}
            and _is_matrix(shape)
            and all(isinstance(u.op, Dot | QuantDot | Group) for u, _ in _readers(instruction))
        ):
            return shape
        rows, columns = (-(-n // chunk) * chunk for n in lens[-2:])
        is_grouped = type in _TURNED and self.machine.matrix == warpgroup.CAPABILITY
        if is_grouped and _is_only_second(instruction):
            return Shape(type, lens, (*[0] * (len(lens) - 2), 1, rows))
        if columns == lens[-1]:
            return shape
        return Shape(type, lens, (*[0] * (len(lens) - 2), columns, 1))

    def _write(self, instruction: Instruction) -> None:
        """Write into a buffer; through scratch memory if the operation reads elements of that buffer."""
        buffers = self.outputs(instruction.inputs[-1])
        if any(b.root.kind == "literal" for b in buffers):
            raise DeviceError(
                f"{instruction!r} writes into a constant; expected a parameter or a computed value"
            )
        inner = unwrapped(instruction)
        read = [p for i in inner.inputs for p in self._anywhere(i)]
        if not any(overlap(p, b) for p in read for b in buffers):
            self._put(instruction, buffers)
            self._compute(inner)
            return
        self._own(instruction, "value")
        self._compute(inner)
        source = self.place(instruction)
        if source.shape.elements:
            self._copy(instruction, [(instruction, source)], instruction, buffers)
        self._put(instruction, buffers)

    def _copy(
        self,
        value: Instruction,
        known: Sequence[tuple[Instruction, Place]],
        owner: Instruction,
        places: Sequence[Place],
    ) -> None:
        copied = elementwise(self.dialect, "copy", value, known, places)
        self.steps += [KernelStep(owner, one) for one in scheduled([copied], elementwise)]

    def _exchange(self, instruction: Instruction, op: Collective) -> None:
        """Append a collective, whose operand is first copied where it is not in memory in row-major order."""
        (given,) = instruction.inputs
        target = self.place(instruction)
        if (given.id, 0) not in self.places:
            self._on_host(instruction, f"input {given.name}: {_unknown(given)}")
            return
        if not target.shape.elements:
            return
        known = [] if self.is_folded(given) else [(given, self.place(given))]
        source = target if op.size == 1 else self.place(given)
        if op.size == 1 or not (known and source.shape.standard):
            shape = given.shape.as_standard()
            source = target if op.size == 1 else self.scratch(instruction, 0, shape)
            self._copy(given, known, instruction, [source])
        if op.size > 1:
            self.steps.append(CollectiveStep(instruction, source, target))

    def _compute(self, instruction: Instruction) -> None:
        if not any(p.shape.elements for p in self.outputs(instruction)):
            return
        launches = self.launches(instruction)
        if launches is None:
            self._on_host(instruction, _without_kernel(instruction))
        else:
            self.steps += [KernelStep(instruction, one) for one in launches]

    def launches(self, instruction: Instruction) -> list[Launch] | None:
        """The kernels of an instruction; None if no kernel computes it."""
        shapes = [
            *parts_of(instruction.shape),
            *(s for i in instruction.inputs for s in parts_of(i.shape)),
        ]
        if not all(_is_known(s) for s in shapes):
            return None
        return self._repeats.launches(self, instruction, self._made)

    def _made(self, instruction: Instruction) -> list[Launch] | None:
        """New kernels for an instruction."""
        schedule = schedule_of(instruction.op)
        made = schedule(self, instruction) if schedule is not None else None
        if schedule is not None and made is not None:
            return self._told(scheduled(made, schedule))
        if not has_value(instruction):
            return None
        purpose = kernel_text(instruction)
        inputs, outputs = self.inputs(instruction), self.outputs(instruction)
        one = elementwise(self.dialect, purpose, instruction, inputs, outputs)
        return self._told(scheduled([one], elementwise))

    def _told(self, launches: list[Launch]) -> list[Launch]:
        if self._tell is not None:
            for one in launches:
                self._tell(one.kernel)
        return launches

    def _decides(self, instruction: Instruction) -> bool:
        """Whether an instruction is an ``if`` whose modules can be lowered to steps."""
        modules = [m for m in instruction.modules if not m.bypass]
        inner = [i.shape for m in modules for i in m.outputs]
        read = [*instruction.inputs, *(i for m in modules for i in captured(m))]
        placed = all((i.id, 0) in self.places for i in read)
        return isinstance(instruction.op, If) and placed and all(map(_is_known, inner))

    def _branch(self, instruction: Instruction) -> None:
        condition, *given = instruction.inputs
        names = sorted({name for m in instruction.modules for name in m.parameters})
        bound = dict(zip(names, given, strict=True))
        then, otherwise = (self._module(m, bound, instruction) for m in instruction.modules)
        self.steps.append(BranchStep(instruction, self.place(condition), (then, otherwise)))

    def _module(
        self, module: Module, bound: Mapping[str, Instruction], caller: Instruction
    ) -> tuple[Step, ...]:
        """The steps of a called module, and copies of its results to the places of the caller's."""
        outer, self.steps = self.steps, []
        try:
            for one in module:
                if one.parameter is not None:
                    self._put(one, self.outputs(bound[one.parameter]))
                else:
                    self.walk(one)
            for one, place in zip(module.outputs, self.outputs(caller), strict=True):
                if place.shape.elements:
                    known = [] if self.is_folded(one) else [(one, self.place(one))]
                    self._copy(one, known, caller, [place])
            return tuple(self.steps)
        finally:
            self.steps = outer

    def _on_host(self, instruction: Instruction, why: str) -> None:
        called = [m for m in instruction.modules if not m.bypass]
        read = dict.fromkeys([*instruction.inputs, *(i for m in called for i in captured(m))])
        reads = tuple((i, tuple(self._anywhere(i))) for i in read)
        writes = tuple(self._anywhere(instruction))
        self.steps.append(HostStep(instruction, reads, writes, why))

    # Memory

    def _read(self, outputs: Iterable[Sequence[Place]]) -> set[Root]:
        found = {p.root for parts in outputs for p in parts}
        return found.union(*map(roots_of, flat(self.steps)))


def _is_matrix(shape: Shape) -> bool:
    """Whether a tensor is one matrix in row-major order."""
    lens, strides = shape.lens, shape.strides
    return len(lens) > 1 and shape.elements == lens[-2] * lens[-1] and strides[-2:] == (lens[-1], 1)


def _readers(value: Instruction) -> list[tuple[Instruction, Instruction]]:
    """The instructions that read a value, each with what it reads: the value, or its broadcast to a batch."""
    found: list[tuple[Instruction, Instruction]] = []
    for user in value.users:
        is_batch = (
            isinstance(user.op, Multibroadcast) and user.shape.lens[-2:] == value.shape.lens[-2:]
        )
        found += _readers(user) if is_batch else [(user, value)]
    return found


def _is_only_second(value: Instruction) -> bool:
    """Whether a value is only read as the second operand of products, here or in groups."""

    def in_group(user: Instruction, read: Instruction) -> bool:
        names = sorted(user.modules[0].parameters)
        given = zip(names, user.inputs, strict=True)
        own = [user.modules[0].parameters[name] for name, x in given if x is read]
        return all(map(_is_only_second, own))

    def is_second(user: Instruction, read: Instruction) -> bool:
        return isinstance(user.op, Dot | QuantDot) and user.inputs[0] is not read

    readers = _readers(value)
    return bool(readers) and all(
        in_group(*r) if isinstance(r[0].op, Group) else is_second(*r) for r in readers
    )


def _apart(shape: Shape) -> Shape:
    """The shape without strides of 0, which a shape rule may take over from an input."""
    return shape.as_standard() if shape.is_tensor and shape.broadcasted else shape


def unwrapped(instruction: Instruction) -> Instruction:
    """The operation that writes into a buffer, as a separate instruction outside any module."""
    op = getattr(instruction.op, "op", Identity())
    return detached(instruction, op, instruction.inputs[:-1])


def _is_known(shape: Shape) -> bool:
    """Whether a value can have a place: a tensor, or a tuple of tensors, with known lengths."""
    return all(s.is_tensor and not s.is_dynamic for s in parts_of(shape))


def _unknown(instruction: Instruction) -> str:
    """The reason why a value has no place on the device."""
    kinds = {s.kind for s in parts_of(instruction.shape)} - {""}
    if kinds:
        return f"a value of kind {' or '.join(sorted(kinds))} stays on the host"
    return "its lengths are known only at run time"


def _without_kernel(instruction: Instruction) -> str:
    """The reason why no kernel computes an instruction whose value has a place."""
    if odd := [i for i in instruction.inputs if not _is_known(i.shape)]:
        return f"input {odd[0].name}: {_unknown(odd[0])}"
    if called := [m.name for m in instruction.modules if not m.bypass]:
        return f"the number of runs of {', '.join(called)} is decided at run time"
    return why_on_host(instruction)


def _bytes(shape: Shape) -> int:
    return shape.element_space * shape.type.size if shape.is_tensor else 0


def lower(
    program: Program,
    dialect: Dialect,
    choices: Choices | None = None,
    made: Callable[[Kernel], None] | None = None,
) -> Plan:
    """The plan of a program's run; without choices, its kernels are those of least estimated time.

    Args:
        program: The compiled program, without dynamic shapes.
        dialect: The dialect that kernels are printed in.
        choices: Picks variants of kernels.
        made: Called with most kernels when they are made.
    """
    return Lowering(program, dialect, choices, made).plan()
