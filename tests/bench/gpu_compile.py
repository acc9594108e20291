"""Compiling a model for a device, all that comes before its first run: with a cold cache and a warm one."""

import tempfile
import time

import workbench as wb
from tests.bench.measure import Claim, Outcome, Timing
from tests.models.registry import MODELS
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.devices.registry import is_architecture
from workbench.knobs import knobs

MODELS_AND_DEVICES = {
    "resnet50, opencl": ("resnet50", "opencl"),
    "resnet50, cuda:sm_90": ("resnet50", "cuda:sm_90"),
    "resnet50, hip:gfx90a": ("resnet50", "hip:gfx90a"),
    "pplcnet_orient, opencl": ("pplcnet_orient", "opencl"),
    "bert_base, cuda:sm_90": ("bert_base", "cuda:sm_90"),
    "bert_base and gradients, cuda:sm_90": ("bert_base", "cuda:sm_90"),
}
SUBJECTS = tuple(MODELS_AND_DEVICES)
LIMITS = {"cold": 20.0, "warm": 2.0}
TIGHTER = {("resnet50, opencl", "cold"): 4.0}
_CACHES = tempfile.TemporaryDirectory()
"""Until the process ends, as PoCL keeps the folder in which it began."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds for one device; where it is here, kernels are loaded, too."""
    name, device = MODELS_AND_DEVICES[subject]
    model = MODELS[name]
    program = parse_onnx(model.path, map_input_dims={n: v.shape for n, v in model.inputs().items()})
    if "gradients" in subject:
        lens = program.outputs[0].shape.lens
        program = wb.extend(program, lambda y, goal: ((y - goal) ** 2.0).mean(), goal=lens)
        program = wb.training_step(program, None)
    timings: list[Timing] = []
    with knobs.scope(cache=tempfile.mkdtemp(dir=_CACHES.name)):
        for cache in LIMITS:
            started = time.perf_counter()
            build = wb.compile(program, target="gpu", device=device)
            assert build.runner is not None
            build.runner.codes(False)
            if not is_architecture(device):
                build.runner.executable()
            spent = time.perf_counter() - started
            timings.append(Timing("gpu-compile", subject, cache, (spent,)))
    claims = [
        Claim("gpu-compile", subject, t.name, t.median, _limit(subject, t.name), unit="s")
        for t in timings
    ]
    return Outcome(tuple(timings), tuple(claims))


def _limit(subject: str, cache: str) -> float:
    """Seconds that a compile may take at most."""
    return TIGHTER.get((subject, cache), LIMITS[cache])
