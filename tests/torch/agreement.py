"""A module through both doors, and how far the results are from eager."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import workbench as wb
from workbench.compat.torch.backend import backend


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of nested results, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [v for v in leaves if isinstance(v, torch.Tensor)]


def difference(found: Sequence[Any], wanted: Sequence[torch.Tensor]) -> float:
    """The largest difference, relative to the largest finite element of each result."""
    worst = 0.0
    for f, w in zip(found, wanted, strict=True):
        a, b = np.asarray(f, np.float64), w.detach().to(torch.float64).numpy()
        assert a.shape == b.shape, f"{a.shape}; expected {b.shape}"
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        assert bool((both | same).all()), "elements that are not finite differ"
        if both.any():
            scale = max(float(np.abs(b[both]).max()), 1e-3)
            worst = max(worst, float(np.abs(a[both] - b[both]).max()) / scale)
    return worst


def by_export(
    module: Any,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    target: str = "cpu",
    **options: Any,
) -> tuple[list[Any], Any]:
    """The results of ``wb.from_torch``'s program, and its build."""
    program = wb.from_torch(module, tuple(arguments), dict(named))
    build = wb.compile(program, target=target, **options)
    inputs = [v.cpu().numpy() for v in (*arguments, *named.values())]
    found = build.run(dict(zip(program.parameters, inputs, strict=True)), progress=False)
    return list(found.values()), build


def by_compile(
    module: Any, arguments: Sequence[Any], named: Mapping[str, Any], **options: Any
) -> Any:
    """The results of ``torch.compile``."""
    torch._dynamo.reset()
    declare_backend()
    compiled = torch.compile(module, backend="workbench", **options)
    with torch.no_grad():
        return tensors(compiled(*arguments, **named))


def declare_backend() -> None:
    """Let ``torch.compile`` find the backend in a source tree that is not installed."""
    registry = torch._dynamo.backends.registry
    if "workbench" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(backend, name="workbench")
