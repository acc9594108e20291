"""Functions of JAX with arguments: on elements, and of places."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def noise(*lens: int, seed: int = 0, type: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens).astype(type)


def whole(
    *lens: int, low: int = -8, high: int = 9, seed: int = 0, type: Any = np.int32
) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, lens).astype(type)


X, Y, U = (
    noise(3, 4),
    noise(3, 4, seed=1),
    np.linspace(0.05, 0.95, 12, dtype=np.float32).reshape(3, 4),
)
N, M = whole(3, 4), whole(3, 4, low=1, seed=1)
W = whole(3, 4, low=0, high=1 << 31, type=np.uint32)
B, C = N > 0, N > 2
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 1e-20, -3e38], np.float32)
ROWS, COLUMN = noise(6, 3, 2), np.array([4, 0, -1, 2], np.int32)

UNARY = (
    {
        n: (getattr(jnp, n), (X,))
        for n in (
            "abs",
            "arctan",
            "arcsinh",
            "ceil",
            "cos",
            "exp",
            "expm1",
            "floor",
            "negative",
            "round",
            "sign",
            "sin",
            "sinh",
            "cosh",
            "square",
            "tan",
            "tanh",
            "trunc",
            "cbrt",
            "exp2",
            "isfinite",
        )
    }
    | {
        n: (getattr(jnp, n), (U,))
        for n in (
            "arccos",
            "arcsin",
            "arctanh",
            "log",
            "log1p",
            "log2",
            "log10",
            "reciprocal",
            "sqrt",
        )
    }
    | {
        n: (getattr(jax.nn, n), (X,))
        for n in (
            "celu",
            "elu",
            "gelu",
            "glu",
            "hard_sigmoid",
            "hard_swish",
            "hard_tanh",
            "leaky_relu",
            "log_sigmoid",
            "log_softmax",
            "logsumexp",
            "mish",
            "relu",
            "relu6",
            "selu",
            "sigmoid",
            "silu",
            "soft_sign",
            "softmax",
            "softplus",
            "standardize",
            "squareplus",
            "sparse_plus",
        )
    }
    | {
        "arccosh": (jnp.arccosh, (U + 1,)),
        "rsqrt": (lax.rsqrt, (U,)),
        "erf": (lax.erf, (X,)),
        "erfc": (lax.erfc, (X,)),
        "erf_inv": (lax.erf_inv, (U,)),
        "halves": (lambda x: (lax.round(x), jnp.round(x)), (np.arange(-3, 3, 0.5, np.float32),)),
        "edges": (
            lambda x: (
                jnp.isnan(x),
                jnp.isinf(x),
                jnp.sign(x),
                jnp.sqrt(x),
                jnp.exp(x),
                jnp.floor(x),
                jnp.log1p(x),
                jnp.expm1(x),
                jnp.tanh(x),
                jnp.isposinf(x),
                jnp.nan_to_num(x),
            ),
            (EDGES,),
        ),
        "gelu erf": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
        "logit": (jax.scipy.special.logit, (U,)),
        "digamma": (jax.scipy.special.digamma, (U + 1,)),
        "lgamma": (jax.scipy.special.gammaln, (U + 1,)),
        "integers": (
            lambda x: (-x, abs(x), jnp.sign(x), ~x, lax.population_count(x), lax.clz(x)),
            (N,),
        ),
        "bits": (lambda x: (lax.population_count(x), lax.clz(x), x >> 3, x << 30), (W,)),
    }
)

BINARY: dict[str, Case] = {
    n: (getattr(jnp, n), (X, Y))
    for n in (
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "arctan2",
        "hypot",
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "copysign",
        "logaddexp",
        "fmax",
        "floor_divide",
        "remainder",
        "fmod",
        "nextafter",
    )
} | {
    "power": (jnp.power, (U, Y)),
    "whole power": (lambda x: (x**2, x**3, x**-1), (X,)),
    "integer": (
        lambda a, b: (
            a + b,
            a - b,
            a * b,
            a // b,
            a % b,
            lax.div(a, b),
            lax.rem(a, b),
            jnp.maximum(a, b),
            a**2,
            a & b,
            a | b,
            a ^ b,
            a < b,
            a == b,
        ),
        (N, M),
    ),
    "shifts": (lambda a, b: (a << b, a >> b, lax.shift_right_logical(a, b)), (N, M)),
    "bools": (lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a < b, jnp.maximum(a, b)), (B, C)),
    "select": (lambda p, a, b: (jnp.where(p, a, b), jnp.where(p, a, 0.0)), (B, X, Y)),
    "select one": (lambda a, b: lax.select(a[0, 0] > 0, a, b), (X, Y)),
    "clamp": (lambda a: (jnp.clip(a, -0.5, 0.5), lax.clamp(-0.1, a, 0.2)), (X,)),
    "broadcast": (lambda a, b: (a + b[0], a * b[:, :1], a - 2.0), (X, Y)),
    "converts": (
        lambda a, n: (
            a.astype(np.int32),
            n.astype(np.float32),
            a.astype(np.float16),
            (a > 0).astype(np.int8),
            n.astype(bool),
            n.astype(np.uint8),
        ),
        (X, N),
    ),
    "half": (lambda a, b: a.astype(jnp.bfloat16) * b.astype(jnp.bfloat16), (X, Y)),
    "bitcast": (lambda a: lax.bitcast_convert_type(a, np.int32), (X,)),
    "precision": (lambda a: lax.reduce_precision(a, 8, 7), (X,)),
    "wide": (lambda a: jnp.arange(4, dtype=np.uint8) * a[0, :4].astype(np.uint8), (M,)),
}

MOVEMENT: dict[str, Case] = {
    "reshape": (lambda x: (x.reshape(2, 6), x.ravel(), x.T, x[None], x[..., None]), (X,)),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)), (ROWS,)),
    "concatenate": (
        lambda a, b: (jnp.concatenate([a, b]), jnp.hstack([a, b]), jnp.stack([a, b], 1)),
        (X, Y),
    ),
    "slice": (lambda x: (x[1:], x[:, ::2], x[::-1], x[1:5:2, ::-2], x[2], x[:, -1]), (ROWS,)),
    "pad": (
        lambda x: (
            jnp.pad(x, 1),
            jnp.pad(x, ((0, 2), (1, 0)), constant_values=3.0),
            jnp.pad(x, 1, mode="edge"),
            jnp.pad(x, 1, mode="reflect"),
        ),
        (X,),
    ),
    "interior pad": (lambda x: lax.pad(x, 7.0, ((1, -1, 2), (-1, 2, 1))), (X,)),
    "pad by a value": (lambda x, y: lax.pad(x, y[0, 0], ((1, 2, 0), (0, -1, 1))), (X, Y)),
    "repeat": (lambda x: (jnp.repeat(x, 2, 0), jnp.tile(x, (2, 1)), jnp.roll(x, 1, 1)), (X,)),
    "split": (lambda x: jnp.split(x, 2, 1), (X,)),
    "iota": (
        lambda x: (jnp.arange(5) + x.shape[0], jnp.eye(3), jnp.linspace(0, 1, 5), jnp.tri(4)),
        (X,),
    ),
    "one_hot": (lambda x: jax.nn.one_hot(x, 6), (np.array([1, 5, 0, 7], np.int32),)),
    "tri": (lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[:, 0])), (X,)),
    "meshgrid": (lambda x: jnp.meshgrid(x[0], x[:, 0]), (X,)),
}

INDEXING: dict[str, Case] = {
    "take": (
        lambda x, i: (
            x[i],
            jnp.take(x, i, 0),
            jnp.take(x, i + 3, 0, mode="clip"),
            jnp.take(x, i, axis=0, mode="wrap"),
        ),
        (ROWS, COLUMN),
    ),
    "take middle": (
        lambda x, i: (jnp.take(x, i % 3, 1), x[:, i % 3], x[..., i % 2]),
        (ROWS, COLUMN),
    ),
    "take fill": (lambda x, i: jnp.take(x, i * 3, 0, mode="fill", fill_value=-1.0), (ROWS, COLUMN)),
    "take pairs": (
        lambda x, i: (x[i, i % 3], x[i, :, i % 2], x[i[:, None], i[None] % 3]),
        (ROWS, COLUMN),
    ),
    "take along": (
        lambda x, i: jnp.take_along_axis(x, i[:, None, None] % 3, 1),
        (ROWS, np.array([0, 1, 2, 0, 1, 2], np.int32)),
    ),
    "embedding": (lambda t, i: t[i], (noise(10, 4), whole(2, 3, low=0, high=10))),
    "vmap gather": (
        lambda x, i: jax.vmap(lambda a, k: a[k])(x, i % 3),
        (ROWS, np.arange(6, dtype=np.int32)),
    ),
    "vmap window": (
        jax.vmap(lambda a, k: lax.dynamic_slice(a, (k, 0), (2, 1))),
        (ROWS, np.arange(6, dtype=np.int32) - 2),
    ),
    "bool mask": (lambda x, b: jnp.where(b, x, 0).sum(), (X, B)),
    "set": (
        lambda x, i: (x.at[i].set(1.0), x.at[0].set(5.0), x.at[:, 1].set(2.0), x.at[1:3].set(0.0)),
        (ROWS, COLUMN),
    ),
    "add": (
        lambda x, i: (x.at[i].add(1.0), x.at[i, i % 3].add(2.0), x.at[:, i % 3].add(1.5)),
        (ROWS, np.array([4, 0, 0, 4], np.int32)),
    ),
    "mul": (
        lambda x, i: (
            x.at[i].multiply(2.0),
            x.at[i].min(0.1),
            x.at[i].max(0.2),
            x.at[i].subtract(1.0),
        ),
        (ROWS, COLUMN),
    ),
    "out of bounds": (
        lambda x, i: (
            x.at[i * 3].add(1.0),
            x.at[i * 3].set(9.0),
            x[i * 3],
            x.at[i * 3, 1].add(2.0, mode="drop"),
        ),
        (ROWS, COLUMN),
    ),
    "set bools": (lambda b, i: b.at[i % 3].set(True), (B, COLUMN)),
    "segment": (
        lambda x, i: jax.ops.segment_sum(x, i, 5),
        (ROWS, np.array([0, 1, 1, 4, 0, 2], np.int32)),
    ),
    "segment max": (
        lambda x, i: jax.ops.segment_max(x, i, 5),
        (ROWS, np.array([0, 1, 1, 4, 0, 2], np.int32)),
    ),
    "bincount": (lambda i: jnp.bincount(i, length=6), (whole(9, low=0, high=6),)),
    "dynamic slice": (
        lambda x, i: (
            lax.dynamic_slice(x, (i, 1, 0), (2, 2, 2)),
            lax.dynamic_slice(x, (5, i, 1), (3, 1, 1)),
        ),
        (ROWS, np.int32(3)),
    ),
    "dynamic update": (
        lambda x, i: (
            lax.dynamic_update_slice(x, x[:2] + 1, (i, 0, 0)),
            lax.dynamic_update_slice(x, x[:2, :1] * 2, (i, 2, 0)),
            lax.dynamic_update_slice(x, x * 2, (i, 0, 0)),
        ),
        (ROWS, np.int32(7)),
    ),
    "vmap update": (
        jax.vmap(lambda a, k: lax.dynamic_update_slice(a, a[:1] * 0, (k, 0))),
        (ROWS, np.arange(6, dtype=np.int32) - 2),
    ),
    "vmap scatter": (
        jax.vmap(lambda a, k: a.at[k].add(1.0)),
        (ROWS, np.arange(6, dtype=np.int32) - 2),
    ),
    "negative": (lambda x: (x[-1, -2], x[-2:], x[..., -1, :]), (ROWS,)),
    "choose": (
        lambda x, i: jnp.choose(i % 3, [x[0], x[1], x[2]], mode="clip"),
        (noise(3, 4), COLUMN),
    ),
    "searchsorted": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), (X[0], Y[0])),
    "interp": (lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), (U[0] * 3,)),
}
