"""Named pipelines: which passes run for which target, and in what order."""

from __future__ import annotations

from workbench.compiler.passes.algebra import SimplifyAlgebra
from workbench.compiler.passes.base import Pipeline
from workbench.compiler.passes.cleanup import (
    DeadCodeElimination,
    EliminateConvert,
    EliminateIdentity,
    NormalizeOps,
)
from workbench.compiler.passes.constants import PropagateConstant
from workbench.compiler.passes.fuse_pointwise import FusePointwise
from workbench.compiler.passes.fuse_reduce import FuseReduce
from workbench.compiler.passes.reshapes import SimplifyReshapes
from workbench.compiler.passes.rewrites import EliminatePad, RewriteGelu, RewritePooling
from workbench.compiler.passes.sharing import EliminateCommonSubexpression


def optimize_module() -> Pipeline:
    """Simplify reshapes and algebra until they rest, then share and evaluate; then once more."""
    simplify = Pipeline(
        "simplify",
        (SimplifyReshapes(), EliminateConvert(), DeadCodeElimination(), SimplifyAlgebra()),
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
    """All that makes a program smaller and faster without knowing the hardware.

    What a model computes from constants alone is folded first: it is the larger part of many models,
    and rules that need not look at it save a tenth to a quarter of the time.
    """
    prepare = (
        NormalizeOps(),
        DeadCodeElimination(),
        EliminateIdentity(),
        PropagateConstant(),
        EliminatePad(),
        RewritePooling(),
        RewriteGelu(fast_math=False),
    )
    fuse = (FusePointwise(), FuseReduce())
    return Pipeline("optimize", (*prepare, optimize_module(), *fuse, DeadCodeElimination()))


PIPELINES: dict[str, Pipeline] = {
    "ref": ref(),
    "optimize_module": optimize_module(),
    "optimize": optimize(),
}
"""Every named pipeline."""
