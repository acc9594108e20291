"""Random numbers from a seed, samples from distributions, and ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import (
    Family,
    Operation,
    Sample,
    expect_count,
    expect_same_type,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import (
    ONE,
    any_dynamic,
    broadcast_dim,
    dims_of,
    expect,
    expect_rank,
    expect_tensors,
    ranged,
)
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import ShapeRules
from workbench.compiler.ops.accumulate import rounded
from workbench.compiler.ops.elementwise import finfo

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


@operation
class RandomSeed(Operation):
    """A seed. It is always the same, so that two runs of a program can be compared."""

    name = "random_seed"
    flat = True
    family = Family.MOVEMENT
    context_free = False
    dtype: DType = DType.UINT64

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """One value."""
        expect_count(self, inputs, 0)
        return Shape.scalar(self.dtype)

    def compute(self, *inputs: Any) -> Any:
        """A fixed number; to vary runs, pass the seed as an input."""
        return np.array([5489], self.dtype.numpy)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """One seed."""
        yield cls(), []


@operation
class RandomUniform(Operation):
    """Uniform random numbers from a seed, with the shape of the second input: [0, 1) for floats.

    Integers cover the non-negative range of their type (the whole range for one-byte types).
    """

    name = "random_uniform"
    flat = True
    family = Family.MOVEMENT
    dynamic = True
    alias = 1

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of the second input; row-major where that repeats its elements in memory."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_static(self, inputs[:1])
        expect(self, inputs[0].elements == 1, f"seed {inputs[0]}; expected one element")
        like = inputs[1]
        return like.as_standard() if like.dims is None and like.broadcasted else like

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape of the second input; strict rules check only in a run that there is a seed."""
        if not rules.strict:
            return super().shape_by(rules, inputs, modules)
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        return inputs[1]

    def compute(self, *inputs: Any) -> Any:
        """Mersenne Twister, in 32-bit draws; a float takes two of them."""
        seed, like = inputs
        if not seed.size:
            raise EvaluationError("random_uniform: the seed has no element; expected one")
        twister = np.random.RandomState(int(seed.reshape(-1)[0]) & 0xFFFFFFFF)
        draws = 1 if like.dtype.kind in "biu" and like.dtype.itemsize < 8 else 2
        raw: Array = twister.randint(0, 1 << 32, (like.size, draws), np.uint32).astype(np.uint64)
        return _spread(raw, like.dtype).reshape(like.shape)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Floats and integers."""
        seed = np.array([7], np.uint64)
        yield cls(), [seed, noise(2, 3)]
        yield cls(), [seed, noise(4, type=np.float16)]
        yield cls(), [seed, np.zeros((2, 2), np.int32)]
        yield cls(), [seed, np.zeros(3, np.int64)]


def _spread(raw: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers of a type from rows of one or two 32-bit draws."""
    if dtype.kind not in "biu":
        unit = (raw[:, 0] + raw[:, 1] * 2.0**32) / 2.0**64
        below_one = 1 - float(finfo(dtype).epsneg)
        return rounded(np.minimum(unit, below_one), dtype)
    if raw.shape[1] == 2:
        high: Array = raw[:, 0] >> np.uint64(dtype.kind == "i")
        return (high << np.uint64(32) | raw[:, 1]).astype(dtype)
    bits = 8 * dtype.itemsize - (dtype.kind == "i" and dtype.itemsize > 1)
    return (raw[:, 0] >> np.uint64(32 - bits)).astype(dtype)


@operation
class Multinomial(Operation):
    """For each sample, the index of the first of its row's cumulative sums that exceeds the sample.

    Inputs are cumulative sums ``[B, classes]`` and samples in [0, 1), ``[…, S]``.
    """

    name = "multinomial"
    flat = True
    family = Family.REDUCE
    dynamic = True
    dtype: DType = DType.INT32

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[B, S]``."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_rank(self, inputs[:1], 2, 2)
        expect_rank(self, inputs[1:], 1, 2)
        plain = [s.type.is_float or s.type.is_integral for s in inputs]
        plain += [s.type not in (DType.BOOL, DType.FP4X2) for s in inputs]
        expect(self, all(plain), f"inputs {inputs[0]} and {inputs[1]}; expected numbers")
        expect(self, self.dtype is not DType.BOOL, "dtype bool; expected a number")
        (batch, classes), samples = dims_of(inputs[0]), dims_of(inputs[1])
        rows = ONE if len(samples) == 1 else samples[0]
        fits = any_dynamic(inputs) or broadcast_dim(batch, rows) is not None
        fits = fits and classes.max > 0
        expect(self, fits, f"cumulative sums {inputs[0]} do not fit samples {inputs[1]}")
        dims = (batch, samples[-1])
        if any_dynamic(inputs) and not all(d.is_fixed for d in dims):
            return ranged(self.dtype, dims)
        return Shape(self.dtype, [d.min for d in dims])

    def compute(self, *inputs: Any) -> Any:
        """``numpy.searchsorted`` in each row."""
        sums, samples = inputs[0].astype(np.float64), inputs[1].astype(np.float64)
        rows = np.broadcast_to(samples, (len(sums), samples.shape[-1]))
        found = np.empty(rows.shape, self.dtype.numpy)
        for i, (row, sample) in enumerate(zip(sums, rows, strict=True)):
            found[i] = np.searchsorted(row, sample * row[-1], "right")
        return found

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Two rows of three classes."""
        sums = np.array([[0.2, 0.5, 1.0], [1.0, 3.0, 4.0]], np.float32)
        yield cls(), [sums, np.array([[0.1, 0.3, 0.9, 0.2], [0.0, 0.5, 0.7, 0.99]], np.float32)]


@operation
class DynamicRange(Operation):
    """Numbers from a start up to a limit, which is excluded, in steps of a delta."""

    name = "dynamic_range"
    not_differentiable = "the number of its elements depends on its operands"
    on_host = "lengths known only at run time"
    family = Family.MOVEMENT
    dynamic = True
    max_output: int = 2147483647

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """One dimension, of at most ``max_output`` elements."""
        expect_count(self, inputs, 3)
        expect_static(self, inputs)
        expect_same_type(self, inputs)
        for i, shape in enumerate(inputs):
            fits = shape.elements == 1 and shape.type is not DType.BOOL
            expect(self, fits, f"input {i} is {shape}; expected one number")
        return ranged(inputs[0].type, [Dim(0, self.max_output)])

    def compute(self, *inputs: Any) -> Any:
        """``start + i * delta``."""
        start, limit, delta = (v.reshape(-1)[0] for v in inputs)
        step = float(delta)
        count = (float(limit) - float(start)) / step if step else np.nan
        if not isfinite(count):
            raise EvaluationError(
                f"dynamic_range: from {start} to {limit} by {delta} never ends; expected a delta "
                "that leads from the start to the limit"
            )
        n = min(max(0, ceil(count)), self.max_output)
        kind = inputs[0].dtype
        if kind.kind in "iu":
            return (int(start) + np.arange(n) * int(delta)).astype(kind)
        return rounded(float(start) + np.arange(n) * step, kind)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Upwards, downwards, nothing."""
        for kind, bounds in (
            (np.int64, (0, 7, 2)),
            (np.float32, (3, 1, -0.5)),
            (np.int32, (3, 3, 1)),
        ):
            yield cls(), [np.array([b], kind) for b in bounds]
