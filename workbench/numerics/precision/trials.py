"""Trials of a program in which some layers are narrow: each compiles it, runs it and measures the error."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, Protocol, cast

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.targets import target_named
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.files.archive import from_bytes, to_bytes
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector
from workbench.compiler.ir.shape import Shape
from workbench.compiler.progress import progress_bar
from workbench.compiler.report.result import work_of
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.precision.layers import expect_choice, layers_of
from workbench.numerics.precision.quantize import Precision, quantize

Inputs = Mapping[str, Any]


class Executor(Protocol):
    """Runs functions elsewhere: an executor of ``concurrent.futures``, or a client of Dask."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start a call; returns an object whose ``result()`` waits for it."""
        ...


@dataclass(frozen=True)
class Setting:
    """All that a trial needs besides the program and what it keeps. It can be pickled."""

    precision: str
    target: str
    metric: Metric
    inputs: tuple[Inputs, ...]
    references: tuple[tuple[Any, ...], ...]
    """The outputs of the original program in float64, for each set of inputs."""


def built(
    program: Program,
    precision: str,
    keep: Iterable[Selector],
    inputs: Sequence[Inputs],
    target: str,
    **options: Any,
) -> Build:
    """A build of a program in a narrow type that keeps some instructions in their own.

    Args:
        program: The program.
        precision: ``fp16``, ``bf16``, ``int8`` or ``fp8``.
        keep: Selectors of what is kept.
        inputs: Sets of inputs, for calibration.
        target: The target.
        options: Further arguments of ``compile``.
    """
    kept = tuple(keep)
    if precision in ("fp16", "bf16"):
        return compile(program, target, precision=precision, keep=kept, **options)
    made = quantize(program, cast("Precision", precision), inputs, keep=kept, progress=False)
    return compile(made, target, **options)


def measure(source: Program | bytes, setting: Setting, keep: tuple[Selector, ...]) -> float:
    """The error of a program with all but some instructions in the narrow type.

    Returns:
        The largest error of an output over all sets of inputs; infinity if a NaN or an infinity is not
        where the reference has it.
    """
    program = _program(source) if isinstance(source, bytes) else source
    build = built(program, setting.precision, keep, setting.inputs, setting.target, record=False)
    pairs = zip(setting.inputs, setting.references, strict=True)
    return max((_error(build.run(i, progress=False).outputs, r, setting.metric) for i, r in pairs))


@lru_cache(maxsize=1)
def _program(data: bytes) -> Program:
    """The program, which trials share: a process reads it once."""
    return from_bytes(data)


def _error(value: Any, reference: Any, metric: Metric) -> float:
    """The error of a value; of a tuple or list the largest of its elements; 0 of nothing."""
    if isinstance(reference, tuple | list):
        both = cast("Sequence[Any]", value), cast("Sequence[Any]", reference)
        if len(both[0]) != len(both[1]):
            return inf
        return max((_error(a, b, metric) for a, b in zip(*both, strict=True)), default=0.0)
    if reference is None or value is None:
        return 0.0 if value is reference else inf
    return _distance(np.asarray(value, np.float64), np.asarray(reference, np.float64), metric)


def _distance(value: Any, reference: Any, metric: Metric) -> float:
    if value.shape != reference.shape:
        return inf
    finite = np.isfinite(reference)
    if not np.array_equal(value[~finite], reference[~finite], equal_nan=True):
        return inf
    found = value[finite]
    if not np.isfinite(found).all():
        return inf
    distance = metric.of(found, reference[finite])
    return distance if metric.lower_is_better else 1 - distance


@dataclass(frozen=True)
class Trial:
    """A measured choice: the layers that kept their type, by index, and the error."""

    what: str
    kept: frozenset[int]
    error: float


class Trials:
    """The measured choices of one program, each measured once."""

    def __init__(
        self,
        program: Program,
        inputs: Inputs | Sequence[Inputs] | None,
        precision: str,
        by: str,
        metric: Metric | str,
        target: str,
        executor: Executor | None,
        progress: bool | None,
    ) -> None:
        """Run the reference and find the layers.

        Raises:
            OperationError: The precision, the metric, the target or ``by`` is unknown.
            InputError: The inputs do not fit the parameters.
        """
        self.program = program
        self.known: dict[frozenset[int], Trial] = {}
        self._executor = executor
        self._progress = progress
        target_named(target)
        expect_choice(precision, by)
        sets = _sets(program, inputs)
        flops: dict[int, int] = {}
        references = tuple(tuple(_reference(program, given, flops)) for given in sets)
        self.layers = layers_of(program, precision, by, flops)
        self.setting = Setting(precision, target, _metric(metric), sets, references)

    @property
    def everything(self) -> frozenset[int]:
        """The indices of all layers."""
        return frozenset(range(len(self.layers)))

    def run(self, wanted: Iterable[tuple[str, frozenset[int]]], title: str) -> None:
        """Measure those choices that are not known yet.

        Args:
            wanted: The name of each trial, and the layers that it keeps.
            title: The title of the progress bar.
        """
        fresh = {kept: what for what, kept in wanted if kept not in self.known}
        started = self._started(list(fresh))
        with progress_bar(list(fresh.items()), self._progress, title) as shown:
            for kept, what in shown:
                self.known[kept] = Trial(what, kept, next(started))

    def error(self, kept: frozenset[int], what: str) -> float:
        """The error with these layers kept, measured if it is not known."""
        self.run([(what, kept)], "precision")
        return self.known[kept].error

    def keep(self, kept: Iterable[int]) -> tuple[Selector, ...]:
        """The selectors of these layers."""
        return tuple(s for k in sorted(kept) for s in self.layers[k].keep)

    def weight(self, layers: Iterable[int]) -> int:
        """Floating-point operations of these layers; their number if no layer has any."""
        counts = any(layer.flops for layer in self.layers)
        return sum(self.layers[k].flops if counts else 1 for k in layers)

    def share(self, layers: Iterable[int]) -> float:
        """The share of these layers in the floating-point operations of all; 0 if there are none."""
        return self.weight(layers) / (self.weight(self.everything) or 1)

    def _started(self, choices: list[frozenset[int]]) -> Iterator[float]:
        """The errors of these choices, in order; an executor starts with all of them at once."""
        keeps = [self.keep(kept) for kept in choices]
        if self._executor is None:
            return (measure(self.program, self.setting, keep) for keep in keeps)
        return _submitted(self._executor, self.program, self.setting, keeps)


def _submitted(
    executor: Executor, program: Program, setting: Setting, keeps: list[tuple[Selector, ...]]
) -> Generator[float]:
    """The errors in order; when it ends early, what has not begun is cancelled."""
    if not keeps:
        return
    data, held = _held(executor, to_bytes(program)), _held(executor, setting)
    waiting = deque(executor.submit(measure, data, held, keep) for keep in keeps)
    try:
        while waiting:
            yield waiting[0].result()
            waiting.popleft()
    finally:
        for future in waiting:
            getattr(future, "cancel", lambda: None)()


def _held(executor: Executor, value: Any) -> Any:
    """A value as the argument of many calls. A client of Dask gets it once.

    As the result of a call, not scattered, so that it is sent again if the worker that has it ends.
    """
    if not hasattr(executor, "scatter"):
        return value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Dask's advice to scatter what is large
        return executor.submit(_itself, value)


def _itself(value: Any) -> Any:
    return value


@contextmanager
def partial_result(make: Callable[[], Any]) -> Generator[None]:
    """Attach what is known so far to an exception, such as KeyboardInterrupt, as its ``result``."""
    try:
        yield
    except BaseException as error:
        vars(error)["result"] = make()
        raise


# Inputs and the reference


def _metric(given: Metric | str) -> Metric:
    try:
        return Metric(given)
    except ValueError as error:
        known = ", ".join(repr(m.value) for m in Metric)
        raise OperationError(f"metric {given!r}; expected one of {known}") from error


def _sets(program: Program, inputs: Inputs | Sequence[Inputs] | None) -> tuple[Inputs, ...]:
    """The sets of inputs, each with generated ones for missing parameters."""
    many = inputs if isinstance(inputs, list | tuple) else [inputs]
    if not many:
        raise InputError("inputs: an empty list; expected arrays by name, or several sets of them")
    return tuple(completed_inputs(program, cast("Inputs | None", given)) for given in many)


def _reference(program: Program, inputs: Inputs, flops: dict[int, int]) -> list[Any]:
    """The outputs in float64; adds the operations of each instruction to ``flops``."""
    if not flops:
        flops.update({i.id: work_of(i).flops for i in program.instructions})

    def count(instruction: Instruction, value: Any, given: Sequence[Any]) -> None:
        shapes = [i.shape for i in (instruction, *instruction.inputs)]
        if any(s.is_dynamic for s in shapes) and not instruction.modules:
            flops[instruction.id] = _flops(instruction, value, given)

    return Interpreter(program, float64=True).run(inputs, hook=count)


def _flops(instruction: Instruction, value: Any, given: Sequence[Any]) -> int:
    """The operations for the lengths of a run."""
    arrays = [value, *given]
    if not all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return 0
    output, *inputs = (Shape(DType.of(a.dtype), a.shape) for a in arrays)
    return instruction.op.flops(inputs, output)
