"""Kernels with their machine code, as files of compiled programs store them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from workbench.compiler.files.mxr.kernels import SavedKernel
from workbench.gpu.devices.base import Code, Compiler
from workbench.gpu.kernels.kernel import Kernel
from workbench.gpu.lowering.plan import Plan


def saved_kernels(
    plan: Plan, compiler: Compiler, codes: Mapping[str, Code]
) -> tuple[SavedKernel, ...]:
    """The kernels of a plan, each once, in the order in which they are first launched."""
    return tuple(_saved(k, compiler, codes[name]) for name, k in _kernels(plan).items())


def _kernels(plan: Plan) -> dict[str, Kernel]:
    return {s.launch.kernel.name: s.launch.kernel for s in plan.kernels}


def _saved(kernel: Kernel, compiler: Compiler, code: Code) -> SavedKernel:
    return SavedKernel(
        kernel.name, compiler.key, _digest(kernel, compiler), code.binary, code.log, code.assembly
    )


def _digest(kernel: Kernel, compiler: Compiler) -> str:
    return sha256((compiler.dialect.prologue + kernel.source).encode()).hexdigest()


def known_codes(plan: Plan, compiler: Compiler, saved: Iterable[SavedKernel]) -> dict[str, Code]:
    """The saved code that is still valid: compiled for this device, and from each kernel's present source."""
    given = {s.name: s for s in saved if s.device == compiler.key}
    return {
        name: Code(given[name].binary, given[name].log, given[name].assembly)
        for name, kernel in _kernels(plan).items()
        if name in given and given[name].source == _digest(kernel, compiler)
    }
