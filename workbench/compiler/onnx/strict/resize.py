"""Resize and Upsample as one operation."""

from __future__ import annotations

from typing import Any

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.onnx.context import NodeContext, is_absent
from workbench.compiler.onnx.registry import strict_op
from workbench.compiler.onnx.resampling import COORDINATES, NEAREST

_MODES = ("cubic", "linear", "nearest")
_PLACES = sorted(COORDINATES - {"tf_crop_and_resize", "half_pixel_symmetric"})


@strict_op("Resize")
def resize(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value resampled by scales or sizes, whichever is given first."""
    node.expect(inputs, 1, 4)
    if node.flag("exclude_outside"):
        raise node.fail("exclude_outside=1; expected 0")
    policy, last = node.text("keep_aspect_ratio_policy", "stretch"), inputs[-1].shape
    count = len(node.integers("axes", range(inputs[0].shape.ndim)))
    if policy != "stretch" and last.type is DType.INT64 and last.lens == (count,):
        raise node.fail(f"keep_aspect_ratio_policy={policy!r}; expected 'stretch'")
    return _resized(node, inputs[0], _given(node, inputs))


@strict_op("Upsample")
def upsample(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The value resampled, as by Resize with its defaults."""
    node.expect(inputs, 1, 3)
    if node.has("scales"):
        return _resized(node, inputs[0], node.vector(DType.FLOAT, node.numbers("scales")))
    return _resized(node, inputs[0], _given(node, inputs))


def _given(node: NodeContext, inputs: list[Instruction]) -> Instruction:
    """The scales or sizes, after the optional region."""
    for value in inputs[2 if len(inputs) > 2 else 1 :]:
        if not is_absent(value) and not node.is_empty(value):
            return value
    raise node.fail("neither scales nor sizes are given")


def _resized(node: NodeContext, x: Instruction, given: Instruction) -> Instruction:
    is_sizes = given.shape.type is DType.INT64
    if not is_sizes and given.shape.type is not DType.FLOAT:
        found = given.shape.type.type_name
        raise node.fail(f"scales or sizes of {found}; expected float_type or int64_type")
    if not given.shape.is_dynamic and given.shape.elements != x.shape.ndim:
        raise node.fail(f"{given.shape.elements} scales or sizes; expected {x.shape.ndim}")
    how, known = _attributes(node), node.constant(given)
    if known is None or x.shape.is_dynamic:
        return node.add("resize", x, given, **how)
    values = known.reshape(-1)
    if is_sizes:
        return node.add("resize", x, sizes=tuple(int(v) for v in values), **how)
    return node.add("resize", x, scales=tuple(float(v) for v in values), **how)


def _attributes(node: NodeContext) -> dict[str, Any]:
    """Attributes of the operation ``resize`` that matter to the mode."""
    mode = _word(node, "mode", "nearest", _MODES)
    places = _word(node, "coordinate_transformation_mode", "half_pixel", _PLACES)
    made: dict[str, Any] = {"coordinate_transformation_mode": places}
    nearest = _word(node, "nearest_mode", "round_prefer_floor", sorted(NEAREST))
    if mode == "nearest":
        return made | {"nearest_mode": nearest}
    made["mode"] = mode
    return made | (
        {"cubic_coeff_a": node.number("cubic_coeff_a", -0.75)} if mode == "cubic" else {}
    )


def _word(node: NodeContext, name: str, default: str, known: Any) -> str:
    found = node.text(name, default)
    if found not in known:
        raise node.fail(f"{name}={found!r}; expected one of {', '.join(known)}")
    return found
