"""Optimizers: the next value of a weight from its gradient, in the terms of expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workbench.compiler.errors import OperationError
from workbench.compiler.expressions.value import Value

Kept = Mapping[str, Value]
"""Values that an optimizer keeps between steps for one weight, by name."""


@dataclass(frozen=True)
class Optimizer(ABC):
    """A rule for the next weights. A subclass names its state and says how a step changes it."""

    counts: ClassVar[bool] = False
    """Whether the rule needs the number of the step, from 1 on."""

    @property
    @abstractmethod
    def state(self) -> tuple[str, ...]:
        """Names of what is kept between steps for each weight: arrays of its shape that start at 0."""

    @abstractmethod
    def next(
        self, weight: Value, gradient: Value, kept: Kept, step: Value | None
    ) -> tuple[Value, dict[str, Value]]:
        """The next weight and state.

        Args:
            weight: The weight.
            gradient: The gradient of the loss with respect to it, of the same shape.
            kept: What the last step kept, by name, of the same shape.
            step: The number of this step, of rank 0, if the rule counts steps.
        """


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as PyTorch has it: v ← m·v + g, w ← w - r·v.

    Args:
        learning_rate: r.
        momentum: m; 0 keeps no state.
        weight_decay: The share of the weight that is added to the gradient.
    """

    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        _expect(self, "learning_rate", self.learning_rate > 0, "a positive number")
        _expect(self, "momentum", 0 <= self.momentum < 1, "a number from 0 to below 1")

    @property
    def state(self) -> tuple[str, ...]:
        """The velocity, if there is momentum."""
        return ("velocity",) if self.momentum else ()

    def next(
        self, weight: Value, gradient: Value, kept: Kept, step: Value | None
    ) -> tuple[Value, dict[str, Value]]:
        """The next weight and velocity."""
        if self.weight_decay:
            gradient = gradient + weight * self.weight_decay
        velocity = kept["velocity"] * self.momentum + gradient if self.momentum else gradient
        return weight - velocity * self.learning_rate, {"velocity": velocity}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with bias correction and decoupled weight decay (Kingma and Ba 2015; Loshchilov and Hutter 2019).

    m ← β₁·m + (1-β₁)·g, v ← β₂·v + (1-β₂)·g²; w ← w - r·(m̂ / (√v̂ + ε) + d·w), where m̂ and v̂ are m and v
    divided by 1-β₁ᵗ and 1-β₂ᵗ.

    Args:
        learning_rate: r.
        beta1: β₁.
        beta2: β₂.
        epsilon: ε.
        weight_decay: d.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the ranges."""
        _expect(self, "learning_rate", self.learning_rate > 0, "a positive number")
        for name in ("beta1", "beta2"):
            _expect(self, name, 0 <= getattr(self, name) < 1, "a number from 0 to below 1")
        _expect(self, "epsilon", self.epsilon > 0, "a positive number")

    @property
    def state(self) -> tuple[str, ...]:
        """The running means of the gradient and of its square."""
        return ("mean", "square")

    def direction(
        self, weight: Value, gradient: Value, kept: Kept, step: Value | None
    ) -> tuple[Value, dict[str, Value]]:
        """The direction of the step, m̂ / (√v̂ + ε) + d·w, and the next state."""
        assert step is not None
        mean = kept["mean"] * self.beta1 + gradient * (1 - self.beta1)
        square = kept["square"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        builder = weight.builder
        fade1, fade2 = (
            1.0 - builder.value(beta, step.dtype).pow(step) for beta in (self.beta1, self.beta2)
        )
        found = (mean / fade1) / ((square / fade2).sqrt() + self.epsilon)
        if self.weight_decay:
            found = found + weight * self.weight_decay
        return found, {"mean": mean, "square": square}

    def next(
        self, weight: Value, gradient: Value, kept: Kept, step: Value | None
    ) -> tuple[Value, dict[str, Value]]:
        """The next weight, mean and square."""
        found, following = self.direction(weight, gradient, kept, step)
        return weight - found * self.learning_rate, following


@dataclass(frozen=True)
class Lamb(Adam):
    """LAMB: Adam's direction, scaled by the norm of the weight over its own (You et al. 2020).

    The scale is 1 where either norm is 0.
    """

    def next(
        self, weight: Value, gradient: Value, kept: Kept, step: Value | None
    ) -> tuple[Value, dict[str, Value]]:
        """The next weight, mean and square."""
        found, following = self.direction(weight, gradient, kept, step)
        size, length = ((x * x).sum().sqrt() for x in (weight, found))
        known = (size > 0.0) & (length > 0.0)
        ratio = (size / length - 1.0).where_true(known) + 1.0
        return weight - found * (ratio * self.learning_rate), following


def _expect(optimizer: Optimizer, name: str, holds: bool, what: str) -> None:
    if not holds:
        value = getattr(optimizer, name)
        raise OperationError(f"{type(optimizer).__name__}: {name}={value!r}; expected {what}")
