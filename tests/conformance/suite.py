"""onnx's backend test suite, as the installed onnx has it, over a backend; and the cases known to fail."""

import io
import unittest
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

from workbench.compat.onnx_backend import PreparedModel, WorkbenchBackend

KNOWN_FAILURES = Path(__file__).with_name("known_failures.txt")
NAMES = Path(__file__).parents[1] / "golden" / "conformance.txt"
"""The cases, so that only the process that runs them makes them: that takes seconds."""
MORE_PRECISE = {
    "test_attention_4d_causal_fp16_cpu": "the fused kernel keeps in float what the expected values round",
    "test_attention_4d_causal_fp16_expanded_cpu": "the same",
    "test_dft_inverse_cpu": "0, where the expected values have a rounding error",
    "test_dft_inverse_opset19_cpu": "the same",
}
"""Cases that kernels fail since they are more precise than the expected values, with the difference."""
EQUAL_ROWS = {
    "Real.test_squeezenet_cpu": "all weights are equal, so the result rests on equal rows of a product being "
    "rounded alike, which this processor's BLAS does not do",
}
"""Cases that fail where the BLAS gives equal rows of a product other last bits, with the reason."""
TRAINING = "ai.onnx.preview.training"


@dataclass(frozen=True)
class Case:
    """A test of the suite, for the CPU."""

    kind: str
    name: str
    test: unittest.TestCase


class WatchedBackend(WorkbenchBackend):
    """The backend under test, which remembers the model that it prepared last."""

    last: PreparedModel | None = None

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> PreparedModel:
        cls.last = None
        cls.last = super().prepare(model, device, **options)
        return cls.last


class ReferenceBackend(Backend):
    """onnx's own ReferenceEvaluator as a backend: what it fails, nobody is expected to pass."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> BackendRep:  # noqa: ARG003
        return _ReferenceModel(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class _ReferenceModel(BackendRep):
    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ReferenceEvaluator(model)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        names = self.evaluator.input_names
        return tuple(self.evaluator.run(None, dict(zip(names, inputs, strict=False))))


def configured(backend: type[Backend], **options: Any) -> type[Backend]:
    """The backend with options of its own for every model; the suite has none for all of its cases."""
    if not options:
        return backend

    class Configured(backend):
        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **given: Any) -> Any:
            return super().prepare(model, device, **options, **given)

    return Configured


@cache
def cases(backend: type[Backend], **options: Any) -> tuple[Case, ...]:
    """Every case that a CPU runs, none marked. The suite asks the backend for its devices by each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(configured(backend, **options), __name__)
    return tuple(
        Case(kind.removeprefix("OnnxBackend").removesuffix("ModelTest"), name, group(name))
        for kind, group in suite.test_cases.items()
        for name in unittest.TestLoader().getTestCaseNames(group)
        if name.endswith("_cpu")
    )


def named(backend: type[Backend], **options: Any) -> dict[str, Case]:
    """Every case by kind and name, as ``Node.test_abs_cpu``."""
    return {f"{case.kind}.{case.name}": case for case in cases(backend, **options)}


def outcome(case: Case) -> str | None:
    """None if a case passes, else what it fails with."""
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            getattr(case.test, case.name)()
    except unittest.SkipTest as error:
        return f"skipped: {error}"
    except Exception as error:  # whatever it fails with is what is counted
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


@cache
def known_failures(target: str = "ref") -> dict[str, str]:
    """Cases that are known to fail on a target, each with its reason: strings, training, reference."""
    found = dict(MORE_PRECISE) if target == "gpu" else {}
    for line in KNOWN_FAILURES.read_text("utf-8").splitlines():
        text = line.partition("#")[0].split(None, 1)
        if text:
            found[text[0]] = text[1]
    return found


@cache
def models() -> dict[str, onnx.ModelProto]:
    """The models of the node and simple cases by the name of the case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case for kind in ("node", "simple") for case in load_model_tests(kind=kind)]
    return {f"{case.name}_cpu": case.model or _stored(case.model_dir) for case in found}


def _stored(folder: str | None) -> onnx.ModelProto:
    assert folder is not None
    return onnx.load(Path(folder, "model.onnx"))


def uses_strings(model: onnx.ModelProto) -> bool:
    """Whether an input, output, tensor or attribute of a model holds strings."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    typed = any(v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in values)
    tensors = [a.t for n in model.graph.node for a in n.attribute if a.HasField("t")]
    return typed or any(t.data_type == onnx.TensorProto.STRING for t in tensors)


def is_training(model: onnx.ModelProto) -> bool:
    """Whether a model has operators that only serve training."""
    return any(node.domain == TRAINING for node in model.graph.node)


def rounds_rows_alike() -> bool:
    """Whether equal rows of a matrix product are equal here, bit for bit."""
    columns = np.random.default_rng(0).random((512, 169)).astype(np.float32)
    found = np.full((1000, 512), 0.0137, np.float32) @ columns
    return bool((found == found[0]).all())
