"""PyTorch's own samples of operators (OpInfo): traced, imported, run, and compared with eager."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

import workbench as wb
from tests.torch.agreement import tensors
from workbench.compat.torch.backend import core_decompositions, import_graph
from workbench.compat.torch.running import run

SAMPLES = 6
"""Samples of each operator and type: the first ones."""

TYPES = (torch.float32, torch.int64, torch.bool)


@dataclass
class Outcome:
    """One sample."""

    operator: str
    type: str
    kind: str
    """``agrees``, ``differs``, ``refused`` or ``failed``; ``skipped`` if eager or the tracer fails."""
    operators: frozenset[str]
    """The ATen operators of the graph."""
    detail: str = ""


def core_operators() -> frozenset[str]:
    """The names of the core ATen operators of the installed torch."""
    found: set[str] = set()
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        packet, _, overload = rest.partition(".")
        if space != "aten":
            continue
        try:
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        except AttributeError:  # an operator without a Python name
            continue
        if torch.Tag.core in op.tags:
            found.add(str(op).removesuffix(".default"))
    return frozenset(found)


def samples(chosen: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[Any, Any, Any]]:
    """Operators with a type and a sample."""
    for op in op_db:
        if not chosen(op.formatted_name):
            continue
        for type in TYPES:
            if type in op.supported_dtypes("cpu"):
                for sample in islice(op.sample_inputs("cpu", type), SAMPLES):
                    yield op, type, sample


def outcome(op: Any, type: torch.dtype, sample: Any) -> Outcome:
    """One sample traced, imported, run by the reference and compared."""
    name, kind = op.formatted_name, str(type).removeprefix("torch.")
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def call(*given: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(places, given, strict=True):
            filled[place] = value
        first, rest, named = torch.utils._pytree.tree_unflatten(filled, spec)
        return _real(tensors(op(first, *rest, **named)))

    given = [leaves[k].detach() for k in places]
    try:
        wanted = call(*[g.clone() for g in given])
        functional = torch.func.functionalize(call, remove="mutations")
        traced = make_fx(functional, core_decompositions(), tracing_mode="fake")(*given)
    except Exception as error:  # whatever eager and the tracer refuse
        return Outcome(name, kind, "skipped", frozenset(), f"{error}"[:200])
    used = frozenset(
        str(n.target).removesuffix(".default")
        for n in traced.graph.nodes
        if n.op == "call_function" and n.target is not operator.getitem
    )
    return Outcome(name, kind, *compared(traced, given, wanted, used))


def _real(results: list[Any]) -> list[Any]:
    """Complex results as pairs of numbers, as a program returns them."""
    return [torch.view_as_real(r.resolve_conj()) if r.is_complex() else r for r in results]


def direct_outcome(name: str, arguments: tuple[Any, ...]) -> Outcome:
    """An operator called as it is, without decompositions."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    more = {"rounding_mode": "floor"} if packet == "div" else {}
    leaves, spec = torch.utils._pytree.tree_flatten(arguments)
    places = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def call(*given: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(places, given, strict=True):
            filled[place] = value
        found = tensors(op(*torch.utils._pytree.tree_unflatten(filled, spec), **more))
        return (
            found[:1] if packet == "_embedding_bag" else found
        )  # the rest are notes for its gradient

    given = [leaves[k] for k in places]
    traced = make_fx(call, tracing_mode="fake")(*given)
    used = frozenset(f"aten.{n}" for n in (name,))
    return Outcome(name, "direct", *compared(traced, given, call(*given), used))


def compared(
    traced: Any, given: Any, wanted: Any, used: frozenset[str], room: float = 2e-5
) -> tuple[str, frozenset[str], str]:
    """The kind of an outcome, the operators and the detail: a graph run by the reference, beside eager."""
    try:
        imported = import_graph(traced)
        build = wb.compile(imported.program, target="ref", record=False)
        named = {n: a for n, a in zip(imported.names, given, strict=True) if n is not None}
        if imported.seed is not None:
            return "skipped", used, "random numbers"
        outputs = run(build, named)
        found = [outputs[k] for k in imported.results if k is not None]
    except wb.WorkbenchError as error:
        return "refused", used, f"{error}"[:300]
    except Exception as error:  # a defect: it is counted, and named
        return "failed", used, f"{type(error).__name__}: {error}"[:300]
    try:
        for f, w in zip(found, wanted, strict=True):
            torch.testing.assert_close(f, w, rtol=10 * room, atol=room, equal_nan=True)
    except AssertionError as error:
        return "differs", used, f"{error}"[:300]
    return "agrees", used, ""
