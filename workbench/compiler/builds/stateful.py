"""Runs of a build that replace some of its parameters: training steps, and other programs with state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.builds.runner import Kept
from workbench.compiler.errors import InputError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.inputs import by_name
from workbench.compiler.training.histograms import PREFIX

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.builds.build import Build

MAX_ROWS = 1_000_000
"""Steps that the history holds; older ones are dropped."""
MAX_HISTOGRAMS = 10_000
"""Steps whose histograms are held; older ones are dropped."""


class Stateful(Mapping[str, Array]):
    """A build whose outputs replace parameters from run to run. As a mapping: the parameters' values now.

    On a device the values stay in its memory; reading one copies it.

    Args:
        build: A build of a program that has ``updates``.
        values: The first value of each parameter that a run replaces.

    Raises:
        InputError: The program replaces no parameter, or a value is missing or does not fit.
    """

    def __init__(self, build: Build, values: Mapping[str, Any]) -> None:
        """Check the values, and put them where the build runs."""
        self.build = build
        self.updates = dict(build.program.updates)
        _check_values(build.program, self.updates, values)
        self._kept: Kept = build.runner.keeping(self.updates, values)
        self._rows: list[dict[str, float]] = []
        self._histograms: dict[str, deque[Array]] = {}
        self._steps = 0
        replaced = set(self.updates.values())
        outputs = range(len(build.program.outputs))
        self._shown = {k: _name(build.program, k) for k in outputs if k not in replaced}

    def run(self, inputs: Mapping[str, Any] | None = None) -> dict[str, Array]:
        """Run once, and replace the parameters.

        Args:
            inputs: An array for each other parameter, by name.

        Returns:
            The outputs that replace no parameter, by name (``output0``… where the program names none).

        Raises:
            InputError: An input is missing or unknown, does not fit, or is a parameter that a run replaces.
            EvaluationError: An instruction failed; no parameter was replaced.
        """
        given = by_name(inputs)
        if kept := [n for n in given if n in self.updates]:
            raise InputError(
                f"input {kept[0]!r} is kept between runs; assign it: stateful[{kept[0]!r}] = …"
            )
        outputs = self._kept.run(given, list(self._shown))
        found = dict(zip(self._shown.values(), outputs, strict=True))
        self._rows.append({n: float(v.reshape(-1)[0]) for n, v in found.items() if np.size(v) == 1})
        del self._rows[:-MAX_ROWS]
        self._steps += 1
        for name, counts in found.items():
            if name.startswith(PREFIX):
                kept = self._histograms.setdefault(
                    name.removeprefix(PREFIX), deque(maxlen=MAX_HISTOGRAMS)
                )
                kept.append(counts)
        return found

    def train(
        self, batches: Iterable[Mapping[str, Any]], progress: bool | None = None
    ) -> DataFrame:
        """Run for each of several inputs.

        Args:
            batches: Inputs by name, one mapping for each step.
            progress: Show a progress bar; by default if it takes longer than a second.

        Returns:
            The history of these steps; an interrupt ends the steps, and those done are kept.
        """
        first = len(self._rows)
        listed: Sequence[Mapping[str, Any]] = (
            batches if isinstance(batches, Sequence) else list(batches)
        )
        with progress_bar(listed, progress, "train") as steps:
            for inputs in steps:
                self.run(inputs)
        history: Any = self.history
        return history.iloc[first:]

    @property
    def history(self) -> DataFrame:
        """The outputs of one element of each run: the loss, norms of gradients."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self._rows).rename_axis("step")

    def plot(self, *names: str, ax: Any = None) -> Any:
        """Plot outputs over the steps, on a logarithmic axis if all are positive.

        Args:
            *names: Outputs of one element; by default all.
            ax: The axes to draw on.

        Returns:
            The matplotlib axes.

        Raises:
            InputError: There is no such output, or nothing has run.
        """
        history: Any = self.history
        if unknown := [n for n in names if n not in history]:
            raise InputError(
                f"no output {unknown[0]!r} of one element; there are {', '.join(history)}"
            )
        if history.empty:
            raise InputError("nothing has run yet: run a step, then plot")
        shown = history[list(names)] if names else history
        positive = bool((shown.to_numpy() > 0).all())
        found = shown.plot(ax=ax, xlabel="step", logy=positive)
        found.grid(visible=True, alpha=0.3)
        return found

    @property
    def histograms(self) -> dict[str, Array]:
        """The histograms of each weight's gradient, ``[steps, 64]``, of the last 10,000 steps.

        A training step has them with ``histograms=True``.
        """
        return {name: np.stack(counts) for name, counts in self._histograms.items()}

    def plot_histograms(self, name: str, ax: Any = None) -> Any:
        """Draw the magnitudes of a weight's gradient over the steps: the share of each power of two.

        Args:
            name: The weight.
            ax: The axes to draw on.

        Returns:
            The matplotlib axes.

        Raises:
            InputError: The program returns no histogram of it, or nothing has run.
        """
        if name not in self._histograms:
            known = ", ".join(self._histograms) or "none yet"
            raise InputError(
                f"no histograms of the gradient of {name!r}; there are {known}. "
                "wb.training_step(…, histograms=True) returns them, and runs collect them"
            )
        from workbench.compiler.builds.training_plots import plot_histograms  # noqa: PLC0415

        counts = np.stack(self._histograms[name])
        return plot_histograms(counts, self._steps - len(counts), name, ax)

    # The values

    def __getitem__(self, name: str) -> Array:
        """The value of a parameter now, as a copy."""
        if name not in self.updates:
            raise KeyError(name)
        return self._kept.read(name)

    def __setitem__(self, name: str, value: Any) -> None:
        """Give a parameter another value.

        Raises:
            InputError: It is not kept between runs, or the value does not fit.
        """
        if name not in self.updates:
            raise InputError(f"{name!r} is not kept between runs; {', '.join(self.updates)} are")
        self._kept.write(name, _checked(self.build.program, name, value))

    def __iter__(self) -> Iterator[str]:
        """Names of the parameters that a run replaces."""
        return iter(self.updates)

    def __len__(self) -> int:
        """The number of parameters that a run replaces."""
        return len(self.updates)

    def __repr__(self) -> str:
        """The number of values kept, and of steps."""
        return f"<Stateful: {len(self)} values kept, {len(self._rows)} steps>"


def _name(program: Program, output: int) -> str:
    return program.output_names[output] if program.output_names else f"output{output}"


def _check_values(program: Program, updates: Mapping[str, int], values: Mapping[str, Any]) -> None:
    if not updates:
        raise InputError("the program replaces no parameter; wb.training_step makes one that does")
    for name in updates:
        if name not in values:
            raise InputError(f"parameter {name!r} has no first value")
        _checked(program, name, values[name])
    if unknown := [n for n in values if n not in updates]:
        raise InputError(f"{unknown[0]!r} is not replaced by a run; {', '.join(updates)} are")


def _checked(program: Program, name: str, value: Any) -> Array:
    shape = program.parameters[name]
    array = np.asarray(value)
    if array.dtype != shape.type.numpy or array.shape != shape.lens:
        found = f"{array.dtype} {list(array.shape)}"
        raise InputError(f"parameter {name!r} is {shape}; found {found}")
    return array
