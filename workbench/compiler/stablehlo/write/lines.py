"""Lines of MLIR: values, types, constants, and the operations that writers are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.stablehlo.tensors import NAMES

Lens = Sequence[int]

SHOWN = 8
"""Constants of more elements are written as bytes."""


class Tensor(NamedTuple):
    """A value of the module: its name, element type and lens."""

    name: str
    type: DType
    lens: tuple[int, ...]

    @property
    def text(self) -> str:
        """Its type in MLIR."""
        return type_text(self.type, self.lens)


def type_text(type: DType, lens: Lens) -> str:
    """A type of MLIR: ``tensor<2x3xf32>``.

    Raises:
        ModelError: StableHLO has no such element type.
    """
    if type not in NAMES:
        raise ModelError(f"elements of {type.type_name}, which StableHLO does not have")
    return f"tensor<{''.join(f'{n}x' for n in lens)}{NAMES[type]}>"


def quoted(text: str) -> str:
    """A string of MLIR: what is not printable ASCII is escaped by bytes."""
    escaped = "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in text.encode()
    )
    return f'"{escaped}"'


def ints(values: Lens) -> str:
    """A list of integers as an attribute."""
    listed = ", ".join(map(str, values))
    return f"array<i64: {listed}>" if listed else "array<i64>"


def elements_text(array: Array, type: DType) -> str:
    """The elements of a constant: one for all, a list, or bytes."""
    flat = array.reshape(-1)
    if flat.size and (flat.size == 1 or not any(array.strides) or _is_uniform(flat)):
        return f"dense<{_element(flat[0], type)}>"
    if type is DType.BOOL or flat.size <= SHOWN:
        if not flat.size:
            return "dense<>"
        words = [_element(v, type) for v in flat]
        return f"dense<{_nested(words, array.shape)}>"
    raw = np.ascontiguousarray(array)
    return (
        f'dense<"0x{raw.astype(raw.dtype.newbyteorder("<"), copy=False).tobytes().hex().upper()}">'
    )


def _is_uniform(flat: Array) -> bool:
    bits = flat.view(f"u{flat.itemsize}")
    return bool((bits == bits[0]).all())


def _nested(words: Sequence[str], lens: Lens) -> str:
    if not lens:
        return words[0]
    step = len(words) // lens[0] if lens[0] else 0
    parts = [_nested(words[k * step : (k + 1) * step], lens[1:]) for k in range(lens[0])]
    return f"[{', '.join(parts)}]"


def _element(value: np.generic, type: DType) -> str:
    if type is DType.BOOL:
        return "true" if value else "false"
    if not type.is_float:
        return str(int(value))
    number = float(value)
    if not np.isfinite(number):
        bits = np.asarray(value).reshape(1).view(f"u{type.size}")[0]
        return f"0x{int(bits):0{2 * type.size}X}"
    text = repr(float(str(value))) if type is DType.FLOAT else repr(number)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


class Lines:
    """The lines of a function or a region, and ways to add some."""

    def __init__(self, numbers: count[int] | None = None) -> None:
        """No lines; regions share the numbers of values with the function around them."""
        self.lines: list[str] = []
        self.location = ""
        self._numbers = count() if numbers is None else numbers

    def region(self) -> Lines:
        """Lines of a region inside these."""
        made = Lines(self._numbers)
        made.location = self.location
        return made

    def name(self) -> str:
        """A new name of a value."""
        return f"%{next(self._numbers)}"

    def several(
        self, op: str, inputs: Sequence[Tensor], outputs: Sequence[tuple[DType, Lens]],
        attributes: str = "", regions: Sequence[str] = (),
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Add an operation with several results."""
        base, many = self.name(), len(outputs)
        names = [base] if many == 1 else [f"{base}#{k}" for k in range(many)]
        made = tuple(Tensor(n, t, tuple(s)) for n, (t, s) in zip(names, outputs, strict=True))
        given, types = ", ".join(i.name for i in inputs), ", ".join(i.text for i in inputs)
        bound = f"{base}:{many} = " if many > 1 else f"{base} = " if many else ""
        properties = f" <{{{attributes}}}>" if attributes else ""
        bodies = f" ({', '.join(regions)})" if regions else ""
        results = ", ".join(t.text for t in made)
        where = f" loc({quoted(self.location)})" if self.location else ""
        self.lines.append(
            f'{bound}"{op}"({given}){properties}{bodies} : ({types}) -> ({results}){where}'
        )
        return made

    def add(
        self, op: str, *inputs: Tensor, type: DType | None = None, lens: Lens | None = None,
        attributes: str = "", regions: Sequence[str] = (),
    ) -> Tensor:  # fmt: skip
        """Add an operation of ``stablehlo`` or of the dialect named; its result is like the first operand."""
        name = op if "." in op else f"stablehlo.{op}"
        out = (
            type if type is not None else inputs[0].type,
            inputs[0].lens if lens is None else lens,
        )
        return self.several(name, inputs, [out], attributes, regions)[0]

    def constant(self, array: Array) -> Tensor:
        """Add a constant."""
        type = DType.of(array.dtype)
        text = f"{elements_text(array, type)} : {type_text(type, array.shape)}"
        return self.several("stablehlo.constant", [], [(type, array.shape)], f"value = {text}")[0]

    def full(self, type: DType, lens: Lens, value: float) -> Tensor:
        """Add a constant whose elements are all equal."""
        one = np.asarray(value).astype(type.numpy).reshape(())
        return self.constant(np.broadcast_to(one, tuple(lens)))

    def like(self, value: Tensor, number: float) -> Tensor:
        """Add a constant with the type and lens of a value."""
        return self.full(value.type, value.lens, number)

    # Operations that most writers need; they add nothing where they would change nothing

    def convert(self, value: Tensor, type: DType) -> Tensor:
        """The value in another element type."""
        if type is DType.BOOL and value.type is not DType.BOOL:
            return self.compare("NE", value, self.like(value, 0))
        return value if value.type is type else self.add("convert", value, type=type)

    def compare(self, direction: str, a: Tensor, b: Tensor) -> Tensor:
        """A comparison, as bools."""
        attribute = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        return self.add("compare", a, b, type=DType.BOOL, attributes=attribute)

    def select(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """``a`` where a condition holds, else ``b``."""
        return self.add("select", condition, a, b, type=a.type, lens=a.lens)

    def reshape(self, value: Tensor, lens: Lens) -> Tensor:
        """The elements in other lens."""
        return value if value.lens == tuple(lens) else self.add("reshape", value, lens=lens)

    def transpose(self, value: Tensor, order: Lens) -> Tensor:
        """The axes in another order."""
        if list(order) == list(range(len(order))):
            return value
        lens = [value.lens[a] for a in order]
        return self.add("transpose", value, lens=lens, attributes=f"permutation = {ints(order)}")

    def broadcast(self, value: Tensor, lens: Lens, dims: Lens | None = None) -> Tensor:
        """The value repeated to these lens; its axes are the last ones, or those given."""
        first = len(lens) - len(value.lens)
        axes = range(first, len(lens)) if dims is None else dims
        if value.lens == tuple(lens):
            return value
        attribute = f"broadcast_dimensions = {ints(list(axes))}"
        return self.add("broadcast_in_dim", value, lens=lens, attributes=attribute)

    def slice(self, value: Tensor, starts: Lens, ends: Lens, steps: Lens | None = None) -> Tensor:
        """The elements from starts to ends, with steps."""
        by = [1] * len(starts) if steps is None else steps
        lens = [-(-(e - s) // k) for s, e, k in zip(starts, ends, by, strict=True)]
        if tuple(lens) == value.lens:
            return value
        attributes = (
            f"start_indices = {ints(starts)}, limit_indices = {ints(ends)}, strides = {ints(by)}"
        )
        return self.add("slice", value, lens=lens, attributes=attributes)

    def pad(self, value: Tensor, low: Lens, high: Lens, number: float) -> Tensor:
        """The value with a number around it; negative pads crop."""
        if not any(low) and not any(high):
            return value
        lens = [n + a + b for n, a, b in zip(value.lens, low, high, strict=True)]
        attributes = (
            f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)}, "
            f"interior_padding = {ints([0] * len(lens))}"
        )
        fill = self.full(value.type, (), number)
        return self.add("pad", value, fill, lens=lens, attributes=attributes)

    def iota(self, type: DType, lens: Lens, axis: int) -> Tensor:
        """Whole numbers counted along an axis."""
        return self.several("stablehlo.iota", [], [(type, lens)], f"iota_dimension = {axis} : i64")[
            0
        ]

    def concat(self, values: Sequence[Tensor], axis: int) -> Tensor:
        """Values one after the other."""
        lens = list(values[0].lens)
        lens[axis] = sum(v.lens[axis] for v in values)
        attribute = f"dimension = {axis} : i64"
        return self.add("concatenate", *values, lens=lens, attributes=attribute)

    def body(
        self, types: Sequence[tuple[DType, Lens]], fill: Callable[..., Sequence[Tensor]]
    ) -> str:
        """The text of a region: ``fill`` gets its lines and arguments, and gives what it returns."""
        inner = self.region()
        given = [Tensor(self.name(), t, tuple(s)) for t, s in types]
        returned = fill(inner, *given)
        names, shapes = ", ".join(r.name for r in returned), ", ".join(r.text for r in returned)
        inner.lines.append(f'"stablehlo.return"({names}) : ({shapes}) -> ()')
        head = f"^bb0({', '.join(f'{g.name}: {g.text}' for g in given)}):" if given else ""
        lines = "\n".join(f"  {line}" for text in inner.lines for line in text.splitlines())
        return f"{{\n{head}\n{lines}\n}}" if head else f"{{\n{lines}\n}}"

    def reducer(self, op: str, type: DType) -> str:
        """A region that joins two elements by an operation; empty for the second element."""

        def fill(inner: Lines, a: Tensor, b: Tensor) -> Sequence[Tensor]:
            return [inner.add(op, a, b) if op else b]

        return self.body([(type, ()), (type, ())], fill)

    def reduce(
        self, value: Tensor, op: str, initial: float, axes: Lens, keep: bool = True
    ) -> Tensor:
        """Elements along axes joined by an operation; the axes stay, with length 1."""
        first = self.full(value.type, (), initial)
        lens = [n for a, n in enumerate(value.lens) if a not in set(axes)]
        found = self.add(
            "reduce", value, first, lens=lens, attributes=f"dimensions = {ints(list(axes))}",
            regions=[self.reducer(op, value.type)],
        )  # fmt: skip
        kept = [1 if a in set(axes) else n for a, n in enumerate(value.lens)]
        return self.reshape(found, kept) if keep else found
