"""Calls and loops of subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.call_info import SubgraphOpInfo
from workbench.compat.popart.ir.context import api, get_current_graph
from workbench.compat.popart.ir.factories import constant
from workbench.compat.popart.ir.graph import Graph
from workbench.compat.popart.ir.op import Op, record
from workbench.compat.popart.ir.ops.checks import check_in_graph
from workbench.compat.popart.ir.tensors import Tensor

Given: TypeAlias = "Tensor | float | Iterable[Given]"
Named: TypeAlias = Mapping[Tensor, Any] | None


@api
def call(
    subgraph: Graph,
    *inputs: Given,
    subgraph_in_to_parent_in: Named = None,
    inputs_dict: Named = None,
) -> tuple[Tensor, ...]:
    """Call a subgraph.

    Args:
        subgraph: The graph.
        *inputs: Its inputs in order; lists are flattened, and numbers become constants.
        subgraph_in_to_parent_in: Other inputs, by the subgraph's tensor.
        inputs_dict: The same, by its name in later versions.

    Returns:
        Its outputs.

    Raises:
        ValueError: There are too few or too many inputs, or one is of another graph.
        popart_exception: The shape or type of an input is not the subgraph's.
    """
    return _called(subgraph, inputs, _both(subgraph_in_to_parent_in, inputs_dict), True).outputs


@api
def call_with_info(
    subgraph: Graph,
    *inputs: Given,
    subgraph_in_to_parent_in: Named = None,
    check_inputs: bool = True,
    inputs_dict: Named = None,
) -> SubgraphOpInfo:
    """Call a subgraph, and return the relations between its tensors and those of this graph.

    Args:
        subgraph: The graph.
        *inputs: Its inputs in order; lists are flattened, and numbers become constants.
        subgraph_in_to_parent_in: Other inputs, by the subgraph's tensor.
        inputs_dict: The same, by its name in later versions.
        check_inputs: Whether to refuse a call with too few inputs now, and not when it is run.

    Raises:
        ValueError: There are too few or too many inputs, or one is of another graph.
        popart_exception: The shape or type of an input is not the subgraph's.
    """
    return SubgraphOpInfo(
        _called(subgraph, inputs, _both(subgraph_in_to_parent_in, inputs_dict), check_inputs)
    )


@api
def repeat(
    subgraph: Graph,
    repeat_count: int,
    *inputs: Given,
    subgraph_in_to_parent_in: Named = None,
    inputs_dict: Named = None,
) -> tuple[Tensor, ...]:
    """Call a subgraph several times; its outputs are its first inputs the next time.

    Args:
        subgraph: The graph.
        repeat_count: The number of times, at least 2.
        *inputs: Its inputs in order; lists are flattened, and numbers become constants.
        subgraph_in_to_parent_in: Other inputs, by the subgraph's tensor.
        inputs_dict: The same, by its name in later versions.

    Returns:
        Its outputs of the last time.

    Raises:
        ValueError: The count is too small, the graph has more outputs than inputs, or as for `call`.
        popart_exception: As for `call`, or an output does not fit the input that it becomes.
    """
    return _repeated(
        subgraph, repeat_count, inputs, _both(subgraph_in_to_parent_in, inputs_dict), True
    ).outputs


@api
def repeat_with_info(
    subgraph: Graph,
    repeat_count: int,
    *inputs: Given,
    subgraph_in_to_parent_in: Named = None,
    check_inputs: bool = True,
    inputs_dict: Named = None,
) -> SubgraphOpInfo:
    """`repeat`, with the relations between the subgraph's tensors and those of this graph."""
    made = _repeated(
        subgraph, repeat_count, inputs, _both(subgraph_in_to_parent_in, inputs_dict), check_inputs
    )
    return SubgraphOpInfo(made)


def _both(first: Named, second: Named) -> Named:
    return {**(first or {}), **(second or {})}


def _called(
    graph: Graph, given: Iterable[Given], named: Named, check_inputs: bool, count: int | None = None
) -> Op:
    """Record a call, or a loop of this many iterations."""
    inputs = _bound(graph, given, named, check_inputs)
    by_ref = graph._by_ref_inputs  # pyright: ignore[reportPrivateUsage]
    outputs = graph.get_output_tensors()
    attributes: dict[str, Any] = {"callee": graph.id}
    if count is not None:
        attributes["repeat_count"] = count
    return record(
        "Call" if count is None else "Loop", inputs, names=[t.name for t in outputs],
        outputs=[(t.shape, t.dtype) for t in outputs], called=[graph], attributes=attributes,
        modifies=[k for k, t in enumerate(graph.get_input_tensors()) if t in by_ref],
        first_input=0 if count is None else 2,
    )  # fmt: skip


def _repeated(
    graph: Graph, count: int, given: Iterable[Given], named: Named, check_inputs: bool
) -> Op:
    if count <= 1:
        raise ValueError(f"Repeat trip count for repeat of {graph.name} of {count} must be > 1.")
    inputs, outputs = graph.get_input_tensors(), graph.get_output_tensors()
    if len(outputs) > len(inputs):
        raise ValueError(
            f"To repeat the subgraph ({graph.name}) it needs at least as many inputs as outputs; it has "
            f"{len(inputs)} inputs and {len(outputs)} outputs."
        )
    for output, becomes in zip(outputs, inputs, strict=False):
        _check_fits("output", output, becomes)
    return _called(graph, given, named, check_inputs, count)


def _bound(graph: Graph, given: Iterable[Given], named: Named, check_inputs: bool) -> list[Tensor]:
    """The inputs of a call in the order of the subgraph's."""
    wanted = graph.get_input_tensors()
    by_tensor = dict(named or {})
    for t in by_tensor:
        if t not in wanted:
            raise ValueError(f"{t!r} is not an input of the subgraph {graph.name}.")
    rest = [t for t in wanted if t not in by_tensor]
    flat = list(_flat(given))
    if len(flat) > len(rest) or (check_inputs and len(flat) < len(rest)):
        raise ValueError(
            f"An incorrect number of inputs have been provided to the call of {graph.name}: it has "
            f"{len(wanted)} inputs ({', '.join(t.name for t in wanted)}); "
            f"{len(flat)} were given in order and {len(by_tensor)} by name."
        )
    by_tensor |= dict(zip(rest, flat, strict=False))
    inputs = [_tensor(by_tensor[t], t) for t in wanted if t in by_tensor]
    check_in_graph(**{t.name: x for t, x in zip(wanted, inputs, strict=False)})
    for t, x in zip([t for t in wanted if t in by_tensor], inputs, strict=True):
        _check_fits("input", x, t)
    if graph.ir() is not get_current_graph().ir():
        raise ValueError(f"The subgraph {graph.name} is of another Ir.")
    return inputs


def _flat(given: Iterable[Given]) -> Iterable[Any]:
    for value in given:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _tensor(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else constant(value, like.dtype)


def _check_fits(what: str, tensor: Tensor, like: Tensor) -> None:
    if (tensor.shape, tensor.dtype) != (like.shape, like.dtype):
        raise popart_exception(
            f"The {what} {tensor!r} does not fit {like!r}, the subgraph's input: expected {like.dtype} "
            f"{like.shape}"
        )
