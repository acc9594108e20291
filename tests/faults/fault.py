"""A fault: what is planted in which model, the call that has to find it, and the judging of the report."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import workbench as wb
from tests.models.registry import Inputs
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.build import Build
from workbench.compiler.ir.program import Program
from workbench.numerics.metrics.tolerances import rounding_tolerance

NARROW = 16
"""The most nodes that a culprit may name: an attention kernel is made of fourteen."""
INSIDE = 4
"""The most where the fault is inside a fused kernel, and the culprit has to be, too."""


@dataclass(frozen=True)
class Planted:
    """Two sides of a comparison, one of them wrong.

    Attributes:
        suspect: the build, program or file that is compared.
        inputs: an array for each parameter.
        reference: what it is compared with.
        clean: the same model without the fault; the effect of the fault is the difference between the two.
            None if the reference is wrong, not the suspect.
    """

    suspect: Build | Program | Path
    inputs: Inputs
    reference: str | Build | Program | Path | Mapping[str, np.ndarray] = "ref"
    clean: Build | None = None


Plant = Callable[[], AbstractContextManager[Planted]]
"""Plants a fault, which stays while the context is open."""


def compared(planted: Planted) -> Any:
    """The natural call: the suspect with its reference."""
    return wb.compare(planted.suspect, inputs=planted.inputs, reference=planted.reference)


@dataclass(frozen=True)
class Wanted:
    """The demands on the first culprit.

    Attributes:
        nodes: the culprit has to concern one of these nodes of the model. Several where the fault is at
            each of them, or between two, as a rounding that a subtraction brings to light.
        causes: the causes that are right.
        rule: the name of the wrong rule, which the culprit's edit has to have.
        most: the most nodes that the culprit may name.
    """

    nodes: tuple[str, ...]
    causes: tuple[str, ...]
    rule: str = ""
    most: int = NARROW


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: its name, unique.
        kind: the room that it is in.
        model: the name of the model, of tests/models.
        plant: plants it.
        wanted: what the first culprit has to say.
        call: compares.
        slow: whether only `make nightly` plants it.
        not_yet: why the culprit is not named first yet; empty if it is.
    """

    name: str
    kind: str
    model: str
    plant: Plant
    wanted: Wanted
    call: Callable[[Planted], Any] = field(default=compared)
    slow: bool = False
    not_yet: str = ""


@dataclass(frozen=True)
class Control:
    """A comparison of two sides that are both right; the attributes are those of a fault."""

    name: str
    model: str
    plant: Plant
    call: Callable[[Planted], Any] = field(default=compared)
    slow: bool = False


@dataclass(frozen=True)
class Verdict:
    """The answer of a report to a fault.

    Attributes:
        rank: the place of the first culprit that concerns the wanted nodes, from 1; 0 if none does.
        nodes: how many nodes the first culprit names.
        narrow: whether they are few enough.
        cause: whether the first culprit's cause is right.
        edit: whether its edit is of the wrong rule, if there is one.
        passed: whether the report says that all is well.
        said: the first culprit as a sentence.
        seconds: the duration of the comparison.
    """

    rank: int
    nodes: int
    narrow: bool
    cause: bool
    edit: bool
    passed: bool
    said: str
    seconds: float

    @property
    def is_named_first(self) -> bool:
        """Whether the first culprit concerns the right nodes, and few others."""
        return self.rank == 1 and self.narrow

    @property
    def is_right(self) -> bool:
        """Whether the report alarms, and the first culprit is right in every respect."""
        return self.is_named_first and self.cause and self.edit and not self.passed


def judged(fault: Fault, planted: Planted) -> Verdict:
    """The verdict on the report of a planted fault."""
    started = perf_counter()
    report = fault.call(planted)
    culprits = report.culprits()
    seconds = perf_counter() - started
    wanted = frozenset(fault.wanted.nodes)
    ranks = (k for k, c in enumerate(culprits, 1) if wanted & set(c.sources))
    if not culprits:
        return Verdict(0, 0, False, False, False, report.passed, "no culprit", seconds)
    first = culprits[0]
    is_cause = first.cause in fault.wanted.causes
    return Verdict(
        next(ranks, 0), len(first.sources), len(first.sources) <= fault.wanted.most, is_cause,
        _is_of(first.edit, fault.wanted.rule), report.passed, str(first), seconds,
    )  # fmt: skip


def _is_of(edit: Any, rule: str) -> bool:
    return not rule or (edit is not None and rule in edit.label)


# Effects


def effect(planted: Planted) -> float:
    """The largest relative RMS by which an output of the suspect differs from the clean one's.

    Infinite if only one of the two has a NaN or an infinity somewhere or another shape, and if the
    reference is what is wrong.
    """
    if planted.clean is None:
        return np.inf
    got, want = (b.run(planted.inputs).outputs for b in (built(planted.suspect), planted.clean))
    return max(_distance(a, b) for a, b in zip(got, want, strict=True))


def tolerance(planted: Planted) -> float:
    """The tolerance of a comparison of the suspect: an effect within it would be noise."""
    return rounding_tolerance(built(planted.suspect).program)


def built(suspect: Build | Program | Path) -> Build:
    """A build of the suspect."""
    if isinstance(suspect, Build):
        return suspect
    program = wb.parse_onnx(suspect) if isinstance(suspect, Path) else suspect
    return wb.compile(program, target="cpu")


def _distance(a: Any, b: Any) -> float:
    a, b = (np.asarray(v, np.float64).ravel() for v in (a, b))
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(a)
    assert finite.any(), "nothing is finite with or without the fault"
    return Metric.RELATIVE_RMS.of(a[finite], b[finite])


@contextmanager
def in_place(planted: Planted) -> Iterator[Planted]:
    """The context of a fault that needs no undoing."""
    yield planted
