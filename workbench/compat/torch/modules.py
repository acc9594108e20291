"""Programs as modules of PyTorch."""

from __future__ import annotations

from functools import cache
from typing import Any

from workbench.compat.torch.running import listed, run
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.build import compile as compile_program
from workbench.compiler.errors import InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.torch.installed import torch
from workbench.compiler.torch.tensors import tensor_of


def to_torch(program: Program | Build, target: str = "auto", **options: Any) -> Any:
    """A ``torch.nn.Module`` that runs a program.

    Its ``forward`` takes a tensor for each parameter, in order or by name, and returns a tensor, or a tuple
    of the program's outputs. Parameters that a run replaces (``updates``) are its buffers, which a call
    changes. Results have no gradients.

    Args:
        program: A program, or a build of one.
        target: The target of `workbench.compile`, for a program.
        **options: Its other arguments, such as ``precision``.

    Raises:
        ModelError: torch is not installed.
        OperationError: An option is unknown, or given for a build.
    """
    module = _class()
    build = program if isinstance(program, Build) else compile_program(program, target, **options)
    initial = getattr(build.source, "initial", {})
    return module(
        build, {n: tensor_of(initial[n].copy()) for n in build.source.updates if n in initial}
    )


@cache
def _class() -> Any:
    """The class, which needs torch."""
    api = torch()

    class ProgramModule(api.nn.Module):
        """Runs a build."""

        def __init__(self, build: Build, state: dict[str, Any]) -> None:
            super().__init__()
            self.build = build
            self._state_names = {n: n.replace(".", "_") for n in state}
            for name, value in state.items():
                self.register_buffer(self._state_names[name], value)

        def forward(self, *arguments: Any, **named: Any) -> Any:
            """The program's outputs."""
            return _called(self, arguments, named)

        def extra_repr(self) -> str:
            """The parameters and the target."""
            shapes = ", ".join(f"{n}: {s}" for n, s in self.build.source.parameters.items())
            return f"{shapes}; target={self.build.target.name}"

    return ProgramModule


def _called(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    build: Build = module.build
    updates = build.source.updates
    state = {n: getattr(module, a) for n, a in module._state_names.items()}
    free = [n for n in build.source.parameters if n not in state]
    given = _given(free, arguments, named)
    _expect_no_gradients(given)
    found = run(build, {**given, **state})
    for name, attribute in module._state_names.items():
        setattr(module, attribute, found[updates[name]])
    kept = {updates[n] for n in state}
    return listed([v for k, v in enumerate(found) if k not in kept])


def _given(free: list[str], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    if len(arguments) > len(free):
        raise InputError(f"{len(arguments)} arguments; expected {len(free)}: {', '.join(free)}")
    given = dict(zip(free, arguments, strict=False))
    if twice := [n for n in named if n in given]:
        raise InputError(f"input {twice[0]!r} is given twice")
    return {**given, **named}


def _expect_no_gradients(given: dict[str, Any]) -> None:
    if not torch().is_grad_enabled():
        return
    for name, value in given.items():
        if getattr(value, "requires_grad", False):
            raise InputError(
                f"input {name!r} requires a gradient, which the module does not compute; call it in "
                "torch.no_grad(), or train the original with torch.compile(backend='workbench')"
            )
