"""Products in half and single precision on a GPU, beside torch.mm in the same run (needs torch and CUDA)."""

import numpy as np

from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device

OURS, TORCH = "workbench gpu", "torch.mm"
SIZES = ((128, 768, 768), (128, 768, 2304), (128, 768, 3072), (128, 3072, 768),
         (2048, 768, 768), (2048, 768, 2304), (2048, 768, 3072), (2048, 3072, 768),
         (4096, 4096, 4096))  # fmt: skip
TYPES = {"fp16": ("half", np.float16), "fp32": ("float", np.float32)}
SUBJECTS = tuple(f"{'x'.join(map(str, size))} in {type}" for type in TYPES for size in SIZES)
_SPIN = 100
"""Products that run before each measurement, so that the GPU's clock is up."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of one product, rows x terms x columns, by the device's clock, and its error."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    import torch

    size, _, precision = subject.split()
    m, k, n = map(int, size.split("x"))
    name, type = TYPES[precision]
    values = np.random.default_rng(0)
    a, b = (values.standard_normal(lens).astype(type) for lens in ((m, k), (k, n)))
    program = Program()
    given = [program.main.add_parameter(x, Shape(name, y.shape)) for x, y in (("a", a), ("b", b))]
    program.main.add_return(program.main.add("dot", *given))
    executable = on_device.executable_of(program, device("cuda"))
    on_gpu = [torch.from_numpy(x).cuda() for x in (a, b)]
    torch.backends.cuda.matmul.allow_tf32 = False
    out = torch.mm(*on_gpu)
    exact = torch.mm(*(x.double() for x in on_gpu)).cpu().numpy()
    large = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)

    def spin() -> None:
        for _ in range(_SPIN):
            torch.mm(large, large)
        torch.cuda.synchronize()

    (found,) = executable.run({"a": a, "b": b})
    spin()
    ours = tuple(on_device.burst_seconds(executable, {"a": a, "b": b}))
    spin()
    theirs = on_device.torch_seconds(
        lambda: torch.mm(*on_gpu, out=out), replay=True, count=on_device.BURST
    )
    timings = (
        Timing("products", subject, OURS, ours),
        Timing("products", subject, TORCH, tuple(theirs)),
    )
    ratio = timings[0].median / timings[1].median
    claim = Claim("products", subject, f"{OURS} / {TORCH}", ratio, 1.05)
    claims, facts = [claim], [(f"{OURS} / {TORCH}, {subject}", f"{ratio:.2f}")]
    errors = [
        float(np.linalg.norm(x - exact) / np.linalg.norm(exact))
        for x in (np.asarray(found), out.cpu().numpy())
    ]
    for who, error in zip((OURS, TORCH), errors, strict=True):
        facts.append((f"error of {who}, {subject}", f"{error:.1e}"))
    claims.append(
        Claim("products", subject, f"error of {OURS} / of {TORCH}", errors[0] / errors[1], 1.0)
    )
    return Outcome(timings, tuple(claims), tuple(facts))
