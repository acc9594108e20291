"""The models that are put under load: of a build, a program or a file, for each size of batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from workbench.compat.aitemplate.model import Model
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.builds.models import read_model
from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape


@dataclass(frozen=True)
class Subject:
    """A model with the batch that it is run with."""

    model: Model
    batch: int


def subjects_of(
    given: Any, batches: Sequence[int], stack: ExitStack, options: Mapping[str, Any]
) -> list[Subject]:
    """The models to measure.

    Args:
        given: A build, a model, a program, a path, or several of them by batch.
        batches: Lengths of the first axis of inputs, where it is a range; empty for the model's own.
        stack: Closes the models that are made here.
        options: Those of ``compile``.

    Raises:
        InputError: It is something else, or a batch does not fit.
    """
    if isinstance(given, Mapping):
        if batches:
            raise InputError("batches: models are given by batch already; leave batches out")
        by_batch = cast("Mapping[int, Any]", given)
        return [Subject(_model(m, stack, options), int(b)) for b, m in by_batch.items()]
    model = _model(given, stack, options)
    for batch in batches:
        _expect_fits(model, batch)
    return [Subject(model, b) for b in (batches or [_batch_of(model)])]


def _model(given: Any, stack: ExitStack, options: Mapping[str, Any]) -> Model:
    if isinstance(given, Model):
        return given
    if isinstance(given, str | Path):
        given = read_model(given)
    if isinstance(given, Program):
        settings: dict[str, Any] = {"target": "auto", "record": False, **options}
        given = compile(given, **settings)
    elif options:
        raise InputError(
            f"{next(iter(options))}: the model is compiled already; options are for programs"
        )
    if not isinstance(given, Build):
        raise InputError(
            "expected a build, a model, a program or a path, or such by batch; "
            f"found {type(given).__name__}"
        )
    return stack.enter_context(Model.of_build(given))


def _shapes(model: Model) -> dict[str, Shape]:
    shapes = model.build.program.parameters
    return {n: shapes[n] for n in model.get_input_name_to_index_map()}


def _has_batches(shape: Shape) -> bool:
    return bool(shape.dims) and shape.dims[0].min != shape.dims[0].max  # pyright: ignore[reportOptionalSubscript]


def _batch_of(model: Model) -> int:
    """The length of the inputs' first axis, if they have the same; else 1."""
    found = {s.dims[0].min if s.dims else s.lens[0] for s in _shapes(model).values() if s.ndim}
    return max(1, found.pop()) if len(found) == 1 else 1


def _expect_fits(model: Model, batch: int) -> None:
    shapes = _shapes(model)
    if not any(_has_batches(s) for s in shapes.values()):
        raise InputError(
            f"batches: no input's first axis is a range, so {batch} cannot be chosen; import the model with "
            "a range there, or give models by batch, as {1: build, 8: other}"
        )
    for name, shape in shapes.items():
        if (
            shape.dims
            and _has_batches(shape)
            and not shape.dims[0].min <= batch <= shape.dims[0].max
        ):
            first = shape.dims[0]
            raise InputError(
                f"batches: input {name!r} has lengths from {first.min} to {first.max} there, found {batch}"
            )


def inputs_of(subject: Subject, given: Mapping[str, Any] | None, seed: int) -> dict[str, Array]:
    """An array for each input: a given one, or a generated one of this batch.

    Raises:
        InputError: An input is unknown, or cannot be generated.
    """
    shapes = _shapes(subject.model)
    given = given or {}
    for name in given:
        if name not in shapes:
            raise InputError(f"no input is called {name!r}; inputs are {', '.join(shapes)}")
    rest = Program("inputs")
    for name, shape in shapes.items():
        if name not in given:
            rest.main.add_parameter(name, _of_batch(shape, subject.batch))
    made = {**generated_inputs(rest, seed), **given}
    return {n: np.ascontiguousarray(made[n]) for n in shapes}


def _of_batch(shape: Shape, batch: int) -> Shape:
    if shape.dims is None:
        return shape
    lens = [(d.optimals or (d.min,))[0] for d in shape.dims]
    return Shape(shape.type, [batch if _has_batches(shape) else lens[0], *lens[1:]])
