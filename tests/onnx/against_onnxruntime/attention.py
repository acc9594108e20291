"""Generators of attention and of what goes with it."""

from typing import Any

import numpy as np

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers


def sizes(pick: Pick) -> tuple[int, int, int, int]:
    """Batch, heads, length and the size of a head."""
    return pick.integer(1, 2), pick.integer(1, 3), pick.integer(1, 4), pick.one_of([2, 4, 8])


@covers("com.microsoft.Attention")
def attention_of_microsoft(pick: Pick) -> Example:
    batch, heads, length, size = sizes(pick)
    width, inner = heads * size, pick.integer(1, 4)
    x = pick.array("float", (batch, length, inner))
    weights = pick.array("float", (inner, 3 * width), -1, 1)
    bias = pick.array("float", (3 * width,)) if pick.flag() else None
    attributes: dict[str, Any] = {"num_heads": heads} | pick.some(scale=pick.number(0.1, 1))
    attributes |= pick.some(mask_filter_value=pick.one_of([-5.0, -1e4]))
    mask = np.array(pick.array("int32", (batch, length), 0, 1)) if pick.flag() else None
    if mask is not None:
        mask[:, 0] = 1
    past, added = 0, None
    if pick.rarely():  # the number of keys of each sample
        mask = pick.array("int32", (batch,), 1, length)
    elif pick.rarely():
        mask = pick.array("int32", (batch, length, length), 0, 1)
        mask[:, :, 0] = 1
    elif mask is None and pick.flag():
        past = pick.integer(1, 3)
    cache = pick.array("float", (2, batch, heads, past, size)) if past else None
    if not past and pick.flag():  # it refuses both
        added = pick.array("float", (batch, heads, length, length))
    bias = bias if bias is not None else np.zeros(3 * width, np.float32)
    inputs = [x, weights, bias, mask, cache, added]
    if pick.flag():
        attributes["unidirectional"] = 1
    outputs = 2 if past else 1
    return Example(inputs, attributes, outputs=outputs, summed=True, slack=10)


@covers("com.microsoft.MultiHeadAttention")
def multi_head_attention(pick: Pick) -> Example:
    batch, heads, length, size = sizes(pick)
    keys, width = pick.integer(1, 4), heads * size
    attributes: dict[str, Any] = {"num_heads": heads} | pick.some(scale=pick.number(0.1, 1))
    attributes |= pick.some(mask_filter_value=pick.one_of([-5.0, -1e4]))
    query = pick.array("float", (batch, length, width))
    flat = pick.flag()
    if flat:
        key, value = (pick.array("float", (batch, keys, width)) for _ in range(2))
    else:
        key, value = (pick.array("float", (batch, heads, keys, size)) for _ in range(2))
    bias = pick.array("float", (3 * width,)) if flat and pick.flag() else None
    mask = np.array(pick.array("int32", (batch, keys), 0, 1)) if pick.flag() else None
    if mask is not None:
        mask[:, 0] = 1
    added = pick.array("float", (batch, heads, length, keys)) if pick.flag() else None
    if flat and keys == length > 1 and pick.flag():
        # Of a single query, it hides nothing; of fewer than keys, it depends on the mask what.
        attributes["unidirectional"] = 1
    if not flat or mask is not None or added is not None or pick.flag():
        return Example([query, key, value, bias, mask, added], attributes, summed=True, slack=10)
    caches = [pick.array("float", (batch, heads, pick.integer(1, 3), size))]
    caches.append(pick.array("float", caches[0].shape))
    inputs = [query, key, value, bias, mask, added, *caches]
    return Example(inputs, attributes, outputs=3, summed=True, slack=10)


@covers("com.microsoft.GroupQueryAttention")
def group_query_attention(pick: Pick) -> Example:
    batch, groups, length, size = sizes(pick)
    size *= 8
    heads, first = groups * pick.integer(1, 2), pick.flag()
    room = length if first else pick.integer(length, 6)
    past = 0 if first else room - length
    batch = 1 if past and length > 1 else batch  # or else onnxruntime refuses
    query = pick.array("float", (batch, length, heads * size))
    key, value = (pick.array("float", (batch, length, groups * size)) for _ in range(2))
    caches = [pick.array("float", (batch, groups, past, size)) for _ in range(2)]
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    attributes |= pick.some(scale=pick.number(0.1, 1), softcap=pick.number(1, 5))
    attributes |= pick.some(local_window_size=pick.integer(1, 5), smooth_softmax=1)
    total = past + length
    last = np.full((batch,), total - 1, np.int32)
    inputs = [query, key, value, *caches, last, np.array(total, np.int32)]
    if pick.flag():
        tables = [pick.array("float", (8, size // 2), -1, 1) for _ in range(2)]
        attributes |= {"do_rotary": 1} | pick.some(rotary_interleaved=pick.integer(0, 1))
        inputs += tables
    return Example(inputs, attributes, outputs=3, fixed=(5, 6), summed=True, slack=10)


@covers("RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def rotary_embedding(pick: Pick) -> Example:
    batch, heads, length, size = sizes(pick)
    type = "float" if pick.domain else pick.type("T", ["float", "float16"])
    attributes: dict[str, Any] = pick.some(interleaved=pick.integer(0, 1))
    turned = size
    if size > 2 and pick.flag():
        turned = size // 2
        attributes |= {"rotary_embedding_dim": turned, "num_heads": heads}
    flat = pick.flag()
    if flat:
        attributes["num_heads"] = heads
    x = pick.array(type, (batch, length, heads * size) if flat else (batch, heads, length, size))
    positions = pick.array("int64", (batch, length), 0, 5)
    tables = [pick.array(type, (6, turned // 2), -1, 1) for _ in range(2)]
    if pick.domain:
        if pick.flag():
            positions = np.array([pick.integer(0, 6 - length)])
        return Example([x, positions, *tables], attributes, slack=5, summed=True)
    if pick.flag():
        tables = [pick.array(type, (batch, length, turned // 2), -1, 1) for _ in range(2)]
        return Example([x, *tables], attributes, slack=5, summed=True)
    return Example([x, *tables, positions], attributes, slack=5, summed=True)


@covers("Attention")
def attention(pick: Pick) -> Example:
    batch, groups, length, size = sizes(pick)
    type = pick.type("T1", ["float", "float16"])
    heads, keys, wide = groups * pick.integer(1, 2), pick.integer(1, 4), pick.one_of([2, 4])
    attributes: dict[str, Any] = pick.some(scale=pick.number(0.1, 1), softcap=pick.number(1, 5))
    if pick.flag():
        query, key, value = (
            pick.array(type, lens)
            for lens in (
                (batch, length, heads * size),
                (batch, keys, groups * size),
                (batch, keys, groups * wide),
            )
        )
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    else:
        query, key, value = (
            pick.array(type, lens)
            for lens in (
                (batch, heads, length, size),
                (batch, groups, keys, size),
                (batch, groups, keys, wide),
            )
        )
    past = pick.integer(1, 3) if pick.flag() else 0
    cache = [pick.array(type, (batch, groups, past, n)) if past else None for n in (size, wide)]
    if length > 1 and pick.flag():  # of a single query, onnxruntime hides nothing
        attributes["is_causal"] = 1
    mask = None
    if pick.flag():
        lens = pick.one_of(
            [
                (length, past + keys),
                (batch, 1, length, past + keys),
                (batch, heads, length, past + keys),
            ]
        )
        mask = pick.array(type, lens)
        if pick.flag():
            mask = pick.array("bool", lens)
            mask[..., 0] = True
    used = [0, 1, 2] if past else [0]
    if pick.flag():
        attributes["qk_matmul_output_mode"] = pick.one_of(
            [0, 1, 3]
        )  # not where hidden ones are −inf
        used.append(3)
    inputs = [query, key, value, mask, *cache]
    if pick.opset >= 24 and not past and "is_causal" not in attributes and pick.flag():
        inputs.append(pick.array("int64", (batch,), 1, keys))
    return Example(inputs, attributes, max(used) + 1, used, summed=True, slack=10)


@covers("TensorScatter")
def tensor_scatter(pick: Pick) -> Example:
    type, batch, groups, size = (
        pick.type("T"),
        pick.integer(1, 2),
        pick.integer(1, 2),
        pick.integer(1, 3),
    )
    length, room = pick.integer(1, 3), pick.integer(3, 5)
    mode = pick.one_of(["linear", "circular"])
    last = room - 1 if mode == "circular" else room - length
    places = pick.array("int64", (batch,), 0, last) if pick.flag() else None
    cache, update = (pick.array(type, (batch, groups, n, size)) for n in (room, length))
    return Example([cache, update, places], pick.some(axis=-2) | {"mode": mode})
