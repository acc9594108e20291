"""Cases with ranges for dimensions, and what becomes of them: ``python -m tests.onnx.dynamic``."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from workbench.compat.onnx_backend import _declared
from workbench.compiler.errors import ModelError, RuntimeValueError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

Arrays = Mapping[str, np.ndarray]

LEVELS = ("every", "vectors fixed", "batch")
"""Which dimensions are ranges: all, those of inputs of two axes or more, or the first one of all."""


@dataclass(frozen=True)
class Made:
    """A program that was imported with ranges.

    Attributes:
        program: the program.
        level: which dimensions are ranges.
        fixed: inputs whose values it was imported with.
    """

    program: Program
    level: str
    fixed: Arrays


def ranges(arrays: Arrays, level: str) -> dict[str, list[Dim | int]]:
    """For each input its dimensions: from 1 to 3 more than it has, or fixed."""
    first = next((n for n, a in arrays.items() if a.ndim > 1), None)
    found: dict[str, list[Dim | int]] = {}
    for name, array in arrays.items():
        dims: list[Dim | int] = [Dim(min(1, n), n + 3) for n in array.shape]
        if level == "vectors fixed" and array.ndim == 1:
            dims = list(array.shape)
        elif level == "batch":
            dims = list(array.shape) if name != first else [dims[0], *array.shape[1:]]
        found[name] = dims
    return found


def imported(model: onnx.ModelProto, arrays: Arrays) -> Made:
    """The program of a model, with as many ranges as it takes.

    Raises:
        ModelError: It takes none; the error is that of ranges for every dimension.
    """
    error: ModelError | None = None
    for level in LEVELS:
        try:
            return _imported(model, arrays, level)
        except ModelError as found:
            error = error or found
    assert error is not None
    raise error


def _imported(model: onnx.ModelProto, arrays: Arrays, level: str) -> Made:
    fixed: dict[str, np.ndarray] = {}
    while True:
        dims = {k: v for k, v in ranges(arrays, level).items() if k not in fixed}
        try:
            program = parse_onnx(model, map_dyn_input_dims=dims, constant_inputs=fixed)
        except RuntimeValueError as error:
            fresh = set(error.inputs) - set(fixed)
            if not fresh:
                raise
            fixed |= {name: arrays[name] for name in fresh}
            continue
        return Made(program, level, fixed)


def run(made: Made, arrays: Arrays) -> list[Any]:
    """The outputs of a program for the arrays that a case has."""
    wanted = made.program.parameters
    given = {n: a.astype(wanted[n].type.numpy) for n, a in arrays.items() if n in wanted}
    return reference.run(made.program, given)


def is_tensors(model: onnx.ModelProto) -> bool:
    """Whether inputs and outputs are tensors of numbers."""
    values = [*model.graph.input, *model.graph.output]
    return all(
        v.type.WhichOneof("value") == "tensor_type"
        and v.type.tensor_type.elem_type != onnx.TensorProto.STRING
        for v in values
    )


def cases() -> Iterator[Any]:
    """The node cases of onnx's backend suite whose inputs and outputs are tensors of numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            if is_tensors(case.model):
                yield case


def arrays_of(case: Any) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """The inputs of a case by name, and its outputs."""
    given = {t.name for t in case.model.graph.initializer}
    names = [v.name for v in case.model.graph.input if v.name not in given]
    inputs, outputs = ([_array(v) for v in values] for values in case.data_sets[0])
    return dict(zip(names, inputs, strict=False)), outputs


def _array(value: Any) -> np.ndarray:
    is_array = isinstance(value, np.ndarray | np.generic)
    return np.asarray(value) if is_array else numpy_helper.to_array(value)


def check(case: Any) -> Made:
    """Import a case with ranges, run it, and compare."""
    arrays, wanted = arrays_of(case)
    made = imported(case.model, arrays)
    found = run(made, arrays)
    for have, want, output in zip(found, wanted, case.model.graph.output, strict=True):
        _compare(_declared(have, output), want, case)
    return made


def _compare(have: Any, want: np.ndarray, case: Any) -> None:
    assert have.shape == want.shape, f"lens {have.shape}; expected {want.shape}"
    loose = 2e-2 if want.dtype.name == "bfloat16" else 1e-3
    exact = [
        np.asarray(v).astype(np.float64) if v.dtype.kind not in "biufc" else v for v in (have, want)
    ]
    np.testing.assert_allclose(*exact, rtol=max(case.rtol, loose), atol=max(case.atol, 1e-6))


def counted(parts: Sequence[str] = ()) -> tuple[Counter[str], dict[str, str]]:
    """The number of cases that run with these dimensions as ranges; and the failures, with their errors."""
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for case in cases():
        if not all(part in case.name for part in parts):
            continue
        try:
            with np.errstate(all="ignore"):
                made = check(case)
        except Exception as error:  # whatever it fails with is what is counted
            failed[case.name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            counts[made.level + (", with values" if made.fixed else "")] += 1
    return counts, failed


def main() -> int:
    """Print how many cases run with ranges, by which dimensions these are, and what fails."""
    counts, failed = counted(sys.argv[1:])
    for name, error in failed.items():
        print(f"{name}: {error}"[:250])
    print(", ".join(f"{name}: {n}" for name, n in counts.most_common()), f"failed: {len(failed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
