"""Compilation: a program, a target and passes make a Build, which can be explored and run."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Any

from workbench.compiler import showing
from workbench.compiler.builds.garbage import rarely_collected
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.runner import Runner
from workbench.compiler.builds.targets import Target, target_named, with_devices
from workbench.compiler.counts import is_count
from workbench.compiler.errors import InputError, OperationError, WorkbenchError
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import Snapshot
from workbench.compiler.ir.selectors import Selectors, selectors_of
from workbench.compiler.ir.tracing import listeners
from workbench.compiler.laws.pass_checks import MeaningCheck, Validation
from workbench.compiler.passes.base import Pass, Pipeline, passes_of, run_pass
from workbench.compiler.progress import progress_bar
from workbench.compiler.record.edits import Counts, NearMiss
from workbench.compiler.record.recording import Recording
from workbench.compiler.report.result import Result
from workbench.compiler.run.inputs import check_inputs
from workbench.knobs import knobs

if TYPE_CHECKING:
    from workbench.compiler.builds.stateful import Stateful
    from workbench.compiler.builds.why_not import Named
    from workbench.compiler.report.kernels import Kernels
    from workbench.compiler.report.memory_plan import MemoryPlan
    from workbench.compiler.report.run_plan import RunPlan
    from workbench.compiler.report.tuning import Tuning

VALUE_BYTES = 512 << 20
"""Bytes of captured values that are kept in memory, if the caller gives no other number."""
PRECISIONS = {"float32": False, "float64": True}


@dataclass(eq=False)
class Build:
    """A compiled program with the recording of its compilation."""

    source: Program
    """The source program, unchanged."""
    program: Program
    """The compiled program."""
    target: Target
    _recording: Recording | None
    seconds: float
    """Duration of the compilation in seconds, including recording."""
    runner: Runner
    """Runs the compiled program."""

    def __post_init__(self) -> None:
        """Start without a float64 runner."""
        self._in_float64: Runner | None = None

    def evaluator(self, float64: bool = False) -> Runner:
        """The runner of the program in its current state.

        Args:
            float64: Compute every float in float64.
        """
        if not float64:
            return self.runner
        if self._in_float64 is None:
            self._in_float64 = self.runner.in_float64()
        return self._in_float64

    def specialised(self, inputs: Mapping[str, Any]) -> Build:
        """The build that runs these inputs.

        Kernels are made for fixed lengths. If lengths of the source are ranges, a device runs a separate
        build for each set of lengths, compiled when it first occurs.
        """
        return self.runner.specialised(inputs) or self

    @property
    def recording(self) -> Recording:
        """The recording of the passes.

        Raises:
            OperationError: The program was compiled with ``record=False``.
        """
        if self._recording is None:
            raise OperationError("this build has no recording; compile with record=True")
        return self._recording

    @property
    def is_recorded(self) -> bool:
        """Whether the passes were recorded."""
        return self._recording is not None

    def near_misses(self) -> list[NearMiss]:
        """The places where a rule matched but declined, with the condition that failed."""
        return self.recording.near_misses()

    def why_not(self, a: Named, b: Named) -> str:
        """Explain why two instructions are not one kernel of the compiled program, or how they are.

        Args:
            a: An instruction of any step, its id, or the name of a node of the model.
            b: Another one.

        Returns:
            The obstacle, with the instructions that it concerns: a second user, a shape, axes,
            instructions between them, a pass that did not run.

        Raises:
            GraphError: No step had such an instruction, or the model has no such node.
        """
        from workbench.compiler.builds.why_not import why_not  # noqa: PLC0415

        return why_not(self, a, b).text

    def lint(self, result: Result | None = None, *, only: Iterable[str] = ()) -> Any:
        """Find what the compiled program does needlessly, or at a risk to its numbers.

        Args:
            result: The result of a profiled run of this build, for measured milliseconds.
            only: Names of the kinds to look for, such as ``layout-copy``; by default all (docs/lint.md).

        Returns:
            A row for each finding: where it is, what it costs, what to do, and why the compiler left it.

        Raises:
            OperationError: The result is of another program, or there is no such kind.
        """
        return showing.view("lint")(self, result, only=only)

    def memory(self) -> MemoryPlan:
        """The memory of the compiled program: the lifetime of each buffer and its offset in an arena."""
        from workbench.compiler.report.memory_plan import plan  # noqa: PLC0415

        return plan(self.program)

    def plan(self) -> RunPlan:
        """All steps of a run on the device as plain rows: kernels with their code, copies, host steps.

        Raises:
            OperationError: The target is not a device, or lengths are ranges.
            DeviceError: A kernel does not compile.
        """
        return self.runner.listing()

    def kernels(self, result: Result | None = None) -> Kernels:
        """The kernels that a run launches, in order: source, module, machine code and resources.

        Args:
            result: A profiled result of this build, whose times are added to the kernels.

        Raises:
            OperationError: The target is not a device, lengths are ranges, or the result was not profiled.
            DeviceError: A kernel does not compile.
            InputError: The result belongs to another build.
        """
        found = self.runner.kernels()
        return found if result is None else found.timed(result)

    def tune(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        most: int = 8,
        progress: bool | None = None,
    ) -> Tuning:
        """Measure several kernels for each product on the device, and use the fastest from now on.

        The results are kept on disk, by device; a problem that was measured before is not measured again.
        Without this call, kernels are those of least estimated time, the same on every machine.

        Args:
            inputs: An array for each parameter; generated by default.
            most: The most variants of a problem, those of least estimated time.
            progress: Show a progress bar; None shows one after the first second.

        Returns:
            The variants with their times, as a table and a plot.

        Raises:
            OperationError: The target is not a device, lengths are ranges, or the number is not positive.
            DeviceError: There is no such device, or a kernel failed.
            InputError: An input is missing, unknown, or has the wrong type or shape.
        """
        given = completed_inputs(self.program, inputs)
        check_inputs(self.program, given)  # now: perhaps nothing is left to be measured
        return self.runner.tune(given, most, progress)

    def explore(self, **options: Any) -> Any:
        """The pass explorer widget."""
        return self.recording.explore(**{"target": self.target.name, "build": self, **options})

    def filmstrip(self, *passes: str, most: int = 3) -> Any:
        """A still picture of the program before and after some passes; see `Recording.filmstrip`."""
        return self.recording.filmstrip(*passes, most=most)

    def open(self, **options: Any) -> Any:
        """The whole workbench on this build as one widget: settings, actions, and panes over one selection.

        Args:
            options: Those of ``workbench.open``.
        """
        return showing.view("open")(self, **options)

    def report(
        self,
        path: str | PathLike[str],
        inputs: Mapping[str, Any] | None = None,
        *,
        compare: bool = True,
        seed: int = 0,
    ) -> Any:
        """Write one offline page with graph, passes, kernels, timings, memory and errors, linked.

        The build is profiled and compared with the reference for it.

        Args:
            path: The page to write.
            inputs: As for ``run``.
            compare: Compare each value with the reference.
            seed: Seed of the generated inputs.

        Returns:
            The widget that the page shows.

        Raises:
            InputError: An input does not fit its parameter.
            OSError: The page cannot be written.
        """
        return showing.view("report page")(self, path, inputs, compare=compare, seed=seed)

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        profile: bool = False,
        repetitions: int = 10,
        precision: str = "float32",
        seed: int = 0,
        progress: bool | None = None,
    ) -> Result:
        """Run the program.

        Args:
            inputs: An array (or a DLPack tensor) for each parameter, by name; missing ones are
                generated from ``seed``.
            profile: Run once to warm up, then ``repetitions`` times; timings are medians with spread.
            repetitions: Number of timed runs for a profile.
            precision: ``float32`` runs as typed; ``float64`` computes every float in float64, except
                constants that compilation folded in their own type (``ref`` folds none).
            seed: Seed of the generated inputs.
            progress: Show a progress bar; by default if a run takes longer than a second.

        Raises:
            InputError: An input is unknown or has the wrong type or shape.
            EvaluationError: An instruction failed; the message names it and the model's node.
        """
        if not isinstance(precision, str) or precision not in PRECISIONS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperationError(
                f"unknown precision {precision!r}; expected {' or '.join(PRECISIONS)}"
            )
        if not is_count(repetitions):
            raise OperationError(f"{repetitions!r} repetitions; expected at least 1")
        given = completed_inputs(self.program, inputs, seed)
        is_double = PRECISIONS[precision]
        build = self if is_double else self.specialised(given)
        runner = build.evaluator(is_double)
        started = perf_counter()
        if profile:
            outputs, times = runner.profiled(given, repetitions, progress)
        else:
            outputs, times = runner.timed(given, progress)
        return Result(build.program, tuple(outputs), times, perf_counter() - started, given)

    def stateful(self, values: Mapping[str, Any] | None = None) -> Stateful:
        """This build as one whose runs replace parameters, such as the weights of a training step.

        Args:
            values: The first value of each parameter that a run replaces, by name; by default those that
                `wb.training_step` started with.

        Raises:
            InputError: The program replaces no parameter, or a value is missing or does not fit.
        """
        from workbench.compiler.builds.stateful import Stateful  # noqa: PLC0415

        initial = getattr(self.source, "initial", {}) if values is None else values
        return Stateful(self, initial)

    def values(
        self,
        inputs: Mapping[str, Any] | None = None,
        which: Named | Iterable[Named] | None = None,
        *,
        statistics: bool = False,
        per_channel: int | None = None,
        budget: int = VALUE_BYTES,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Any:
        """The values of instructions in a normal run of the compiled program, or their statistics.

        Args:
            inputs: As for ``run``.
            which: Instructions, their ids, names of the model's tensors, nodes or modules; by default all
                that the main module computes.
            statistics: Return a table instead, and keep no value: a row per value with count, min, max,
                mean and std of the finite elements, the numbers of NaNs, infinities, subnormals and zeros,
                the shares that half would round to infinity or to zero, and a histogram.
            per_channel: For statistics: a row per index along this axis.
            budget: Bytes of values to keep in memory; the rest goes to a temporary folder.
            seed: Seed of the generated inputs.
            progress: Show a progress bar; by default if the run takes longer than a second.

        Returns:
            A mapping of read-only arrays by id, tensor name or node name; or a DataFrame by id.

        Raises:
            GraphError: The compiled program does not compute such a value; the message says why, and in which
                kernel it is.
            InputError: An input does not fit its parameter.
            OperationError: A name was given, but the build has no recording; or ``per_channel`` without
                ``statistics``.
        """
        return showing.view("values")(
            self, inputs, which, statistics=statistics, per_channel=per_channel, budget=budget,
            seed=seed, progress=progress,
        )  # fmt: skip

    def __repr__(self) -> str:
        """Target and sizes."""
        sizes = Counts.of(self.source).to(Counts.of(self.program))
        return f"<Build for {self.target.name}: {sizes}, {self.seconds * 1e3:.3g} ms>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.program._repr_mimebundle_(**options)  # pyright: ignore[reportPrivateUsage]


def compile(
    program: Program,
    target: str = "auto",
    *,
    passes: Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]] | None = None,
    disable: str | Iterable[str] = (),
    precision: str | None = None,
    keep: Selectors = (),
    record: bool = True,
    check: bool | Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    device: str | None = None,
) -> Build:
    """Compile a program for a target; the program itself is not changed.

    Args:
        program: The program to compile.
        target: One of ``workbench.targets()``, such as ``ref``, ``cpu`` or ``gpu``; ``auto`` chooses the
            preferred one on this machine.
        passes: Passes (or names of passes and pipelines, or names with options) to run instead of
            the target's pipeline.
        disable: Names of passes in the pipeline to skip, and of rules: ``"pass.rule"``.
        precision: ``"fp16"`` or ``"bf16"`` converts every float32 computation to that type.
        keep: Selectors of the computations that ``precision`` leaves in float32: a node's name, a scope,
            ``"op:softmax"``, ``"re:ln[12]"`` or an instruction's id, or several of them
            (docs/precision.md).
        record: Whether to record the passes.
        check: Whether to validate the program after every pass; by default as ``WORKBENCH_VALIDATE``
            says. A mapping of inputs by name (missing ones are generated) also runs the program after
            every pass that changed it, and stops at the first pass after which a result differs.
        tolerance: Relative RMS up to which results are equal for ``check``; by default that of the
            narrowest float type in the program (7e-5 for float), as docs/numbers.md says.
        device: For a target with devices, such as ``gpu``: one of ``workbench.devices()``, such as
            ``cuda:0``, or an architecture to compile for that need not be present, such as
            ``hip:gfx90a``; by default the best device present.

    Raises:
        OperationError: The target, a pass or an option is unknown or cannot be used here, or a selector
            chooses nothing.
        InputError: ``check`` is neither a bool nor inputs that fit.
        DeviceError: There is no such device, and it is no architecture to compile for.
        RewriteError: A pass or rule failed; ``error.recording`` contains the steps up to it.
        MeaningError: A result differs after a pass; the message names the pass and the rewrite.
    """
    chosen = target_named(target)
    if check is not None and not isinstance(check, bool | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = type(check).__name__
        raise InputError(f"check: expected True, False or arrays by name, found {found}")
    if device is not None and not chosen.takes_device:
        raise OperationError(f"target {chosen.name!r} has no devices; expected {with_devices()}")
    pipeline = pipeline_of(chosen, passes, disable, precision, keep, device)
    started = perf_counter()
    with rarely_collected():
        start = Snapshot(program)
        work = start.build()
        recording = Recording(work, start) if record or isinstance(check, Mapping) else None
        with _shown_by(recording):
            _run(pipeline, work, recording, knobs.validate if check is None else check, tolerance)
    work.targets = (chosen.name,)
    seconds = perf_counter() - started

    def variant(source: Program) -> Build:
        return compile(
            source, chosen.name, passes=passes, disable=disable, precision=precision, keep=keep,
            record=record, device=device,
        )  # fmt: skip

    runner = chosen.prepare(work, device=device, source=program, compile=variant)
    kept = recording if record else None
    if kept is not None:
        started = perf_counter()
        with _shown_by(kept):
            kept.lower(runner.lowered)
        seconds += perf_counter() - started
    return Build(program, work, chosen, kept, seconds, runner)


@contextmanager
def _shown_by(recording: Recording | None) -> Generator[None]:
    """Attach the recording made so far to an error that is raised inside."""
    try:
        yield
    except WorkbenchError as error:
        error.recording = recording
        raise


def _run(
    pipeline: Pipeline,
    work: Program,
    recording: Recording | None,
    check: bool | Mapping[str, Any],
    tolerance: float | None,
) -> None:
    """Run the passes; other listeners hear of each pass after it is recorded."""
    with nullcontext() if recording is None else recording:
        watch: list[Listener] = []
        if isinstance(check, Mapping):
            assert recording is not None
            watch = [MeaningCheck(recording, completed_inputs(work, check), tolerance)]
        elif check:
            watch = [Validation(work)]
        watch += listeners(work, "compile")
        work.listeners += watch
        try:
            with progress_bar(pipeline.passes, False, "compile") as passes:
                for one in passes:
                    run_pass(one, work)
        finally:
            for listener in watch:
                work.listeners.remove(listener)


def pipeline_of(
    target: Target,
    passes: Pass | str | Sequence[Pass | str | tuple[str, dict[str, Any]]] | None = None,
    disable: str | Iterable[str] = (),
    precision: str | None = None,
    keep: Selectors = (),
    device: str | None = None,
) -> Pipeline:
    """The pipeline that ``compile`` would run.

    Raises:
        OperationError: Something is to be kept, but there is no precision to keep it from.
    """
    kept = selectors_of(keep)
    if kept and precision is None:
        raise OperationError(f"keep={kept!r} without a precision; expected one, such as 'fp16'")
    chosen = target.pipeline_for(device) if passes is None else _custom(passes_of(passes))
    if precision is not None:
        quantize = passes_of([("quantize_float", {"type": precision, "keep": kept})])
        chosen = Pipeline(f"{chosen.label} in {precision}", (*quantize, *chosen.passes))
    if isinstance(disable, str) or not isinstance(disable, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        disable = [disable]
    return chosen.without(*disable)


def _custom(passes: list[Pass]) -> Pipeline:
    """The passes as a pipeline; a pipeline is used unchanged."""
    first = passes[0] if len(passes) == 1 else None
    return first if isinstance(first, Pipeline) else Pipeline("custom", tuple(passes))
