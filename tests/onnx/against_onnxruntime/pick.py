"""The values that generators draw from: numbers, lengths, element types and arrays for one operator."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.onnx.against_onnxruntime.kernels import CONTRIB, NEW, kernel_types, versions
from tests.onnx.peer_bytes import weight_limits

FLOATS = ("float", "double", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
FP8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
NIBBLES = ("int4", "uint4")

NUMPY: dict[str, Any] = {t: np.dtype(t) for t in (*INTEGERS, "bool", "float16", "double")} | {
    "float": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
}
"""Element types by ONNX's names, as in ``tensor(float)``."""


@dataclass(frozen=True)
class Example:
    """One node with its inputs; None stands for an input that is left out."""

    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    used: Sequence[int] | None = None
    """The outputs that are asked for; all if None."""
    fixed: Sequence[int] = ()
    """Inputs that are initialisers."""
    summed: bool = False
    """Whether elements are sums, whose error is relative to the largest one."""
    slack: float = 1.0
    """What the tolerance is multiplied by."""
    steps: int = 0
    """By how much integers may differ, where onnxruntime's tables round a second time."""
    before: Sequence[Any] = ()
    """Nodes that make values of the inputs, which are ``x0``, ``x1`` and so on."""
    names: Sequence[str] | None = None
    """The inputs of the node, where they are not these."""


Generator = Callable[["Pick"], Example]
GENERATORS: dict[str, Generator] = {}
"""By operator, as ``Conv`` or ``com.microsoft.BiasGelu``."""


def covers(*operators: str) -> Callable[[Generator], Generator]:
    """Register a generator for some operators."""

    def register(generator: Generator) -> Generator:
        for name in operators:
            assert name not in GENERATORS, f"{name} has two generators"
            GENERATORS[name] = generator
        return generator

    return register


class Pick:
    """Draws for an example of one operator."""

    def __init__(self, name: str, source: random.Random) -> None:
        """Draw from ``source`` for the operator of this name."""
        self.name, self.source = name, source
        self.domain, _, self.op = name.rpartition(".")
        self.version: int = self.one_of(versions(name))
        """The version of the operator's domain."""
        self.opset = NEW if self.domain == CONTRIB else self.version

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self.source.randint(low, high)

    def number(self, low: float, high: float) -> float:
        """A number with two decimals, so that it prints well."""
        return round(self.source.uniform(low, high), 2)

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of these."""
        return choices[self.source.randrange(len(choices))]

    def flag(self) -> bool:
        """True or false."""
        return self.source.random() < 0.5

    def rarely(self) -> bool:
        """True one time in six."""
        return self.source.random() < 1 / 6

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Some of these attributes."""
        return {k: v for k, v in attributes.items() if self.flag()}

    def subset(self, choices: Sequence[Any]) -> list[Any]:
        """Some of these, in any order."""
        found = [c for c in choices if self.flag()]
        self.source.shuffle(found)
        return found

    def order(self, count: int) -> list[int]:
        """The numbers below ``count`` in any order."""
        found = list(range(count))
        self.source.shuffle(found)
        return found

    def type(self, constraint: str = "T", among: Sequence[str] | None = None) -> str:
        """An element type that some kernel takes, and the operator set allows."""
        found = {t for k in self.kernels() for t in k.get(constraint, ())}
        return self.one_of(sorted(t for t in found if t in NUMPY and t in (among or NUMPY)))

    def types(self, *constraints: str) -> list[str]:
        """Element types that one kernel takes together."""
        known = [{c: [t for t in k[c] if t in NUMPY] for c in constraints} for k in self.kernels()]
        kernel = self.one_of([k for k in known if all(k.values())])
        return [self.one_of(kernel[c]) for c in constraints]

    def kernels(self) -> Sequence[Mapping[str, Sequence[str]]]:
        """The types of onnxruntime's kernels."""
        return kernel_types(self.name, self.version)

    def lens(self, low: int = 0, high: int = 4, *, empty: bool = True) -> tuple[int, ...]:
        """Lengths: ``low`` to ``high`` of them, often 1, at times 0."""
        found = [self.one_of((1, 1, 2, 3, 4, 5)) for _ in range(self.integer(low, high))]
        if found and empty and self.rarely():
            found[self.integer(0, len(found) - 1)] = 0
        return tuple(found)

    def broadcastable(self, lens: Sequence[int]) -> tuple[int, ...]:
        """Lengths that broadcast to these."""
        cut = self.integer(0, len(lens)) if self.flag() else 0
        return tuple(1 if self.rarely() else n for n in lens[cut:])

    def together(self, count: int, high: int = 4, *, empty: bool = True) -> list[tuple[int, ...]]:
        """Lengths of ``count`` arrays that broadcast with each other."""
        lens = self.lens(0, high, empty=empty)
        found = [self.broadcastable(lens) for _ in range(count)]
        self.source.shuffle(found)
        return found

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int, low: int = 0) -> list[int]:
        """Different axes in any order, counted from either end."""
        chosen = self.order(rank)[: self.integer(low, rank)]
        return [a - rank if self.flag() else a for a in chosen]

    def generator(self) -> np.random.Generator:
        """NumPy's generator, for arrays."""
        return np.random.default_rng(self.source.getrandbits(32))

    def weights(self, type: str, lens: Sequence[int]) -> Any:
        """An array of bytes that onnxruntime multiplies exactly, as the second operand of a product."""
        low, high = weight_limits(np.int8) if type == "int8" else (-128, 255)
        return self.array(type, lens, low, high)

    def array(
        self,
        type: str,
        lens: Sequence[int],
        low: float = -4,
        high: float = 4,
        *,
        special: bool = False,
    ) -> Any:
        """An array, at times with values at the ends of what its type holds."""
        draw, dtype = self.generator(), NUMPY[type]
        if type == "bool":
            return np.asarray(draw.random(lens) < 0.5)
        if is_float(type):
            found = np.asarray(draw.uniform(low, high, lens)).astype(dtype)
        else:
            first, last = limits(dtype)
            low, high = max(first, int(np.floor(low))), min(last, int(np.ceil(high)))
            found = np.asarray(draw.integers(low, high, lens, endpoint=True)).astype(dtype)
        if special and found.size and self.flag():
            marked = draw.random(found.shape) < 0.3
            found = np.where(marked, draw.choice(extremes(type), found.shape), found)
        return found.astype(dtype)

    def scalar(self, type: str, low: float = -4, high: float = 4) -> Any:
        """An array of rank 0."""
        return self.array(type, (), low, high)


def is_float(type: str) -> bool:
    """Whether elements of this type are floating-point numbers."""
    return "float" in type or type == "double"


def limits(dtype: Any) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def extremes(type: str) -> Any:
    """Values at the ends of what a type holds, and around 0."""
    dtype = NUMPY[type]
    if not is_float(type):
        return np.array([*limits(dtype), 0, 1], dtype)
    info = ml_dtypes.finfo(dtype)
    found = [0.0, -0.0, 1.0, -1.0, np.nan, float(info.max), float(info.min), float(info.tiny)]
    if type not in FP8:
        found += [np.inf, -np.inf]
    return np.array(found, np.float64).astype(dtype)


def ints(*values: int) -> Any:
    """A vector of int64."""
    return np.array(values, np.int64)
