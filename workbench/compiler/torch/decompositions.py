"""Decompositions to the core ATen operators: PyTorch's own, and those of its fused layers for inference."""

from __future__ import annotations

from typing import Any

from workbench.compiler.torch.installed import torch

KEPT = (
    "aten.scaled_dot_product_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten.detach",
)
"""Operators with a handler that are not decomposed.

Passes look for the products of attention; and in the body of a scan PyTorch takes a detached value that is
decomposed for another name of a result, and refuses it.
"""


def completed(table: Any) -> Any:
    """A table of PyTorch's decompositions, changed in place: what has a handler is left, layers are added."""
    for name in KEPT:
        table.pop(getattr(torch().ops.aten, name.removeprefix("aten.")).default, None)
    aten = torch().ops.aten
    table[aten._transformer_encoder_layer_fwd.default] = encoder_layer
    table[aten._native_multi_head_attention.default] = multi_head_attention
    return table


def multi_head_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any,
    weight: Any, bias: Any, mask: Any = None, need_weights: bool = True, average: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """``torch.nn.MultiheadAttention`` on batches of equal queries, keys and values, as PyTorch fuses it.

    Raises:
        NotImplementedError: The weights are results, too.
    """
    if need_weights:
        raise NotImplementedError("weights of a fused attention; call it with need_weights=False")
    function = torch().nn.functional
    mixed = function.linear(query, qkv_weight, qkv_bias)
    parts = [_split(p, heads) for p in mixed.chunk(3, -1)]
    found = function.scaled_dot_product_attention(
        *parts, attn_mask=_seen(mask, mask_type, query, heads)
    )
    joined = found.transpose(1, 2).reshape(query.shape)
    return function.linear(joined, weight, bias), query.new_zeros(0)


def _split(x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def _seen(mask: Any, mask_type: int | None, query: Any, heads: int) -> Any:
    """The mask of what is seen, from one of what is not, whose type says whose axes it has."""
    if mask is None:
        return None
    batch, length, _ = query.shape
    shapes = {
        0: (1, 1, length, length),
        1: (batch, 1, 1, length),
        2: (batch, heads, length, length),
    }
    shaped = mask.reshape(shapes[2 if mask_type is None else mask_type])
    return shaped.logical_not() if mask.dtype is torch().bool else shaped


def encoder_layer(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, weight: Any, bias: Any, use_gelu: bool,
    norm_first: bool, eps: float, weight1: Any, bias1: Any, weight2: Any, bias2: Any, in_weight: Any,
    in_bias: Any, out_weight: Any, out_bias: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """``torch.nn.TransformerEncoderLayer``, as PyTorch fuses it for inference."""
    function = torch().nn.functional

    def normal(value: Any, *affine: Any) -> Any:
        return function.layer_norm(value, (width,), *affine, eps)

    def attended(value: Any) -> Any:
        return multi_head_attention(
            value, value, value, width, heads, qkv_weight, qkv_bias, weight, bias, mask,
            need_weights=False, mask_type=mask_type,
        )[0]  # fmt: skip

    def fed(value: Any) -> Any:
        bent = function.linear(value, in_weight, in_bias)
        bent = function.gelu(bent) if use_gelu else function.relu(bent)
        return function.linear(bent, out_weight, out_bias)

    if norm_first:
        x = x + attended(normal(x, weight1, bias1))
        return x + fed(normal(x, weight2, bias2))
    x = normal(x + attended(x), weight1, bias1)
    return normal(x + fed(x), weight2, bias2)
