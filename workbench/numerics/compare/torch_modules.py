"""Values of a PyTorch module as a reference: the result of each of its submodules, by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from workbench.compiler.errors import EvaluationError, InputError
from workbench.compiler.ir.dtypes import Array


def is_module(value: object) -> bool:
    """Whether a value is a PyTorch module, which is told by its methods: PyTorch is not imported."""
    return hasattr(value, "named_modules") and hasattr(value, "register_forward_hook")


def module_results(module: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The result of every submodule in one call, by the submodule's qualified name.

    The module is called as it is, so put it into ``eval()`` first. A submodule that is called several times
    is left out, and so is one whose result is not a tensor.

    Args:
        module: The module, on the CPU.
        inputs: An array for each parameter of the program: by the names of ``forward``'s parameters, or else
            in their order.

    Raises:
        InputError: PyTorch does not take an array.
        EvaluationError: The module fails.
    """
    found: dict[str, Array | None] = {}
    with ExitStack() as hooks:
        for name, part in module.named_modules():
            if name:
                hooks.callback(part.register_forward_hook(_keeper(name, found)).remove)
        _call(module, inputs)
    return {name: value for name, value in found.items() if value is not None}


def _keeper(name: str, found: dict[str, Array | None]) -> Any:
    def keep(_module: Any, _arguments: Any, result: Any) -> None:
        is_tensor = hasattr(result, "detach") and name not in found
        found[name] = _array(result.detach().cpu()) if is_tensor else None

    return keep


def _array(tensor: Any) -> Array:
    try:
        return np.array(tensor.numpy())
    except TypeError:  # bfloat16, which PyTorch cannot give to NumPy
        return np.array(tensor.float().numpy())


def _call(module: Any, inputs: Mapping[str, Array]) -> None:
    torch: Any = import_module("torch")
    try:
        given = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in inputs.items()}
    except TypeError as error:
        raise InputError(f"PyTorch does not take these inputs: {error}") from error
    names = signature(module.forward).parameters
    try:
        with torch.no_grad():
            if set(given) <= set(names):
                module(**given)
            else:
                module(*given.values())
    except Exception as error:  # a user's code may raise anything
        raise EvaluationError(
            f"the PyTorch module fails: {type(error).__name__}: {error}"
        ) from error
