"""Whole models on a device: fused beside unfused, and beside PyTorch or onnxruntime in the same run."""

from collections.abc import Callable
from typing import Any

import workbench as wb
from tests.bench import on_device, peers
from tests.bench.measure import Claim, Outcome, Timing, race
from tests.models.registry import MODELS
from workbench.compiler.builds.build import Build
from workbench.compiler.onnx import parse_onnx
from workbench.gpu.devices.registry import device

SUBJECTS = ("resnet50", "bert_base", "gpt2_small", "vit_base", "pplcnet_orient", "magika", "mtcnn_p",
            "blazeface128", "silero_16k_static", "small_encoder")  # fmt: skip
_BURST = 3
"""Runs in a row that are timed, after one that is not."""
FUSED, UNFUSED = "workbench gpu", "workbench gpu, unfused"
EAGER, RUNTIME = "torch eager", "onnxruntime CPU"


def built(subject: str, *, fused: bool) -> Build:
    """A model for the device; unfused, every operation is a kernel of its own."""
    model = MODELS[subject]
    lens = {n: v.shape for n, v in model.inputs().items()}
    program = parse_onnx(model.path, map_input_dims=lens)
    return wb.compile(program, target="gpu", disable=() if fused else ("fusion",), record=False)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of a run by the device's clock; on a CPU, those of a whole run, as onnxruntime's are."""
    inputs = MODELS[subject].inputs()
    builds = {FUSED: built(subject, fused=True), UNFUSED: built(subject, fused=False)}
    on_cpu = device(None).facts.processor == "CPU"
    found = (
        _as_called(subject, builds, inputs, seconds)
        if on_cpu
        else _by_events(subject, builds, inputs)
    )
    claims = [_claim(subject, found, FUSED, UNFUSED)]
    peer = RUNTIME if on_cpu else EAGER
    if peer in found:
        ratio = found[FUSED].median / found[peer].median
        facts = [(f"{FUSED} / {peer}, {subject}", f"{ratio:.2f}")]
    else:
        facts = []
    for name, build in builds.items():
        plan = build.runner.plan()  # pyright: ignore[reportOptionalMemberAccess]
        facts.append(
            (f"{name}, {subject}", f"{len(plan.kernels)} kernels, {len(plan.host)} on the host")
        )
    times = builds[FUSED].run(inputs, profile=True, repetitions=20).run_times
    claims.append(
        Claim("gpu", subject, "kernels' sum against the run", abs(times.difference), 0.05)
    )
    claims.append(Claim("gpu", subject, "slowdown by events", times.slowdown, 0.10))
    return Outcome(tuple(found.values()), tuple(claims), tuple(facts))


def _claim(subject: str, found: dict[str, Timing], a: str, b: str) -> Claim:
    return Claim("gpu", subject, f"{a} / {b}", found[a].median / found[b].median, 1.0)


def _as_called(
    subject: str, builds: dict[str, Build], inputs: dict[str, Any], seconds: float
) -> dict[str, Timing]:
    """Ours and onnxruntime in turn, each a few times in a row, of which the first does not count.

    It meets the caches as another contender left them, and onnxruntime's threads spin on after a run.
    """
    contenders = {name: _contender(build, inputs) for name, build in builds.items()}
    contenders[RUNTIME] = peers.ort_run(MODELS[subject].path, inputs)
    return race("gpu", subject, contenders, seconds=seconds, burst=_BURST)


def _contender(build: Build, inputs: dict[str, Any]) -> Any:
    from tests.bench.measure import Contender

    build.run(inputs)
    return Contender(lambda _: build.run(inputs))


def _by_events(subject: str, builds: dict[str, Build], inputs: dict[str, Any]) -> dict[str, Timing]:
    found: dict[str, Timing] = {}
    for name, build in builds.items():
        executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
        found[name] = Timing("gpu", subject, name, tuple(on_device.run_seconds(executable, inputs)))
    if (work := _eager(subject)) is not None:
        found[EAGER] = Timing("gpu", subject, EAGER, tuple(on_device.torch_seconds(work)))
    return found


def _eager(subject: str) -> Callable[[], Any] | None:
    """The network in PyTorch, where it is one of those that are exported from it."""
    if not on_device.has_cuda_torch():
        return None
    import torch

    from tests.models.export import networks

    made = networks().get(subject)
    if made is None:
        return None
    module, arguments = made
    module = module.cuda()
    given = {n: a.cuda() for n, a in arguments.items()}

    def work() -> Any:
        with torch.no_grad():
            return module(**given)

    return work
