"""Sequences of different lengths in one batch: shifting them, and selecting their last states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Operation,
    Sample,
    expect_count,
    expect_static,
    operation,
)
from workbench.compiler.ir.ranges import expect
from workbench.compiler.ir.sampling import noise
from workbench.compiler.ir.shape import Shape

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module


class Direction(StrEnum):
    """The order of steps; bidirectional is forward and reverse, side by side."""

    FORWARD = "forward"
    REVERSE = "reverse"
    BIDIRECTIONAL = "bidirectional"

    @property
    def directions(self) -> int:
        """The number of directions."""
        return 2 if self is Direction.BIDIRECTIONAL else 1

    def reverses(self, index: int) -> bool:
        """Whether the direction with this index runs from the last step to the first."""
        return self is Direction.REVERSE or index == 1


def lengths(op: Operation, lens: Array, most: int) -> Array:
    """The lengths of the sequences of a batch.

    Raises:
        EvaluationError: They are not integers, or one is negative or greater than the number of steps.
    """
    if lens.dtype.kind not in "iu":
        raise EvaluationError(f"{op.name}: the lengths are of type {lens.dtype}; expected integers")
    wrong = (lens < 0) | (lens > most)
    if wrong.any():
        found = lens[wrong].flat[0]
        raise EvaluationError(f"{op.name}: a sequence of {found} steps; expected 0 to {most}")
    return lens.astype(np.int64)


def _expect_lens(op: Operation, inputs: Sequence[Shape], rank: int, batch: int) -> None:
    expect_count(op, inputs, 2)
    expect_static(op, inputs)
    data, lens = inputs
    fits = data.ndim >= rank and lens.type.is_integral and lens.lens == data.lens[batch : batch + 1]
    expect(
        op,
        fits,
        f"inputs {data} and {lens}; expected at least {rank} dimensions, "
        f"and an integer for each element of axis {batch}",
    )


@operation
class RnnVarSlShiftSequence(Operation):
    """Sequences ``[S, B, …]`` of different lengths, shifted to the end; zeros come before them."""

    name = "rnn_var_sl_shift_sequence"

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the first input, standard."""
        _expect_lens(self, inputs, 2, 1)
        return inputs[0].as_standard()

    def compute(self, *inputs: Any) -> Any:
        """Each sequence shifted by its number of missing steps."""
        x: Array = inputs[0]
        lens = lengths(self, inputs[1], len(x))
        result = np.zeros_like(x, order="C")
        for b, n in enumerate(lens):
            result[len(x) - n :, b] = x[:n, b]
        return result

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """None, some and all of the steps."""
        yield cls(), [noise(5, 3, 2), np.array([0, 3, 5], np.int32)]
        yield cls(), [noise(2, 4, type=np.float16), np.array([1, 2, 1, 0])]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g shifted back to the first steps."""
        x, lens = operands
        rows = given.reshape((x.shape[0], 1, x.shape[1], -1))
        back = rows.rnn_var_sl_shift_output(lens, direction=Direction.REVERSE)
        return [back.reshape(x.shape), None]


@operation
class RnnVarSlShiftOutput(Operation):
    """Hidden states ``[S, D, B, H]`` with zeros beyond each end; reverse ones are shifted to the front."""

    name = "rnn_var_sl_shift_output"
    output_name: str = "hidden_states"
    direction: Direction = Direction.FORWARD

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the first input, standard."""
        _expect_lens(self, inputs, 4, 2)
        return inputs[0].as_standard()

    def compute(self, *inputs: Any) -> Any:
        """The first states of the forward direction, the last ones of the reverse direction."""
        x: Array = inputs[0]
        lens = lengths(self, inputs[1], len(x))
        result = np.zeros_like(x, order="C")
        for d in range(x.shape[1]):
            for b, n in enumerate(lens):
                start = len(x) - n if self.direction.reverses(d) else 0
                result[:n, d, b] = x[start : start + n, d, b]
        return result

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The directions."""
        lens = np.array([0, 3, 5], np.int32)
        for direction in Direction:
            yield cls(direction=direction), [noise(5, direction.directions, 3, 2), lens]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g where there are steps; of reverse directions shifted back to the last steps."""
        lens, parts = operands[1], []
        for d in range(given.shape[1]):
            part = given.slice(axes=(1,), starts=(d,), ends=(d + 1,))
            if self.direction.reverses(d):
                back = part.squeeze(axes=(1,)).rnn_var_sl_shift_sequence(lens)
                parts.append(back.unsqueeze(axes=(1,)))
            else:
                parts.append(part.rnn_var_sl_shift_output(lens))
        return [parts[0].concat(*parts[1:], axis=1), None]


@operation
class RnnVarSlLastOutput(Operation):
    """The last of the hidden states ``[S, D, B, H]`` of each sequence; in reverse, the first."""

    name = "rnn_var_sl_last_output"
    direction: Direction = Direction.FORWARD

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """``[D, B, H]``: the first axis is removed."""
        _expect_lens(self, inputs, 4, 2)
        return Shape(inputs[0].type, inputs[0].lens[1:])

    def compute(self, *inputs: Any) -> Any:
        """A state for each direction and sequence; 0 for an empty sequence."""
        x: Array = inputs[0]
        lens = lengths(self, inputs[1], len(x))
        result = np.zeros(x.shape[1:], x.dtype)
        for d in range(x.shape[1]):
            for b in np.flatnonzero(lens):
                result[d, b] = x[0 if self.direction.reverses(d) else lens[b] - 1, d, b]
        return result

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """The directions."""
        lens = np.array([0, 3, 5], np.int32)
        for direction in Direction:
            yield cls(direction=direction), [noise(5, direction.directions, 3, 2), lens]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g at the last step of each sequence, or the first in reverse."""
        x, lens = operands
        builder, lens = given.builder, lens.astype("int64").reshape((1, 1, -1, 1))
        reverse = np.array([self.direction.reverses(d) for d in range(x.shape[1])])
        front = builder.constant(reverse.reshape(1, -1, 1, 1))
        last = builder.apply("where", front, lens.minimum(1) - 1, lens - 1)
        steps = builder.constant(np.arange(x.shape[0]).reshape(-1, 1, 1, 1))
        rows = given.reshape((1, *given.shape)).broadcast_to(x.shape)
        return [rows.where_true((steps == last).broadcast_to(x.shape)), None]
