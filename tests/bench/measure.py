"""Timing that is fair to everyone: repetitions interleaved, medians and quartiles, ratios."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Step = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """Something timed.

    Attributes:
        run: what is timed; it is given what `prepare` returned.
        prepare: what is done before each repetition, outside the clock.
        at_most: stop after so many repetitions, for what is slow; no warm-up where they are 1 or 2.
    """

    run: Callable[[Any], Any]
    prepare: Step = lambda: None
    at_most: int = 1000


@dataclass(frozen=True)
class Timing:
    """Seconds of one contender on one subject.

    Attributes:
        measure: the group of the measurement, as "compile".
        subject: what was worked on: a model's name.
        name: the contender.
        seconds: every repetition, in order.
    """

    measure: str
    subject: str
    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return statistics.median(self.seconds)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles; 0 for a single repetition."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return high - low


@dataclass(frozen=True)
class Claim:
    """A bound that the project holds itself to.

    Attributes:
        measure: the group of the measurement.
        subject: what was worked on.
        text: what is compared with what.
        value: what was measured.
        limit: what it may be at most, or at least.
        at_least: whether the limit is a lower one.
        unit: of the value: "x" for a ratio.
    """

    measure: str
    subject: str
    text: str
    value: float
    limit: float
    at_least: bool = False
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Whether the value is within the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True)
class Outcome:
    """The outcome of one measure: times, claims about them, other facts, and failures."""

    timings: tuple[Timing, ...] = ()
    claims: tuple[Claim, ...] = ()
    facts: tuple[tuple[str, Any], ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, dict[str, str]], ...] = ()
    """What tuning chose instead of estimates, by device."""


def race(
    measure: str,
    subject: str,
    contenders: Mapping[str, Contender],
    *,
    repeat: int = 15,
    seconds: float = 30.0,
    burst: int = 1,
) -> dict[str, Timing]:
    """Times contenders in turn, round after round, until `repeat` rounds or `seconds` have passed.

    Every contender meets the same machine, whatever else that is doing. A round before the first
    warms caches up and is not counted; at least three rounds are. In a burst of several repetitions
    one more comes first that is not counted: threads of the contender before still spin then, and
    caches hold what it used.
    """
    for contender in contenders.values():
        if contender.at_most > 2:
            _once(contender)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    start = time.perf_counter()
    for done in range(repeat):
        if done >= 3 and time.perf_counter() - start > seconds:
            break
        for name, contender in contenders.items():
            if len(found[name]) < contender.at_most:
                found[name] += _burst(contender, burst)
    return {name: Timing(measure, subject, name, tuple(s)) for name, s in found.items()}


def _burst(contender: Contender, count: int) -> list[float]:
    if count == 1 or contender.at_most < 1000:
        return [_once(contender)]
    return [_once(contender) for _ in range(count + 1)][1:]


def _once(contender: Contender) -> float:
    """The seconds of one repetition; garbage is collected before it, and never during it."""
    given = contender.prepare()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        result = contender.run(given)
        passed = time.perf_counter() - start
    finally:
        gc.enable()
    del result
    return passed


def processor_times(
    steps: Mapping[str, Step], *, repeat: int = 15, seconds: float = 30.0
) -> dict[str, dict[str, list[float]]]:
    """Seconds of the processor and on the clock, of steps in turn, after a round to warm up.

    The former change little with what else the machine does. At least three rounds are made.
    """
    found = {name: {"processor": list[float](), "wall": list[float]()} for name in steps}
    for step in steps.values():
        step()
    start = time.perf_counter()
    for done in range(repeat):
        if done >= 3 and time.perf_counter() - start > seconds:
            break
        for name, step in steps.items():
            wall, processor = time.perf_counter(), time.process_time()
            step()
            found[name]["processor"].append(time.process_time() - processor)
            found[name]["wall"].append(time.perf_counter() - wall)
    return found


def paired_ratio(ours: Timing, peer: Timing) -> float:
    """The median over rounds of ours / peer; the ratio of medians where rounds do not pair up."""
    if len(ours.seconds) != len(peer.seconds):
        return ours.median / peer.median
    return statistics.median(a / b for a, b in zip(ours.seconds, peer.seconds, strict=True))
