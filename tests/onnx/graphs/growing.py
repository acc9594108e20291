"""A model that grows node by node, with what is known of each value: its type, lens, bounds and error.

Two right programs may round differently, and a comparison or a cast makes a rounding a different result. So
each value has a grid, a power of two of which all its elements are multiples, as long as its type can hold
every multiple within its bounds. Sums and products of such values are the same in any order, and have to
be equal. All other floats have a bound of the error that rounding can have made, which the bounds of
the operators carry on, and are never compared, cast or sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.onnx.against_onnxruntime.kernels import kernel_types

OPSET = 21
FLOATS = tuple(map(np.dtype, ("float32", "float64", "float16")))
INTEGERS = tuple(map(np.dtype, ("int64", "int32")))
NUMBERS = FLOATS + INTEGERS
SMALL = tuple(map(np.dtype, ("int8", "uint8")))
BOOL = np.dtype(bool)
MOST_ELEMENTS = 2000
LARGEST = 1e4
"""The largest magnitude: a float16 holds it."""
WORST = 0.02
"""The largest error, as a share of the largest magnitude."""

Lens = tuple[int, ...]
Rule = Callable[["Model"], None]
STEPS: list[Rule] = []


def step(rule: Rule) -> Rule:
    """Declare a way in which models grow: it adds nodes, or returns if no value fits."""
    STEPS.append(rule)
    return rule


@dataclass(frozen=True)
class Known:
    """The facts of a result: a value before it has a name."""

    type: np.dtype
    lens: Lens
    low: float
    high: float
    grid: float = 0
    """All elements are multiples of this power of two; 0 if they are rounded."""
    error: float = 0
    """The largest difference between two right results; 0 where there is a grid."""

    @property
    def rank(self) -> int:
        return len(self.lens)

    @property
    def size(self) -> int:
        return math.prod(self.lens)

    @property
    def bound(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Value(Known):
    """A tensor of the model."""

    name: str = ""


def like(x: Value, **changes: Any) -> Known:
    """The facts of a result that has some of a value's properties."""
    return Known(**{f.name: changes.get(f.name, getattr(x, f.name)) for f in fields(Known)})


def rounded(known: Known, times: int = 1) -> Known | None:
    """The result with the roundings that its type makes; None if it is too large or too inexact."""
    bound = known.bound
    if known.size > MOST_ELEMENTS or known.rank > 5:
        return None
    if known.type.kind in "iu":
        info = np.iinfo(known.type)
        fits = info.min <= known.low and known.high <= info.max and known.grid >= 1
        return known if fits else None
    if known.type == BOOL:
        return known
    info = np.finfo(known.type)
    if bound > LARGEST:
        return None
    if known.grid and bound <= known.grid * 2 ** (info.nmant + 1) and known.grid > info.tiny:
        return known
    error = known.error + float(info.eps) * max(bound, float(info.tiny)) * times
    if error > WORST * max(bound, 1e-2):
        return None
    return Known(known.type, known.lens, known.low - error, known.high + error, 0, error)


@cache
def has_kernel(op: str, types: tuple[str | None, ...]) -> bool:
    """Whether onnxruntime computes an operator of inputs with these types; None stands for any."""
    formal = onnx.defs.get_schema(op, OPSET).inputs
    asked = [(formal[min(k, len(formal) - 1)].type_str, t) for k, t in enumerate(types) if t]
    return any(
        all(t in taken.get(v, [t]) for v, t in _named(asked)) for taken in kernel_types(op, OPSET)
    )


def _named(asked: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (variable, {"float32": "float", "float64": "double"}.get(t, t)) for variable, t in asked
    ]


@dataclass
class Model:
    """A valid model of ONNX, and inputs for it."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    # Choices

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def value(self, fits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """One of the values that fit, or None; later ones come first, so that models grow deep."""
        found = [v for v in reversed(self.values) if fits(v)]
        return self.one_of(found) if found else None

    def image(self) -> Value:
        """A float of rank 3 or 4 that has elements; an input if there is none."""
        found = self.value(lambda v: v.rank in (3, 4) and v.type in FLOATS and v.size > 0)
        if found is None:
            channels, *lens = (self.integer(1, 5) for _ in range(self.integer(2, 3)))
            found = self.given(self.one_of(FLOATS), (self.integer(1, 2), channels, *lens), True)
            self.values.append(found)
        return found

    def axes(self, x: Value) -> tuple[int, ...]:
        """Some axes of a value, in any order, counted from either end."""
        chosen = self.draw(st.lists(st.integers(0, x.rank - 1), unique=True, min_size=1))
        return tuple(a - x.rank if self.flag() else a for a in chosen)

    # Values

    def constant(self, array: Any, type: Any = np.int64) -> str:
        """The name of an initializer."""
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array, type), name))
        return name

    def numbers(self, type: np.dtype, lens: Lens, low: int = -4, high: int = 4) -> np.ndarray:
        """Small multiples of a half for floats, else small integers."""
        random = np.random.default_rng(self.integer(0, 99))
        if type == BOOL:
            return np.asarray(random.random(lens) < 0.5)
        low = max(low, 0) if type.kind == "u" else low
        scale = 2 if type.kind == "f" else 1
        return np.asarray(
            random.integers(low * scale, high * scale, lens, endpoint=True) / scale
        ).astype(type)

    def given(
        self, type: np.dtype, lens: Lens, is_input: bool, low: int = -4, high: int = 4
    ) -> Value:
        """An input or an initializer."""
        array = self.numbers(type, lens, low, high)
        if is_input:
            name = self.name()
            self.inputs[name] = array
        else:
            name = self.constant(array, type)
        low = 0 if type == BOOL or type.kind == "u" else low
        high = 1 if type == BOOL else high
        return Value(type, lens, low, high, 0.5 if type.kind == "f" else 1, name=name)

    def add(
        self,
        op: str,
        inputs: Sequence[Value | str],
        *results: Known,
        times: int = 1,
        **attributes: Any,
    ) -> None:
        """A node, if what it computes is known to stay within bounds; its results are values from now on.

        Args:
            op: The operator.
            inputs: Values, or names of initializers; an empty name leaves one out.
            results: What is known of each output before rounding.
            times: How many roundings an element of the results takes.
            attributes: Of the node.
        """
        known = [rounded(r, times) for r in results]
        types = tuple(None if isinstance(x, str) else x.type.name for x in inputs)
        if None in known or not has_kernel(op, types):
            return
        made = [Value(**vars(k), name=self.name()) for k in known if k]
        names = [x if isinstance(x, str) else x.name for x in inputs]
        self.nodes.append(helper.make_node(op, names, [v.name for v in made], **attributes))
        self.values += made

    def proto(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        """The model with these outputs."""

        def info(name: str, type: np.dtype, lens: Lens) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(type), lens)

        graph = helper.make_graph(
            self.nodes,
            "grown",
            [info(n, a.dtype, a.shape) for n, a in self.inputs.items()],
            [info(v.name, v.type, v.lens) for v in outputs],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
        )


def lens_of(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Lens:
    """Up to four short axes; one in some has no element."""
    lens = draw(st.lists(st.integers(1, 5), max_size=4).map(tuple))
    if lens and draw(st.integers(0, 19)) == 19:
        return (*lens[:-1], 0)
    return lens


@st.composite
def models(
    draw: Callable[[st.SearchStrategy[Any]], Any], most: int = 20
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[Value]]:
    """A model, its inputs, and what is known of its outputs."""
    model = Model(draw)
    for _ in range(draw(st.integers(1, 3))):
        type = model.one_of((*NUMBERS, BOOL, *SMALL))
        model.values.append(model.given(type, lens_of(draw), True))
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(STEPS))(model)
    made = [v for v in model.values if v.name not in model.inputs] or model.values
    outputs = draw(st.lists(st.sampled_from(made[::-1]), min_size=1, max_size=3, unique=True))
    if not model.nodes:
        outputs = [model.values[0]]
    if outputs[0].name in model.inputs:
        model.add("Identity", [outputs[0]], like(outputs[0]))
        outputs = [model.values[-1]]
    return model.proto(outputs), model.inputs, outputs
