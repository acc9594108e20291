"""Whole models on a GPU, estimated and tuned, beside torch.compile in the same run (needs torch and CUDA).

Errors are those of the network as it is given, in float: both round its weights to half. In fp16 a third
build keeps sums of activations in float.
"""

import copy
import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from tests.models import export
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx

OURS, TUNED, TORCH = "workbench gpu", "workbench gpu, tuned", "torch.compile"
SUMS = "workbench gpu, sums in float"
FIELDS = {"resnet50": "logits", "bert": "last_hidden_state", "gpt2": "logits", "vit": "logits"}
PRECISIONS = ("fp16", "fp32")
SUBJECTS = tuple(
    f"{name} of {batch} in {precision}"
    for precision in PRECISIONS
    for name in FIELDS
    for batch in (1, 16)
)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of a run by the device's clock, both replayed as graphs; errors against double precision."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    name, _, batch, _, precision = subject.split()
    half = precision == "fp16"
    module, arguments = network(name, int(batch))
    field = FIELDS[name]
    inputs = {n: x.numpy() for n, x in arguments.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export.save(module, arguments, field, path)
        program = parse_onnx(path)
    build = wb.compile(program, target="gpu", precision="fp16" if half else None, record=False)
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    ours = Timing("networks", subject, OURS, tuple(on_device.run_seconds(executable, inputs)))
    build.tune(inputs)
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    tuned = Timing("networks", subject, TUNED, tuple(on_device.run_seconds(executable, inputs)))
    found = np.asarray(build.run(inputs)[0])
    timings, results = [ours, tuned], {TUNED: found}
    if half:
        results[SUMS], took = _with_sums_in_float(program, inputs)
        timings.append(Timing("networks", subject, SUMS, tuple(took)))
    work, results[TORCH] = _compiled(copy.deepcopy(module), arguments, field, half)
    torch = Timing("networks", subject, TORCH, tuple(on_device.torch_seconds(work)))
    facts = [(f"{t.name} / {TORCH}, {subject}", f"{t.median / torch.median:.2f}") for t in timings]
    if batch == "1":
        wanted = _exact(module, arguments, field)
        for who, result in results.items():
            error = np.linalg.norm(result - wanted) / np.linalg.norm(wanted)
            facts.append((f"error of {who}, {subject}", f"{error:.1e}"))
    claim = Claim("networks", subject, f"{TUNED} / {TORCH}", tuned.median / torch.median, 1.0)
    gc.collect()
    return Outcome((*timings, torch), (claim,), tuple(facts))


def _with_sums_in_float(program: Program, inputs: dict[str, Any]) -> tuple[np.ndarray, list[float]]:
    """The result and the seconds where sums that go on from layer to layer are not rounded to half."""
    build = wb.compile(program, target="gpu", precision="fp16", keep="op:add", record=False)
    build.tune(inputs)
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    took = on_device.run_seconds(executable, inputs)
    return np.asarray(build.run(inputs)[0]), took


def network(name: str, batch: int) -> tuple[Any, dict[str, Any]]:
    """A network with seeded random weights, and its arguments."""
    import torch
    from transformers import (
        BertConfig,
        BertModel,
        GPT2Config,
        GPT2LMHeadModel,
        ViTConfig,
        ViTForImageClassification,
    )

    torch.manual_seed(export.SEED)
    if name == "resnet50":
        return export.calibrated_resnet50(), {"pixel_values": export.images(batch)}
    if name == "vit":
        config = ViTConfig(initializer_range=export.SPREAD, num_labels=1000)
        return ViTForImageClassification(config).eval(), {"pixel_values": export.images(batch)}
    if name == "bert":
        module = BertModel(BertConfig(initializer_range=export.SPREAD), add_pooling_layer=False)
        words = 30522
    else:
        config = GPT2Config(use_cache=False, initializer_range=export.SPREAD)
        module, words = GPT2LMHeadModel(config), 50257
    one = export.tokens(words)
    return module.eval(), {n: x.repeat(batch, 1) for n, x in one.items()}


def _compiled(
    module: Any, arguments: dict[str, Any], field: str, half: bool
) -> tuple[Callable[[], Any], np.ndarray]:
    """torch.compile's fastest mode, warmed up, and its result; float32 is IEEE's everywhere."""
    import torch

    torch._dynamo.reset()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    type = torch.float16 if half else torch.float32
    module = module.to(type).cuda()
    given = {n: (x.to(type) if x.is_floating_point() else x).cuda() for n, x in arguments.items()}
    run = torch.compile(module, mode="reduce-overhead")

    def work() -> Any:
        with torch.no_grad():
            return run(**given)

    for _ in range(4):
        result = work()
    return work, result[field].double().cpu().numpy()


def _exact(module: Any, arguments: dict[str, Any], field: str) -> np.ndarray:
    """The result in double precision, on the CPU, with the weights as they are."""
    import torch

    given = {n: x.double() if x.is_floating_point() else x for n, x in arguments.items()}
    with torch.no_grad():
        return module.double().cpu()(**given)[field].numpy()
