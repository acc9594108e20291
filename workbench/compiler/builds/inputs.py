"""Generated inputs for parameters that have none."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.inputs import by_name, repeated

MAX_GENERATED_BYTES = 1 << 34
"""The largest generated input, in bytes."""


def generated_inputs(program: Program, seed: int = 0) -> dict[str, Any]:
    """An input for every parameter: normal floats, integers 0 or 1, dynamic lens at their minimum."""
    random = np.random.default_rng(seed)
    return {name: _generated(shape, random) for name, shape in program.parameters.items()}


def completed_inputs(
    program: Program, inputs: Mapping[str, Any] | None, seed: int = 0
) -> dict[str, Any]:
    """The inputs, with generated ones for missing parameters.

    Raises:
        InputError: They are not a mapping by name, or a missing one cannot be generated.
    """
    given = by_name(inputs)
    if all(name in given for name in program.main.parameters):
        return given
    return generated_inputs(program, seed) | given


def _generated(shape: Shape, random: np.random.Generator) -> Any:
    if shape.kind and shape.subs:
        made = [_generated(s, random) for s in shape.subs]
        return made[0] if shape.kind == "optional" else made * 2
    if shape.subs is not None:
        raise InputError(f"no input can be generated for the shape {shape}")
    lens = shape.lens if shape.dims is None else [(d.optimals or (d.min,))[0] for d in shape.dims]
    if prod(lens) * shape.type.size > MAX_GENERATED_BYTES:
        raise InputError(
            f"no input is generated for {shape}: over {MAX_GENERATED_BYTES:,} bytes; pass one"
        )
    if shape.type.is_float:
        made = random.standard_normal(lens, np.float32).astype(shape.type.numpy)
    else:
        made = random.integers(0, 2, lens).astype(shape.type.numpy)
    return repeated(made, shape)
