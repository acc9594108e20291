"""Pairs of kernels: how one reads the result of the other, and why the two cannot be fused."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeAlias

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Family, Operation
from workbench.compiler.ops.broadcast import Multibroadcast
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.fused import Fused, FusedReduce, PointwiseModule
from workbench.compiler.ops.movement import Contiguous
from workbench.compiler.ops.reshape import Reshape

LARGEST_BODY = 256
"""The most lines of a fused body: a kernel has few registers and arguments."""

Kinds: TypeAlias = tuple[type[Fused], ...]

KERNELS: Kinds = (PointwiseModule, FusedReduce)
BETWEEN = (Contiguous, Multibroadcast)
"""The operations that a link may have between two kernels."""


def who(instruction: Instruction) -> str:
    """The name of an instruction in reasons."""
    return f"{instruction.op.name} #{instruction.id}"


def listed(instructions: Iterable[Instruction]) -> str:
    """The names of several instructions in reasons."""
    return ", ".join(map(who, instructions))


def is_kernel(instruction: Instruction) -> bool:
    """Whether an instruction is fused elementwise work or a fused reduction."""
    return isinstance(instruction.op, KERNELS)


@cache
def _views(op: type[Operation]) -> bool:
    """Whether operations of a class make views or copies."""
    return op.family is Family.VIEW or issubclass(op, Reshape | Contiguous)


def is_view(value: Instruction) -> bool:
    """Whether a value is a view or a copy of another one, whatever its lens."""
    return _views(type(value.op)) and len(value.inputs) == 1


def behind_views(value: Instruction) -> Instruction:
    """The value behind views and copies."""
    while is_view(value):
        value = value.inputs[0]
    return value


def lines(*modules: Module) -> int:
    """The number of lines of a body that holds these modules, nested bodies included."""
    count = 0
    for module in modules:
        count += len(module)
        for caller in module.calling:
            count += lines(*caller.modules)
    return count


# Elementwise work


def pointwise_obstacle(
    producer: Instruction, user: Instruction, value: Instruction | None = None
) -> str:
    """The reason why a ``pointwise`` cannot be fused into another; empty if it can.

    Args:
        producer: The first one.
        user: The other one.
        value: The first input of the other that is the first or a view of it, if it is known.
    """
    if producer.module is not user.module:
        return _of_modules(producer, user)
    if producer not in user.inputs:
        return in_between(producer, user, value)
    if not producer.shape.is_tensor:
        return f"{who(producer)} has several results"
    if (parts := lines(producer.modules[0], user.modules[0])) > LARGEST_BODY:
        return _too_long(producer, parts)
    if others := [u for u in producer.users if u is not user]:
        return f"{who(producer)} has other users: {listed(others)}"
    return ""


def _of_modules(producer: Instruction, user: Instruction) -> str:
    return (
        f"{who(producer)} is in module {producer.module.name!r}, its user in {user.module.name!r}"
    )


def _too_long(producer: Instruction, parts: int) -> str:
    return (
        f"{who(producer)} and its user would make a body of {parts} lines; at most {LARGEST_BODY}"
    )


def in_between(producer: Instruction, user: Instruction, value: Instruction | None = None) -> str:
    """The view that keeps a kernel from being fused with the one it reads; ``value`` if it is known."""
    if value is None:
        value = next(i for i in user.inputs if behind_views(i) is producer)
    if not producer.shape.is_tensor:
        return f"{who(producer)} has several results; its user takes one of them"
    return (
        f"{who(producer)} has lens {_lens(producer)}, and {who(value)} before "
        f"its user changes them to {_lens(value)}"
    )


def _lens(value: Instruction) -> list[int] | str:
    return "known only at run time" if value.shape.dims is not None else [*value.shape.lens]


# Reductions


class Link(NamedTuple):
    """The link from a producer to its user: nothing, or a broadcast over the reduced axes."""

    producer: Instruction
    broadcast: Instruction | None = None
    dropped: tuple[Instruction, ...] = ()
    """Instructions named ``contiguous`` around the broadcast."""

    @property
    def values(self) -> list[Instruction]:
        """All of it but the user."""
        return [self.producer, *self.dropped, *([self.broadcast] if self.broadcast else [])]


def links(user: Instruction, kind: type[Operation]) -> list[Link]:
    """The links from operations of a kind to inputs of ``user``, direct ones first."""
    found = [link_of(i) for i in dict.fromkeys(user.inputs)]
    return sorted(
        (k for k in found if isinstance(k.producer.op, kind)), key=lambda k: k.broadcast is not None
    )


def is_linked(user: Instruction, kind: type[Operation]) -> bool:
    """Whether ``links`` finds any; called at every attempt, so it does not build them."""
    for given in user.inputs:  # noqa: SIM110 (a loop is faster)
        if isinstance(_producer_of(given).op, kind):
            return True
    return False


def _producer_of(value: Instruction) -> Instruction:
    """The producer of the link that ``value`` ends."""
    seen_broadcast = False
    while isinstance(value.op, BETWEEN):
        if isinstance(value.op, Multibroadcast):
            if seen_broadcast or len(value.inputs) != 1:
                return value
            seen_broadcast = True
        value = value.inputs[0]
    return value


def link_of(value: Instruction) -> Link:
    """The link from a producer to ``value``, looking through one broadcast and contiguous copies."""
    dropped: list[Instruction] = []
    broadcast: Instruction | None = None
    while True:
        if isinstance(value.op, Contiguous):
            dropped.append(value)
        elif isinstance(value.op, Multibroadcast) and broadcast is None and len(value.inputs) == 1:
            broadcast = value
        else:
            return Link(value, broadcast, tuple(dropped))
        value = value.inputs[0]


def axes_of(kernel: Instruction) -> tuple[int, ...]:
    """The axes that a kernel reduces; none of elementwise work."""
    return getattr(kernel.op, "axes", ())


def link_obstacle(user: Instruction, link: Link) -> str:
    """The reason why ``user`` cannot be fused with the link's producer; empty if it can."""
    producer, broadcast = link.producer, link.broadcast
    if producer.module is not user.module:
        return _of_modules(producer, user)
    if any(i.shape.dims is not None for i in (producer, user)):
        return f"{who(producer)} or its user has dynamic dimensions; a body has static ones"
    if not (producer.shape.is_tensor and user.shape.is_tensor):
        return f"{who(producer)} or its user has several results"
    axes = axes_of(user) or axes_of(producer)
    if isinstance(producer.op, FusedReduce) and axes_of(producer) != axes:
        theirs = list(axes_of(producer))
        return f"{who(producer)} reduces axes {theirs}; its user reduces {list(axes)}"
    through = link.values
    for value in through:
        if others := [u for u in value.users if u is not user and u not in through]:
            return f"{who(value)} has other users: {listed(others)}"
    if (parts := lines(producer.modules[0], user.modules[0])) > LARGEST_BODY:
        return _too_long(producer, parts)
    return "" if broadcast is None else broadcast_obstacle(who(producer), broadcast, axes)


def widened_product(work: Instruction) -> Instruction | None:
    """The product whose result only this elementwise work reads, and widens; None if there is none.

    Such work is left to the product, which then stores sums that are not rounded.
    """
    names = sorted(work.modules[0].parameters)
    for name, value in zip(names, work.inputs, strict=True):
        is_own = value.op.contraction is not None and value.only_user is work
        if is_own and _is_widened(work.modules[0].parameters[name]):
            return value
    return None


def _is_widened(value: Instruction) -> bool:
    """Whether a value is only read as a wider type."""
    sizes = [u.shape.type.size for u in value.users if isinstance(u.op, Convert)]
    return len(sizes) == len(value.users) > 0 and min(sizes) > value.shape.type.size


def broadcast_obstacle(producer: str, broadcast: Instruction, axes: tuple[int, ...]) -> str:
    """The reason why a broadcast is not one over reduced axes; empty if it is."""
    source, result = broadcast.inputs[0].shape, broadcast.shape
    if source.ndim != result.ndim:
        return f"{who(broadcast)} adds axes to {producer}: from {source.ndim} to {result.ndim}"
    spread = [i for i in range(result.ndim) if result.strides[i] == 0 and result.lens[i] != 1]
    wanted = [a for a in axes if result.lens[a] != 1]
    if spread != wanted:
        where = f"along axes {spread}; the reduction is over {wanted}"
        return f"{who(broadcast)} broadcasts {producer} {where}"
    return ""
