"""Named pipelines: which passes run for which target, and in what order."""

from __future__ import annotations

from collections.abc import Callable

from workbench.compiler.errors import OperationError
from workbench.compiler.passes.adjust_allocation import AdjustAllocation
from workbench.compiler.passes.algebra import SimplifyAlgebra
from workbench.compiler.passes.base import Pass, Pipeline
from workbench.compiler.passes.cleanup import (
    DeadCodeElimination,
    EliminateConvert,
    EliminateIdentity,
    NormalizeOps,
)
from workbench.compiler.passes.constants import PropagateConstant
from workbench.compiler.passes.contiguous import AutoContiguous, EliminateContiguous
from workbench.compiler.passes.dot import RewriteDot
from workbench.compiler.passes.eliminate_allocation import EliminateAllocation
from workbench.compiler.passes.eliminate_concat import EliminateConcat
from workbench.compiler.passes.fuse_attention import FuseAttention
from workbench.compiler.passes.fuse_concat import FuseConcat
from workbench.compiler.passes.fuse_gemm_epilogue import FuseGemmEpilogue
from workbench.compiler.passes.fuse_horizontal import FuseHorizontal
from workbench.compiler.passes.fuse_pointwise import FusePointwise
from workbench.compiler.passes.fuse_reduce import FuseReduce
from workbench.compiler.passes.gelu import RewriteGelu
from workbench.compiler.passes.inlining import InlineModule
from workbench.compiler.passes.layout import LayoutConvolution
from workbench.compiler.passes.low_precision import PropagatePrecision, RewriteLowPrecision
from workbench.compiler.passes.lowering import Lowering
from workbench.compiler.passes.memory_coloring import MemoryColoring
from workbench.compiler.passes.padding import EliminatePad, InsertPad
from workbench.compiler.passes.pooling import RewritePooling
from workbench.compiler.passes.preallocate_param import PreallocateParam
from workbench.compiler.passes.promote_literals import PromoteLiterals
from workbench.compiler.passes.qdq import SimplifyQdq
from workbench.compiler.passes.recurrent import RewriteRnn
from workbench.compiler.passes.reductions import RewriteReduce
from workbench.compiler.passes.replace_allocate import ReplaceAllocate
from workbench.compiler.passes.reshapes import SimplifyReshapes
from workbench.compiler.passes.resize import RewriteResize
from workbench.compiler.passes.schedule import Schedule
from workbench.compiler.passes.sharing import EliminateCommonSubexpression
from workbench.compiler.passes.simplify_dyn_ops import SimplifyDynOps
from workbench.compiler.passes.split_reduce import SplitReduce
from workbench.compiler.passes.split_single_dyn_dim import SplitSingleDynDim
from workbench.compiler.passes.topk import RewriteTopk

# Pipelines that others are made of


def optimize_module(propagate_constant_skip_ops: tuple[str, ...] = ()) -> Pipeline:
    """Simplify reshapes and algebra until they rest, then share and evaluate; then once more."""
    simplify = Pipeline(
        "simplify",
        (SimplifyReshapes(), EliminateConvert(), DeadCodeElimination(), SimplifyAlgebra()),
        repeat=4,
    )
    share = (
        EliminateCommonSubexpression(),
        DeadCodeElimination(),
        PropagateConstant(skip_ops=tuple(propagate_constant_skip_ops)),
        DeadCodeElimination(),
    )
    return Pipeline("optimize_module", (simplify, *share), repeat=2)


def fuse_pointwise_reduce(split_size: int = 65280) -> Pipeline:
    """Elementwise work and reductions become kernels; then across reshapes, broadcasts, several results."""
    passes = (
        FusePointwise(enable_rewrite_reshapes=False),
        optimize_module(),
        FuseReduce(enable_rewrite_reshapes=False),
        FusePointwise(),
        FuseReduce(),
        SplitReduce(split_size=split_size),
        FusePointwise(enable_rewrite_broadcasts=True),
        FusePointwise(enable_multi_output=True),
    )
    return Pipeline("fuse_pointwise_reduce", passes)


# Pipelines of targets


def ref() -> Pipeline:
    """The least that a run needs: the definition that everything else is compared with.

    Padding, recurrent networks and layouts are left as they are: the interpreter takes them so, and what
    is rewritten can be compared with what was written.
    """
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
        InlineModule(),
        RewritePooling(),
        RewriteGelu(fast_math=False),
    )
    fuse = (FusePointwise(), FuseReduce())
    return Pipeline("optimize", (*prepare, optimize_module(), *fuse, DeadCodeElimination()))


def dynamic_shapes(full_dynamic: bool = False) -> Pipeline:
    """A static module for each length of a small range, and static operations where shapes are known."""
    split = () if full_dynamic else (SplitSingleDynDim(), DeadCodeElimination())
    return Pipeline("dynamic_shapes", (*split, SimplifyDynOps(), DeadCodeElimination()))


def required() -> Pipeline:
    """What a kernel generator cannot do without: fewer kinds of operations, on plain operands."""
    passes = (
        NormalizeOps(),
        DeadCodeElimination(),
        EliminateIdentity(),
        SimplifyQdq(),
        RewriteRnn(),
        DeadCodeElimination(),
        RewriteResize(affine_only=True),
        SimplifyReshapes(enable_gather_rewrite=True),
        EliminateIdentity(),
        EliminatePad(),
        InsertPad(ops=("convolution",)),
        DeadCodeElimination(),
        InlineModule(),
        RewritePooling(),
        DeadCodeElimination(),
    )
    return Pipeline("required", passes)


def optimize_rewrite(fast_math: bool = True, rewrite_dot: bool = False) -> Pipeline:
    """Simplification, and operations rewritten into ones that fuse."""
    passes: tuple[Pass, ...] = (
        RewriteGelu(fast_math=fast_math),
        optimize_module(),
        LayoutConvolution(),
        FuseHorizontal(),
        RewriteReduce(),
        RewriteTopk(),
        RewriteLowPrecision(),
        *([RewriteDot()] if rewrite_dot else []),
        PropagatePrecision(),
        DeadCodeElimination(),
        SimplifyReshapes(enable_op_shape_transform_op=True),
    )
    return Pipeline("optimize_rewrite", passes)


def fusion() -> Pipeline:
    """Attention, elementwise work, reductions, products and convolutions become kernels."""
    passes = (
        FuseAttention(attn_enabled=True),
        DeadCodeElimination(),
        optimize_module(),
        fuse_pointwise_reduce(),
        FuseGemmEpilogue(),
        FuseConcat(),
        DeadCodeElimination(),
    )
    return Pipeline("fusion", passes)


def gpu(
    fast_math: bool = True,
    rewrite_dot: bool = False,
    full_dynamic: bool = False,
    offload_copy: bool = True,
) -> Pipeline:
    """All passes for a device, up to the lowering of kernels.

    Constants are folded first, as in ``optimize``: rules need not look at what they compute. Without
    ``offload_copy``, whoever runs the program gives the buffers of its results: they become parameters.
    """
    given = (Lowering(results=True), ReplaceAllocate(), DeadCodeElimination())
    stages = (
        dynamic_shapes(full_dynamic),
        Pipeline("fold", (NormalizeOps(), DeadCodeElimination(), PropagateConstant())),
        required(),
        optimize_rewrite(fast_math, rewrite_dot),
        fusion(),
        *([] if offload_copy else [Pipeline("given_buffers", given)]),
    )
    return Pipeline("gpu", stages)


def backend() -> Pipeline:
    """Every operation writes into a buffer; buffers share one arena, and work is spread over streams."""
    passes = (
        AutoContiguous(),
        DeadCodeElimination(),
        Lowering(),
        EliminateContiguous(),
        DeadCodeElimination(),
        AdjustAllocation(),
        EliminateConcat(),
        DeadCodeElimination(),
        ReplaceAllocate(offload_copy=True),
        AdjustAllocation(),
        DeadCodeElimination(),
        PromoteLiterals(),
        Schedule(),
        MemoryColoring(),
        PreallocateParam(),
        DeadCodeElimination(),
        EliminateAllocation(),
        NormalizeOps(),
        EliminateIdentity(),
    )
    return Pipeline("backend", passes)


MAKERS: dict[str, Callable[..., Pipeline]] = {
    made.__name__: made
    for made in (
        ref,
        optimize,
        gpu,
        dynamic_shapes,
        required,
        optimize_rewrite,
        fusion,
        backend,
        optimize_module,
        fuse_pointwise_reduce,
    )
}
"""What makes each named pipeline; parameters are its options."""

PIPELINES: dict[str, Pipeline] = {name: made() for name, made in MAKERS.items()}
"""Every named pipeline, with its options at their defaults."""


def pipeline_named(name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        OperationError: There is none.
    """
    if name not in PIPELINES:
        raise OperationError(f"unknown pipeline {name!r}; pipelines are {', '.join(PIPELINES)}")
    return PIPELINES[name]
