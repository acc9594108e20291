"""A graph as a list of tensors: their order, the checks of its outputs, their names, and bound constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.compat.aitemplate.frontend.data import TorchConstantTensorData
from workbench.compat.aitemplate.frontend.operator import Operator
from workbench.compat.aitemplate.frontend.tensor import Tensor


def toposort(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """All tensors that some need, each after those that it is made of."""
    found, seen = list[Tensor](), set[int]()
    stack = [
        (t, False) for t in reversed([tensors] if isinstance(tensors, Tensor) else list(tensors))
    ]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            found.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            given = tensor.source.inputs if tensor.source is not None else []
            stack.extend((t, False) for t in reversed(given) if id(t) not in seen)
    return found


def operators(graph: Sequence[Tensor]) -> list[Operator]:
    """The operations of a sorted graph, in an order in which they can run."""
    return list(dict.fromkeys(t.source for t in graph if t.source is not None))


def check_outputs(graph: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Refuse a list of outputs that is not that of the graph.

    Raises:
        ValueError: A tensor is not an output, a name comes twice, or an output is missing.
    """
    names = set[str | None]()
    for tensor in outputs:
        if not tensor.is_output:
            raise ValueError(f"Got non-output tensor in output_tensors list: {tensor.name}")
        if tensor.name in names:
            raise ValueError(f"Got duplicate name {tensor.name} in output_tensors list.")
        names.add(tensor.name)
    for tensor in reversed(graph):
        if tensor.is_output and tensor.name not in names:
            raise ValueError(f"Output {tensor.name} was not passed into output_tensors")


def bind_constants(graph: Sequence[Tensor], constants: Mapping[str, Any]) -> None:
    """Give constants of a graph their data, by name.

    Raises:
        ValueError: A tensor of such a name has data, is an input, or is made by an operation; or the data is
            of another type or size.
    """
    for tensor in graph:
        name = tensor.name
        if name is None or name not in constants:
            continue
        if tensor.data is not None:
            raise ValueError(f"Tensor {name} is already bound!")
        if tensor.src_ops():
            raise ValueError(f"Cannot bind non-constant tensor {name}")
        if tensor.is_input:
            raise ValueError(f"Cannot bind input tensor {name}")
        tensor._bind_data(TorchConstantTensorData(constants[name]))  # pyright: ignore[reportPrivateUsage]


def name_graph(graph: Sequence[Tensor]) -> None:
    """Name operations and tensors that have no name; names that are taken are passed over."""
    taken = {t.name for t in graph if t.name is not None}
    counts = dict[str, int]()

    def fresh(kind: str) -> str:
        while True:
            number = counts[kind] = counts.get(kind, -1) + 1
            if f"{kind}_{number}" not in taken:
                taken.add(f"{kind}_{number}")
                return f"{kind}_{number}"

    for op in operators(graph):
        op._attrs["name"] = op._attrs["original_name"] = fresh(op.name)  # pyright: ignore[reportPrivateUsage]
        for k, made in enumerate(op.outputs):
            if made.name is None:
                _name(made, f"{op._attrs['name']}_{k}")  # pyright: ignore[reportPrivateUsage]
    for tensor in graph:
        if tensor.name is None:
            _name(tensor, fresh("input" if tensor.is_input else "constant"))


def _name(tensor: Tensor, name: str) -> None:
    tensor._attrs["name"] = name  # pyright: ignore[reportPrivateUsage]
    tensor._attrs["original_name"] = tensor._attrs["original_name"] or name  # pyright: ignore[reportPrivateUsage]


def check_names(graph: Sequence[Tensor]) -> None:
    """Refuse two tensors of one name.

    Raises:
        ValueError: There are such.
    """
    known = dict[str | None, Tensor]()
    for tensor in graph:
        other = known.setdefault(tensor.name, tensor)
        if other is tensor:
            continue
        if tensor.is_output or other.is_output:
            raise ValueError(
                f"Output {tensor.name} appears in the graph twice after optimizations. Give {tensor!r} "
                "another name."
            )
        raise ValueError(f"Two tensors have the name {tensor.name}: {other!r} and {tensor!r}")
