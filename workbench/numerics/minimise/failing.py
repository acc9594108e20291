"""The failure that a program is minimised for: wrong results on a target, an error, or a given predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import starmap
from math import inf, isinf
from typing import Any, Protocol, cast

import numpy as np

from workbench.compiler.arrays.metrics import AGREEING, Metric
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.errors import DeviceError, WorkbenchError
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selectable
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import Pass
from workbench.compiler.report.result import kernel_sources
from workbench.compiler.run.inputs import repeated
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.compare.compare import compare
from workbench.numerics.metrics.limits import Distance, Limits, limits_of, worst

Inputs = Mapping[str, Any]
Predicate = Callable[[Program, Inputs], bool]
"""Whether a program fails on these inputs."""
Passes = Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]] | None
_SUSPECTS = 3
"""The number of culprits of a comparison that are suspects."""


@dataclass(frozen=True)
class Options:
    """The arguments of ``compile`` besides the program."""

    target: str
    passes: Passes = None
    disable: str | Iterable[str] = ()
    precision: str | None = None
    device: str | None = None
    keep: tuple[int, ...] = ()
    """The instructions of the whole program that ``precision`` leaves as they are."""

    def kept(self, program: Program) -> list[int]:
        """The instructions to keep that a smaller program still has."""
        left = Selectable(program).by_id if self.keep else {}
        return [id for id in self.keep if id in left]

    def build(self, program: Program, record: bool = False) -> Build:
        """Compile a program with them."""
        return compile(
            program, self.target, passes=self.passes, disable=self.disable, record=record,
            precision=self.precision, keep=self.kept(program), device=self.device,
        )  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """The way in which a program fails."""

    kind: str
    """The class of an error, or which results are wrong: ``not finite``, ``floats``, ``integers``."""
    reason: str
    """A clause that says what fails."""
    error: float = inf
    """The relative RMS of the worst result; infinite for a NaN, an infinity, an error or a predicate."""
    sources: tuple[str, ...] = ()
    """Names of the model's nodes that an error comes from, if it is known."""


class Check(Protocol):
    """Whether programs fail."""

    @property
    def limits(self) -> Limits | None:
        """The limits of right results; None if results are not compared."""
        ...

    def learn(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of the whole program, which smaller ones then have to show; None if it is right."""
        ...

    def again(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of a smaller program, if it is the whole program's."""
        ...

    def suspects(self, program: Program, inputs: Inputs) -> Iterator[Sequence[int]]:
        """Ids of instructions that may fail by themselves, the most likely first."""
        ...


class Holds:
    """Whether a given predicate holds.

    Args:
        predicate: The predicate. A ``WorkbenchError`` that it raises for a smaller program means that it does
            not hold.
    """

    limits: Limits | None = None

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate

    def learn(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of the whole program; None if the predicate does not hold."""
        name = getattr(self.predicate, "__name__", type(self.predicate).__name__)
        said = "the given predicate" if name == "<lambda>" else name
        return Failure(said, f"{said} holds") if self.predicate(program, inputs) else None

    def again(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of a smaller program; None if the predicate does not hold."""
        try:
            return self.learn(program, inputs)
        except WorkbenchError:
            return None

    def suspects(self, program: Program, inputs: Inputs) -> Iterator[Sequence[int]]:
        """None: nothing is known about the predicate."""
        return iter(())


class Differs:
    """Whether a program fails on a target as the whole program did.

    Results are wrong if they are beyond the tolerance from the reference in float64, or have a NaN or an
    infinity that it lacks. A smaller program has to be well-conditioned if the whole one is: NumPy's results
    as typed, on inputs that are off by a rounding error, have to be right. So the difference of two equal
    values, where a rounding error is all there is, is not taken for the fault. Nor is an input beyond the
    range of the type that ``precision`` computes in: what overflowed is the instruction before it.

    Args:
        options: The way to compile.
        tolerance: The largest relative RMS of a right result; by default that of the narrowest type that a
            step of the whole program's compilation rounds to.
    """

    def __init__(self, options: Options, tolerance: float | None) -> None:
        self.options = options
        self.tolerance = tolerance
        self.limits: Limits = Limits(Metric.RELATIVE_RMS, tolerance or 0.0, tolerance is not None)
        self._whole: Failure | None = None
        self._is_conditioned = False
        self._range = inf
        self._last: tuple[Program, Build] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the last build, for other processes."""
        return vars(self) | {"_last": None}

    def learn(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of the whole program, which smaller ones then have to show; None if it is right.

        Raises:
            EvaluationError: The program fails in the reference, but not on the target.
            OperationError: A pass or an option is unknown.
            DeviceError: There is no such device.
        """
        try:
            build = self.options.build(program, record=True).specialised(inputs)
            self.limits = limits_of(Metric.RELATIVE_RMS, self.tolerance, build.recording)
        except WorkbenchError as error:
            _expect_of_passes(error)
            found, wanted = _raised(error), ()
        else:
            found, wanted = self._failure(program, inputs)
        self._whole = found
        self._is_conditioned = bool(wanted) and self._is_stable(program, inputs, wanted)
        self._range = max(_range(self.options.precision), _largest(inputs))
        return found

    def again(self, program: Program, inputs: Inputs) -> Failure | None:
        """The failure of a smaller program, if it is the whole program's."""
        if _largest(inputs) > self._range:
            return None
        try:
            found, wanted = self._failure(program, inputs)
            is_same = found and self._whole and found.kind == self._whole.kind
            if is_same and self._is_conditioned:
                is_same = self._is_stable(program, inputs, wanted)
        except WorkbenchError:  # the reference refuses it
            return None
        return found if is_same else None

    def suspects(self, program: Program, inputs: Inputs) -> Iterator[Sequence[int]]:
        """Ids of instructions that may fail by themselves, the most likely first.

        They are those that the culprits of a comparison come from, or the nodes that an error names.
        """
        assert self._whole is not None
        if self._whole.sources:
            yield _of_nodes(program, self._whole.sources)
        if self._whole.kind not in _WRONG:
            return
        with suppress(WorkbenchError):  # raised if it cannot be compared value by value
            build = self.options.build(program, record=True).specialised(inputs)
            culprits = compare(build, inputs, progress=False).culprits()[:_SUSPECTS]
            origins = [build.recording.lineage(c.id).ancestors for c in culprits]
            yield from [*origins, *(_of_nodes(program, c.sources) for c in culprits)]

    def _failure(self, program: Program, inputs: Inputs) -> tuple[Failure | None, Sequence[Any]]:
        """The failure of a program, None if it is right; and the reference's results, unless it raises."""
        try:
            outputs = self._build(program).run(inputs, progress=False).outputs
        except Exception as error:  # whatever a pass, the emitter or an operation raises
            return _raised(error), ()
        wanted = Interpreter(program, float64=True).run(inputs)
        return self._wrong(outputs, wanted), wanted

    def _build(self, program: Program) -> Build:
        last = self._last
        if last is None or last[0] is not program:
            last = self._last = program, self.options.build(program)
        return last[1]

    def _wrong(self, found: Sequence[Any], wanted: Sequence[Any]) -> Failure | None:
        """The failure of the output that is furthest beyond its limit; None if all are within."""
        distances = list(map(self.limits.between, found, wanted))
        distance = worst(distances)
        if distance.within:
            return None
        k = distances.index(distance)
        return _failure(k, distance, wanted[k])

    def _is_stable(self, program: Program, inputs: Inputs, wanted: Sequence[Any]) -> bool:
        """Whether rounding errors leave the results right: finite, if the whole program's are not."""
        unit = min(self.limits.tolerance, 0.5) ** (1 / AGREEING)
        shapes = program.parameters
        nudged = {k: _nudged(v, unit, shapes[k]) for k, v in inputs.items()}
        found = Interpreter(program).run(nudged)
        is_finite = self._whole is not None and self._whole.kind == _WRONG[0]
        limits = Limits(Metric.RELATIVE_RMS, 1e300, given=True) if is_finite else self.limits
        return worst(starmap(limits.between, zip(found, wanted, strict=True))).within


def _range(precision: str | None) -> float:
    """The largest number of the type that floats are computed in; infinite if it is their own."""
    return inf if precision is None else DType.of(precision).format.limits[1]


def _largest(inputs: Inputs) -> float:
    """The largest finite magnitude of a float among the inputs; 0 without any."""
    given = cast("Iterable[Value]", inputs.values())
    arrays = [v for v in given if not isinstance(v, tuple) and DType.of(v.dtype).is_float]
    return max((_magnitude(a.astype(np.float64)) for a in arrays), default=0.0)


def _magnitude(array: Array) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _nudged(value: Value, unit: float, shape: Shape) -> Value:
    """Floats times 1 ± a rounding unit, by seeded signs; all other values as they are."""
    if isinstance(value, tuple) or not DType.of(value.dtype).is_float:
        return value
    signs = np.random.default_rng(0).choice([-unit, unit], value.shape)
    with np.errstate(all="ignore"):  # the largest number may become infinite
        made = (value.astype(np.float64) * (1 + signs)).astype(value.dtype)
    return repeated(made, shape)


_WRONG = ("not finite", "floats", "integers")


def _failure(output: int, distance: Distance, wanted: Any) -> Failure:
    where = f"output {output} of the target"
    if isinf(distance.error):
        return Failure(
            _WRONG[0], f"{where} has a NaN, an infinity or lens that the reference lacks"
        )
    said = f"{where} has a relative rms of {distance.error:.3g}, more than {distance.limit:.3g}"
    is_float = isinstance(wanted, tuple | list) or DType.of(np.asarray(wanted).dtype).is_float
    return Failure(_WRONG[1 if is_float else 2], said, distance.error)


def _raised(error: Exception) -> Failure:
    instruction = getattr(error, "instruction", None)
    nodes = kernel_sources(instruction) if isinstance(instruction, Instruction) else ()
    kind = type(error).__name__
    return Failure(kind, f"{kind}: {error}", sources=nodes)


def _of_nodes(program: Program, nodes: Iterable[str]) -> list[int]:
    named = set(nodes)
    return [i.id for i in program.main if named.intersection(i.sources)]


def _expect_of_passes(error: WorkbenchError) -> None:
    """Raise an error again that is no failure of a program: of an argument, or of a missing device."""
    of_device = isinstance(error, DeviceError) and error.instruction is None
    if of_device or not (error.recording and error.recording.steps):
        raise error
