"""Named pipelines: which passes run for which target, and in what order."""

from __future__ import annotations

from workbench.compiler.passes.algebra import SimplifyAlgebra
from workbench.compiler.passes.base import Pass, Pipeline
from workbench.compiler.passes.cleanup import (
    DeadCodeElimination,
    EliminateConvert,
    EliminateIdentity,
    NormalizeOps,
)
from workbench.compiler.passes.constants import PropagateConstant
from workbench.compiler.passes.rewrites import EliminatePad, RewriteGelu, RewritePooling
from workbench.compiler.passes.sharing import EliminateCommonSubexpression


def _named(file: str, name: str) -> tuple[Pass, ...]:
    from importlib import import_module
    try:
        return (getattr(import_module(f"workbench.compiler.passes.{file}"), name)(),)
    except ImportError:
        return ()


def optimize_module() -> Pipeline:
    """Simplify reshapes and algebra until they rest, then share and evaluate; twice, as each opens the other."""
    simplify = Pipeline(
        "simplify",
        (*_named("reshapes", "SimplifyReshapes"), EliminateConvert(), DeadCodeElimination(), SimplifyAlgebra()),
        repeat=4,
    )
    share = (
        EliminateCommonSubexpression(),
        DeadCodeElimination(),
        PropagateConstant(),
        DeadCodeElimination(),
    )
    return Pipeline("optimize_module", (simplify, *share), repeat=2)


def ref() -> Pipeline:
    """The least that a run needs: the definition that everything else is compared with."""
    return Pipeline("ref", (NormalizeOps(), DeadCodeElimination()))


def optimize() -> Pipeline:
    """All that makes a program smaller and faster without knowing the hardware."""
    prepare = (
        NormalizeOps(),
        DeadCodeElimination(),
        EliminateIdentity(),
        EliminatePad(),
        RewritePooling(),
        RewriteGelu(fast_math=False),
    )
    fuse = (*_named("fuse_pointwise", "FusePointwise"), *_named("fuse_reduce", "FuseReduce"))
    return Pipeline("optimize", (*prepare, optimize_module(), *fuse, DeadCodeElimination()))


PIPELINES: dict[str, Pipeline] = {"ref": ref(), "optimize_module": optimize_module(), "optimize": optimize()}
"""Every named pipeline."""
