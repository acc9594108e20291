"""Chains of transforms: instructions that only rearrange or broadcast the elements of one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.broadcast import Broadcast, Multibroadcast
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.reshape import Flatten, Reshape
from workbench.compiler.ops.view import Squeeze, Transpose, Unsqueeze
from workbench.compiler.passes.shapes.transform.descriptor import Transform, Transforms
from workbench.compiler.rewrite import Rewriter

TRANSFORMING = (Broadcast, Multibroadcast, Flatten, Reshape, Squeeze, Unsqueeze, Transpose)
"""Operations that only rearrange or broadcast the elements of one value."""

BROADCASTS = frozenset({Broadcast.name, Multibroadcast.name})
TRANSFORMS = frozenset(op.name for op in TRANSFORMING)
"""Names of these."""
LINKS = TRANSFORMS | {Contiguous.name}
"""Names of the operations that chains of transforms are made of."""


_TRANSFORMING = frozenset(TRANSFORMING)
_LINKING = _TRANSFORMING | {Contiguous}
"""Classes of operations; none of them has subclasses, and to look them up is faster than ``isinstance``."""


def is_transform(instruction: Instruction) -> bool:
    """Whether an instruction is a transform of one value with a known shape."""
    return (
        type(instruction.op) in _TRANSFORMING
        and len(instruction.inputs) == 1
        and instruction.shape.dims is None
        and instruction.inputs[0].shape.dims is None
    )


def is_link(instruction: Instruction) -> bool:
    """Whether an instruction is part of a chain: a transform or a ``contiguous``."""
    op = instruction.op
    if type(op) not in _LINKING or instruction.shape.dims is not None:
        return False
    inputs = instruction.inputs
    return (len(inputs) == 1 and inputs[0].shape.dims is None) or isinstance(op, Contiguous)


def chain_to(end: Instruction) -> list[Instruction]:
    """The chain of transforms and ``contiguous`` that ends with ``end``, in order."""
    found: list[Instruction] = []
    current = end
    while is_link(current):
        found.append(current)
        current = current.inputs[0]
    return found[::-1]


def behind_contiguous(instruction: Instruction) -> Instruction:
    """The value behind copies to row-major order."""
    while isinstance(instruction.op, Contiguous):
        instruction = instruction.inputs[0]
    return instruction


def next_user(instruction: Instruction) -> Instruction | None:
    """The only user, looking through ``contiguous``; None if there are several or none."""
    user = instruction.only_user
    while user is not None and isinstance(user.op, Contiguous):
        user = user.only_user
    return user


def transform_of(instruction: Instruction) -> Transform:
    """The ``Transform`` for an instruction."""
    return _transform(instruction.op, instruction.inputs[0].shape, instruction.shape.lens)


@lru_cache(maxsize=4096)
def _transform(given: Operation, shape: Shape, lens: tuple[int, ...]) -> Transform:
    """The ``Transform`` for an operation from a value of some shape to other lens."""
    op, source = given.normalized([shape]), shape.lens
    if isinstance(op, Transpose):
        return Transform("transpose", op.permutation)
    if isinstance(op, Squeeze):
        ones = tuple(i for i, n in enumerate(source) if n == 1)
        axes = tuple(sorted(op.axes)) or ones
        if len(source) - len(axes) == len(lens):  # a scalar still has one axis
            return Transform("squeeze", axes)
    if isinstance(op, Unsqueeze) and not op.steps and len(source) + len(op.axes) == len(lens):
        return Transform("unsqueeze", tuple(sorted(op.axes)))
    if isinstance(op, Broadcast | Multibroadcast):
        return Transform(op.name, lens, getattr(op, "axis", 0))
    return Transform("reshape", lens)


def words_of(chain: Sequence[Instruction]) -> Transforms:
    """The ``Transform`` of each instruction of a chain, copies to row-major order left out."""
    return tuple([transform_of(i) for i in chain if not isinstance(i.op, Contiguous)])


def build(b: Rewriter, source: Instruction, transform: Transform) -> Instruction:
    """The instruction for a ``Transform``."""
    kind, values, axis = transform
    if kind == "broadcast":
        return b(kind, source, axis=axis, out_lens=values)
    if kind == "reshape":
        return b.reshape(source, values)
    keys = {"transpose": "permutation", "multibroadcast": "out_lens"}
    return b(make(kind, **{keys.get(kind, "axes"): values}), source)


def apply(b: Rewriter, value: Instruction, transforms: Iterable[Transform]) -> Instruction:
    """The value after a chain of transforms."""
    for transform in transforms:
        value = build(b, value, transform)
    return value
