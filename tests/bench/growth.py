"""(h) How compile time grows with the number of layers of a transformer, beside onnxruntime's session."""

from pathlib import Path

import onnx

from tests.bench import ours, peers
from tests.bench.measure import Claim, Contender, Outcome, race
from tests.models import cache, samples, small

SUBJECTS = ("encoder",)
LAYERS = (12, 24, 48, 96)
LIMITS = {"cpu": 1.2, "gpu": 4.0}
"""Of the shortest one's compile beside onnxruntime's session, by pipeline."""
LINEAR = 1.3
"""How much longer a layer of the longest one may take than a layer of the shortest one."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:
    """Times compiles and sessions of encoders with small weights."""
    outcome = Outcome()
    medians: dict[tuple[int, str], float] = {}
    for layers in LAYERS:
        path = written(layers)
        found = race("growth", f"{subject} {layers}", _contenders(path, with_ours), seconds=seconds)
        medians |= {(layers, name): t.median for name, t in found.items()}
        outcome = Outcome(outcome.timings + tuple(found.values()))
    return Outcome(outcome.timings, tuple(_claims(subject, medians)) if with_ours else ())


def _contenders(path: Path, with_ours: bool) -> dict[str, Contender]:
    contenders = {"onnxruntime session": peers.ort_session(path)}
    if with_ours:
        inputs = samples.tokens(vocabulary=small.VOCABULARY, sequence=small.SEQUENCE)
        program = ours.parse(path, inputs)
        contenders["onnxscript optimizer"] = peers.onnxscript_optimizer(path)
        contenders["cpu"] = ours.compile_with(program, "optimize")
        contenders["gpu"] = ours.compile_with(program, "gpu")
    return contenders


def _claims(subject: str, medians: dict[tuple[int, str], float]) -> list[Claim]:
    first, last = LAYERS[0], LAYERS[-1]
    claims: list[Claim] = []
    for name, limit in LIMITS.items():
        ratio = medians[first, name] / medians[first, "onnxruntime session"]
        text = f"{name} pipeline / onnxruntime session, {first} layers"
        claims.append(Claim("growth", subject, text, ratio, limit))
        slope = (medians[last, name] / last) / (medians[first, name] / first)
        text = f"{name} pipeline, time a layer, {last} / {first} layers"
        claims.append(Claim("growth", subject, text, slope, LINEAR))
    return claims


def written(layers: int) -> Path:
    """The file of an encoder with small weights."""
    return cache.cached(
        f"small_encoder_{layers}.onnx", lambda path: onnx.save(small.encoder(layers), path)
    )
