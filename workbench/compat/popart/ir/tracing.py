"""Subgraphs from Python functions: arguments that are tensors become inputs, results become outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from workbench.compat.popart.ir.module import Module
from workbench.compat.popart.ir.tensor import (
    Tensor,
    TensorByRef,
    TensorSpec,
    subgraph_input,
    subgraph_output,
)

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.ir import Ir

Binding = tuple[inspect.Parameter, Any]


def traced(
    ir: Ir, fn: Callable[..., Any] | Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Graph:
    """The subgraph that a function builds when it is called with inputs in place of tensors."""
    build = fn.build if isinstance(fn, Module) else fn
    if not callable(build):
        raise TypeError(f"Callable object {fn!r} is not callable.")
    bound = _bound(build, args, kwargs)
    hints = _hints(build)
    graph = ir.create_empty_graph(_name(fn))
    with graph:
        for parameter, value in [
            (bound.signature.parameters[n], v) for n, v in bound.arguments.items()
        ]:
            by_ref = _by_ref(hints.get(parameter.name, parameter.annotation))
            bound.arguments[parameter.name] = _argument(parameter, value, by_ref)
        for output in _outputs(fn(*bound.args, **bound.kwargs)):
            subgraph_output(output)
    return graph


def _name(fn: Any) -> str:
    named = type(fn) if isinstance(fn, Module) else fn
    return getattr(named, "__qualname__", type(fn).__qualname__).replace(".<locals>", "")


def _bound(
    build: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    try:
        bound = inspect.signature(build).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(
            "The arguments, `args` and `kwargs`, do not match the signature of the function "
            f"{getattr(build, '__qualname__', build)}: {error}."
        ) from error
    bound.apply_defaults()
    return bound


def _hints(build: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, with those written as text evaluated where that is possible."""
    try:
        return get_type_hints(build)
    except (NameError, TypeError, AttributeError):
        return {}


def _by_ref(annotation: Any) -> bool:
    return annotation is TensorByRef or get_args(annotation)[:1] == (TensorByRef,)


def _argument(parameter: inspect.Parameter, value: Any, by_ref: bool) -> Any:
    """An argument with inputs of the current graph in place of tensors."""
    name = parameter.name
    if isinstance(value, Tensor | TensorSpec):
        return _input(name, value, by_ref)
    if parameter.kind is parameter.VAR_KEYWORD:
        return {k: _value(k, v, by_ref) for k, v in value.items()}
    if not isinstance(value, list | tuple):
        return value
    listed = list(cast("Iterable[Any]", value))
    found = [_value(f"{name}_{k}", v, by_ref, parameter) for k, v in enumerate(listed)]
    tensors = sum(isinstance(v, Tensor) for v in found)
    if tensors not in (0, len(found)):
        raise TypeError(
            f"If an argument is a list of tensors, all elements must be tensors. Argument {name!r} "
            f"has {tensors} tensors of {len(found)} elements."
        )
    return tuple(found) if isinstance(value, tuple) else found


def _value(name: str, value: Any, by_ref: bool, parameter: inspect.Parameter | None = None) -> Any:
    """An element of a list or of the arguments by name; in a list, a specification is not a tensor."""
    listed = parameter is not None and parameter.kind is not parameter.VAR_POSITIONAL
    kinds = Tensor if listed else Tensor | TensorSpec
    return _input(name, value, by_ref) if isinstance(value, kinds) else value


def _input(name: str, like: Tensor | TensorSpec, by_ref: bool) -> Tensor:
    return subgraph_input(like.shape, like.dtype, name, by_ref, like.meta_shape)


def _outputs(found: Any) -> list[Tensor]:
    if found is None:
        return []
    if isinstance(found, Tensor):
        return [found]
    outputs: list[Any] = (
        list(cast("Iterable[Any]", found)) if isinstance(found, Iterable) else [found]
    )
    if not all(isinstance(t, Tensor) for t in outputs):
        raise ValueError(
            "Output of subgraph must be None, a Tensor or an iterable of Tensors. "
            f"Output: {outputs}"
        )
    return outputs
