"""Operators on images and boxes: resizing and non-maximum suppression."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.tf.context import NCHW_TO_NHWC, NHWC_TO_NCHW, NodeContext
from workbench.compiler.tf.registry import tf_op


@tf_op("ResizeNearestNeighbor", "ResizeBilinear")
def resize(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The image resampled on a finer or coarser grid."""
    node.expect(inputs, 2)
    size = node.constant_ints(inputs[1], "the size")
    if len(size) != 2 or min(size) < 1:
        raise node.fail(f"a size of {list(size)}; expected a height and a width")
    corners, centres = node.flag("align_corners"), node.flag("half_pixel_centers")
    is_nearest = node.op_type == "ResizeNearestNeighbor"
    if inputs[0].shape.ndim != 4:
        raise node.fail(f"input {inputs[0].shape}; expected rank 4")
    x = node.transpose(inputs[0], *NHWC_TO_NCHW)  # the operator has no other layout
    wide = x if is_nearest else node.convert(x, DType.FLOAT)
    where = "align_corners" if corners else "half_pixel" if centres else "asymmetric"
    if is_nearest and centres and not corners:
        where = "tf_half_pixel_for_nn"
    made = node.add(
        "resize",
        wide,
        sizes=(*node.lens(x)[:2], *size),
        mode="nearest" if is_nearest else "linear",
        nearest_mode="round_prefer_ceil" if corners else "floor",
        coordinate_transformation_mode=where,
    )
    return node.transpose(made, *NCHW_TO_NHWC)


@tf_op("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def non_max_suppression(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The indices of the best boxes that do not overlap; their number depends on the data."""
    is_v3 = node.op_type == "NonMaxSuppressionV3"
    node.expect(inputs, 5 if is_v3 else 4)
    most = node.convert(inputs[2], DType.INT64)
    limits = [node.convert(value, DType.FLOAT) for value in inputs[3:]]
    found = node.add(
        "nonmaxsuppression",
        node.unsqueeze(inputs[0], 0),
        node.unsqueeze(inputs[1], 0, 1),
        most,
        *limits,
        use_dyn_output=True,
    )
    column = node.add("slice", found, axes=(1,), starts=(2,), ends=(3,))
    return node.convert(node.add("squeeze", column, axes=(1,)), DType.INT32)
