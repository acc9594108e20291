"""Reverse-mode differentiation of a graph: a new graph that computes gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add

import numpy as np

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.call_info import SubgraphOpInfo
from workbench.compat.popart.ir.context import ipu
from workbench.compat.popart.ir.factories import constant, subgraph_input, subgraph_output
from workbench.compat.popart.ir.graph import Graph, made_graph
from workbench.compat.popart.ir.op import Op, record
from workbench.compat.popart.ir.ops.calls import call_with_info
from workbench.compat.popart.ir.tensors import Constant, Tensor
from workbench.compat.popart.ir.transforms.connections import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    connection,
)
from workbench.compat.popart.ir.transforms.vjp import gradient_of
from workbench.compiler.expressions.value import Value

_FWD, _GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
_BINARY = {"Add", "Sub", "Mul", "Div", "Fmod", "Pow", "Min", "Max"}
"""Operations whose gradients take both arguments and the result, needed or not, as PopART's do."""
_STOPS = {"Detach", "DetachInplace"}
PREFIX = "Gradient___"
"""What the names of gradients begin with."""

Infos = Mapping[Graph, GradGraphInfo]


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Infos | None = None,
    return_all_grad_graphs: bool = False,
) -> GradGraphInfo | Infos:
    """Make the graph that computes gradients of another graph, in reverse mode.

    Values of the forward graph that the gradients need, and that are neither its inputs nor its outputs,
    become outputs of it and of every call of it.

    Args:
        graph: The forward graph.
        grads_provided: Its outputs whose gradients are the first inputs of the new graph; by default all.
        grads_required: Its inputs whose gradients are the outputs of the new graph, in this order; by default
            all that have one.
        called_graphs_grad_info: The gradient graphs of graphs that it calls; others are made.
        return_all_grad_graphs: Also return the gradient graphs of the graphs that it calls.

    Returns:
        The gradient graph with its connections; or all of them, by forward graph.

    Raises:
        TypeError: ``graph`` is not a graph.
        ValueError: A tensor is not of the graph.
        popart_exception: An operation is not differentiable, or a required gradient does not exist.
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"autodiff: expected a popart.ir.Graph, found {type(graph).__name__}.")
    known = dict(called_graphs_grad_info or {})
    provided = _listed(graph, "grads_provided", grads_provided, graph.get_output_tensors())
    required = _listed(graph, "grads_required", grads_required, graph.get_input_tensors())
    made = _Autodiff(graph, provided, required, grads_required is not None, known).made()
    known[graph] = made
    return known if return_all_grad_graphs else made


def _listed(
    graph: Graph, what: str, given: Iterable[Tensor] | None, default: tuple[Tensor, ...]
) -> list[Tensor]:
    tensors = [t for t in default if t.dtype.is_floating_point] if given is None else list(given)
    for t in tensors:
        if t not in graph:
            raise ValueError(f"autodiff: {t!r} of {what} is not a tensor of the graph {graph.id}.")
    return tensors


class _Autodiff:
    """The making of one gradient graph."""

    def __init__(
        self,
        forward: Graph,
        provided: list[Tensor],
        required: list[Tensor],
        all_required: bool,
        known: dict[Graph, GradGraphInfo],
    ) -> None:
        """An empty gradient graph."""
        self.forward, self.provided, self.required = forward, provided, required
        self.all_required, self.known = all_required, known
        self.graph = _new_graph(forward)
        self.gradients: dict[Tensor, list[Tensor]] = {}
        """The parts of each gradient, which are summed when it is needed."""
        self.inputs: list[ExpectedConnection] = []
        self.activations: dict[Tensor, Tensor] = {}
        self.overwritten = {
            op.inputs[k] for op in forward.ops() for k in (*op.modifies, *op.hidden)
        }

    def made(self) -> GradGraphInfo:
        """Make the operations, then the outputs."""
        with self.graph:
            for t in self.provided:
                self.gradients[t] = [subgraph_input(t.shape, t.dtype, PREFIX + t.name)]
                self.inputs.append(connection(t, _GRAD))
            for op in reversed(self.forward.ops()):
                with ipu(op.ipu):
                    self._differentiate(op)
            outputs = self._outputs()
        self._expose()
        found = object.__new__(GradGraphInfo)
        found.graph, found.forward_graph = self.graph, self.forward
        found.expected_inputs = tuple(self.inputs)
        found.expected_outputs = tuple(connection(t, _GRAD) for t in outputs)
        return found

    def _outputs(self) -> list[Tensor]:
        found = [t for t in self.required if t in self.gradients]
        if self.all_required and len(found) < len(self.required):
            missing = next(t for t in self.required if t not in self.gradients)
            raise popart_exception(
                f"autodiff: no gradient of {missing!r} can be computed: no output whose gradient is "
                "provided depends on it in a differentiable way"
            )
        for t in found:
            subgraph_output(self._summed(t))
        return found

    def _summed(self, tensor: Tensor) -> Tensor:
        """The gradient of a tensor, all parts of which are known now."""
        parts = self.gradients[tensor]
        if len(parts) > 1:
            made = record("Sum", parts, _sum, names=[PREFIX + tensor.name]).outputs
            self.gradients[tensor] = list(made)
        return self.gradients[tensor][0]

    def _differentiate(self, op: Op) -> None:
        given = [k for k, t in enumerate(op.outputs) if t in self.gradients]
        if not given or op.op_type in _STOPS:
            return
        if op.op_type == "Call":
            self._differentiate_call(op)
            return
        if op.meaning is None:
            raise popart_exception(f"autodiff: {op!r} has no gradient")
        if op.modifies:
            raise popart_exception(
                f"autodiff: {op!r} overwrites an input, whose value its gradient would need; use the "
                "operation that does not work in place"
            )
        wanted = [k for k, t in enumerate(op.inputs) if t.dtype.is_floating_point]
        if op.op_type in _BINARY:
            for k in wanted:
                self._record(op, given, [k], f"{op.op_type}Arg{k}Grad")
        elif wanted:
            self._record(op, given, wanted, f"{op.op_type.removesuffix('Inplace')}Grad")

    def _record(self, op: Op, given: list[int], wanted: list[int], op_type: str) -> None:
        """One operation of the gradient graph."""
        gradient = gradient_of(op, given, wanted)
        grads = [self._summed(op.outputs[k]) for k in given]
        needed = [self._activation(op.inputs[k]) for k in gradient.needed]
        if op.op_type in _BINARY:
            rest = [k for k in range(len(op.inputs)) if k not in gradient.needed]
            needed += [self._activation(op.inputs[k]) for k in rest]
            needed.append(self._activation(op.outputs[0]))
        names = [PREFIX + op.inputs[k].name for k in wanted]
        made = record(op_type, [*grads, *needed], gradient, names=names)
        made.location = op.location
        for k, output in zip(wanted, made.outputs, strict=True):
            self.gradients.setdefault(op.inputs[k], []).append(output)

    def _differentiate_call(self, op: Op) -> None:
        """A call of the gradient graph of the graph that an operation calls."""
        callee = op.called_graphs[0]
        if callee not in self.known:
            found = autodiff(
                callee, called_graphs_grad_info=self.known, return_all_grad_graphs=True
            )
            assert isinstance(found, Mapping)
            self.known.update(found)
        info, here = self.known[callee], SubgraphOpInfo(op)
        inputs = [self._input_of_call(c, here) for c in info.expected_inputs]
        made = call_with_info(info.graph, *inputs).get_output_tensors()
        for t, output in zip(info.get_output_tensors(), made, strict=True):
            self.gradients.setdefault(here.subgraph_to_op_tensor(t), []).append(output)

    def _input_of_call(self, expected: ExpectedConnection, here: SubgraphOpInfo) -> Tensor:
        tensor = here.subgraph_to_op_tensor(expected.fwd_tensor)
        if expected.connection_type is _FWD:
            return self._activation(tensor)
        if tensor in self.gradients:
            return self._summed(tensor)
        return constant(np.zeros(tensor.shape, tensor.dtype.as_numpy()), tensor.dtype)

    def _activation(self, tensor: Tensor) -> Tensor:
        """A tensor of the forward graph in the gradient graph: a constant again, or an input."""
        if tensor not in self.activations:
            if tensor in self.overwritten:
                raise popart_exception(
                    f"autodiff: a gradient needs {tensor!r}, which an operation of {self.forward.id} "
                    "overwrites; use the operation that does not work in place"
                )
            if isinstance(tensor, Constant):
                made = constant(tensor.data, tensor.dtype, tensor.name)
            else:
                made = subgraph_input(tensor.shape, tensor.dtype, tensor.name)
                self.inputs.append(connection(tensor, _FWD))
            self.activations[tensor] = made
        return self.activations[tensor]

    def _expose(self) -> None:
        """Return what the gradients need from the forward graph, and from its calls."""
        have = {*self.forward.get_input_tensors(), *self.forward.get_output_tensors()}
        more = [c.fwd_tensor for c in self.inputs if c.connection_type is _FWD]
        more = [t for t in more if t not in have]
        for t in more:
            self.forward.add_output(t)
        graphs = self.forward.ir().graphs
        calls = [op for g in graphs for op in g.ops() if self.forward in op.called_graphs]
        for op in calls:
            if op.op_type == "Call":
                first = len(op.outputs)
                added = [
                    op.graph.add_result(op, first + k, t.name, (t.shape, t.dtype))
                    for k, t in enumerate(more)
                ]
                op.outputs = (*op.outputs, *added)


def _sum(*parts: Value) -> Value:
    return reduce(add, parts)


def _new_graph(forward: Graph) -> Graph:
    """An empty graph of the same Ir, named after the forward graph."""
    ir = forward.ir()
    taken = {g.id for g in ir.graphs}
    base = name = f"{forward.id}_bwd"
    number = 0
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return ir.add_graph(made_graph(ir, name))
