"""Compares models that NNSmith drew with onnxruntime: ``python -m tests.onnx.nnsmith.compare FOLDER``.

onnxruntime runs without its optimizer. A difference counts unless it can be a rounding: the tolerance of an
element grows by what float64, and inputs that differ in their last bits, change of it on the reference.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

import workbench as wb
from tests.onnx.against_onnxruntime.agreement import Unsupported, peer
from workbench.compiler.ir.dtypes import DType

SHARE = 1e-4
"""The tolerance, relative to the largest element, or 20 roundings of the narrowest float if that is more."""
SHAKEN = 2e-6
TIES = 0.01
"""The share of integers and bools that may differ, where floats that are nearly equal are compared."""
JUMPS = {"ArgMax", "ArgMin", "Cast", "Ceil", "Equal", "Floor", "Greater", "Less", "Round"}
UNSUPPORTED = "onnxruntime has no kernel"


@dataclass(frozen=True)
class Sure:
    """An output of the reference, and by how much it may be off, element by element."""

    value: np.ndarray
    slack: np.ndarray
    """Infinite where inputs that differ in their last bits make another integer, NaN or infinity."""


def sure(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Sure]:
    """The outputs of the reference."""
    build = wb.compile(wb.parse_onnx(model), "ref")
    typed, others = build.run(inputs).outputs, [build.run(inputs, precision="float64").outputs]
    for sign in (1, -1):
        arrays = {n: _shaken(a, sign) for n, a in inputs.items()}
        others.append(
            wb.compile(wb.parse_onnx(_with_shaken_weights(model, sign)), "ref").run(arrays).outputs
        )
    unknown = _has_nan(build, inputs)
    return [
        _sure(np.asarray(v), [np.asarray(o[k]) for o in others], unknown)
        for k, v in enumerate(typed)
    ]


def _shaken(array: np.ndarray, sign: int) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    by = max(SHAKEN, float(np.finfo(array.dtype).eps))
    return (array * (1 + sign * by)).astype(array.dtype)


def _with_shaken_weights(model: onnx.ModelProto, sign: int) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        array = _shaken(numpy_helper.to_array(tensor), sign)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return made


def _has_nan(build: wb.Build, inputs: dict[str, np.ndarray]) -> bool:
    """Whether a value has NaN: which integer becomes of it, and whether it is a maximum, is not defined."""
    seen: list[bool] = []

    def look(_: object, value: object, __: object) -> None:
        floats = isinstance(value, np.ndarray) and DType.of(value.dtype).is_float
        seen.append(floats and bool(np.isnan(value.astype(np.float64)).any()))

    build.runner.run(inputs, hook=look)
    return any(seen)


def _sure(value: np.ndarray, others: list[np.ndarray], unknown: bool) -> Sure:
    a, is_float = value.astype(np.float64), DType.of(value.dtype).is_float
    slack = np.full(value.shape, np.inf if unknown and not is_float else 0)
    for other in others:
        if other.shape != value.shape:
            return Sure(value, np.full(value.shape, np.inf))
        b = other.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0, np.abs(a - b) if is_float else np.inf)
        slack = np.maximum(slack, np.where(np.isnan(apart), np.inf, 16 * apart))
    return Sure(value, slack)


def problem(found: np.ndarray, wanted: np.ndarray, known: Sure, eps: float) -> str:
    """The elements that differ by more than a rounding; empty if none do."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{list(found.shape)} for {wanted.dtype}{list(wanted.shape)}"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.abs(b[np.isfinite(b)]).max(initial=0)
    share = max(SHARE, 20 * eps) if DType.of(found.dtype).is_float else 0
    near = np.abs(a - b) <= share * scale + known.slack
    bad = ~(same | near | np.isinf(known.slack))
    if not bad.any() or (not share and bad.mean() <= TIES):
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{bad.sum()} of {bad.size} elements, first {list(at)}: {found[at]} for {wanted[at]}"


def first_problem(
    found: Sequence[Any], wanted: Sequence[Any], known: Sequence[Sure], eps: float
) -> str:
    """The first problem of the outputs; empty if there is none."""
    triples = zip(map(np.asarray, found), map(np.asarray, wanted), known, strict=True)
    return next((p for p in (problem(*t, eps) for t in triples) if p), "")


def is_rounding(model: onnx.ModelProto, inputs: dict[str, np.ndarray], eps: float) -> bool:
    """Whether the first value that the reference computes otherwise is, say, of a comparison.

    Its operands then differ by no more than a rounding, of which it makes a large difference. Or no value
    differs: onnxruntime, too, computes otherwise when it has to round every value to half.
    """
    whole = onnx.shape_inference.infer_shapes(model)
    known = {v.name for v in whole.graph.output}
    whole.graph.output.extend(v for v in whole.graph.value_info if v.name not in known)
    names = [v.name for v in whole.graph.output]
    outputs = wb.compile(wb.parse_onnx(whole), "ref").run(inputs).outputs
    pairs = zip(map(np.asarray, outputs), map(np.asarray, peer(whole, inputs)), strict=True)
    differ = {
        name
        for name, (found, wanted) in zip(names, pairs, strict=True)
        if problem(found, wanted, Sure(found, np.zeros(found.shape)), eps)
    }
    first = next((n for n in whole.graph.node if differ.intersection(n.output)), None)
    return first is None or first.op_type in JUMPS


def _epsilon(program: wb.Program) -> float:
    types = {i.shape.type for i in program.instructions if i.shape.is_tensor}
    infos: list[Any] = [ml_dtypes.finfo(t.numpy) for t in types if t.is_float]
    return max((float(i.eps) for i in infos), default=0.0)


def compared(path: Path, targets: list[str]) -> dict[str, str]:
    """The problem of each target with one model, empty if there is none."""
    model = onnx.load(path)
    inputs = dict(np.load(path.with_suffix(".npz")))
    try:
        wanted = peer(model, inputs)
    except Unsupported:
        return dict.fromkeys(targets, UNSUPPORTED)
    try:
        known, eps = sure(model, inputs), _epsilon(wb.parse_onnx(model))
        values = [k.value for k in known]
        if first_problem(values, wanted, known, eps) and is_rounding(model, inputs, eps):
            wanted = values
    except Exception as error:  # whatever it is, it is a problem
        return dict.fromkeys(targets, f"on the reference, {_in_words(error)}")
    found: dict[str, str] = {}
    for target in targets:
        try:
            build = wb.compile(wb.parse_onnx(model), target, record=False)
            found[target] = first_problem(build.run(inputs).outputs, wanted, known, eps)
        except Exception as error:
            found[target] = _in_words(error)
    return found


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main() -> int:
    """Print every problem, and the counts; 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", default="ref,cpu,gpu", help="with commas between")
    options = parser.parse_args()
    targets, counts = options.targets.split(","), Counter[str]()
    for path in sorted(options.folder.glob("*.onnx"), key=lambda p: int(p.stem)):
        with np.errstate(all="ignore"):
            for target, text in compared(path, targets).items():
                differs = text not in {"", UNSUPPORTED}
                counts[f"{target}: {'differ' if differs else text or 'agree'}"] += 1
                if differs:
                    print(f"{path.name} on {target}: {text}", flush=True)
    for text, count in sorted(counts.items()):
        print(f"{text}: {count}")
    return int(any("differ" in text for text in counts))


if __name__ == "__main__":
    sys.exit(main())
