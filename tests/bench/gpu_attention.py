"""Attention in half precision on a GPU, beside torch.nn.functional.scaled_dot_product_attention."""

from functools import partial

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

OURS, TORCH = "workbench gpu", "torch SDPA"
SIZES = {
    "16x12x128x64": False,
    "8x16x2048x64": False,
    "16x12x1024x64 causal": True,
    "1x32x8192x128 causal": True,
}
SUBJECTS = tuple(SIZES)


def _scale(lens: tuple[int, ...]) -> np.float16:
    """The factor of scores, in the type of the program."""
    return np.float16(lens[-1] ** -0.5)


def _program(lens: tuple[int, ...], causal: bool) -> Program:
    """Attention as PyTorch writes it: scaled scores, a mask, softmax, weighted values."""
    program = Program()
    main = program.main
    q, k, v = (main.add_parameter(name, Shape("half", lens)) for name in "qkv")
    *batch, rows, _ = lens
    turned = main.add("transpose", k, permutation=(0, 1, 3, 2))
    scores = main.add("dot", q, turned)
    shape = (*batch, rows, rows)
    scale = main.add_literal(_scale(lens))
    scores = main.add("mul", scores, main.add("multibroadcast", scale, out_lens=shape))
    if causal:
        low = main.add_literal(np.float16(-np.inf))
        places = main.add_literal(np.arange(rows, dtype=np.int32))
        down = main.add("broadcast", places, axis=2, out_lens=shape)
        along = main.add("broadcast", places, axis=3, out_lens=shape)
        hidden = main.add("convert", main.add("less", down, along), target_type="bool")
        low = main.add("multibroadcast", low, out_lens=shape)
        scores = main.add("where", hidden, low, scores)
    weights = main.add("softmax", scores, axis=3)
    main.add_return(main.add("dot", weights, v))
    return program


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of one attention, batch x heads x rows x depth, by the device's clock, and its error."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    import torch

    size, causal = subject.split(maxsplit=1)[0], SIZES[subject]
    lens = tuple(map(int, size.split("x")))
    inputs = {name: on_device.noise(lens, np.float16, seed) for seed, name in enumerate("qkv")}
    build = wb.compile(_program(lens, causal), target="gpu")
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    kernels = ", ".join(k.launch.kernel.name for k in executable.plan.kernels)
    (found,) = executable.run(inputs)
    given = [torch.from_numpy(inputs[name]).cuda() for name in "qkv"]
    attend = partial(
        torch.nn.functional.scaled_dot_product_attention,
        is_causal=causal,
        scale=float(_scale(lens)),
    )
    ours = tuple(on_device.burst_seconds(executable, inputs))
    theirs = on_device.torch_seconds(lambda: attend(*given), replay=True, count=on_device.BURST)
    timings = (
        Timing("attention", subject, OURS, ours),
        Timing("attention", subject, TORCH, tuple(theirs)),
    )
    ratio = timings[0].median / timings[1].median
    claims = [Claim("attention", subject, f"{OURS} / {TORCH}", ratio, 1.05)]
    exact = attend(*(x[:1, :2].double() for x in given)).cpu().numpy()
    theirs = attend(*given)[:1, :2].cpu().numpy()
    errors = [
        float(np.linalg.norm(x - exact) / np.linalg.norm(exact))
        for x in (np.asarray(found)[:1, :2], theirs)
    ]
    claims.append(
        Claim("attention", subject, f"error of {OURS} / of {TORCH}", errors[0] / errors[1], 1.0)
    )
    facts = [(f"{OURS} / {TORCH}, {subject}", f"{ratio:.2f}"), (f"kernels, {subject}", kernels)]
    facts += [
        (f"error of {who}, {subject}", f"{e:.1e}")
        for who, e in zip((OURS, TORCH), errors, strict=True)
    ]
    return Outcome(timings, tuple(claims), tuple(facts))
