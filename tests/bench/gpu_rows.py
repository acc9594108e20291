"""Softmax and layer norm of [8192, 4096] in fp16 with each tiling, beside a copy and torch.compile.

All are measured in the same way: many in one graph, so that the time of a launch is hidden.
"""

from collections.abc import Iterator

import workbench as wb
from tests.bench import on_device
from tests.bench.gpu_kernels import MAKERS, inputs_of, torch_work
from tests.bench.measure import Claim, Outcome, Timing
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.choices import Choices
from workbench.gpu.devices.registry import device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run.executable import Executable

SUBJECTS = ("softmax f16", "layer norm f16")
COPY, TORCH = "copy of as much", "torch.compile"
_MARK = 0.9
"""The share of the copy's bandwidth that the tiling in use is to reach."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of one kernel, by the device's clock, with each tiling; the first one is in use."""
    here = device(None)
    build = wb.compile(MAKERS[subject](), target="gpu", record=False)
    moved = sum(s.bytes for s in build.program.parameters.values())
    moved += sum(o.shape.bytes for o in build.program.outputs)
    copied = lower(_copy(), here.dialect)
    times = {COPY: _seconds(Executable(copied, here), _copy())}
    for name, executable in _tilings(build.program):
        times[name] = _seconds(executable, build.program)
    if on_device.has_cuda_torch() and (work := torch_work(subject, inputs_of(build.program))):
        times[TORCH] = on_device.torch_seconds(work, replay=True, count=on_device.BURST)
    copy, peak = on_device.median(times[COPY]), here.peaks().bandwidth
    facts: list[tuple[str, str]] = []
    for name, found in times.items():
        took = on_device.median(found)
        shares = f"{copy / took:.3f} of this copy, {moved / took / peak:.3f} of the large one"
        facts.append((f"{subject}, {name}", f"{took * 1e6:.1f} us, {shares}"))
    first = on_device.median(times[list(times)[1]])
    claim = Claim(
        "rows", subject, "bandwidth / measured copy", moved / first / peak, _MARK, at_least=True
    )
    timings = tuple(Timing("rows", subject, who, tuple(found)) for who, found in times.items())
    return Outcome(timings, (claim,), tuple(facts))


def _copy() -> Program:
    """As many bytes read and written; a copy as it stands would be a view."""
    program = Program()
    x = program.main.add_parameter("x", Shape("half", (8192, 4096)))
    program.main.add_return(program.main.add("neg", x))
    return program


def _tilings(program: Program) -> Iterator[tuple[str, Executable]]:
    """The program with each tiling of its reduction, the one in use first."""
    here, first = device(None), Choices()
    plan = lower(program, here.dialect, first)
    if not first.offers:
        yield "the only tiling", Executable(plan, here)
    for problem, texts in first.offers.items():
        for text in texts:
            yield text, Executable(lower(program, here.dialect, Choices({problem: text})), here)


def _seconds(executable: Executable, program: Program) -> list[float]:
    try:
        return on_device.burst_seconds(executable, inputs_of(program))
    finally:
        executable.close()
