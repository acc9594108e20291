"""Reads modules of PyTorch: ``from_torch`` makes a Program of one, ``torch_op`` teaches it an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.compiler.torch.context import Context
from workbench.compiler.torch.exported import FromTorch, export, imported
from workbench.compiler.torch.registry import operators, torch_op

__all__ = ["Context", "FromTorch", "from_torch", "operators", "torch_op"]


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> FromTorch:
    """Import a module of PyTorch, or a program that ``torch.export`` made.

    The module is exported and decomposed to the core ATen operators. Its parameters and buffers become
    literals that share their memory. A buffer that ``forward`` changes in place becomes a parameter and an
    output, which `updates` pairs; `Build.stateful(program.initial)` keeps it between runs.

    Args:
        module: A ``torch.nn.Module``, or a ``torch.export.ExportedProgram``.
        example_inputs: Tensors with which the module is called; not needed for an exported program.
        example_kwargs: Arguments by keyword.
        dynamic_shapes: The lengths that stay open, as ``torch.export.export`` takes them; they become
            symbolic lengths with the ranges that the export found.

    Raises:
        ModelError: torch is missing, the export fails, or an operator is not supported; the message names
            the operator, the path of the module and the line of Python.

    Example::

        program = wb.from_torch(model.eval(), (torch.ones(1, 3, 224, 224),))
    """
    exported = export(module, example_inputs, example_kwargs, dynamic_shapes)
    name = "" if hasattr(module, "graph_signature") else type(module).__name__
    return imported(exported, name)
