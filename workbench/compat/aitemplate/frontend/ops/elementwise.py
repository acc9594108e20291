"""Elementwise operations: functions of the enumeration, comparisons, choices and casts."""

from __future__ import annotations

from typing import Any

from workbench.compat.aitemplate.element_types import normalized, type_of
from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops.func_enum import MEANINGS, FuncEnum
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value


class OfOperands(Operator):
    """An operation whose operands are tensors or numbers; a number has the type of the tensors."""

    def __call__(self, *operands: Any) -> Tensor:
        """Add it to a graph.

        Raises:
            ValueError: No operand is a tensor, or one is neither a tensor nor a number.
        """
        self._attrs["args"] = operands
        tensors = [o for o in operands if isinstance(o, Tensor)]
        if not tensors:
            raise self.fail("no operand is a Tensor")
        for k, o in enumerate(operands):
            if not isinstance(o, Tensor | int | float):
                raise self.fail(f"operand {k} is {o!r}; expected a Tensor or a number")
        kinds = {t.dtype() for t in tensors[self.untyped :]}
        if len(kinds) > 1:
            raise self.fail(f"operands of {', '.join(sorted(kinds))}; expected one dtype")
        return self.record(*tensors)

    untyped = 0
    """The number of first operands whose type is their own."""

    def operands(self, values: tuple[Value, ...]) -> list[Value]:
        """The values of the operands, numbers among them."""
        rest, like = iter(values), values[-1]
        given = self._attrs["args"]
        return [
            next(rest) if isinstance(o, Tensor) else like.builder.value(o, like.dtype)
            for o in given
        ]


class elementwise(OfOperands):  # noqa: N801 - AITemplate's name
    """A function of each element, of operands that are broadcast by NumPy's rules."""

    def __init__(self, func_enum: FuncEnum) -> None:
        """An operation for a function.

        Raises:
            ValueError: It is not a `FuncEnum`.
        """
        super().__init__(func=func_enum)
        if not isinstance(func_enum, FuncEnum):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise self.fail(f"{func_enum!r} is not a FuncEnum")

    def __call__(self, *operands: Any) -> Tensor:
        """The function of tensors and numbers.

        Raises:
            ValueError: It takes another number of operands, or `OfOperands` refuses them.
        """
        least, most, _ = MEANINGS[self._attrs["func"]]
        if not least <= len(operands) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            name = self._attrs["func"].name
            raise self.fail(f"{name} of {len(operands)} operands; expected {wanted}")
        return super().__call__(*operands)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The function, in the type of the operands."""
        found = MEANINGS[self._attrs["func"]][2](*self._typed(values))
        return found.astype(values[0].dtype)

    def _typed(self, values: tuple[Value, ...]) -> list[Any]:
        """The operands, where numbers that are no operand of an operator stay numbers."""
        if len(self._attrs["args"]) == 2 and self._attrs["func"] not in _SCALED:
            return list(self.operands(values))
        rest = iter(values)
        return [next(rest) if isinstance(o, Tensor) else float(o) for o in self._attrs["args"]]


_SCALED = (FuncEnum.LRELU, FuncEnum.ELU, FuncEnum.CELU, FuncEnum.SOFTPLUS, FuncEnum.NAN_TO_NUM)


class clamp(Operator):  # noqa: N801 - AITemplate's name
    """Elements limited from below and from above."""

    def __call__(
        self, x: Tensor, min_value: float | None = None, max_value: float | None = None
    ) -> Tensor:
        """Limit a tensor's elements.

        Raises:
            ValueError: There is no limit.
        """
        self._attrs.update(min_value=min_value, max_value=max_value)
        if min_value is None and max_value is None:
            raise self.fail("min_value and max_value are None; expected one of them at least")
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements within the limits."""
        x, low, high = values[0], self._attrs["min_value"], self._attrs["max_value"]
        found = x if low is None else x.maximum(low)
        return (found if high is None else found.minimum(high)).astype(x.dtype)


class Relation(OfOperands):
    """A comparison of elements; the result is bool."""

    def __call__(self, *operands: Any) -> Tensor:
        """Compare two operands.

        Raises:
            ValueError: There are not two, or `OfOperands` refuses them.
        """
        if len(operands) != 2:
            raise self.fail(f"{len(operands)} operands; expected 2")
        return super().__call__(*operands)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The comparison that the name says."""
        a, b = self.operands(values)
        return getattr(a, f"__{self.name}__")(b)


class gt(Relation):  # noqa: N801 - AITemplate's name
    """Whether an element is greater."""


class ge(Relation):  # noqa: N801 - AITemplate's name
    """Whether an element is greater or equal."""


class lt(Relation):  # noqa: N801 - AITemplate's name
    """Whether an element is less."""


class le(Relation):  # noqa: N801 - AITemplate's name
    """Whether an element is less or equal."""


class eq(Relation):  # noqa: N801 - AITemplate's name
    """Whether elements are equal."""


class ne(Relation):  # noqa: N801 - AITemplate's name
    """Whether elements differ."""


class where(OfOperands):  # noqa: N801 - AITemplate's name
    """One operand where a condition holds, and another elsewhere."""

    untyped = 1

    def __call__(self, *operands: Any, dtype: str | None = None) -> Tensor:
        """Choose between two operands.

        Args:
            *operands: A tensor of bool, and two tensors or numbers.
            dtype: The element type if both are numbers; float16 by default.

        Raises:
            ValueError: There are not three, the condition is not a bool tensor, or both types differ.
        """
        if len(operands) != 3 or not isinstance(operands[0], Tensor):
            raise self.fail(f"operands {operands}; expected a condition and two others")
        if operands[0].dtype() != "bool":
            raise self.fail(f"the condition is {operands[0]}; expected bool")
        self._attrs["dtype"] = normalized(dtype or "float16")
        return super().__call__(*operands)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """NumPy's where."""
        typed = values[1:]
        type = typed[0].dtype if typed else type_of(self._attrs["dtype"])
        rest = iter(values)
        c, a, b = (
            next(rest) if isinstance(o, Tensor) else at.builder.value(o, type)
            for o in self._attrs["args"]
        )
        return c.apply("where", a, b)


class cast(Operator):  # noqa: N801 - AITemplate's name
    """Elements in another type."""

    def __call__(self, x: Tensor, dtype: str) -> Tensor:
        """Convert a tensor.

        Raises:
            ValueError: There is no such element type.
        """
        self._attrs["cast_dtype"] = normalized(dtype)
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The elements converted."""
        return values[0].astype(type_of(self._attrs["cast_dtype"]))


class identity(Operator):  # noqa: N801 - AITemplate's name
    """The same tensor under another name."""

    def __call__(self, x: Tensor) -> Tensor:
        """A tensor of the same elements."""
        return self.record(x)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The value."""
        return values[0].apply("identity")
