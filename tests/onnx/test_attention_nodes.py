"""onnxruntime's attention operators with random lens, operands and attributes, against itself."""

import numpy as np
import pytest

from tests.onnx.models import CONTRIB, Case

KINDS = ("Attention", "MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding")


class Draw:
    """Random choices, the same ones for the same seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def one_of(self, *choices):
        return choices[self.random.integers(len(choices))]

    def maybe(self, value):
        return self.one_of(value, None)

    def length(self, high):
        return int(self.random.integers(1, high + 1))

    def floats(self, *lens):
        return self.random.uniform(-1, 1, lens).astype(np.float32)

    def mask(self, *lens):
        """Ones and zeros, the first key kept: a row without keys has no defined result."""
        made = self.random.integers(0, 2, lens).astype(np.int32)
        made[..., 0] = 1
        return made

    def counts(self, batch, keys):
        return self.random.integers(1, keys + 1, batch).astype(np.int32)

    def some(self, **attributes):
        return {k: v for k, v in attributes.items() if self.one_of(False, True)}


def given(inputs):
    """The inputs up to the last that is not left out."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def attention(draw):
    batch, length, heads, size = draw.length(3), draw.length(4), draw.length(3), 2 * draw.length(2)
    past = draw.one_of(0, 0, 3)
    values = size if past else draw.one_of(size, size + 1)
    keys, widths = length + past, (heads * size, heads * size, heads * values)
    starts = np.zeros(batch, np.int32)
    mask = draw.one_of(
        None,
        draw.mask(batch, keys),
        draw.mask(batch, length, keys),
        draw.counts(batch, keys),
        np.concatenate([draw.counts(batch, keys), starts]),
    )
    causal = draw.one_of(0, 1) if mask is None or mask.ndim > 1 else 0
    attributes = {"num_heads": heads, "qkv_hidden_sizes": list(widths), "unidirectional": causal}
    attributes |= draw.some(scale=0.3, mask_filter_value=-5000.0)
    inputs = [
        draw.floats(batch, length, 5),
        draw.floats(5, sum(widths)),
        draw.floats(sum(widths)),
        mask,
        draw.floats(2, batch, heads, past, size) if past else None,
        None if past else draw.maybe(draw.floats(draw.one_of(1, batch), 1, length, keys)),
    ]
    return Case(
        "Attention", given(inputs), attributes, 2 if past else 1, fixed=(1, 2), domain=CONTRIB
    )


def multi_head_attention(draw):
    batch, length, heads, size = draw.length(3), draw.length(4), draw.length(3), 2 * draw.length(2)
    causal, crossed = draw.one_of(0, 0, 1), draw.one_of(False, True)
    own = length if causal else length + draw.one_of(0, 2)
    past = 0 if crossed else draw.one_of(0, 3)
    keys, values = own + past, size if past or crossed else draw.one_of(size, size + 1)
    if crossed:
        operands = [draw.floats(batch, heads, own, size) for _ in range(2)]
    else:
        operands = [draw.floats(batch, own, heads * n) for n in (size, values)]
    masks = [draw.mask(batch, keys), draw.mask(batch, length, keys), draw.counts(batch, keys)]
    caches = [draw.floats(batch, heads, past, size) for _ in range(2)]
    inputs = [
        draw.floats(batch, length, heads * size),
        *operands,
        None if crossed else draw.maybe(draw.floats(heads * (2 * size + values))),
        None if causal else draw.maybe(draw.one_of(*masks)),
        draw.maybe(draw.floats(1, draw.one_of(1, heads), length, keys)),
        *(caches if past else [None, None]),
    ]
    attributes = {"num_heads": heads, "unidirectional": causal, **draw.some(scale=0.3)}
    outputs = 3 if past else 1
    return Case("MultiHeadAttention", given(inputs), attributes, outputs, domain=CONTRIB)


def group_query_attention(draw):
    groups, size = draw.length(2), 16
    heads = groups * draw.length(3)
    kind = draw.one_of("prompt", "token", "chunk", "cache")
    batch = 1 if kind == "chunk" else draw.length(2)
    length = {"prompt": draw.length(5), "chunk": 1 + draw.length(3)}.get(kind, 1)
    past = {"prompt": 0, "cache": 8}.get(kind, draw.length(5))
    last = np.full(batch, past + length - 1, np.int32)
    if kind == "cache":
        last = draw.random.integers(0, 8, batch).astype(np.int32)
    total, turns, sink = int(last.max()) + 1, draw.one_of(0, 1), draw.one_of(0, 1, 2)
    widths = [heads * size, groups * size, groups * size]
    operands = [draw.floats(batch, length, n) for n in widths]
    if draw.one_of(False, True):
        operands = [np.concatenate(operands, 2), None, None]
    places = np.arange(total - length, total, dtype=np.int64) + np.zeros((batch, 1), np.int64)
    regular = kind != "cache"
    inputs = [
        *operands,
        *[draw.floats(batch, groups, past, size) for _ in range(2)],
        last,
        np.array(total, np.int32),
        *[draw.floats(16, size // 2) if turns else None for _ in range(2)],
        draw.maybe(places) if turns and regular else None,
        draw.maybe(draw.floats(1, draw.one_of(1, heads), length, total)) if regular else None,
        draw.floats(heads) if sink == 1 else None,
    ]
    attributes = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": turns}
    attributes |= draw.some(scale=0.4, softcap=2.0, local_window_size=draw.length(3))
    attributes |= {"smooth_softmax": 1} if sink == 2 else {}
    attributes |= draw.some(rotary_interleaved=1) if turns else {}
    # In a cache with room left, onnxruntime does not say what is behind the last key. The length
    # of another result has to be known at import, unless it is that of the operands.
    fixed = () if kind in {"prompt", "cache"} and draw.one_of(False, True) else (6,)
    compared = None if regular else 1
    return Case("GroupQueryAttention", given(inputs), attributes, 3, fixed=fixed, domain=CONTRIB,
                compared=compared)  # fmt: skip


def rotary_embedding(draw):
    batch, length, heads, size = draw.length(3), draw.length(4), draw.length(3), 8
    width = draw.one_of(4, 8)
    places = [draw.random.integers(0, 8, (batch, length)), np.array([3])]
    attributes = {} if width == size else {"num_heads": heads, "rotary_embedding_dim": width}
    attributes |= draw.some(interleaved=1)
    x = draw.floats(batch, length, heads * size)
    if width == size and draw.one_of(False, True):
        x = draw.floats(batch, heads, length, size)
    tables = [draw.floats(16, width // 2) for _ in range(2)]
    inputs = [x, draw.one_of(*places).astype(np.int64), *tables]
    return Case("RotaryEmbedding", inputs, attributes, domain=CONTRIB)


MADE = dict(
    zip(
        KINDS,
        (attention, multi_head_attention, group_query_attention, rotary_embedding),
        strict=True,
    )
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_it_computes_what_onnxruntime_computes(kind, seed):
    MADE[kind](Draw(seed)).check()
