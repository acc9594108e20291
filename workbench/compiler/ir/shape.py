"""Shapes: element type, lens and strides; range-based dynamic dimensions; tuples and sequences of shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.sym.expression import Expr, lit
from workbench.compiler.ir.sym.strides import (
    ONE,
    ZERO,
    descending,
    is_packed,
    listed,
    symbolic_order,
    symbolic_strides,
)


@dataclass(frozen=True)
class Dim:
    """A dimension known only as a range of lengths; ``optimals`` are lengths worth compiling for."""

    min: int
    max: int
    optimals: tuple[int, ...] = ()
    name: str = field(default="", compare=False, repr=False)
    """The origin of the length: equal names mean equal lengths. Neither compared nor printed."""
    sym: Expr | None = field(default=None, repr=False)
    """The expression of a symbolic length; range and optimals follow from it."""

    def __post_init__(self) -> None:
        """Reject an empty range; drop optimals and name if the range is a single length."""
        if not 0 <= self.min <= self.max:
            raise ShapeError(f"dimension [{self.min}..{self.max}]: expected 0 <= min <= max")
        if self.min == self.max:
            object.__setattr__(self, "optimals", ())
            object.__setattr__(self, "name", "")

    @classmethod
    def of(cls, value: Expr | int) -> Dim:
        """The symbolic dimension of an expression; an integer is a literal.

        Raises:
            ShapeError: The expression is negative for all values of its symbols.
        """
        sym = value if isinstance(value, Expr) else lit(value)
        low, high = sym.interval
        if high < 0:
            raise ShapeError(f"dimension {sym} is {low} to {high}; expected no negative length")
        return cls(max(low, 0), high, sym.optimals, sym=sym)

    @property
    def is_fixed(self) -> bool:
        """Whether only one length is possible."""
        return self.min == self.max

    @property
    def is_symbolic(self) -> bool:
        """Whether the length is an expression and not just a range."""
        return self.sym is not None

    def __str__(self) -> str:
        """``4`` for a fixed dimension, ``[1..8]`` for a range, ``n[1..8]`` for an expression."""
        if self.sym is not None:
            return str(self.sym) if self.is_fixed else f"{self.sym}[{self.min}..{self.max}]"
        return str(self.min) if self.is_fixed else f"[{self.min}..{self.max}]"


def _expect_at_most(most: int, count: int, what: str) -> None:
    if count > most:
        raise ShapeError(f"{count} {what}; expected at most {most}")


class Shape:
    """The shape of a value: a static tensor, one with dynamic dimensions, a tuple, or a sequence.

    Lens are in elements; strides are in elements too, 0 on a broadcast axis. Shapes are values:
    equal when type, lens, strides, dims and sub-shapes are equal.
    """

    __slots__ = ("__dict__", "_hash", "dims", "kind", "lens", "strides", "subs", "type")

    type: DType
    lens: tuple[int, ...]
    strides: tuple[int, ...]
    dims: tuple[Dim, ...] | None
    subs: tuple[Shape, ...] | None
    kind: str
    """``""`` for a tensor or a tuple, ``"sequence"`` or ``"optional"``."""
    dyn_strides: tuple[Expr, ...] = ()
    """The strides of a shape whose dimensions are all symbolic."""
    ranges: tuple[Dim, ...] = ()
    """The one-length ranges that became the static lens. Neither compared nor printed."""
    is_absent: bool = False
    """Whether there is no value at all, and so no element, although there are no lens to say it."""
    depth: int = 0

    def __init__(
        self,
        type: DType | str = DType.FLOAT,
        lens: Iterable[int] = (),
        strides: Iterable[int] | None = None,
    ) -> None:
        """A static shape; row-major strides unless given. Without lens it has rank 0: one element.

        Raises:
            ShapeError: A length or stride is negative, there are not as many strides as lens, or too many.
        """
        lens = tuple(lens)
        _expect_at_most(64, len(lens), "dimensions")  # as in NumPy
        self.type = type if isinstance(type, DType) else DType.of(type)
        self.lens = lens
        self.dims = self.subs = None
        self.kind = ""
        if strides is None:
            if lens and min(lens) < 0:
                raise ShapeError(f"lens {listed(lens)}: expected no negative length")
            self.strides = row_major(lens)
        else:
            self.strides = tuple(strides)
            self._check_strides()
        self._hash = hash((self.type, self.lens, self.strides))

    def _check_strides(self) -> None:
        if len(self.lens) != len(self.strides):
            raise ShapeError(
                f"lens {listed(self.lens)} and strides {listed(self.strides)}: expected equal counts"
            )
        if min(self.lens + self.strides, default=0) < 0:
            raise ShapeError(
                f"lens {listed(self.lens)}, strides {listed(self.strides)}: expected no negative number"
            )

    @classmethod
    def scalar(cls, type: DType) -> Shape:
        """MIGraphX's shape of a value of rank 0: lens {1}, strides {0}."""
        return _scalar(type)

    @classmethod
    def absent(cls, type: DType = DType.FLOAT) -> Shape:
        """The shape where there is no value. It prints as rank 0 does, as in MIGraphX."""
        shape = cls(type)
        shape.is_absent = True
        shape._hash = hash((type, "absent"))
        return shape

    @classmethod
    def dynamic(
        cls,
        type: DType | str,
        dims: Iterable[Dim | int],
        strides: Sequence[Expr | int] | None = None,
    ) -> Shape:
        """A tensor with range-based dimensions; static when every dimension is an int.

        If all dimensions are symbolic, the shape has strides: row-major ones unless given.

        Raises:
            ShapeError: Strides were given for dimensions that are not all symbolic, or too few.
        """
        dims = tuple(dims)
        _expect_at_most(64, len(dims), "dimensions")
        if all(isinstance(d, int) for d in dims):
            return cls(type, [d for d in dims if isinstance(d, int)])
        shape = cls(type)
        shape.lens = shape.strides = ()
        shape.dims = tuple(d if isinstance(d, Dim) else Dim(d, d) for d in dims)
        symbolic = [d.sym for d in shape.dims if d.sym is not None]
        if len(symbolic) == len(shape.dims):
            shape.dyn_strides = symbolic_strides(symbolic, strides)
        elif strides is not None:
            raise ShapeError(
                f"strides {listed(strides)} of {shape}, which is not symbolic; expected none"
            )
        shape._hash = hash((shape.type, shape.dims, shape.dyn_strides))
        return shape

    @classmethod
    def settled(cls, type: DType, dims: Sequence[Dim]) -> Shape:
        """The static shape if every range has one length; its ``ranges`` keep that these were ranges."""
        shape = cls(type, [d.min for d in dims])
        shape.ranges = tuple(dims)
        return shape

    @classmethod
    def tuple_of(cls, shapes: Iterable[Shape]) -> Shape:
        """The shape of several results together."""
        shape = cls(DType.TUPLE)
        shape.subs = tuple(shapes)
        shape.depth = 1 + max((s.depth for s in shape.subs), default=0)
        _expect_at_most(32, shape.depth, "tuples in each other")
        shape._hash = hash((DType.TUPLE, shape.subs))
        return shape

    @classmethod
    def sequence_of(cls, element: Shape | None = None, kind: str = "sequence") -> Shape:
        """The shape of any number of similar values, or (``kind="optional"``) of one that may be missing.

        Without an element shape the sequence is empty, so nothing is known of its values.
        """
        shape = cls.tuple_of([] if element is None else [element])
        shape.kind = kind
        shape._hash = hash((kind, shape.subs))
        return shape

    @property
    def is_dynamic(self) -> bool:
        """Whether some dimension is a range."""
        return self.dims is not None

    @property
    def is_symbolic(self) -> bool:
        """Whether every dimension is a symbolic expression; then the shape has strides."""
        return bool(self.dyn_strides)

    @property
    def is_tuple(self) -> bool:
        """Whether this is the shape of several results."""
        return self.subs is not None and not self.kind

    @property
    def is_tensor(self) -> bool:
        """Whether this is neither a tuple nor a sequence."""
        return self.subs is None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.lens if self.dims is None else self.dims)

    @cached_property
    def elements(self) -> int:
        """Number of elements: 1 without dimensions, 0 for a tuple or an absent value.

        Raises:
            ShapeError: The shape is dynamic.
        """
        if self.dims is not None:
            raise ShapeError(f"{self}: a dynamic shape has no single number of elements")
        return prod(self.lens) if self._has_elements else 0

    @cached_property
    def element_space(self) -> int:
        """Elements from the first to the last one in memory, gaps included; for ranges, the maximum."""
        if self.dims is not None:
            return min(prod(d.max for d in self.dims), _LARGEST)
        if 0 in self.lens or not self._has_elements:
            return 0
        return sum((n - 1) * s for n, s in zip(self.lens, self.strides, strict=True)) + 1

    @property
    def _has_elements(self) -> bool:
        return self.subs is None and not self.is_absent

    @property
    def array_lens(self) -> tuple[int, ...]:
        """The lens of an array that holds the elements: those of the shape, or of an empty array."""
        return (0,) if self.is_absent else self.lens

    @property
    def has_rank_0(self) -> bool:
        """Whether this is a value without dimensions, which has one element."""
        return not self.lens and self.dims is None and self._has_elements

    @cached_property
    def bytes(self) -> int:
        """Bytes of memory spanned; a dynamic shape counts its largest lens, a tuple its parts."""
        if self.subs is not None:
            return sum(s.bytes for s in self.subs)
        return self.element_space * self.type.size

    @cached_property
    def packed(self) -> bool:
        """Whether the elements lie in memory without gaps or repeats."""
        if self.dims is not None or self.subs is not None:
            return is_packed(self.dims or (), self.dyn_strides)
        skips = self.elements != 1 and 1 not in self.strides
        return not skips and self.elements == self.element_space

    @cached_property
    def standard(self) -> bool:
        """Packed and row-major; axes of length 1 do not count, and an empty tensor is always standard."""
        if not self.packed:
            return False
        if self.dims is not None:
            pairs = zip(self.dims, self.dyn_strides, strict=True)
            return descending([s.interval[1] for d, s in pairs if d.min != 1 or d.max != 1])
        if not self.elements:
            return True
        seen = [s for n, s in zip(self.lens, self.strides, strict=True) if n != 1]
        return descending(seen)

    @cached_property
    def is_row_major(self) -> bool:
        """Whether strides are row-major, including those of axes of length 1, which ``standard`` ignores."""
        return self.standard and (1 not in self.lens or self == self.as_standard())

    @cached_property
    def broadcasted(self) -> bool:
        """Whether some axis repeats its elements (stride 0)."""
        return 0 in self.strides or any(s == ZERO for s in self.dyn_strides)

    @cached_property
    def transposed(self) -> bool:
        """Whether the non-zero strides are not in descending order."""
        if self.dyn_strides:
            return not descending([s.interval[1] for s in self.dyn_strides if s != ZERO])
        seen = [s for s in self.strides if s] if self.broadcasted else list(self.strides)
        return not descending(seen)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every stride is 0: one value, repeated any number of times."""
        if self.dyn_strides:
            return all(s == ZERO for s in self.dyn_strides)
        return (bool(self.lens) and not any(self.strides)) or self.has_rank_0

    @cached_property
    def permutation(self) -> tuple[int, ...]:
        """Axes from the slowest to the fastest in memory: a stable sort by (stride, length), descending."""
        if self.dims is not None:
            return symbolic_order(self.dims, self.dyn_strides)
        order = sorted(range(self.ndim), key=lambda i: (-self.strides[i], -self.lens[i]))
        return tuple(order)

    def with_type(self, type: DType) -> Shape:
        """This shape with another element type."""
        if self.dims is not None:
            return Shape.dynamic(type, self.dims, self.dyn_strides or None)
        if type is self.type:
            return self
        if self.is_absent:
            return Shape.absent(type)
        made = Shape(type, self.lens, self.strides)
        made.ranges = self.ranges
        return made

    def with_lens(self, lens: Sequence[int]) -> Shape:
        """A packed shape with these lens and this shape's order of axes in memory."""
        return Shape.permuted(self.type, lens, self.permutation)

    def with_dims(self, dims: Sequence[Dim]) -> Shape:
        """A packed shape with symbolic dimensions and this shape's order of axes in memory.

        Raises:
            ShapeError: This shape or one of the dimensions is known as a range only.
        """
        return from_permutation(self.type, dims, self.permutation)

    def as_standard(self) -> Shape:
        """The row-major shape of the same lens."""
        if self.dims is not None:
            return self if not self.dyn_strides else Shape.dynamic(self.type, self.dims)
        return standard_shape(self.type, self.lens)

    def to_static(self, values: Mapping[Expr, int]) -> Shape:
        """This shape, strides included, with values for its symbols.

        Raises:
            ShapeError: A dimension is a range, a symbol has no value, or a length is negative.
        """
        if self.subs is not None:
            shape = Shape.tuple_of([s.to_static(values) for s in self.subs])
            shape.kind = self.kind
            return shape
        if self.dims is None:
            return self
        loose = [d for d in self.dims if d.sym is None and not d.is_fixed]
        if loose:
            raise ShapeError(
                f"{self}: dimension {loose[0]} is a range, not an expression that has a value"
            )
        lens = [d.min if d.sym is None or d.is_fixed else d.sym.evaluate(values) for d in self.dims]
        strides = [s.evaluate(values) for s in self.dyn_strides]
        return Shape(self.type, lens, strides or None)

    @classmethod
    def permuted(cls, type: DType, lens: Sequence[int], permutation: Sequence[int]) -> Shape:
        """A packed shape whose axes lie in memory in the order of ``permutation``, slowest first."""
        strides = [0] * len(lens)
        step = 1
        for axis in reversed(permutation):
            strides[axis] = step
            step *= lens[axis]
        return cls(type, lens, strides)

    def __eq__(self, other: object) -> bool:
        """Equal type, lens, strides, dims and sub-shapes."""
        if self is other:
            return True
        return (
            isinstance(other, Shape)
            and self._hash == other._hash
            and self.type == other.type
            and self.lens == other.lens
            and self.strides == other.strides
            and self.dims == other.dims
            and self.dyn_strides == other.dyn_strides
            and self.subs == other.subs
            and self.kind == other.kind
            and self.is_absent == other.is_absent
        )

    def __hash__(self) -> int:
        """Hash of the fields that equality compares."""
        return self._hash

    def __str__(self) -> str:
        """MIGraphX's text: ``float_type, {2, 3}, {3, 1}``."""
        if self.kind:
            return f"{self.kind}({', '.join(map(str, self.subs or ()))})"
        if self.subs is not None:
            return f"[{', '.join(map(str, self.subs))}]"
        if self.dyn_strides:
            return f"{self.type.type_name}, {listed(self.dims or ())}, {listed(self.dyn_strides)}"
        if self.dims is not None:
            return f"dynamic, {self.type.type_name}, {listed(self.dims)}"
        return f"{self.type.type_name}, {listed(self.lens)}, {listed(self.strides)}"

    __repr__ = __str__


def row_major(lens: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of ``lens``, in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(lens):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


_LARGEST = (1 << 64) - 1


def from_permutation(type: DType, dims: Sequence[Dim], permutation: Sequence[int]) -> Shape:
    """A packed shape with symbolic dimensions whose axes lie in memory in this order, slowest first.

    Raises:
        ShapeError: A dimension is known as a range only.
    """
    found = [d.sym for d in dims if d.sym is not None]
    if len(found) != len(dims):
        raise ShapeError(
            f"dims {listed(dims)}: expected expressions only, as strides depend on them"
        )
    strides: list[Expr] = [ONE] * len(found)
    step = ONE
    for axis in reversed(permutation):
        strides[axis] = step
        step = step * found[axis]
    return Shape.dynamic(type, dims, strides)


def common_permutation(shapes: Sequence[Shape]) -> tuple[int, ...]:
    """The order of axes that most of the shapes have; broadcast shapes do not vote.

    Ties go to the lexicographically smallest permutation; with no votes, the order is row-major.
    """
    votes: dict[tuple[int, ...], int] = {}
    for shape in shapes:
        if not shape.broadcasted:
            votes[shape.permutation] = votes.get(shape.permutation, 0) + 1
    if not votes:
        return tuple(range(shapes[0].ndim))
    return min(votes, key=lambda p: (-votes[p], p))


def broadcast_lens(*lens: Sequence[int]) -> tuple[int, ...]:
    """The common lens of several shapes under NumPy's broadcasting.

    Raises:
        ShapeError: Some axis has two different lengths, neither of them 1.
    """
    rank = max(map(len, lens))
    result = [1] * rank
    for one in lens:
        for i, n in enumerate(one, rank - len(one)):
            if n != 1 and result[i] not in (1, n):
                shown = " and ".join(listed(x) for x in lens)
                raise ShapeError(f"lens {shown} do not broadcast: axis {i} is {result[i]} and {n}")
            result[i] = n if result[i] == 1 else result[i]
    return tuple(result)


@lru_cache(maxsize=1 << 12)
def standard_shape(type: DType, lens: tuple[int, ...]) -> Shape:
    """The row-major shape of these lens: one object, so that what it computes is computed once."""
    return Shape(type, lens)


@lru_cache(maxsize=64)
def _scalar(type: DType) -> Shape:
    return Shape(type, (1,), (0,))
