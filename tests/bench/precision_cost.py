"""(p) Precision: the share of half that a search finds, and int8 beside onnxruntime's static quantisation.

Both are errors and shares, so they do not depend on the machine.
"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.bench import ours
from tests.bench.measure import Claim, Outcome
from tests.models.registry import MODELS

SEARCHED = "gpt2_small"
TRAINED = ("pplcnet_orient", "magika", "mtcnn_p", "blazeface128")
SUBJECTS = (SEARCHED, *TRAINED)
TOLERANCE, LEAST_SHARE = 1e-3, 0.8
WITHIN = 0.01
"""The relative RMS by which our int8 may be further from float than theirs."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001 - as others
    """The search on a decoder; on a trained model the errors of int8."""
    if not with_ours:
        return Outcome()
    model = MODELS[subject]
    run = _searched if subject == SEARCHED else _rounded
    return run(subject, model.path, model.inputs())


def _searched(subject: str, path: Path, inputs: Mapping[str, Any]) -> Outcome:
    """`wb.search_precision` with scopes as layers."""
    import workbench as wb

    program = ours.parse(path, inputs)
    began = time.process_time()
    found = wb.search_precision(
        program, inputs, TOLERANCE, by="scope", target="cpu", progress=False
    )
    spent = time.process_time() - began
    claims = (
        Claim("precision", subject, "share of flops in fp16", found.share, LEAST_SHARE, True, ""),
        Claim("precision", subject, "error in fp16", found.error, TOLERANCE, unit=""),
    )
    kept = f"{len(found.keep)} layers kept, {len(found.trials)} trials, {spent:.0f} s of processor time"
    return Outcome((), claims, ((f"precision, {subject}", kept),))


def _rounded(subject: str, path: Path, inputs: Mapping[str, Any]) -> Outcome:
    """Both quantisations, calibrated on the inputs that they then run on."""
    import workbench as wb

    program = ours.parse(path, inputs)
    reference = wb.compile(program, "ref").run(inputs, precision="float64")
    wanted = [np.asarray(x) for x in reference.outputs]
    errors = {
        f"int8, {name}": _errors(wb.compile(made, "cpu").run(inputs).outputs, wanted)
        for name, made in {
            "symmetric": wb.quantize(program, "int8", [inputs], progress=False),
            "asymmetric": wb.quantize(program, "int8", [inputs], progress=False, asymmetric=True),
        }.items()
    }
    theirs = _errors(_onnxruntime(path, inputs), wanted)
    both = zip(errors["int8, asymmetric"], theirs, strict=True)
    claims = [
        Claim(
            "precision", subject, f"asymmetric − onnxruntime's, output {k}", a - b, WITHIN, unit=""
        )
        for k, (a, b) in enumerate(both)
    ]
    told = errors | {"int8, onnxruntime": theirs}
    facts = (
        (f"precision, {subject}, {name}", ", ".join(f"{x:.2g}" for x in found))
        for name, found in told.items()
    )
    return Outcome((), tuple(claims), tuple(facts))


def _errors(found: Any, wanted: list[Any]) -> list[float]:
    """The relative RMS of each output."""
    pairs = zip(found, wanted, strict=True)
    return [float(np.linalg.norm(np.float64(a) - b) / np.linalg.norm(b)) for a, b in pairs]


def _onnxruntime(path: Path, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of onnxruntime with products and convolutions quantised statically, by its defaults."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):
        """The inputs, once."""

        def __init__(self) -> None:
            self.left = [dict(inputs)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with TemporaryDirectory() as folder:
        made = str(Path(folder) / "int8.onnx")
        quantize_static(str(path), made, Reader(), op_types_to_quantize=["Conv", "Gemm", "MatMul"])
        return onnxruntime.InferenceSession(made, options).run(None, dict(inputs))
