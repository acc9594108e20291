"""Functions of JAX with arguments: what jax.numpy, jax.lax and jax.nn lower to, by family."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def noise(*lens: int, seed: int = 0, type: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens).astype(type)


def whole(*lens: int, low: int = -8, high: int = 9, seed: int = 0, type: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, lens).astype(type)


X, Y, U = noise(3, 4), noise(3, 4, seed=1), np.linspace(0.05, 0.95, 12, dtype=np.float32).reshape(3, 4)
N, M = whole(3, 4), whole(3, 4, low=1, seed=1)
W = whole(3, 4, low=0, high=1 << 31, type=np.uint32)
B, C = N > 0, N > 2
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 1e-20, -3e38], np.float32)
ROWS, COLUMN = noise(6, 3, 2), np.array([4, 0, -1, 2], np.int32)

UNARY = {
    n: (getattr(jnp, n), (X,))
    for n in ("abs", "arctan", "arcsinh", "ceil", "cos", "exp", "expm1", "floor", "negative", "round",
              "sign", "sin", "sinh", "cosh", "square", "tan", "tanh", "trunc", "cbrt", "exp2", "isfinite")
} | {
    n: (getattr(jnp, n), (U,))
    for n in ("arccos", "arcsin", "arctanh", "log", "log1p", "log2", "log10", "reciprocal", "sqrt")
} | {
    n: (getattr(jax.nn, n), (X,))
    for n in ("celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu",
              "log_sigmoid", "log_softmax", "logsumexp", "mish", "relu", "relu6", "selu", "sigmoid",
              "silu", "soft_sign", "softmax", "softplus", "standardize", "squareplus", "sparse_plus")
} | {
    "arccosh": (jnp.arccosh, (U + 1,)), "rsqrt": (lax.rsqrt, (U,)), "erf": (lax.erf, (X,)),
    "erfc": (lax.erfc, (X,)), "erf_inv": (lax.erf_inv, (U,)),
    "halves": (lambda x: (lax.round(x), jnp.round(x)), (np.arange(-3, 3, 0.5, np.float32),)),
    "edges": (lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.sign(x), jnp.sqrt(x), jnp.exp(x), jnp.floor(x),
                         jnp.log1p(x), jnp.expm1(x), jnp.tanh(x), jnp.isposinf(x), jnp.nan_to_num(x)),
              (EDGES,)),
    "gelu erf": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
    "logit": (jax.scipy.special.logit, (U,)), "digamma": (jax.scipy.special.digamma, (U + 1,)),
    "lgamma": (jax.scipy.special.gammaln, (U + 1,)), "integers": (
        lambda x: (-x, abs(x), jnp.sign(x), ~x, lax.population_count(x), lax.clz(x)), (N,)),
    "bits": (lambda x: (lax.population_count(x), lax.clz(x), x >> 3, x << 30), (W,)),
}  # fmt: skip

BINARY: dict[str, Case] = {
    n: (getattr(jnp, n), (X, Y))
    for n in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "arctan2", "hypot", "equal",
              "not_equal", "greater", "greater_equal", "less", "less_equal", "copysign", "logaddexp",
              "fmax", "floor_divide", "remainder", "fmod", "nextafter")
} | {
    "power": (jnp.power, (U, Y)), "whole power": (lambda x: (x**2, x**3, x**-1), (X,)),
    "integer": (lambda a, b: (a + b, a - b, a * b, a // b, a % b, lax.div(a, b), lax.rem(a, b),
                              jnp.maximum(a, b), a**2, a & b, a | b, a ^ b, a < b, a == b), (N, M)),
    "shifts": (lambda a, b: (a << b, a >> b, lax.shift_right_logical(a, b)), (N, M)),
    "bools": (lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a < b, jnp.maximum(a, b)), (B, C)),
    "select": (lambda p, a, b: (jnp.where(p, a, b), jnp.where(p, a, 0.0)), (B, X, Y)),
    "select one": (lambda a, b: lax.select(a[0, 0] > 0, a, b), (X, Y)),
    "clamp": (lambda a: (jnp.clip(a, -0.5, 0.5), lax.clamp(-0.1, a, 0.2)), (X,)),
    "broadcast": (lambda a, b: (a + b[0], a * b[:, :1], a - 2.0), (X, Y)),
    "converts": (lambda a, n: (a.astype(np.int32), n.astype(np.float32), a.astype(np.float16),
                               (a > 0).astype(np.int8), n.astype(bool), n.astype(np.uint8)), (X, N)),
    "half": (lambda a, b: (a.astype(jnp.bfloat16) * b.astype(jnp.bfloat16)), (X, Y)),
    "bitcast": (lambda a: lax.bitcast_convert_type(a, np.int32), (X,)),
    "precision": (lambda a: lax.reduce_precision(a, 8, 7), (X,)),
    "wide": (lambda a: jnp.arange(4, dtype=np.uint8) * a[0, :4].astype(np.uint8), (M,)),
}  # fmt: skip

MOVEMENT: dict[str, Case] = {
    "reshape": (lambda x: (x.reshape(2, 6), x.ravel(), x.T, x[None], x[..., None]), (X,)),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)), (ROWS,)),
    "concatenate": (lambda a, b: (jnp.concatenate([a, b]), jnp.hstack([a, b]), jnp.stack([a, b], 1)), (X, Y)),
    "slice": (lambda x: (x[1:], x[:, ::2], x[::-1], x[1:5:2, ::-2], x[2], x[:, -1]), (ROWS,)),
    "pad": (lambda x: (jnp.pad(x, 1), jnp.pad(x, ((0, 2), (1, 0)), constant_values=3.0),
                       jnp.pad(x, 1, mode="edge"), jnp.pad(x, 1, mode="reflect")), (X,)),
    "interior pad": (lambda x: lax.pad(x, 7.0, ((1, -1, 2), (-1, 2, 1))), (X,)),
    "pad by a value": (lambda x, y: lax.pad(x, y[0, 0], ((1, 2, 0), (0, -1, 1))), (X, Y)),
    "repeat": (lambda x: (jnp.repeat(x, 2, 0), jnp.tile(x, (2, 1)), jnp.roll(x, 1, 1)), (X,)),
    "split": (lambda x: jnp.split(x, 2, 1), (X,)),
    "iota": (lambda x: (jnp.arange(5) + x.shape[0], jnp.eye(3), jnp.linspace(0, 1, 5), jnp.tri(4)), (X,)),
    "one_hot": (lambda x: jax.nn.one_hot(x, 6), (np.array([1, 5, 0, 7], np.int32),)),
    "tri": (lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[:, 0])), (X,)),
    "meshgrid": (lambda x: jnp.meshgrid(x[0], x[:, 0]), (X,)),
}  # fmt: skip

INDEXING: dict[str, Case] = {
    "take": (lambda x, i: (x[i], jnp.take(x, i, 0), jnp.take(x, i + 3, 0, mode="clip"),
                           jnp.take(x, i, axis=0, mode="wrap")), (ROWS, COLUMN)),
    "take middle": (lambda x, i: (jnp.take(x, i % 3, 1), x[:, i % 3], x[..., i % 2]), (ROWS, COLUMN)),
    "take fill": (lambda x, i: jnp.take(x, i * 3, 0, mode="fill", fill_value=-1.0), (ROWS, COLUMN)),
    "take pairs": (lambda x, i: (x[i, i % 3], x[i, :, i % 2], x[i[:, None], i[None] % 3]), (ROWS, COLUMN)),
    "take along": (lambda x, i: jnp.take_along_axis(x, i[:, None, None] % 3, 1),
                   (ROWS, np.array([0, 1, 2, 0, 1, 2], np.int32))),
    "embedding": (lambda t, i: t[i], (noise(10, 4), whole(2, 3, low=0, high=10))),
    "vmap gather": (lambda x, i: jax.vmap(lambda a, k: a[k])(x, i % 3), (ROWS, np.arange(6, dtype=np.int32))),
    "vmap window": (lambda x, i: jax.vmap(lambda a, k: lax.dynamic_slice(a, (k, 0), (2, 1)))(x, i),
                    (ROWS, np.arange(6, dtype=np.int32) - 2)),
    "bool mask": (lambda x, b: jnp.where(b, x, 0).sum(), (X, B)),
    "set": (lambda x, i: (x.at[i].set(1.0), x.at[0].set(5.0), x.at[:, 1].set(2.0), x.at[1:3].set(0.0)),
            (ROWS, COLUMN)),
    "add": (lambda x, i: (x.at[i].add(1.0), x.at[i, i % 3].add(2.0), x.at[:, i % 3].add(1.5)),
            (ROWS, np.array([4, 0, 0, 4], np.int32))),
    "mul": (lambda x, i: (x.at[i].multiply(2.0), x.at[i].min(0.1), x.at[i].max(0.2), x.at[i].subtract(1.0)),
            (ROWS, COLUMN)),
    "out of bounds": (lambda x, i: (x.at[i * 3].add(1.0), x.at[i * 3].set(9.0), x[i * 3],
                                    x.at[i * 3, 1].add(2.0, mode="drop")), (ROWS, COLUMN)),
    "set bools": (lambda b, i: b.at[i % 3].set(True), (B, COLUMN)),
    "segment": (lambda x, i: jax.ops.segment_sum(x, i, 5), (ROWS, np.array([0, 1, 1, 4, 0, 2], np.int32))),
    "segment max": (lambda x, i: jax.ops.segment_max(x, i, 5), (ROWS, np.array([0, 1, 1, 4, 0, 2], np.int32))),
    "bincount": (lambda i: jnp.bincount(i, length=6), (whole(9, low=0, high=6),)),
    "dynamic slice": (lambda x, i: (lax.dynamic_slice(x, (i, 1, 0), (2, 2, 2)), lax.dynamic_slice(x, (5, i, 1), (3, 1, 1))),
                      (ROWS, np.int32(3))),
    "dynamic update": (lambda x, i: (lax.dynamic_update_slice(x, x[:2] + 1, (i, 0, 0)),
                                     lax.dynamic_update_slice(x, x[:2, :1] * 2, (i, 2, 0)),
                                     lax.dynamic_update_slice(x, x * 2, (i, 0, 0))), (ROWS, np.int32(7))),
    "vmap update": (lambda x, i: jax.vmap(lambda a, k: lax.dynamic_update_slice(a, a[:1] * 0, (k, 0)))(x, i),
                    (ROWS, np.arange(6, dtype=np.int32) - 2)),
    "vmap scatter": (lambda x, i: jax.vmap(lambda a, k: a.at[k].add(1.0))(x, i),
                     (ROWS, np.arange(6, dtype=np.int32) - 2)),
    "negative": (lambda x: (x[-1, -2], x[-2:], x[..., -1, :]), (ROWS,)),
    "choose": (lambda x, i: jnp.choose(i % 3, [x[0], x[1], x[2]], mode="clip"), (noise(3, 4), COLUMN)),
    "searchsorted": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), (X[0], Y[0])),
    "interp": (lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), (U[0] * 3,)),
}  # fmt: skip

REDUCTION: dict[str, Case] = {
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum((0, 2), keepdims=True), x.mean(1), x.var(), x.std(0)), (ROWS,)),
    "extremes": (lambda x: (x.max(), x.min(1), x.prod(0), jnp.ptp(x), x.argmax(), x.argmin(1), x.argmax(0)),
                 (ROWS,)),
    "ties": (lambda x: (x.argmax(0), x.argmin(1)), (np.array([[1, 2, 2], [2, 2, 1], [1, 1, 2]], np.float32),)),
    "nan": (lambda x: (x.max(), x.argmax(), x.argmin(), jnp.nanmax(x), jnp.nansum(x)), (EDGES,)),
    "logic": (lambda b: (b.any(), b.all(1), b.any(0), b.sum(), jnp.count_nonzero(b, 1), b.max()), (B,)),
    "integer sums": (lambda n: (n.sum(), n.prod(1), n.max(), n.min(0), n.argmax(1)), (N,)),
    "bits": (lambda n: (jnp.bitwise_and.reduce(n), jnp.bitwise_or.reduce(n, axis=1)), (M,)),
    "own function": (lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b + a + b, (0,)), (U,)),
    "pairs": (lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(0)),
                                      lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (1,)), (X, Y)),
    "initial": (lambda x: (x.sum(initial=2.0), x.max(initial=0.5), lax.reduce(x, 3.0, lax.add, (0,))), (X,)),
    "running": (lambda x: (jnp.cumsum(x), jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x), lax.cummin(x, 1),
                           lax.cumsum(x, 1, reverse=True), lax.cumlogsumexp(x, 1)), (X,)),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), (X,)),
    "median": (lambda x: (jnp.median(x), jnp.quantile(x, 0.3, axis=0), jnp.percentile(x, 80)), (X,)),
    "norms": (lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, 1, axis=0)), (X,)),
    "sort": (lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.sort(x, descending=True), jnp.argsort(x),
                        jnp.argsort(x, descending=True)), (np.round(X, 0),)),
    "sort integers": (lambda n: (jnp.sort(n), jnp.argsort(n, 0), jnp.unique(n, size=5)), (N,)),
    "sort nan": (lambda x: (jnp.sort(x), jnp.argsort(x)), (EDGES,)),
    "sort keys": (lambda x, n: (jnp.lexsort((x, n)), lax.sort((n, x), num_keys=2), lax.sort((n, x), num_keys=1)),
                  (X[0], np.array([2, 1, 2, 1], np.int32))),
    "top k": (lambda x: lax.top_k(x, 3), (X,)),
    "max pool": (lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
                            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")),
                 (noise(2, 7, 6, 3),)),
    "mean pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 1, 1), "SAME") / 9,
                  (noise(2, 7, 6, 3),)),
    "windows": (lambda x: (lax.reduce_window(x, 1.0, lax.mul, (2, 3), (1, 2), ((1, 0), (2, 1))),
                           lax.reduce_window(x, np.inf, lax.min, (2, 2), (1, 1), "VALID", (2, 1), (1, 2)),
                           lax.reduce_window(x, 0.5, lax.add, (3, 1), (1, 1), "VALID")), (X,)),
    "integer windows": (lambda n: lax.reduce_window(n, 0, lax.add, (2, 2), (1, 1), "VALID"), (N,)),
}  # fmt: skip

IMAGE, KERNEL = noise(2, 8, 7, 4), noise(3, 3, 4, 6, seed=1)


def conv(x: Any, w: Any, *args: Any, **kwargs: Any) -> Any:
    return lax.conv_general_dilated(x, w, *args, dimension_numbers=("NHWC", "HWIO", "NHWC"), **kwargs)


MATRIX: dict[str, Case] = {
    "matmul": (lambda a, b: (a @ b.T, jnp.dot(a, b[0]), a[0] @ b[0], jnp.outer(a[0], b[0])), (X, Y)),
    "batched": (lambda a, b: (a @ b, jnp.matmul(a, b[0])), (noise(2, 3, 4), noise(2, 4, 5))),
    "einsum": (lambda a, b: (jnp.einsum("bij,bkj->bik", a, b), jnp.einsum("bij,bkj->ik", a, b),
                             jnp.einsum("bij,ckj->bcik", a, b), jnp.einsum("bij,bij->", a, b)),
               (noise(2, 3, 4), noise(2, 5, 4)[:, :3])),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, ((1, 2), (0, 1))), (ROWS, noise(3, 2, 5))),
    "half product": (lambda a, b: lax.dot(a.astype(np.float16), b.T.astype(np.float16),
                                          preferred_element_type=np.float32), (X, Y)),
    "integer product": (lambda a, b: (a @ b.T, lax.dot(a.astype(np.int8), b.T.astype(np.int8),
                                                       preferred_element_type=np.int32)), (N, M)),
    "conv": (lambda x, w: (conv(x, w, (1, 1), "SAME"), conv(x, w, (2, 1), "VALID")), (IMAGE, KERNEL)),
    "conv pads": (lambda x, w: conv(x, w, (2, 2), ((1, 2), (0, 1)), rhs_dilation=(2, 1)), (IMAGE, KERNEL)),
    "conv crop": (lambda x, w: conv(x, w, (1, 1), ((-1, 2), (0, -1))), (IMAGE, KERNEL)),
    "conv spread": (lambda x, w: conv(x, w, (1, 1), ((1, 1), (2, 2)), lhs_dilation=(2, 3)), (IMAGE, KERNEL)),
    "conv groups": (lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=2), (IMAGE, noise(3, 3, 2, 6))),
    "conv depthwise": (lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=4), (IMAGE, noise(3, 3, 1, 8))),
    "conv batches": (lambda x, w: conv(x, w, (1, 1), "VALID", batch_group_count=2), (IMAGE, KERNEL)),
    "conv transpose": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (IMAGE, KERNEL)),
    "conv nchw": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (noise(1, 3, 5, 6), noise(4, 3, 2, 3))),
    "conv 1d": (lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
                (noise(2, 9, 3), noise(4, 3, 5))),
    "conv 3d": (lambda x, w: lax.conv(x, w, (1, 1, 1), "SAME"), (noise(1, 2, 4, 3, 5), noise(3, 2, 2, 2, 2))),
    "convolve": (lambda x, w: jnp.convolve(x, w), (noise(9), noise(4))),
    "resize": (lambda x: (jax.image.resize(x, (2, 4, 9, 4), "bilinear"), jax.image.resize(x, (2, 16, 14, 4), "nearest"),
                          jax.image.resize(x, (2, 5, 7, 4), "cubic")), (IMAGE,)),
    "normalise": (lambda x: jax.nn.standardize(x, axis=(1, 2)), (IMAGE,)),
    "attention": (lambda q, k, v: (jax.nn.dot_product_attention(q, k, v),
                                   jax.nn.dot_product_attention(q, k, v, is_causal=True)),
                  tuple(noise(2, 5, 3, 4, seed=s) for s in range(3))),
}  # fmt: skip


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, t: (jnp.tanh(c + t), c * t), x[0], x)


CONTROL: dict[str, Case] = {
    "scan": (_scan, (X,)), "reverse scan": (lambda x: lax.scan(lambda c, t: (c * t, c), x[0], x, reverse=True), (X,)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda k, c: c * 1.1 + k, x), (X,)),
    "fori by data": (lambda x, n: lax.fori_loop(1, n, lambda k, c: c * 1.1 + k, x), (X, np.int32(4))),
    "while": (lambda x: lax.while_loop(lambda c: jnp.abs(c).max() < 50, lambda c: c * 1.5 + 1, x), (X,)),
    "while never": (lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
                    (X, np.int32(-1))),
    "cond": (lambda x, n: lax.cond(n > 1, lambda a: a * 2, lambda a: -a, x), (X, np.int32(2))),
    "switch": (lambda x, n: [lax.switch(n + k, [jnp.sin, jnp.cos, jnp.exp], x) for k in range(-1, 3)],
               (X, np.int32(1))),
    "nested": (lambda x, n: lax.fori_loop(0, n, lambda k, c: lax.cond(k % 2 == 0, lambda a: a + k, jnp.negative, c), x),
               (X, np.int32(3))),
    "map": (lambda x: lax.map(lambda r: r.sum() * r, x), (X,)),
    "vmap": (lambda x, y: jax.vmap(lambda a, b: a @ b)(x, y), (X, Y)),
    "jit": (lambda x: jax.jit(lambda a: jax.jit(jnp.sin)(a) + 1)(x) * jax.jit(jnp.sin)(x), (X,)),
    "random": (lambda k: (jax.random.uniform(jax.random.key(k), (3, 2)), jax.random.bits(jax.random.key(k), (4,)),
                          jax.random.randint(jax.random.key(k), (5,), 0, 9),
                          jax.random.permutation(jax.random.key(k), 6)), (np.uint32(7),)),
    "normal": (lambda k: jax.random.normal(jax.random.key(k), (8,)), (np.uint32(3),)),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(lambda a: jnp.sin(a) ** 2)(x).sum()), (X,)),
    "custom jvp": (jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.silu(x).sum()), (X,)),
    "tree": (lambda t: {"b": t["a"] + 1, "a": (t["b"][0], [t["b"][1] * 2])}, ({"a": X, "b": (Y, N)},)),
}  # fmt: skip

GRADIENTS: dict[str, Case] = {
    "conv": (jax.grad(lambda x, w: (conv(x, w, (2, 1), "SAME") ** 2).sum(), (0, 1)), (IMAGE, KERNEL)),
    "depthwise": (jax.grad(lambda x, w: (conv(x, w, (1, 1), "SAME", feature_group_count=4) ** 2).sum(), (0, 1)),
                  (IMAGE, noise(3, 3, 1, 4))),
    "max pool": (jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum()),
                 (IMAGE,)),
    "mean pool": (jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum()),
                  (IMAGE,)),
    "embedding": (jax.grad(lambda t, i: (t[i] ** 2).sum()), (noise(10, 4), whole(2, 3, low=0, high=10))),
    "softmax": (jax.grad(lambda x, i: -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean()),
                (X, np.array([0, 3, 1], np.int32))),
    "scan": (jax.grad(lambda x: _scan(x)[0].sum()), (X,)), "sort": (jax.grad(lambda x: (jnp.sort(x) * Y).sum()), (X,)),
    "cumsum": (jax.grad(lambda x: (jnp.cumsum(x) ** 2).sum()), (X,)),
    "cumprod": (jax.grad(lambda x: jnp.cumprod(x).sum()), (U,)),
    "reduce": (jax.grad(lambda x: x.max() + x.prod() + x.std() + jnp.linalg.norm(x)), (X,)),
    "einsum": (jax.grad(lambda a, b: jnp.einsum("bij,bkj->bik", a, b).sum(), (0, 1)), (noise(2, 3, 4), noise(2, 5, 4))),
    "attention": (jax.grad(lambda q, k, v: (jax.nn.dot_product_attention(q, k, v, is_causal=True) ** 2).sum(), (0, 1, 2)),
                  tuple(noise(1, 4, 2, 3, seed=s) for s in range(3))),
    "hessian": (jax.hessian(lambda x: (jnp.tanh(x) ** 3).sum()), (X[0],)),
}  # fmt: skip

FAMILIES: dict[str, dict[str, Case]] = {
    "unary": UNARY, "binary": BINARY, "movement": MOVEMENT, "indexing": INDEXING, "reduction": REDUCTION,
    "matrix": MATRIX, "control": CONTROL, "gradients": GRADIENTS,
}  # fmt: skip

CASES: dict[str, Case] = {f"{f}: {n}": c for f, cases in FAMILIES.items() for n, c in cases.items()}
