"""Functions of JAX with arguments: reductions, products, control flow and gradients; and the table of all."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.stablehlo.functions import (
    BINARY,
    EDGES,
    INDEXING,
    MOVEMENT,
    ROWS,
    UNARY,
    B,
    Case,
    M,
    N,
    U,
    X,
    Y,
    noise,
    whole,
)  # fmt: skip

REDUCTION: dict[str, Case] = {
    "sum": (
        lambda x: (x.sum(), x.sum(0), x.sum((0, 2), keepdims=True), x.mean(1), x.var(), x.std(0)),
        (ROWS,),
    ),
    "extremes": (
        lambda x: (x.max(), x.min(1), x.prod(0), jnp.ptp(x), x.argmax(), x.argmin(1), x.argmax(0)),
        (ROWS,),
    ),
    "ties": (
        lambda x: (x.argmax(0), x.argmin(1)),
        (np.array([[1, 2, 2], [2, 2, 1], [1, 1, 2]], np.float32),),
    ),
    "nan": (lambda x: (x.max(), x.argmax(), x.argmin(), jnp.nanmax(x), jnp.nansum(x)), (EDGES,)),
    "logic": (
        lambda b: (b.any(), b.all(1), b.any(0), b.sum(), jnp.count_nonzero(b, 1), b.max()),
        (B,),
    ),
    "integer sums": (lambda n: (n.sum(), n.prod(1), n.max(), n.min(0), n.argmax(1)), (N,)),
    "bits": (lambda n: (jnp.bitwise_and.reduce(n), jnp.bitwise_or.reduce(n, axis=1)), (M,)),
    "own function": (
        lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b + a + b, (0,)),
        (U,),
    ),
    "pairs": (
        lambda x, y: lax.reduce(
            (x, y),
            (np.float32(0), np.float32(0)),
            lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])),
            (1,),
        ),
        (X, Y),
    ),
    "initial": (
        lambda x: (x.sum(initial=2.0), x.max(initial=0.5), lax.reduce(x, 3.0, lax.add, (0,))),
        (X,),
    ),
    "running": (
        lambda x: (
            jnp.cumsum(x),
            jnp.cumsum(x, 0),
            jnp.cumprod(x, 1),
            lax.cummax(x),
            lax.cummin(x, 1),
            lax.cumsum(x, 1, reverse=True),
            lax.cumlogsumexp(x, 1),
        ),
        (X,),
    ),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), (X,)),
    "median": (
        lambda x: (jnp.median(x), jnp.quantile(x, 0.3, axis=0), jnp.percentile(x, 80)),
        (X,),
    ),
    "norms": (
        lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, 1, axis=0)),
        (X,),
    ),
    "sort": (
        lambda x: (
            jnp.sort(x),
            jnp.sort(x, 0),
            jnp.sort(x, descending=True),
            jnp.argsort(x),
            jnp.argsort(x, descending=True),
        ),
        (np.round(X, 0),),
    ),
    "sort integers": (lambda n: (jnp.sort(n), jnp.argsort(n, 0), jnp.unique(n, size=5)), (N,)),
    "sort nan": (lambda x: (jnp.sort(x), jnp.argsort(x)), (EDGES,)),
    "sort keys": (
        lambda x, n: (
            jnp.lexsort((x, n)),
            lax.sort((n, x), num_keys=2),
            lax.sort((n, x), num_keys=1),
        ),
        (X[0], np.array([2, 1, 2, 1], np.int32)),
    ),
    "top k": (lambda x: lax.top_k(x, 3), (X,)),
    "max pool": (
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        ),
        (noise(2, 7, 6, 3),),
    ),
    "mean pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 1, 1), "SAME") / 9,
        (noise(2, 7, 6, 3),),
    ),
    "windows": (
        lambda x: (
            lax.reduce_window(x, 1.0, lax.mul, (2, 3), (1, 2), ((1, 0), (2, 1))),
            lax.reduce_window(x, np.inf, lax.min, (2, 2), (1, 1), "VALID", (2, 1), (1, 2)),
            lax.reduce_window(x, 0.5, lax.add, (3, 1), (1, 1), "VALID"),
        ),
        (X,),
    ),
    "integer windows": (lambda n: lax.reduce_window(n, 0, lax.add, (2, 2), (1, 1), "VALID"), (N,)),
}

IMAGE, KERNEL = noise(2, 8, 7, 4), noise(3, 3, 4, 6, seed=1)


def conv(x: Any, w: Any, *args: Any, **kwargs: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, *args, dimension_numbers=("NHWC", "HWIO", "NHWC"), **kwargs
    )


MATRIX: dict[str, Case] = {
    "matmul": (
        lambda a, b: (a @ b.T, jnp.dot(a, b[0]), a[0] @ b[0], jnp.outer(a[0], b[0])),
        (X, Y),
    ),
    "batched": (lambda a, b: (a @ b, jnp.matmul(a, b[0])), (noise(2, 3, 4), noise(2, 4, 5))),
    "einsum": (
        lambda a, b: (
            jnp.einsum("bij,bkj->bik", a, b),
            jnp.einsum("bij,bkj->ik", a, b),
            jnp.einsum("bij,ckj->bcik", a, b),
            jnp.einsum("bij,bij->", a, b),
        ),
        (noise(2, 3, 4), noise(2, 5, 4)[:, :3]),
    ),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, ((1, 2), (0, 1))), (ROWS, noise(3, 2, 5))),
    "half product": (
        lambda a, b: lax.dot(
            a.astype(np.float16), b.T.astype(np.float16), preferred_element_type=np.float32
        ),
        (X, Y),
    ),
    "integer product": (
        lambda a, b: (
            a @ b.T,
            lax.dot(a.astype(np.int8), b.T.astype(np.int8), preferred_element_type=np.int32),
        ),
        (N, M),
    ),
    "conv": (
        lambda x, w: (conv(x, w, (1, 1), "SAME"), conv(x, w, (2, 1), "VALID")),
        (IMAGE, KERNEL),
    ),
    "conv pads": (
        lambda x, w: conv(x, w, (2, 2), ((1, 2), (0, 1)), rhs_dilation=(2, 1)),
        (IMAGE, KERNEL),
    ),
    "conv crop": (lambda x, w: conv(x, w, (1, 1), ((-1, 2), (0, -1))), (IMAGE, KERNEL)),
    "conv spread": (
        lambda x, w: conv(x, w, (1, 1), ((1, 1), (2, 2)), lhs_dilation=(2, 3)),
        (IMAGE, KERNEL),
    ),
    "conv groups": (
        lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=2),
        (IMAGE, noise(3, 3, 2, 6)),
    ),
    "conv depthwise": (
        lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=4),
        (IMAGE, noise(3, 3, 1, 8)),
    ),
    "conv batches": (
        lambda x, w: conv(x, w, (1, 1), "VALID", batch_group_count=2),
        (IMAGE, KERNEL),
    ),
    "conv transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (IMAGE, KERNEL)),
    "conv nchw": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        (noise(1, 3, 5, 6), noise(4, 3, 2, 3)),
    ),
    "conv 1d": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        (noise(2, 9, 3), noise(4, 3, 5)),
    ),
    "conv 3d": (
        lambda x, w: lax.conv(x, w, (1, 1, 1), "SAME"),
        (noise(1, 2, 4, 3, 5), noise(3, 2, 2, 2, 2)),
    ),
    "convolve": (jnp.convolve, (noise(9), noise(4))),
    "resize": (
        lambda x: (
            jax.image.resize(x, (2, 4, 9, 4), "bilinear"),
            jax.image.resize(x, (2, 16, 14, 4), "nearest"),
            jax.image.resize(x, (2, 5, 7, 4), "cubic"),
        ),
        (IMAGE,),
    ),
    "normalise": (lambda x: jax.nn.standardize(x, axis=(1, 2)), (IMAGE,)),
    "attention": (
        lambda q, k, v: (
            jax.nn.dot_product_attention(q, k, v),
            jax.nn.dot_product_attention(q, k, v, is_causal=True),
        ),
        tuple(noise(2, 5, 3, 4, seed=s) for s in range(3)),
    ),
}


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, t: (jnp.tanh(c + t), c * t), x[0], x)


CONTROL: dict[str, Case] = {
    "scan": (_scan, (X,)),
    "reverse scan": (lambda x: lax.scan(lambda c, t: (c * t, c), x[0], x, reverse=True), (X,)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda k, c: c * 1.1 + k, x), (X,)),
    "fori by data": (
        lambda x, n: lax.fori_loop(1, n, lambda k, c: c * 1.1 + k, x),
        (X, np.int32(4)),
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: jnp.abs(c).max() < 50, lambda c: c * 1.5 + 1, x),
        (X,),
    ),
    "while never": (
        lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        (X, np.int32(-1)),
    ),
    "cond": (lambda x, n: lax.cond(n > 1, lambda a: a * 2, lambda a: -a, x), (X, np.int32(2))),
    "switch": (
        lambda x, n: [lax.switch(n + k, [jnp.sin, jnp.cos, jnp.exp], x) for k in range(-1, 3)],
        (X, np.int32(1)),
    ),
    "nested": (
        lambda x, n: lax.fori_loop(
            0, n, lambda k, c: lax.cond(k % 2 == 0, lambda a: a + k, jnp.negative, c), x
        ),
        (X, np.int32(3)),
    ),
    "map": (lambda x: lax.map(lambda r: r.sum() * r, x), (X,)),
    "vmap": (jax.vmap(lambda a, b: a @ b), (X, Y)),
    "jit": (lambda x: jax.jit(lambda a: jax.jit(jnp.sin)(a) + 1)(x) * jax.jit(jnp.sin)(x), (X,)),
    "random": (
        lambda k: (
            jax.random.uniform(jax.random.key(k), (3, 2)),
            jax.random.bits(jax.random.key(k), (4,)),
            jax.random.randint(jax.random.key(k), (5,), 0, 9),
            jax.random.permutation(jax.random.key(k), 6),
        ),
        (np.uint32(7),),
    ),
    "normal": (lambda k: jax.random.normal(jax.random.key(k), (8,)), (np.uint32(3),)),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(lambda a: jnp.sin(a) ** 2)(x).sum()), (X,)),
    "custom jvp": (jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.silu(x).sum()), (X,)),
    "tree": (
        lambda t: {"b": t["a"] + 1, "a": (t["b"][0], [t["b"][1] * 2])},
        ({"a": X, "b": (Y, N)},),
    ),
}

GRADIENTS: dict[str, Case] = {
    "conv": (
        jax.grad(lambda x, w: (conv(x, w, (2, 1), "SAME") ** 2).sum(), (0, 1)),
        (IMAGE, KERNEL),
    ),
    "depthwise": (
        jax.grad(
            lambda x, w: (conv(x, w, (1, 1), "SAME", feature_group_count=4) ** 2).sum(), (0, 1)
        ),
        (IMAGE, noise(3, 3, 1, 4)),
    ),
    "max pool": (
        jax.grad(
            lambda x: (
                lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2
            ).sum()
        ),
        (IMAGE,),
    ),
    "mean pool": (
        jax.grad(
            lambda x: (
                lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2
            ).sum()
        ),
        (IMAGE,),
    ),
    "embedding": (
        jax.grad(lambda t, i: (t[i] ** 2).sum()),
        (noise(10, 4), whole(2, 3, low=0, high=10)),
    ),
    "softmax": (
        jax.grad(lambda x, i: -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean()),
        (X, np.array([0, 3, 1], np.int32)),
    ),
    "scan": (jax.grad(lambda x: _scan(x)[0].sum()), (X,)),
    "sort": (jax.grad(lambda x: (jnp.sort(x) * Y).sum()), (X,)),
    "cumsum": (jax.grad(lambda x: (jnp.cumsum(x) ** 2).sum()), (X,)),
    "cumprod": (jax.grad(lambda x: jnp.cumprod(x).sum()), (U,)),
    "reduce": (jax.grad(lambda x: x.max() + x.prod() + x.std() + jnp.linalg.norm(x)), (X,)),
    "einsum": (
        jax.grad(lambda a, b: jnp.einsum("bij,bkj->bik", a, b).sum(), (0, 1)),
        (noise(2, 3, 4), noise(2, 5, 4)),
    ),
    "attention": (
        jax.grad(
            lambda q, k, v: (jax.nn.dot_product_attention(q, k, v, is_causal=True) ** 2).sum(),
            (0, 1, 2),
        ),
        tuple(noise(1, 4, 2, 3, seed=s) for s in range(3)),
    ),
    "hessian": (jax.hessian(lambda x: (jnp.tanh(x) ** 3).sum()), (X[0],)),
}

FAMILIES: dict[str, dict[str, Case]] = {
    "unary": UNARY,
    "binary": BINARY,
    "movement": MOVEMENT,
    "indexing": INDEXING,
    "reduction": REDUCTION,
    "matrix": MATRIX,
    "control": CONTROL,
    "gradients": GRADIENTS,
}

CASES: dict[str, Case] = {f"{f}: {n}": c for f, cases in FAMILIES.items() for n, c in cases.items()}
