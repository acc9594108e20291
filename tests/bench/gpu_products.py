"""Products on a GPU, beside torch's in the same run (needs torch and CUDA).

Halves and floats beside ``torch.mm``, once by cuBLAS and once by cuBLASLt, 8-bit integers beside
``torch._int_mm``, and 8-bit floats beside ``torch._scaled_mm`` with scales of 1; terms of their second
operands are contiguous, as these functions want. Times are claimed beside the faster peer, errors beside
the more exact one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device

OURS = "workbench gpu"
SIZES = ((128, 768, 768), (128, 768, 2304), (128, 768, 3072), (128, 3072, 768),
         (2048, 768, 768), (2048, 768, 2304), (2048, 768, 3072), (2048, 3072, 768),
         (4096, 4096, 4096))  # fmt: skip
_SPIN = 100
"""Products that run before each measurement, so that the GPU's clock is up."""


@dataclass(frozen=True)
class Kind:
    """Products of one type.

    Attributes:
        type: The element type of the operands.
        numpy: Its NumPy type.
        peer: The function of torch that multiplies, too.
        most: The most that our time may be of the peer's; None if no bound is held yet.
        op: Our operation.
    """

    type: str
    numpy: Any
    peer: str = "mm"
    most: float | None = 1.05
    op: str = "dot"

    @property
    def along_terms(self) -> bool:
        """Whether the second operand is a transposed view."""
        return self.op != "dot"


KINDS = {
    "fp16": Kind("half", np.float16),
    "fp32": Kind("float", np.float32),
    "int8": Kind("int8", np.int8, "_int_mm", None, "quant_dot"),
    "fp8": Kind("fp8e4m3fn_type", ml_dtypes.float8_e4m3fn, "_scaled_mm", None, "quant_dot"),
}
SUBJECTS = tuple(f"{'x'.join(map(str, size))} in {kind}" for kind in KINDS for size in SIZES)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of one product, rows x terms x columns, by the device's clock, and its error."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    import torch

    size, _, named = subject.split()
    m, k, n = map(int, size.split("x"))
    kind = KINDS[named]
    values = np.random.default_rng(0)
    a, b = (_drawn(kind, x, values) for x in ((m, k), (n, k) if kind.along_terms else (k, n)))
    executable = on_device.executable_of(_product(kind, a, b), device("cuda"))
    torch.backends.cuda.matmul.allow_tf32 = False
    peers = _peers(kind, a, b)
    exact = _exact(kind, a, b)
    large = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)

    def spin() -> None:
        for _ in range(_SPIN):
            torch.mm(large, large)
        torch.cuda.synchronize()

    (found,) = executable.run({"a": a, "b": b})
    results = {OURS: np.asarray(found)}
    spin()
    times = {OURS: tuple(on_device.burst_seconds(executable, {"a": a, "b": b}))}
    for peer, theirs in peers.items():
        results[peer] = theirs().cpu().numpy()
        spin()
        times[peer] = tuple(on_device.torch_seconds(theirs, replay=True, count=on_device.BURST))
    errors = {who: _distance(x, exact) for who, x in results.items()}
    return _outcome(subject, kind, times, errors)


def _drawn(kind: Kind, lens: tuple[int, int], values: np.random.Generator) -> np.ndarray:
    """Integers of the whole range, other numbers about normally distributed."""
    if kind.type == "int8":
        return values.integers(-128, 128, lens, np.int8)
    return values.standard_normal(lens).astype(kind.numpy)


def _product(kind: Kind, a: np.ndarray, b: np.ndarray) -> Program:
    program = Program()
    x, y = (
        program.main.add_parameter(name, Shape(kind.type, v.shape))
        for name, v in (("a", a), ("b", b))
    )
    if kind.along_terms:
        y = program.main.add("transpose", y, permutation=(1, 0))
    program.main.add_return(program.main.add(kind.op, x, y))
    return program


def _peers(kind: Kind, a: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], Any]]:
    """The same product by torch; none if torch, or the GPU, has none of this type."""
    import torch

    name = f"torch.{kind.peer}"
    multiply = getattr(torch, kind.peer, None)
    is_fp8 = kind.peer == "_scaled_mm"
    if multiply is None or (is_fp8 and torch.cuda.get_device_capability() < (8, 9)):
        return {}
    if is_fp8:
        x, y = (torch.from_numpy(v.view(np.uint8)).cuda().view(torch.float8_e4m3fn) for v in (a, b))
        one = torch.ones((), device="cuda")
        return {name: lambda: multiply(x, y.t(), one, one, out_dtype=torch.float32)}
    x, y = (torch.from_numpy(v).cuda() for v in (a, b))
    y = y.t() if kind.along_terms else y
    out = multiply(x, y)

    def by(library: str) -> Any:
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library(library)
        multiply(x, y, out=out)
        torch.backends.cuda.preferred_blas_library(before)
        return out

    if kind.peer != "mm":
        return {name: lambda: multiply(x, y, out=out)}
    return {name: lambda: by("cublas"), f"{name} by cuBLASLt": lambda: by("cublaslt")}


def _exact(kind: Kind, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in double precision, in which that of integers is exact."""
    import torch

    x, y = (torch.from_numpy(v.astype(np.float64)).cuda() for v in (a, b))
    return torch.mm(x, y.t() if kind.along_terms else y).cpu().numpy()


def _distance(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _outcome(
    subject: str, kind: Kind, times: dict[str, tuple[float, ...]], errors: dict[str, float]
) -> Outcome:
    """The times and errors, ours beside those of the faster and of the more exact peer, if any."""
    timings = tuple(Timing("products", subject, who, found) for who, found in times.items())
    facts = [(f"error of {who}, {subject}", f"{error:.1e}") for who, error in errors.items()]
    claims: list[Claim] = []
    if kind.type == "int8":
        claims.append(Claim("products", subject, f"error of {OURS}", errors[OURS], 0.0))
    ours, *others = timings
    ratios = {t.name: ours.median / t.median for t in others}
    facts[:0] = [(f"{OURS} / {peer}, {subject}", f"{x:.2f}") for peer, x in ratios.items()]
    if ratios:
        if kind.most is not None:
            fastest = max(ratios, key=ratios.__getitem__)
            text = f"{OURS} / {fastest}"
            claims.append(Claim("products", subject, text, ratios[fastest], kind.most))
        peer = min(ratios, key=errors.__getitem__)
        if errors[peer]:
            times_error = errors[OURS] / errors[peer]
            claims.append(
                Claim("products", subject, f"error of {OURS} / of {peer}", times_error, 1.0)
            )
    return Outcome(timings, tuple(claims), tuple(facts))
