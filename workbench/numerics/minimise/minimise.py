"""Shrinks a failing program to the smallest part and the simplest inputs that still fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Any

import numpy as np

from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.targets import target_named
from workbench.compiler.counts import is_count
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.files.archive import from_bytes, to_bytes
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selectors, select, selectors_of
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.inputs import check_inputs, repeated
from workbench.numerics.metrics.limits import expect_tolerance
from workbench.numerics.minimise.cases import Case
from workbench.numerics.minimise.failing import (
    Check,
    Differs,
    Failure,
    Holds,
    Inputs,
    Options,
    Passes,
    Predicate,
)
from workbench.numerics.minimise.minimised import Minimised
from workbench.numerics.precision.trials import Executor, partial_result

_BLOCKS = 8
"""The largest number of blocks that an input is divided into."""
_AHEAD = 8
"""The number of trials that an executor has at a time."""


def minimise(
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    failing: Predicate | None = None,
    *,
    target: str = "auto",
    tolerance: float | None = None,
    passes: Passes = None,
    disable: str | Iterable[str] = (),
    precision: str | None = None,
    keep: Selectors = (),
    device: str | None = None,
    seed: int = 0,
    most: int = 200,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Minimised:
    """Shrink a failing program to the smallest part and the simplest inputs that still fail.

    The graph is cut first: values from before what is left become parameters, with the values of the float64
    reference rounded to their types, or literals if they are constant. Then axes are shortened, and elements
    of inputs set to 0 or 1, or rounded to a few digits. Each trial keeps the smaller program if it still
    fails.

    Args:
        program: The program, which is not compiled and not changed.
        inputs: An array for each parameter, by name; omitted ones are generated from ``seed``.
        failing: A function of a program and its inputs that says whether it fails; if it raises a
            ``WorkbenchError`` for a smaller program, that one does not. By default a program fails if a
            result on the target is beyond the tolerance from the reference in float64, or has a NaN or an
            infinity that it lacks; or, if compiling or running the whole program raises an error, if the
            smaller one raises an error of the same class.
        target: The target to compile for and to run on.
        tolerance: The largest relative RMS of a right result; by default that of the narrowest type that a
            step of the compilation rounds to (docs/numbers.md), and integers have to be equal.
        passes: As for ``compile``.
        disable: As for ``compile``.
        precision: As for ``compile``.
        keep: As for ``compile``; what is chosen in the whole program is kept in smaller ones.
        device: As for ``compile``.
        seed: Seed of the generated inputs.
        most: The largest number of trials.
        executor: Runs trials in parallel: one of ``concurrent.futures``, or a Dask client. ``failing`` and
            ``passes`` are sent to it, so a process pool needs them pickled. The result is the same.
        progress: Show a progress bar; by default if it takes longer than a second.

    Returns:
        The smallest program that was found, its inputs, and its failure.

    Raises:
        InputError: An input does not fit its parameter, or the program does not fail.
        OperationError: The target, a pass or an option is unknown, or ``most`` is below 1.
        EvaluationError: The program itself fails on these inputs, without the target.
        KeyboardInterrupt: The user interrupted; ``error.result`` has the smallest program until then, as it
            has if ``failing`` raises an error.
    """
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = type(program).__name__
        raise InputError(f"minimise: expected a program that is not compiled, found {found}")
    if not is_count(most):
        raise OperationError(f"most={most!r} trials; expected at least 1")
    expect_tolerance(Metric.RELATIVE_RMS, tolerance)
    given = check_inputs(program, completed_inputs(program, inputs, seed))
    disabled = disable if isinstance(disable, str) else tuple(disable)
    if selectors_of(keep) and precision is None:
        raise OperationError(f"keep={keep!r} without a precision; expected one, such as 'fp16'")
    kept = tuple(sorted(select(program, keep)))
    options = Options(target_named(target).name, passes, disabled, precision, device, kept)
    check = Differs(options, tolerance) if failing is None else Holds(failing)
    search = _Search(Case(program, given), check, options, most, executor)
    with progress_bar(range(most), progress, "minimise") as bar, partial_result(search.result):
        return search.run(iter(bar))


class _Search:
    """One search: the smallest failing case so far, and the number of trials."""

    def __init__(
        self, whole: Case, check: Check, options: Options, most: int, executor: Executor | None
    ) -> None:
        self.whole = self.best = whole
        self.check = check
        self.options = options
        self.most = most
        self.executor = executor
        self.trials = 0
        self.failure: Failure | None = None
        self._ticks: Iterator[int] = iter(())

    def result(self) -> Minimised | None:
        """The smallest case so far; None if it is not known that the whole fails."""
        return None if self.failure is None else self._found(self.failure)

    def _found(self, failure: Failure) -> Minimised:
        spent = self.trials >= self.most
        return Minimised(
            self.whole, self.best, failure, self.trials, spent, self.options, self.check.limits
        )

    def run(self, ticks: Iterator[int]) -> Minimised:
        """Check that the whole fails; then cut the graph, fix and shorten axes, and simplify elements."""
        self._ticks = ticks
        self._count()
        self.failure = self.check.learn(self.whole.program, self.whole.inputs)
        if self.failure is None:
            raise InputError(_right(self.check, self.options))
        self._cut_graph()
        self._first([self.best.fixed()])
        self._shorten()
        self._simplify()
        self._shorten()  # indices that are 0 now need less of a table
        return self._found(self.failure)

    # Trials

    def _first(self, candidates: Iterable[Case | None]) -> int | None:
        """Try candidates in order and adopt the first that fails; returns its index, or None."""
        numbered = ((k, case) for k, case in enumerate(candidates) if case is not None)
        with closing(self._tried(numbered)) as tried:
            for k, case, failure in tried:
                if failure is not None:
                    self.best, self.failure = case, failure
                    return k
        return None

    def _tried(
        self, candidates: Iterator[tuple[int, Case]]
    ) -> Generator[tuple[int, Case, Failure | None]]:
        """The candidates with their failures, while trials are left; an executor has several at a time."""
        ahead = 1 if self.executor is None else _AHEAD
        waiting: deque[tuple[int, Case, Any]] = deque()
        try:
            while self.trials < self.most:
                for k, case in islice(candidates, ahead - len(waiting)):
                    waiting.append((k, case, self._started(case)))
                if not waiting:
                    return
                self._count()
                yield *waiting[0][:2], waiting[0][2].result()
                waiting.popleft()
        finally:
            for _, _, future in waiting:
                getattr(future, "cancel", lambda: None)()

    def _count(self) -> None:
        self.trials += 1
        next(self._ticks, None)

    def _started(self, case: Case) -> Any:
        """The result to come of a trial."""
        if self.executor is None:
            return _Later(partial(self.check.again, case.program, case.inputs))
        return self.executor.submit(_again, self.check, to_bytes(case.program), case.inputs)

    # The graph

    def _cut_graph(self) -> None:
        """Cut the graph to a window, then drop instructions until each one left is needed."""
        values, whole = self.best.values(), self.best
        suspects = self.check.suspects(whole.program, whole.inputs)
        if self._first(whole.cut(ids, values) for ids in suspects) is None:
            self._cut_ends(values)
        constant = {i.id for i in self.best.program.main if i.is_constant}
        self._first([self.best.cut([i for i in self.best.ids if i not in constant], values)])
        size = len(self.best.ids)
        while size := size // 2:
            self._drop(size, values)
        while self._drop(1, values):
            pass
        self._choose_output(values)

    def _cut_ends(self, values: Mapping[int, Value]) -> None:
        """Cut after the first instruction whose value fails, then before the last that is needed for it."""
        whole, ids = self.best, self.best.ids
        count = self._fewest(len(ids), lambda n: whole.cut(ids[:n], values))
        self._fewest(count, lambda n: whole.cut(ids[count - n : count], values))

    def _fewest(self, count: int, case: Callable[[int], Case | None]) -> int:
        """Search the smallest number with which a case fails by bisection; it does with ``count``."""
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._first([case(middle)]) == 0 else (middle, high)
        return high

    def _drop(self, size: int, values: Mapping[int, Value]) -> bool:
        """Drop runs of so many instructions wherever it still fails; returns whether any was dropped."""
        at, dropped = 0, False
        while True:
            ids = self.best.ids
            starts = range(at, len(ids), size)
            case = self.best
            found = self._first(case.cut(ids[:k] + ids[k + size :], values) for k in starts)
            if found is None:
                return dropped
            at, dropped = at + found * size, True

    def _choose_output(self, values: Mapping[int, Value]) -> None:
        """Return one value only, if that still fails."""
        case, outputs = self.best, dict.fromkeys(o.id for o in self.best.program.outputs)
        if len(outputs) > 1:
            self._first(case.cut(case.ids, values, [id]) for id in outputs)

    # Axes and elements

    def _shorten(self) -> None:
        """Shorten each length to 1, then halve those that are left as often as it still fails.

        Lengths that have become equal are shortened together from then on, so the shortest comes first.
        """
        for length in self.best.lengths:
            self._shorten_to(length, 1)
        for length in sorted(self.best.lengths):
            left = length
            while left > 1 and self._shorten_to(left, half := self._half(left)):
                left = half

    def _half(self, length: int) -> int:
        """Half of a length, or one more if some other axis has that length."""
        half = (length + 1) // 2
        return half + 1 if half in self.best.lengths and half + 1 < length else half

    def _shorten_to(self, old: int, new: int) -> bool:
        """Keep the first or the last elements of every axis of a length; returns whether it still fails."""
        case = self.best
        return self._first(case.shortened(old, new, last) for last in (False, True)) is not None

    def _simplify(self) -> None:
        """Make inputs 0 or 1, as a whole or in blocks, and round what is left to a few digits."""
        for name, value in self.best.inputs.items():
            if not isinstance(value, np.ndarray) or not value.size:
                continue
            blocks = 1
            while blocks <= min(_BLOCKS, value.size):
                self._simplify_blocks(name, blocks)
                blocks *= 2
            rounded = (_rounded(self.best.inputs[name], digits) for digits in (1, 2, 3))
            self._first(self._with(name, array) for array in rounded)

    def _simplify_blocks(self, name: str, blocks: int) -> None:
        """Set each of so many equal parts of an input to 0, or else to 1."""
        size = np.asarray(self.best.inputs[name]).size
        for start, end in pairwise(size * k // blocks for k in range(blocks + 1)):
            part = np.asarray(self.best.inputs[name]).ravel()[start:end]
            if (part == 0).all() or (part == 1).all():
                continue
            array = self.best.inputs[name]
            # Relative errors mean little beside a result of 0, and the first index is in every table.
            numbers = (1, 0) if DType.of(part.dtype).is_float else (0, 1)
            self._first(self._with(name, _filled(array, start, end, n)) for n in numbers)

    def _with(self, name: str, array: Array) -> Case | None:
        """The best case with another input; None if that is the same."""
        fitting = repeated(array, self.best.program.parameters[name])
        if np.array_equal(fitting, self.best.inputs[name], equal_nan=array.dtype.kind == "f"):
            return None
        return self.best.with_input(name, fitting)


class _Later:
    """A trial that runs when its result is asked for."""

    def __init__(self, trial: Callable[[], Failure | None]) -> None:
        self.result = trial


def _again(check: Check, data: bytes, inputs: Inputs) -> Failure | None:
    """A trial in another thread or process."""
    return check.again(_program(data), inputs)


@lru_cache(maxsize=1)
def _program(data: bytes) -> Program:
    """The program, which trials with other inputs share."""
    return from_bytes(data)


def _right(check: Check, options: Options) -> str:
    """The message for a program that does not fail."""
    if check.limits is None:
        return "minimise: the given predicate does not hold for the whole program and its inputs"
    return (
        f"minimise: the program does not fail: its results on {options.target} are within a relative rms of "
        f"{check.limits.tolerance:.3g} of the reference; give inputs with which it does, a smaller "
        "tolerance=, or failing="
    )


def _filled(array: Any, start: int, end: int, number: int) -> Array:
    """A copy with one number in a range of the flat array."""
    made = np.array(array)
    made.reshape(-1)[start:end] = number
    return made


def _rounded(array: Any, digits: int) -> Array:
    """A copy rounded to so many significant decimal digits; integers, NaN and infinities stay."""
    if not DType.of(array.dtype).is_float:
        return array
    wide = array.astype(np.float64)
    known = np.isfinite(wide) & (wide != 0)
    unit = 10.0 ** (np.floor(np.log10(np.abs(wide[known]))) - (digits - 1))
    wide[known] = np.round(wide[known] / unit) * unit
    with np.errstate(over="ignore"):  # the largest number of a type may be rounded beyond it
        return wide.astype(array.dtype)
