"""Whole models on a GPU, estimated and tuned, beside torch.compile in the same run (needs torch and CUDA).

In fp16 both return halves, and errors are those of the network as it is given, in float: both round its
weights to half. Transformers are built once more with residual sums in float (`keep="is:residual"`), which
otherwise are rounded more often than by torch.compile: its kernels normalise a sum that is not rounded yet.
"""

import copy
import gc
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from tests.models import export
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.report.tuning import Tuning

OURS, TUNED, TORCH = "workbench gpu", "workbench gpu, tuned", "torch.compile"
IN_ORDER = "workbench gpu, kernels in order"
SUMS = "workbench gpu, residual sums in float"
FIELDS = {"resnet50": "logits", "bert": "last_hidden_state", "gpt2": "logits", "vit": "logits"}
SUMMED = ("bert", "gpt2", "vit")
"""Networks with a norm after each residual sum."""
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
    program = imported(module, arguments, field, half)
    options = {"precision": "fp16"} if half else {}
    build = wb.compile(program, target="gpu", record=False, **options)
    times = {OURS: timed(build, inputs)}
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    times[IN_ORDER] = tuple(on_device.in_order_seconds(executable, inputs))
    tunings = [build.tune(inputs)]
    times[TUNED], results = timed(build, inputs), {TUNED: np.asarray(build.run(inputs)[0])}
    if half and name in SUMMED:
        build = wb.compile(program, target="gpu", record=False, keep="is:residual", **options)
        tunings.append(build.tune(inputs))
        times[SUMS], results[SUMS] = timed(build, inputs), np.asarray(build.run(inputs)[0])
    work, results[TORCH] = _compiled(copy.deepcopy(module), arguments, field, half)
    times[TORCH] = tuple(on_device.torch_seconds(work))
    timings = [Timing("networks", subject, who, took) for who, took in times.items()]
    wanted = _exact(module, arguments, field)
    errors = {
        who: float(np.linalg.norm(result - wanted) / np.linalg.norm(wanted))
        for who, result in results.items()
    }
    gc.collect()
    chosen = tuple(map(better, tunings))
    return replace(_outcome(subject, timings, errors), choices=chosen)


def imported(module: Any, arguments: dict[str, Any], field: str, half: bool) -> Program:
    """The program of a network, by way of ONNX; it returns halves if it will be computed in them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export.save(module, arguments, field, path)
        program = parse_onnx(path)
    if half:
        _return_halves(program)
    return program


def better(tuning: Tuning) -> tuple[str, dict[str, str]]:
    """The device, and the variant of each problem that was faster than the estimated one."""
    return tuning.device, {p.name: p.chosen for p in tuning if p.gain > 1}


def timed(build: Any, inputs: dict[str, Any]) -> tuple[float, ...]:
    """Seconds of runs of a build by the device's clock."""
    return tuple(on_device.run_seconds(build.runner.executable(), inputs))


def _return_halves(program: Program) -> None:
    """Convert the results to half, as those of torch's network in half are."""
    main = program.main
    last = main.last
    assert last is not None
    main.set_inputs(
        last, [main.insert(last, "convert", i, target_type="half") for i in last.inputs]
    )


def _outcome(subject: str, timings: list[Timing], errors: dict[str, float]) -> Outcome:
    """Our times and errors beside those of torch; the errors of the most exact build."""
    torch = timings[-1].median
    ratios = {t.name: t.median / torch for t in timings[:-1]}
    facts = [(f"{who} / {TORCH}, {subject}", f"{ratio:.2f}") for who, ratio in ratios.items()]
    facts += [(f"error of {who}, {subject}", f"{error:.2e}") for who, error in errors.items()]
    best = min((who for who in errors if who != TORCH), key=errors.__getitem__)
    claims = [
        Claim("networks", subject, f"{who} / {TORCH}", ratios[who], 1.0)
        for who in dict.fromkeys((TUNED, best))
    ]
    text = f"error of {best} / of {TORCH}"
    claims.append(Claim("networks", subject, text, errors[best] / errors[TORCH], 1.0))
    return Outcome(tuple(timings), tuple(claims), tuple(facts))


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
    return module.eval(), export.tokens(words, batch)


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
    """The result in double precision, with the weights as they are."""
    import torch

    given = {n: (x.double() if x.is_floating_point() else x).cuda() for n, x in arguments.items()}
    with torch.no_grad():
        return module.double().cuda()(**given)[field].cpu().numpy()
