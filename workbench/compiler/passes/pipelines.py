"""Named pipelines: which passes run for which target, and in what order."""

from __future__ import annotations

from collections.abc import Callable

from workbench.compiler.errors import OperationError
from workbench.compiler.passes.algebra.simplify_algebra import SimplifyAlgebra
from workbench.compiler.passes.base import Pass, Pipeline
from workbench.compiler.passes.decompose.eliminate_pad import EliminatePad
from workbench.compiler.passes.decompose.insert_pad import InsertPad
from workbench.compiler.passes.decompose.loop_rnn import LoopRnn
from workbench.compiler.passes.decompose.rewrite_dot import RewriteDot
from workbench.compiler.passes.decompose.rewrite_gelu import RewriteGelu
from workbench.compiler.passes.decompose.rewrite_pooling import RewritePooling
from workbench.compiler.passes.decompose.rewrite_reduce import RewriteReduce
from workbench.compiler.passes.decompose.rewrite_resize import RewriteResize
from workbench.compiler.passes.decompose.rewrite_rnn import RewriteRnn
from workbench.compiler.passes.decompose.rewrite_topk import RewriteTopk
from workbench.compiler.passes.dynamic.simplify_dyn_ops import SimplifyDynOps
from workbench.compiler.passes.dynamic.split_single_dyn_dim import SplitSingleDynDim
from workbench.compiler.passes.fuse.fuse_attention import FuseAttention
from workbench.compiler.passes.fuse.fuse_concat import FuseConcat
from workbench.compiler.passes.fuse.fuse_gemm_epilogue import FuseGemmEpilogue
from workbench.compiler.passes.fuse.fuse_horizontal import FuseHorizontal
from workbench.compiler.passes.fuse.fuse_pointwise import FusePointwise
from workbench.compiler.passes.fuse.fuse_reduce import FuseReduce
from workbench.compiler.passes.fuse.split_reduce import SplitReduce
from workbench.compiler.passes.memory.adjust_allocation import AdjustAllocation
from workbench.compiler.passes.memory.eliminate_allocation import EliminateAllocation
from workbench.compiler.passes.memory.eliminate_concat import EliminateConcat
from workbench.compiler.passes.memory.lowering import Lowering
from workbench.compiler.passes.memory.memory_coloring import MemoryColoring
from workbench.compiler.passes.memory.preallocate_param import PreallocateParam
from workbench.compiler.passes.memory.promote_literals import PromoteLiterals
from workbench.compiler.passes.memory.replace_allocate import ReplaceAllocate
from workbench.compiler.passes.memory.schedule import Schedule
from workbench.compiler.passes.precision.propagate_precision import PropagatePrecision
from workbench.compiler.passes.precision.rewrite_low_precision import RewriteLowPrecision
from workbench.compiler.passes.precision.simplify_qdq import SimplifyQdq
from workbench.compiler.passes.shapes.auto_contiguous import AutoContiguous
from workbench.compiler.passes.shapes.eliminate_contiguous import EliminateContiguous
from workbench.compiler.passes.shapes.layout_convolution import LayoutConvolution
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.passes.tidy.eliminate_common_subexpression import (
    EliminateCommonSubexpression,
)
from workbench.compiler.passes.tidy.eliminate_convert import EliminateConvert
from workbench.compiler.passes.tidy.eliminate_identity import EliminateIdentity
from workbench.compiler.passes.tidy.inline_calls import InlineCalls
from workbench.compiler.passes.tidy.inline_module import InlineModule
from workbench.compiler.passes.tidy.normalize_ops import NormalizeOps
from workbench.compiler.passes.tidy.propagate_constant import PropagateConstant

# Building blocks of other pipelines


def optimize_module(propagate_constant_skip_ops: tuple[str, ...] = ()) -> Pipeline:
    """Simplify reshapes and algebra, merge common subexpressions and fold constants; then once more."""
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
    """Fuse elementwise work and reductions, also across reshapes and broadcasts and with several results."""
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
    """The minimum that a run needs: the definition that everything else is compared with.

    Padding, recurrent networks and layouts stay: the interpreter runs them directly, so rewritten programs
    can be compared with the originals.
    """
    return Pipeline("ref", (NormalizeOps(), DeadCodeElimination()))


def optimize() -> Pipeline:
    """Passes that make a program smaller and faster on any hardware.

    Constants are folded first. Many models consist mostly of instructions on constants; not matching rules
    on those saves a tenth to a quarter of the time.
    """
    prepare = (
        InlineCalls(),
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


def required(
    drop_fake_quantization: bool = False, multiply_bytes: bool = False, even_padding: bool = True
) -> Pipeline:
    """The passes that a kernel generator needs: fewer kinds of operations, on plain operands.

    With ``drop_fake_quantization``, pairs that quantize and dequantize go as in MIGraphX, and with them
    what they round and clip. With ``multiply_bytes``, zero points are not subtracted before a product.
    With ``even_padding``, convolutions are padded alike on both sides.
    """
    simplify = SimplifyQdq(
        drop_fake_quantization=drop_fake_quantization, multiply_bytes=multiply_bytes
    )
    passes = (
        NormalizeOps(),
        DeadCodeElimination(),
        EliminateIdentity(),
        simplify,
        LoopRnn(),
        RewriteRnn(),
        DeadCodeElimination(),
        RewriteResize(affine_only=True),
        SimplifyReshapes(enable_gather_rewrite=True),
        EliminateIdentity(),
        EliminatePad(),
        *([InsertPad(ops=("convolution",))] if even_padding else []),
        DeadCodeElimination(),
        InlineModule(),
        RewritePooling(),
        DeadCodeElimination(),
    )
    return Pipeline("required", passes)


def optimize_rewrite(
    fast_math: bool = True, rewrite_dot: bool = False, channels_last: bool = False
) -> Pipeline:
    """Simplification, and operations rewritten into ones that fuse.

    With ``channels_last``, all images have their channels last, not only those of half.
    """
    last = {"channels_last": channels_last, "grouped": channels_last}
    passes: tuple[Pass, ...] = (
        RewriteGelu(fast_math=fast_math),
        optimize_module(),
        LayoutConvolution(half_channels_last=True, **last),
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
    drop_fake_quantization: bool = False,
    channels_last: bool = False,
    multiply_quantized: bool = False,
) -> Pipeline:
    """All passes for a device, up to the lowering of kernels.

    Constants are folded first, as in ``optimize``. Without ``offload_copy``, the caller provides the
    buffers of the results: they become parameters.
    ``drop_fake_quantization`` is an option of ``required``, and ``channels_last`` of ``optimize_rewrite``;
    CPUs, whose vectors hold channels, have it set; uneven padding needs no copy there.
    With ``multiply_quantized``, products of dequantized values and constants are products of what they were
    dequantized from, and zero points are subtracted after products. Devices with matrix units for bytes have
    it set; elsewhere floats are faster.
    """
    kept = {"skip_ops": ("dequantizelinear",)} if multiply_quantized else {}
    given = (Lowering(results=True), ReplaceAllocate(), DeadCodeElimination())
    stages = (
        InlineCalls(),
        dynamic_shapes(full_dynamic),
        Pipeline("fold", (NormalizeOps(), DeadCodeElimination(), PropagateConstant(**kept))),
        required(drop_fake_quantization, multiply_quantized, even_padding=not channels_last),
        optimize_rewrite(fast_math, rewrite_dot, channels_last),
        fusion(),
        *([] if offload_copy else [Pipeline("given_buffers", given)]),
    )
    return Pipeline("gpu", stages)


def backend() -> Pipeline:
    """Every operation writes into a buffer; buffers share one arena, and work is spread over streams.

    No target runs this pipeline: lowering places values by the same colouring without changing the program.
    The pipeline shows those decisions edit by edit, and holds the passes that ``run_passes`` offers. Its
    programs run on every target; where it makes one value part of another's buffer, kernels write there
    directly.
    """
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
"""The function that makes each named pipeline; its parameters are the pipeline's options."""

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
