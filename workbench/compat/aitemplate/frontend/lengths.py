"""Lengths of axes: fixed, or a range that a run chooses from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.compiler.ir.shape import Dim

if TYPE_CHECKING:
    from workbench.compat.aitemplate.frontend.tensor import Tensor

Point: TypeAlias = Mapping[str, int]
"""A length for each variable, by the variable's name."""

_numbers = count()


class IntVar:
    """A length between two bounds. Variables of the same name have the same length in a run."""

    def __init__(
        self, values: Sequence[int], name: str | None = None, symbolic_value: Any = None
    ) -> None:
        """A length from the least to the greatest of some values.

        Args:
            values: The bounds, or any lengths; the least and the greatest count.
            name: Its name; by default one of its own.
            symbolic_value: Accepted for AITemplate's signature; lengths are followed by name here.

        Raises:
            ValueError: There are no values, or one is negative.
        """
        found = sorted({int(v) for v in values})
        if not found or found[0] < 0:
            raise ValueError(
                f"IntVar 'values' must be one or more numbers, none negative; got {values}"
            )
        self._attrs: dict[str, Any] = {
            "values": found if len(found) == 1 else [found[0], found[-1]],
            "name": name,
            "symbolic_value": symbolic_value,
        }
        self._own = f"dim_{next(_numbers)}"
        self.origin: tuple[Tensor, int] | None = None
        """For a computed length the tensor and the axis that have it."""

    @property
    def key(self) -> str:
        """The name, or one that no other variable has."""
        return self._attrs["name"] or self._own

    def lower_bound(self) -> int:
        """The least length."""
        return self._attrs["values"][0]

    def upper_bound(self) -> int:
        """The greatest length."""
        return self._attrs["values"][-1]

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one length."""
        return self.lower_bound() == self.upper_bound()

    def symbolic_value(self) -> Any:
        """The number of a fixed length; else the name."""
        return self.lower_bound() if self.is_fixed else self.key

    @property
    def dim(self) -> Dim:
        """The length as a dimension of the workbench."""
        return Dim(self.lower_bound(), self.upper_bound(), (), self.key)

    def variables(self) -> dict[str, IntVar]:
        """The free variables that decide the length."""
        if self.is_fixed:
            return {}
        return {self.key: self} if self.origin is None else self.origin[0].variables()

    def at(self, point: Point) -> int:
        """The length for given lengths of the free variables."""
        if self.is_fixed:
            return self.lower_bound()
        if self.origin is None:
            return point[self.key]
        tensor, axis = self.origin
        return tensor.lens_at(point)[axis]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same bounds and the same name."""
        if not isinstance(other, IntVar):
            return NotImplemented
        mine, theirs = self._attrs, other._attrs
        return mine["values"] == theirs["values"] and mine["name"] == theirs["name"]

    def __hash__(self) -> int:
        """By bounds and name."""
        return hash((tuple(self._attrs["values"]), self._attrs["name"]))

    def __repr__(self) -> str:
        """The bounds and the name."""
        return f"{type(self).__name__}({self._attrs['values']}, name={self._attrs['name']!r})"


class IntImm(IntVar):
    """A fixed length."""

    def __init__(self, value: int, name: str | None = None) -> None:
        """A length of one value.

        Raises:
            TypeError: It is not a whole number.
        """
        if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise TypeError(f"IntImm only takes an int value; got {value!r}")
        super().__init__([value], name)

    def value(self) -> int:
        """The length."""
        return self.lower_bound()

    def __repr__(self) -> str:
        """The value."""
        return f"IntImm({self.value()})"


def as_length(given: int | IntVar) -> IntVar:
    """A length given as a number or as such; of one value it is fixed, unless it has a name.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(given, IntVar):
        return given
    try:
        return IntImm(given.__index__())
    except AttributeError:
        raise TypeError(f"a length is an int or an IntVar; got {given!r}") from None


def points(variables: Mapping[str, IntVar]) -> list[dict[str, int]]:
    """Lengths that tell variables apart: all least, all greatest, and each alone the greatest.

    0 is left out, since not all operations take axes without elements.
    """
    low = {k: max(v.lower_bound(), 1) for k, v in variables.items()}
    high = {k: max(v.upper_bound(), low[k] + 1) for k, v in variables.items()}
    if not variables:
        return [{}]
    return [low, high, *({**low, k: high[k]} for k in variables if len(variables) > 1)]
