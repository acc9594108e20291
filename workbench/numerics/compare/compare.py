"""Compares builds, programs and dumps value by value: aligned by lineage, by names or by structure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from workbench.compiler.builds.build import PRECISIONS, VALUE_BYTES, Build, compile
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.numerics.compare.comparison import Comparison
from workbench.numerics.compare.report import Report
from workbench.numerics.compare.sides import as_program, side_of
from workbench.numerics.metrics.tolerances import Given, tolerances_of

Comparable: TypeAlias = Build | Program | str | Path
"""A build, a program, or the path of a model's file."""


def compare(
    build: Comparable,
    inputs: Mapping[str, Any] | Comparable | None = None,
    reference: Any = "ref",
    *,
    reference_precision: str = "float64",
    tolerance: Given = None,
    model: Any = None,
    seed: int = 0,
    budget: int = VALUE_BYTES,
    local: bool = False,
    progress: bool | None = None,
) -> Report:
    """Compare each value of a build with a reference, and find where the error comes from.

    The build runs unchanged: nothing is unfused or marked as an output, so the measured values are those of
    a normal run. If an error is larger than the rounding of its own kernel accounts for, a second run
    measures each kernel alone, on the reference's inputs.

    ``compare(a, b, inputs)`` is the same as ``compare(a, inputs, reference=b)``.

    Args:
        build: What to check: a build, or a program or a model's file, which runs on the target ``ref``.
        inputs: An array for each parameter, by name; omitted ones are generated from ``seed``.
        reference: The name of a target to build the same source for; another build or program, of the same
            source or of another one; a model's file; or arrays by the names of the model's tensors, also
            as a path to an ``.npz`` file; or ``"onnxruntime"``, which computes all tensors of the model; or
            the PyTorch module that the model was exported from, compared by the names of its submodules.
        reference_precision: ``float64`` computes the reference's floats in float64; or ``float32``.
        tolerance: Relative RMS beyond which a value counts as wrong; the default depends on the narrowest
            type that the build rounds to (docs/numbers.md). Or a mapping: by selectors as for ``keep``, by
            ``DType``, by ``"output:NAME"``, and by ``"*"`` for all others.
        model: For ``reference="onnxruntime"``, the model that it runs: a path, bytes or a ModelProto; by
            default the file that was given to compare.
        seed: Seed of the generated inputs.
        budget: Bytes of reference values that are kept in memory; others are in a temporary folder.
        local: Measure each kernel alone even if no error calls for it.
        progress: Show a progress bar; by default if the comparison takes longer than a second.

    Raises:
        OperationError: A build was not recorded, or the reference is none of these.
        InputError: An input does not fit its parameter; a named array does not fit its tensor.
        ModelError: A file cannot be read.
    """
    if reference_precision not in PRECISIONS:
        raise OperationError(
            f"unknown reference precision {reference_precision!r}; expected {' or '.join(PRECISIONS)}"
        )
    if isinstance(inputs, Build | Program | str | Path):
        inputs, reference = (None if reference == "ref" else reference), inputs
    if model is None and isinstance(build, str | Path):
        model = build
    subject = as_build(build)
    given = completed_inputs(subject.program, cast("Mapping[str, Any] | None", inputs), seed)
    subject = subject.specialised(given)
    float64 = PRECISIONS[reference_precision]
    side = side_of(reference, subject, given, float64, model)
    most, single = tolerances_of(subject.program, tolerance)
    return Comparison(subject, given, side, most, single, budget, local, progress).report()


def as_build(given: Comparable) -> Build:
    """A build as it is; a program or a model's file compiled for the reference."""
    if isinstance(given, Build):
        return given
    return compile(as_program(given), target="ref")
