"""Transfers of host and remote memory merged into one operation."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain

from workbench.compat.popart.ir.context import get_current_graph, in_sequence, io_tiles
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op

_MERGED = frozenset(("HostLoad", "HostStore", "RemoteLoad", "RemoteLoadInplace", "RemoteStore"))


@contextmanager
def merge_exchange() -> Generator[None]:
    """Merge the loads and stores made inside, if none needs another one, into one ``MultiExchange``."""
    with _watched() as made:
        yield
    _merge(get_current_graph(), made)


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Generator[None]:
    """Put the loads and stores made inside on the tiles for input and output, and merge them.

    Args:
        verify_overlap: Refuse if more than one operation is left.

    Raises:
        RuntimeError: More than one operation is left.
    """
    graph = get_current_graph()
    with ExitStack() as stack:
        made = stack.enter_context(_watched())
        for context in (io_tiles(), merge_exchange(), in_sequence(False)):
            stack.enter_context(context)
        yield
    left = {op.whole for op in made if op.op_type != "Init"} & set(graph.ops())
    if verify_overlap and len(left) > 1:
        shown = ", ".join(f"{op.op_type} {op.name}" for op in graph.ops() if op in left)
        raise RuntimeError(
            f"More than one Op remained after `io_tile_exchange`, so they cannot overlap with computation: "
            f"{shown}."
        )


@contextmanager
def _watched() -> Generator[list[Op]]:
    """The operations that are added to the current graph inside."""
    graph, made = get_current_graph(), list[Op]()
    handle = graph.register_op_created_hook(made.append)
    try:
        yield made
    finally:
        graph.remove_op_created_hook(handle)


def _merge(graph: Graph, made: Sequence[Op]) -> None:
    from workbench.compat.popart.lowering.ambiguity import ancestors  # noqa: PLC0415 - it reads graphs

    left = [op for op in made if op.op_type in _MERGED and op.merged is None]
    while left:
        before = ancestors(graph)
        group = list[Op]()
        for op in left:
            if not any(before[op] >> other.id & 1 for other in group):
                group.append(op)
        if len(group) > 1:
            graph.replace_ops(set(group), merged(group))
        left = [op for op in left if op not in group]


def merged(parts: Sequence[Op]) -> Op:
    """One operation for several, which are its parts."""
    first = parts[0]
    inputs = tuple(chain.from_iterable(p.inputs for p in parts))
    starts = [sum(len(p.inputs) for p in parts[:k]) for k in range(len(parts))]
    made = Op(
        first.graph.ir().next_op_id(), "MultiExchange", first.name, first.graph, inputs, None,
        {"merged": tuple(p.op_type for p in parts)},
        outputs=tuple(chain.from_iterable(p.outputs for p in parts)),
        modifies=tuple(s + k for s, p in zip(starts, parts, strict=True) for k in p.modifies),
        parts=tuple(parts), ipu=first.ipu, tile_set=first.tile_set, pipeline_stage=first.pipeline_stage,
        execution_context=first.execution_context, api="merge_exchange", location=first.location,
        in_sequence=tuple(dict.fromkeys(o for p in parts for o in p.in_sequence)),
    )  # fmt: skip
    for part in parts:
        part.merged = made
    return made
