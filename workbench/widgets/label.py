"""The text on a node: its title, one distinguishing fact, and its chips' labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

NARROW = frozenset("ijltfrI.,:;|!'`()[]{} ·/\\-")
WIDE = frozenset("mwMW@%—→×")
BOLD = 1.12
TITLE_SIZE, FACT_SIZE, CHIP_SIZE = 12.0, 11.0, 10.0
LONGEST_LABEL = 48


@lru_cache(maxsize=8192)
def text_width(text: str, size: float) -> float:
    """The estimated width of a text in a sans-serif face: close enough for a box, and machine-independent."""
    units = sum(0.38 if c in NARROW else 0.9 if c in WIDE else 0.62 for c in text)
    return round(units * size, 1)


def clipped(text: str, limit: int = LONGEST_LABEL) -> str:
    """The text, cut in the middle if longer than ``limit``, since both ends of a name matter."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def lens_text(shape: Any) -> str:
    """The lens as ``64×3×7×7``; a range as its bounds, a tuple as its parts."""
    if not getattr(shape, "is_tensor", True):
        return f"{shape.kind}({', '.join(lens_text(s) for s in shape.subs)})"
    if getattr(shape, "is_dynamic", False):
        return "×".join(_dim(d) for d in shape.dims)
    if getattr(shape, "is_scalar", False) and shape.elements == 1:
        return "scalar"
    return "×".join(map(str, shape.lens))


def _dim(dim: Any) -> str:
    return str(dim.min) if dim.min == dim.max else f"{dim.min}..{dim.max}"


def title(op: Any) -> str:
    """First line: the operation, or the name of a parameter, or the tag of a group."""
    if op.name == "group" and op.tag:
        return clipped(f"{op.tag} group", 32)
    if op.name == "@param":
        return clipped(str(getattr(op, "parameter", "") or "parameter"), 32)
    return clipped(str(op.name).removeprefix("@"), 32)


def _listed(values: Any) -> str:
    if isinstance(values, tuple | list):
        return ", ".join(_listed(v) for v in values)
    return str(getattr(values, "value", values))


def _times(values: Any) -> str:
    return "×".join(map(str, values))


def _slice(attributes: Mapping[str, Any]) -> str:
    return f"{_listed(attributes['starts'])} to {_listed(attributes['ends'])}"


def _target(attributes: Mapping[str, Any]) -> str:
    target = attributes["target_type"]
    return f"to {getattr(target, 'type_name', str(target)).removesuffix('_type')}"


def _pooling(attributes: Mapping[str, Any]) -> str:
    return f"{_listed(attributes['mode'])} {_times(attributes['lengths'])}"


_FACTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "permutation": lambda a: f"({_listed(a['permutation'])})",
    "starts": _slice,
    "lengths": _pooling,
    "target_type": _target,
    "axes": lambda a: f"axes {_listed(a['axes'])}",
    "dims": lambda a: _times(a["dims"]),
    "out_lens": lambda a: _times(a["out_lens"]),
    "axis": lambda a: f"axis {a['axis']}",
    "index": lambda a: f"element {a['index']}",
}
"""The attribute that best distinguishes an operation; the first match wins."""


def fact(op: Any, shape: Any, inputs: list[Any], parts: str) -> str:
    """Second line: the kernel's size, axis, permutation or fused operations, or else the shape.

    Args:
        op: The operation.
        shape: The shape of the result.
        inputs: The shapes of the inputs.
        parts: The operations of a fused body (``add · relu``), if there is one.
    """
    if parts:
        return clipped(parts)
    if "convolution" in op.name and len(inputs) > 1 and len(getattr(inputs[1], "lens", ())) > 2:
        return _convolution(op.attributes(), inputs[1])
    attributes = op.attributes()
    for key, say in _FACTS.items():
        if key in attributes and (key != "lengths" or "mode" in attributes):
            return clipped(say(attributes)) or lens_text(shape)
    return clipped(lens_text(shape))


def _convolution(attributes: Mapping[str, Any], weights: Any) -> str:
    parts = [_times(weights.lens[2:])]
    stride = attributes.get("stride", ())
    if any(s != 1 for s in stride):
        parts.append(f"stride {_times(dict.fromkeys(stride))}")
    if attributes.get("group", 1) != 1:
        parts.append(f"group {attributes['group']}")
    return ", ".join(parts)


def parts_text(names: list[str]) -> str:
    """The operations of a fused body, ``add · relu``; repeats are counted."""
    runs: list[list[Any]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1][1] += 1
        else:
            runs.append([name, 1])
    shown = [name if count == 1 else f"{name}×{count}" for name, count in runs]
    return " · ".join(shown[:5]) + (f" · {len(shown) - 5} more" if len(shown) > 5 else "")


def value_text(literal: Any) -> str:
    """A scalar literal as a number; empty for other literals."""
    shape = literal.shape
    if not getattr(shape, "is_tensor", True) or shape.elements != 1:
        return ""
    value = literal.numpy().reshape(-1)[0].item()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def chip_text(literal: Any, sources: tuple[str, ...], shape: Any) -> str:
    """A chip's label: a scalar's value, the last part of a weight's name, or its shape."""
    if literal is not None and (value := value_text(literal)):
        return value
    name = sources[-1].replace("/", ".").rsplit(".", 1)[-1] if sources else ""
    usable = 2 <= len(name) <= 16 and not name.isdigit()
    return clipped(name if usable else lens_text(shape), 16)
