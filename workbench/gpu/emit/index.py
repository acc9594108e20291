"""Integer index expressions, linear in variables of known range, so that most divisions fold away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, prod
from typing import Protocol


class Names(Protocol):
    """Something that defines variables."""

    def integer(self, text: str) -> str:
        """The name of a variable that holds the value of an integer expression."""
        ...


@dataclass(frozen=True)
class Variable:
    """A C variable of type int with its range, both ends included."""

    name: str
    low: int
    high: int
    quotient_of: tuple[Index, int] | None = field(default=None, compare=False)
    """``(x, n)`` if it is x / n."""
    remainder_of: tuple[Index, int] | None = field(default=None, compare=False)
    """``(x, n)`` if it is x % n."""


@dataclass(frozen=True)
class Index:
    """A linear expression: a constant plus multiples of variables."""

    terms: tuple[tuple[Variable, int], ...] = ()
    """Each variable once, sorted by name, with its factor, which is not 0."""
    constant: int = 0

    @staticmethod
    def of(value: Index | Variable | int) -> Index:
        """The expression for a variable or a number."""
        if isinstance(value, Index):
            return value
        return Index((), value) if isinstance(value, int) else Index(((value, 1),))

    @cached_property
    def range(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low = high = self.constant
        for v, k in self.terms:
            ends = (v.low * k, v.high * k)
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def is_constant(self) -> bool:
        """Whether it has no variables."""
        return not self.terms

    @cached_property
    def divisor(self) -> int:
        """The greatest common divisor of the factors; 0 for a constant."""
        return gcd(*(k for _, k in self.terms))

    def __add__(self, other: Index | int) -> Index:
        """The sum, with x / n * n + x % n simplified to x."""
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        factors = dict(self.terms)
        for v, k in other.terms:
            factors[v] = factors.get(v, 0) + k
        return _collapsed(factors, self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        """The difference."""
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, factor: int) -> Index:
        """A multiple."""
        if factor == 0:
            return Index()
        return Index(tuple((v, k * factor) for v, k in self.terms), self.constant * factor)

    def divmod(self, by: int, names: Names) -> tuple[Index, Index]:
        """The floor quotient and the remainder; what does not fold is computed in a variable."""
        low, high = self.range
        if by == 1 or low // by == high // by:
            whole = Index((), low // by)
            return (self, Index()) if by == 1 else (whole, self - low // by * by)
        even = Index(tuple((v, k // by) for v, k in self.terms if k % by == 0), self.constant // by)
        rest = Index(tuple(t for t in self.terms if t[1] % by), self.constant % by)
        quotient, remainder = rest._divided(by, names)
        return even + quotient, remainder

    def _divided(self, by: int, names: Names) -> tuple[Index, Index]:
        """Quotient and remainder of an expression of which no term is a multiple of ``by``."""
        low, high = self.range
        if low // by == high // by:
            return Index((), low // by), self - low // by * by
        common = gcd(self.divisor, by)
        extra = self.constant % common
        if common > 1:
            small = Index(
                tuple((v, k // common) for v, k in self.terms), (self.constant - extra) // common
            )
            quotient, remainder = small.divmod(by // common, names)
            return quotient, remainder * common + extra
        return self._in_variables(by, names)

    def _in_variables(self, by: int, names: Names) -> tuple[Index, Index]:
        low, high = self.range
        text = self.text()
        if low < 0:
            shift = -(low // by) * by
            quotient = names.integer(f"({text} + {shift}) / {by} - {shift // by}")
        else:
            quotient = names.integer(f"({text}) / {by}" if " " in text else f"{text} / {by}")
        remainder = names.integer(f"{text} - {quotient} * {by}")
        origin = (self, by)
        return (
            Index.of(Variable(quotient, low // by, high // by, quotient_of=origin)),
            Index.of(Variable(remainder, 0, by - 1, remainder_of=origin)),
        )

    def text(self) -> str:
        """The expression in C."""
        parts = [f"{k} * {v.name}" if k != 1 else v.name for v, k in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _collapsed(factors: dict[Variable, int], constant: int) -> Index:
    """The expression without terms of factor 0, and with every pair of quotient and remainder combined."""
    pending = True
    while pending:
        pending = False
        for v, k in list(factors.items()):
            joined = _joined(v, k, factors) if k else None
            if joined is not None:
                base, remainder = joined
                del factors[v], factors[remainder]
                for u, j in base.terms:
                    factors[u] = factors.get(u, 0) + j
                constant += base.constant
                pending = True
                break
    terms = sorted(((v, k) for v, k in factors.items() if k), key=lambda t: t[0].name)
    return Index(tuple(terms), constant)


def _joined(
    quotient: Variable, factor: int, factors: Mapping[Variable, int]
) -> tuple[Index, Variable] | None:
    """The dividend of a quotient whose remainder is present with the matching factor, if it is."""
    if quotient.quotient_of is None:
        return None
    base, by = quotient.quotient_of
    if factor % by:
        return None
    for v, k in factors.items():
        if k == factor // by and v.remainder_of == (base, by):
            return base * k, v
    return None


def linear(index: Sequence[Index], strides: Sequence[int], offset: int = 0) -> Index:
    """The offset of an element: the sum of each index times its stride."""
    total = Index((), offset)
    for i, stride in zip(index, strides, strict=True):
        total += i * stride
    return total


def split(flat: Index, lens: Sequence[int], names: Names) -> tuple[Index, ...]:
    """The index of an element of a tensor of ``lens`` from its row-major position."""
    found: list[Index] = []
    for n in reversed(lens[1:]):
        flat, rest = flat.divmod(max(n, 1), names)
        found.append(rest)
    return (*([flat] if lens else []), *reversed(found))


def joined(index: Sequence[Index], lens: Sequence[int]) -> Index:
    """The row-major position of an element."""
    return linear(index, [prod(lens[i + 1 :]) for i in range(len(lens))])


def constants(values: Iterable[int]) -> tuple[Index, ...]:
    """A constant index."""
    return tuple(Index((), v) for v in values)
