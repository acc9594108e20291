"""Detection: regions of interest and suppression of boxes."""

from __future__ import annotations

from workbench.compiler.ir import Instruction
from workbench.compiler.onnx.choices import choice
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.registry import onnx_op


@onnx_op("RoiAlign")
def roi_align(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """Regions of a feature map, sampled to one size."""
    node.expect(inputs, 3)
    old = "output_half_pixel" if node.version < 16 else "half_pixel"
    coordinates = node.text("coordinate_transformation_mode", old)
    if coordinates not in {"half_pixel", "output_half_pixel"}:
        raise node.fail(f"coordinate_transformation_mode={coordinates!r}; expected half_pixel")
    mode = {"avg": "average", "max": "max"}.get(node.text("mode", "avg"))
    if mode is None:
        raise node.fail(f"mode={node.text('mode')!r}; expected 'avg' or 'max'")
    return node.add(
        "roialign",
        *inputs,
        coordinate_transformation_mode=coordinates,
        mode=choice("roialign", "mode", mode),
        output_height=node.integer("output_height", 1),
        output_width=node.integer("output_width", 1),
        sampling_ratio=node.integer("sampling_ratio", 0),
        spatial_scale=node.number("spatial_scale", 1.0),
    )


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The best boxes that do not overlap."""
    node.expect(inputs, 2, 5)
    return node.add("nonmaxsuppression", *inputs, center_point_box=node.flag("center_point_box"))
