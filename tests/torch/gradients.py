"""Gradients of PyTorch's samples: the forward and the backward graph in one, against eager's."""

from itertools import islice
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

from tests.torch.agreement import tensors
from tests.torch.operators import Outcome, compared
from workbench.compat.torch.backend import core_decompositions

SAMPLES = 5
"""Samples of each operator: the first ones."""


def gradient_outcomes(name: str) -> list[Outcome]:
    """The outcomes of an operator's samples in float32."""
    (op,) = [
        o
        for o in op_db
        if o.formatted_name in (name, name.removeprefix("nn_functional_"))
        and not o.variant_test_name
    ]
    given = op.sample_inputs("cpu", torch.float32, requires_grad=True)
    return [_outcome(op, sample) for sample in islice(given, SAMPLES)]


def _outcome(op: Any, sample: Any) -> Outcome:
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
    slopes = [k for k, p in enumerate(places) if leaves[p].requires_grad]

    def call(*given: Any) -> Any:
        filled, own = (
            list(leaves),
            [g.detach().requires_grad_(k in slopes) for k, g in enumerate(given)],
        )
        for place, value in zip(places, own, strict=True):
            filled[place] = value
        first, rest, named = torch.utils._pytree.tree_unflatten(filled, spec)
        results = [r for r in tensors(op(first, *rest, **named)) if r.requires_grad]
        total = sum((r * r).sum() for r in results)
        return list(torch.autograd.grad(total, [own[k] for k in slopes]))

    given = [leaves[p].detach() for p in places]
    wanted = call(*given)
    traced = make_fx(call, core_decompositions(), tracing_mode="fake")(*given)
    used = frozenset(str(n.target) for n in traced.graph.nodes if n.op == "call_function")
    return Outcome(op.formatted_name, "gradient", *compared(traced, given, wanted, used, 2e-4))
