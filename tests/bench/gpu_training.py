"""Losses and gradients on a GPU, beside torch.compile in the same run (needs torch and CUDA)."""

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import workbench as wb
from tests.bench import gpu_networks, on_device
from tests.bench.measure import Claim, Outcome, Timing
from tests.models import export
from workbench.compiler.onnx import parse_onnx

OURS, TORCH = "workbench gpu", "torch.compile"
SUBJECTS = ("bert of 1", "bert of 16")


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of loss and gradients of all weights by the device's clock; the loss is a mean square."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    name, _, batch = subject.partition(" of ")
    module, arguments = gpu_networks.network(name, int(batch))
    _spread(module)
    field = gpu_networks.FIELDS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export.save(module, arguments, field, path)
        model = parse_onnx(path)
    lens = model.outputs[0].shape.lens
    goal = on_device.noise(lens, np.float32)
    program = wb.extend(model, lambda y, goal: ((y - goal) ** 2.0).mean(), goal=lens)
    program = wb.training_step(program, None)
    forward, _ = _seconds_to_compile(model)
    both, build = _seconds_to_compile(program)
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    inputs = {n: x.numpy() for n, x in arguments.items()} | program.initial | {"goal": goal}
    outputs = executable.run(inputs)
    ours = Timing("training", subject, OURS, tuple(on_device.run_seconds(executable, inputs)))
    work, loss, norm = _compiled(module, arguments, field, goal)
    torch = Timing("training", subject, TORCH, tuple(on_device.torch_seconds(work)))
    found = float(np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in outputs[1:])))
    ratio = ours.median / torch.median
    gc.collect()
    return Outcome(
        (ours, torch),
        (
            Claim("training", subject, f"{OURS} / {TORCH}", ratio, 1.3),
            Claim("training", subject, "compile with gradients / forward", both / forward, 3.0),
        ),
        (
            (f"{OURS} / {TORCH}, {subject}", f"{ratio:.2f}"),
            (f"loss, {subject}", f"{float(np.ravel(outputs[0])[0]):.6f}, torch {loss:.6f}"),
            (f"norm of all gradients, {subject}", f"{found:.6f}, torch {norm:.6f}"),
            (f"weights, {subject}", str(len(program.initial))),
        ),
    )


def _seconds_to_compile(program: wb.Program) -> tuple[float, wb.Build]:
    """Processor time of the passes and the kernels, and the build."""
    first = process_time()
    build = wb.compile(program, target="gpu")
    build.runner.ready()
    return process_time() - first, build


def _spread(module: Any) -> None:
    """Make the vectors among the weights differ, as exporters share equal ones."""
    import torch

    for p in module.parameters():
        if p.ndim == 1:
            p.data += torch.randn_like(p) * export.SPREAD


def _compiled(
    module: Any, arguments: dict[str, Any], field: str, goal: np.ndarray
) -> tuple[Callable[[], Any], float, float]:
    """torch.compile's fastest mode, warmed up; the loss, and the norm of all gradients."""
    import torch

    torch._dynamo.reset()
    module = module.cuda()
    given = {n: x.cuda() for n, x in arguments.items()}
    wanted = torch.from_numpy(goal).cuda()
    torch.backends.cuda.matmul.allow_tf32 = False
    run = torch.compile(module, mode="reduce-overhead")

    def work() -> Any:
        module.zero_grad(set_to_none=True)
        loss = (run(**given)[field] - wanted).square().mean()
        loss.backward()
        return loss

    for _ in range(4):
        loss = work().item()
    squares = [
        float(p.grad.double().square().sum()) for p in module.parameters() if p.grad is not None
    ]
    return work, loss, float(np.sqrt(sum(squares)))
