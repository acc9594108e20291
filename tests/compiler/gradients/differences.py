"""Gradients held against central finite differences in float64, in a random direction for each value.

The difference quotient in a direction d, with a random weight v for each element of each output, is
v·(f(x + h·d) - f(x - h·d)) / 2h. It has to equal the sum of d times the gradient that ``wb.gradient`` gives
where v is the gradient of the outputs. Both errors of the quotient, h² and 1e-16 / h, are below the
tolerance for values of moderate size.

Where a function has a kink (0 for ``abs``, equal operands for ``max``, a rounded number for ``floor``), no
quotient is the gradient. So operands are moved off such places: `moved` pulls the elements of a sample
towards their mean by a few per cent, a random amount that is much more than h and leaves them in their range.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import workbench as wb
from workbench.compiler.ir.program import Program
from workbench.compiler.run.reference import Interpreter

STEP = 1e-6
TOLERANCE = 2e-6


def moved(x: np.ndarray, seed: int) -> np.ndarray:
    """Float64 elements near those of an array, all distinct, and within their range."""
    wide = x.astype(np.float64)
    if not wide.size:
        return wide
    pulled = np.random.default_rng(seed).uniform(0.02, 0.06, wide.shape)
    middle = wide.mean()
    if np.ptp(wide) < 1e-3:
        return wide * (1 + pulled)
    return wide + (middle - wide) * pulled + np.ptp(wide) * (pulled - 0.04) * 1e-3


def check_gradient(
    program: Program,
    inputs: Mapping[str, Any],
    wrt: Any = None,
    together: bool = False,
    **options: Any,
) -> Program:
    """Hold the gradient of a program against differences; returns the gradient.

    Each value gets its own direction; ``together`` moves all of them at once, for programs with many.
    """
    made = wb.gradient(program, wrt=wrt, **options)
    random = np.random.default_rng(7)
    weights = {n: random.standard_normal(s.lens) for n, s in made.parameters.items()
               if n not in program.parameters}  # fmt: skip
    typed = {n: w.astype(made.parameters[n].type.numpy) for n, w in weights.items()}
    found = Interpreter(made, float64=True).run({**inputs, **typed})
    count = len(program.outputs)
    names = [n.removeprefix("grad_") for n in made.output_names[count:]]
    gradients = dict(zip(names, found[count:], strict=True))
    for group in [names] if together else [[n] for n in names]:
        directions = {n: random.standard_normal(inputs[n].shape) for n in group}
        wanted = _quotient(program, inputs, directions, made, typed)
        parts = [directions[n] * gradients[n] for n in group]
        mine = sum(float(np.sum(p)) for p in parts)
        size = 1 + sum(float(np.sum(np.abs(p))) for p in parts) + abs(wanted)
        assert all(gradients[n].shape == inputs[n].shape for n in group)
        said = f"{', '.join(group)}: {mine}, by differences {wanted}"
        assert abs(mine - wanted) <= TOLERANCE * size, said
    return made


def _quotient(
    program: Program,
    inputs: Mapping[str, Any],
    directions: Mapping[str, np.ndarray],
    made: Program,
    weights: Mapping[str, np.ndarray],
) -> float:
    """The difference quotient of the weighted sum of the outputs."""
    run = Interpreter(program, float64=True).run
    moves = [{n: inputs[n] + h * d for n, d in directions.items()} for h in (STEP, -STEP)]
    both = [run({**inputs, **m}) for m in moves]
    names = made.output_names
    total = 0.0
    for k, (up, down) in enumerate(zip(*both, strict=True)):
        seed = f"grad_{names[k]}"
        if seed not in weights and not (_is_float(up) and prod(np.shape(up)) == 1):
            continue
        weight = weights.get(seed, np.float64(1))
        total += float(np.sum(weight * (np.asarray(up, np.float64) - down)))
    return total / (2 * STEP)


def _is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind == "f"
