"""Models of JAX with arguments: networks of flax and written out by hand, and their gradients."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from tests.stablehlo.functions import noise, whole

Model = tuple[Callable[..., Any], tuple[Any, ...]]


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        for width in (8, 16):
            x = nn.Conv(width, (3, 3), strides=(1, 2))(x)
            x = nn.BatchNorm(use_running_average=not train)(x)
            x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = nn.avg_pool(x, (2, 1), (2, 1))
        return nn.Dense(10)(x.reshape((x.shape[0], -1)))


class Block(nn.Module):
    heads: int = 2

    @nn.compact
    def __call__(self, x: Any) -> Any:
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        table = nn.Embed(20, 16)
        x = table(tokens) + self.param("places", nn.initializers.normal(), (tokens.shape[1], 16))
        for _ in range(2):
            x = Block()(x)
        return table.attend(nn.LayerNorm()(x))


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(3)(nn.RNN(nn.OptimizedLSTMCell(8))(x))


class Gru(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.RNN(nn.GRUCell(8), reverse=True, keep_order=True)(x)


class Autoencoder(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        code = nn.GroupNorm(2)(nn.swish(nn.Conv(8, (3, 3), strides=(2, 2))(x)))
        return nn.sigmoid(nn.ConvTranspose(3, (3, 3), strides=(2, 2))(code))


MODULES: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "cnn": (Cnn(), (noise(2, 16, 16, 3),)),
    "transformer": (Transformer(), (whole(2, 7, low=0, high=20),)),
    "lstm": (Lstm(), (noise(2, 5, 4),)),
    "gru": (Gru(), (noise(2, 5, 4),)),
    "autoencoder": (Autoencoder(), (noise(1, 8, 8, 3),)),
}


def initial(name: str) -> Any:
    """The weights of a module, in which no variance of a batch is as it began."""
    module, inputs = MODULES[name]
    tree = module.init(jax.random.key(0), *inputs)
    return jax.tree.map(lambda v: np.asarray(v) + 0.01 * np.abs(noise(*v.shape)), tree)


def forward(name: str) -> Model:
    module, inputs = MODULES[name]
    return module.apply, (initial(name), *inputs)


def gradient(name: str) -> Model:
    """The gradient of a loss by all weights."""
    module, inputs = MODULES[name]

    def loss(variables: Any, *given: Any) -> Any:
        return (module.apply(variables, *given) ** 2).mean()

    return jax.value_and_grad(loss), (initial(name), *inputs)


def training() -> Model:
    """A step of training in which batch statistics are results, too."""
    module, inputs = MODULES["cnn"]

    def step(variables: Any, x: Any, labels: Any) -> Any:
        def loss(parameters: Any) -> Any:
            given = {"params": parameters, "batch_stats": variables["batch_stats"]}
            out, changed = module.apply(given, x, train=True, mutable=["batch_stats"])
            chosen = jnp.take_along_axis(nn.log_softmax(out), labels[:, None], 1)
            return -chosen.mean(), changed

        (value, changed), slopes = jax.value_and_grad(loss, has_aux=True)(variables["params"])
        stepped = jax.tree.map(lambda p, g: p - 0.1 * g, variables["params"], slopes)
        return value, {"params": stepped, **changed}

    return step, (initial("cnn"), *inputs, np.array([3, 7], np.int32))
