"""Shapes: element type, lens and strides; range-based dynamic dimensions; tuples and sequences of shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod

from workbench.compiler.dtypes import DType
from workbench.compiler.errors import ShapeError


@dataclass(frozen=True)
class Dim:
    """A dimension known only as a range of lengths; ``optimals`` are lengths worth compiling for."""

    min: int
    max: int
    optimals: tuple[int, ...] = ()
    name: str = field(default="", compare=False, repr=False)
    """What the length follows from: lengths of one name are equal. Neither compared nor printed."""

    def __post_init__(self) -> None:
        """Refuse an empty range; drop optimals and name where the range is a single length."""
        if not 0 <= self.min <= self.max:
            raise ShapeError(f"dimension [{self.min}..{self.max}]: expected 0 <= min <= max")
        if self.min == self.max:
            object.__setattr__(self, "optimals", ())
            object.__setattr__(self, "name", "")

    @property
    def is_fixed(self) -> bool:
        """Whether only one length is possible."""
        return self.min == self.max

    def __str__(self) -> str:
        """``4`` for a fixed dimension, ``[1..8]`` for a range."""
        return str(self.min) if self.is_fixed else f"[{self.min}..{self.max}]"


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

    def __init__(
        self,
        type: DType | str = DType.FLOAT,
        lens: Iterable[int] = (),
        strides: Iterable[int] | None = None,
    ) -> None:
        """A static shape; row-major strides unless given.

        Raises:
            ShapeError: A length or stride is negative, or their counts differ.
        """
        lens = tuple(lens)
        self.type = type if isinstance(type, DType) else DType.of(type)
        self.lens = lens
        self.dims = self.subs = None
        self.kind = ""
        if strides is None:
            if lens and min(lens) < 0:
                raise ShapeError(f"lens {_list(lens)}: expected no negative length")
            self.strides = row_major(lens)
        else:
            self.strides = tuple(strides)
            self._check_strides()
        self._hash = hash((self.type, self.lens, self.strides))

    def _check_strides(self) -> None:
        if len(self.lens) != len(self.strides):
            raise ShapeError(
                f"lens {_list(self.lens)} and strides {_list(self.strides)}: expected equal counts"
            )
        if min(self.lens + self.strides, default=0) < 0:
            raise ShapeError(f"lens {_list(self.lens)}, strides {_list(self.strides)}: negative")

    @classmethod
    def scalar(cls, type: DType) -> Shape:
        """The shape of one value: lens {1}, strides {0}."""
        return _scalar(type)

    @classmethod
    def dynamic(cls, type: DType, dims: Iterable[Dim | int]) -> Shape:
        """A tensor with range-based dimensions; static when every dimension is an int."""
        dims = tuple(dims)
        if all(isinstance(d, int) for d in dims):
            return cls(type, [d for d in dims if isinstance(d, int)])
        shape = cls(type)
        shape.lens = shape.strides = ()
        shape.dims = tuple(d if isinstance(d, Dim) else Dim(d, d) for d in dims)
        shape._hash = hash((type, shape.dims))
        return shape

    @classmethod
    def tuple_of(cls, shapes: Iterable[Shape]) -> Shape:
        """The shape of several results together."""
        shape = cls(DType.TUPLE)
        shape.subs = tuple(shapes)
        shape._hash = hash((DType.TUPLE, shape.subs))
        return shape

    @classmethod
    def sequence_of(cls, element: Shape | None = None, kind: str = "sequence") -> Shape:
        """The shape of any number of like values, or (``kind="optional"``) of one that may be missing.

        Without an element, nothing is known of the values: there is none.
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
        """Number of elements; 0 for a shape without dimensions.

        Raises:
            ShapeError: The shape is dynamic.
        """
        if self.dims is not None:
            raise ShapeError(f"{self}: a dynamic shape has no single number of elements")
        return prod(self.lens) if self.lens else 0

    @cached_property
    def element_space(self) -> int:
        """Elements from the first to the last one in memory, gaps included."""
        if not self.lens or 0 in self.lens:
            return 0
        return sum((n - 1) * s for n, s in zip(self.lens, self.strides, strict=True)) + 1

    @cached_property
    def bytes(self) -> int:
        """Bytes of memory spanned; a dynamic shape counts its largest lens, a tuple its parts."""
        if self.subs is not None:
            return sum(s.bytes for s in self.subs)
        if self.dims is not None:
            return prod(d.max for d in self.dims) * self.type.size
        return self.element_space * self.type.size

    @cached_property
    def packed(self) -> bool:
        """Whether the elements lie in memory without gaps or repeats."""
        if self.dims is not None or self.subs is not None:
            return False
        skips = self.elements != 1 and 1 not in self.strides
        return not skips and self.elements == self.element_space

    @cached_property
    def standard(self) -> bool:
        """Packed and row-major; strides of axes of length 1 do not count, nor those of no elements."""
        if not self.packed:
            return False
        if not self.elements:
            return True
        seen = [s for n, s in zip(self.lens, self.strides, strict=True) if n != 1]
        return all(a >= b for a, b in pairwise(seen))

    @cached_property
    def broadcasted(self) -> bool:
        """Whether some axis repeats its elements (stride 0)."""
        return 0 in self.strides

    @cached_property
    def transposed(self) -> bool:
        """Whether the non-zero strides are not in descending order."""
        seen = [s for s in self.strides if s] if self.broadcasted else list(self.strides)
        return any(a < b for a, b in pairwise(seen))

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every stride is 0: one value, however often repeated."""
        return bool(self.lens) and not any(self.strides)

    @cached_property
    def permutation(self) -> tuple[int, ...]:
        """Axes from the slowest to the fastest in memory: stable, by (stride, length) descending."""
        order = sorted(range(self.ndim), key=lambda i: (-self.strides[i], -self.lens[i]))
        return tuple(order)

    def with_type(self, type: DType) -> Shape:
        """This shape with another element type."""
        if self.dims is not None:
            return Shape.dynamic(type, self.dims)
        return self if type is self.type else Shape(type, self.lens, self.strides)

    def with_lens(self, lens: Sequence[int]) -> Shape:
        """A packed shape of these lens that keeps this shape's order of axes in memory."""
        return Shape.permuted(self.type, lens, self.permutation)

    def as_standard(self) -> Shape:
        """The row-major shape of the same lens."""
        return self if self.dims is not None else Shape(self.type, self.lens)

    @classmethod
    def permuted(cls, type: DType, lens: Sequence[int], permutation: Sequence[int]) -> Shape:
        """A packed shape whose axes lie in memory in the order of ``permutation``, slowest first."""
        strides = [0] * len(lens)
        step = 1
        for axis in reversed(permutation):
            strides[axis] = step
            step *= max(lens[axis], 1)
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
            and self.subs == other.subs
            and self.kind == other.kind
        )

    def __hash__(self) -> int:
        """Hash over what equality compares."""
        return self._hash

    def __str__(self) -> str:
        """MIGraphX's text: ``float_type, {2, 3}, {3, 1}``."""
        if self.kind:
            return f"{self.kind}({', '.join(map(str, self.subs or ()))})"
        if self.subs is not None:
            return f"[{', '.join(map(str, self.subs))}]"
        if self.dims is not None:
            return f"dynamic, {self.type.type_name}, {_list(self.dims)}"
        return f"{self.type.type_name}, {_list(self.lens)}, {_list(self.strides)}"

    __repr__ = __str__


def row_major(lens: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of ``lens``, in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(lens):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def common_permutation(shapes: Sequence[Shape]) -> tuple[int, ...]:
    """The order of axes that most of the shapes have; broadcasted ones do not vote.

    Ties go to the lexicographically smallest permutation; without a vote, the order is row-major.
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
                shown = " and ".join(_list(x) for x in lens)
                raise ShapeError(f"lens {shown} do not broadcast: axis {i} is {result[i]} and {n}")
            result[i] = n if result[i] == 1 else result[i]
    return tuple(result)


@lru_cache(maxsize=64)
def _scalar(type: DType) -> Shape:
    return Shape(type, (1,), (0,))


def _list(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
