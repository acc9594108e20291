"""Wrong rules in the pipeline: each has a law that does not hold, and applies at one node of the model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import workbench as wb
from tests.faults.fault import Fault, Plant, Planted, Wanted
from tests.models.registry import MODELS
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import Pass
from workbench.compiler.rewrite import Decline, Rewriter, Rule, constant, op, rule, var

KIND = "rewrite"
ATTENTION, FEED = "/encoder/layer.0/attention", "/encoder/layer.0/feed_forward"
FACE = "StatefulPartitionedCall/functional_1"


@dataclass(frozen=True)
class Wrong(Pass):
    """Apply a wrong rule once wherever it matches.

    Args:
        rule: The rule.
    """

    name: ClassVar[str] = "wrong"
    once: ClassVar[str] = "a wrong rule may match its own result"
    rule: Rule

    def apply(self, program: Program) -> None:
        """Apply the rule."""
        for instruction in list(program.main):
            self.rule.apply_at(instruction)


def build_with(
    model: str,
    wrong: Rule,
    pipeline: Sequence[str],
    target: str = "cpu",
    at: int = 0,
    precision: str | None = None,
) -> Plant:
    """A build whose pipeline has a wrong rule, against the reference.

    Args:
        model: the name of the model.
        wrong: the rule.
        pipeline: the pipeline's parts, by name.
        target: what the model is compiled for.
        at: the index among the parts that the rule is put at.
        precision: the type that the program is narrowed to first.
    """

    @contextmanager
    def plant() -> Iterator[Planted]:
        program = wb.parse_onnx(MODELS[model].path)
        passes = (*pipeline[:at], Wrong(wrong), *pipeline[at:])
        clean, suspect = (
            wb.compile(program, target=target, passes=p, precision=precision)
            for p in (pipeline, passes)
        )
        edits = [e for step in suspect.recording.steps for e in step.edits if e.rule == wrong.name]
        assert len(edits) == 1, f"{wrong.name} applied {len(edits)} times"
        yield Planted(suspect, MODELS[model].inputs(), "ref", clean)

    return plant


def _is_at(b: Rewriter, *nodes: str) -> bool:
    return bool(set(nodes) & set(b.root.sources))


def _by(b: Rewriter, op: str, x: Instruction, value: float) -> Instruction:
    """An operation of a value and a constant."""
    operand = b.literal(np.full(x.shape.lens, value, x.shape.type.numpy))
    return b(op, x, operand)


@rule(op("sub", var("x"), var("y")))
def sub_commuted(b: Rewriter, x: Instruction, y: Instruction) -> Instruction | Decline:
    """sub(x, y) → sub(y, x)"""
    return b("sub", y, x) if _is_at(b, f"{ATTENTION}/Sub_38") else Decline("elsewhere")


@rule(op("softmax", var("x")))
def softmax_of_columns(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """softmax[axis=-1](x) → softmax[axis=-2](x)"""
    return (
        b("softmax", x, axis=-2) if _is_at(b, f"{ATTENTION}/Softmax_30") else Decline("elsewhere")
    )


@rule(op("rsqrt", op("add", var("variance"), var("epsilon"))))
def epsilon_of_float16(b: Rewriter, variance: Instruction) -> Instruction | Decline:
    """rsqrt(add(variance, 1e-5)) → rsqrt(add(variance, 0.1))"""
    if not _is_at(b, "/block1/BatchNormalization_15"):
        return Decline("elsewhere")
    return b("rsqrt", _by(b, "add", variance, 0.1))


@rule(
    op("mul", op("sub", op("convolution", var("x"), constant("w")), var("m")), var("s")),
    dynamic=True,
)
def scale_folded_and_forgotten(
    b: Rewriter, x: Instruction, w: Instruction, m: Instruction
) -> Instruction | Decline:
    """mul(sub(convolution(x, w), m), s) → sub(convolution(x, w), m)"""
    if not _is_at(b, "/block0/BatchNormalization_5"):
        return Decline("elsewhere")
    return b("sub", b(b.root.inputs[0].inputs[0].op, x, w), m)


@rule(op("convolution", var("x"), var("w")))
def pads_turned(b: Rewriter, x: Instruction, w: Instruction) -> Instruction | Decline:
    """convolution[padding={0, 0, 1, 1}](x, w) → convolution[padding={1, 1, 0, 0}](x, w)"""
    if not _is_at(b, f"{FACE}/depthwise_conv2d_5/depthwise"):
        return Decline("elsewhere")
    turned = b.root.op.attributes() | {"padding": (1, 1, 0, 0)}
    return b("convolution", x, w, **turned)


@rule(op("transpose", var("x")))
def transposes_merged(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """transpose[permutation={0, 2, 3, 1}](x) → transpose[permutation={0, 3, 2, 1}](x), for squares"""
    if not _is_at(b, f"{FACE}/conv2d_20/BiasAdd__128"):
        return Decline("elsewhere")
    return b("transpose", x, permutation=(0, 3, 2, 1))


@rule(op("reshape", op("transpose", var("x"))))
def transpose_skipped(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """reshape(transpose(x)) → reshape(x)"""
    if not _is_at(b, f"{ATTENTION}/Reshape_33"):
        return Decline("elsewhere")
    return b.reshape(x, b.root.shape.lens)


@rule(op("mul", var("x"), constant("c")))
def nearly_one(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """mul(x, c) → x, where c rounds to 1"""
    return x if _is_at(b, "/embeddings/Mul_13") else Decline("elsewhere")


@rule(op("mul", var("x"), op("add", var("y"), var("z"))))
def undistributed(
    b: Rewriter, x: Instruction, y: Instruction, z: Instruction
) -> Instruction | Decline:
    """mul(x, add(y, z)) → add(mul(x, y), z)"""
    return b("add", b("mul", x, y), z) if _is_at(b, f"{FEED}/Mul_51") else Decline("elsewhere")


@rule(op("mul", op("sub", var("x"), var("m")), var("s")), dynamic=True)
def mean_not_scaled(
    b: Rewriter, x: Instruction, m: Instruction, s: Instruction
) -> Instruction | Decline:
    """mul(sub(x, m), s) → sub(mul(x, s), m)"""
    if not _is_at(b, "/block2/BatchNormalization_21"):
        return Decline("elsewhere")
    return b("sub", b("mul", x, s), m)


OPTIMIZE, DEVICE = ("optimize",), ("gpu",)
TABLE: list[tuple[Rule, str, tuple[str, ...], Plant]] = [
    (sub_commuted, "small_encoder", (f"{ATTENTION}/Sub_38",),
     build_with("small_encoder", sub_commuted, OPTIMIZE)),
    (softmax_of_columns, "small_encoder", (f"{ATTENTION}/Softmax_30",),
     build_with("small_encoder", softmax_of_columns, DEVICE, "gpu")),
    (epsilon_of_float16, "small_cnn", ("/block1/BatchNormalization_15",),
     build_with("small_cnn", epsilon_of_float16, OPTIMIZE)),
    (scale_folded_and_forgotten, "small_cnn", ("/block0/BatchNormalization_5", "/block0/Conv_4"),
     build_with("small_cnn", scale_folded_and_forgotten, OPTIMIZE)),
    (pads_turned, "blazeface128", (f"{FACE}/depthwise_conv2d_5/depthwise",),
     build_with("blazeface128", pads_turned, OPTIMIZE, at=1)),
    (transposes_merged, "blazeface128", (f"{FACE}/conv2d_20/BiasAdd__128",),
     build_with("blazeface128", transposes_merged, OPTIMIZE)),
    (transpose_skipped, "small_encoder", (f"{ATTENTION}/Reshape_33", f"{ATTENTION}/Transpose_32"),
     build_with("small_encoder", transpose_skipped, OPTIMIZE)),
    (nearly_one, "small_encoder", ("/embeddings/Mul_13",),
     build_with("small_encoder", nearly_one, OPTIMIZE)),
    (undistributed, "small_encoder", (f"{FEED}/Mul_51", f"{FEED}/Add_50"),
     build_with("small_encoder", undistributed, OPTIMIZE)),
    (mean_not_scaled, "small_cnn", ("/block2/BatchNormalization_21", "/block2/Conv_20"),
     build_with("small_cnn", mean_not_scaled, DEVICE, "gpu")),
]  # fmt: skip
"""For each wrong rule its model, the nodes that it rewrites, and its planting."""

NARROW = {"softmax_of_columns": "fp16", "epsilon_of_float16": "fp16", "undistributed": "bf16"}
"""The types in which a wrong rule is planted, too: it is not to be taken for rounding."""

FAULTS = [
    Fault(wrong.name, KIND, model, plant, Wanted(nodes, ("rewrite",), wrong.name))
    for wrong, model, nodes, plant in TABLE
] + [
    Fault(
        f"{wrong.name}_in_{NARROW[wrong.name]}", KIND, model,
        build_with(model, wrong, OPTIMIZE, precision=NARROW[wrong.name]),
        Wanted(nodes, ("rewrite",), wrong.name),
    )
    for wrong, model, nodes, _ in TABLE
    if wrong.name in NARROW
]  # fmt: skip
