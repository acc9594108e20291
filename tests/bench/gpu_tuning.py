"""Whole networks on a GPU, estimated and tuned, without peers (needs torch for the networks, and CUDA).

What tuning finds for them can be put into the package: ``ship_choices``.
"""

import gc

import workbench as wb
from tests.bench.gpu_networks import (
    FIELDS,
    OURS,
    PRECISIONS,
    TUNED,
    better,
    imported,
    network,
    timed,
)
from tests.bench.measure import Outcome, Timing

SUBJECTS = tuple(f"{n} of {batch} in {p}" for p in PRECISIONS for batch in (16, 1) for n in FIELDS)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of a run before and after tuning, by the device's clock; what was chosen, if it is faster."""
    name, _, batch, _, precision = subject.split()
    half = precision == "fp16"
    module, arguments = network(name, int(batch))
    inputs = {n: x.numpy() for n, x in arguments.items()}
    program = imported(module, arguments, FIELDS[name], half)
    options = {"precision": "fp16"} if half else {}
    build = wb.compile(program, target="gpu", record=False, **options)
    times = {OURS: timed(build, inputs)}
    tuning = build.tune(inputs)
    times[TUNED] = timed(build, inputs)
    timings = tuple(Timing("tuning", subject, who, took) for who, took in times.items())
    ratio = timings[1].median / timings[0].median
    gc.collect()
    facts = ((f"tuned / estimated, {subject}", f"{ratio:.3f}"),)
    return Outcome(timings, facts=facts, choices=(better(tuning),) if ratio < 1 else ())
