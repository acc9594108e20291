"""Compiling a model for a device, all that comes before its first run: with a cold cache and a warm one."""

import tempfile
import time

import workbench as wb
from tests.bench.measure import Claim, Outcome, Timing
from tests.models.registry import MODELS
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.devices.registry import is_architecture
from workbench.knobs import knobs

MODEL = "resnet50"
SUBJECTS = ("opencl", "cuda:sm_90", "hip:gfx90a")
LIMITS = {"cold": 20.0, "warm": 2.0}


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds for one device; where it is here, kernels are loaded, too."""
    model = MODELS[MODEL]
    program = parse_onnx(model.path, map_input_dims={n: v.shape for n, v in model.inputs().items()})
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder, knobs.scope(cache=folder):
        for cache in LIMITS:
            started = time.perf_counter()
            build = wb.compile(program, target="gpu", device=subject)
            assert build.runner is not None
            build.runner.codes(False)
            if not is_architecture(subject):
                build.runner.executable()
            spent = time.perf_counter() - started
            timings.append(Timing("gpu-compile", f"{MODEL}, {subject}", cache, (spent,)))
    claims = [
        Claim("gpu-compile", t.subject, t.name, t.median, LIMITS[t.name], unit="s") for t in timings
    ]
    return Outcome(tuple(timings), tuple(claims))
