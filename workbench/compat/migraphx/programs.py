"""Programs: building, compiling in place, running, printing, and comparison by text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from workbench.compat.migraphx.arguments import argument, as_argument, generate_argument, of_value
from workbench.compat.migraphx.errors import Error, FileName, Size, bound, written
from workbench.compat.migraphx.modules import instruction_ref, module
from workbench.compat.migraphx.numbered import Numbered
from workbench.compat.migraphx.offloading import (
    borrowed_argument,
    on_device,
    run_in_place,
    run_with_copies,
    runs_on_device,
    stream_of,
    trace,
)
from workbench.compat.migraphx.results import Views, as_arguments, result_shapes
from workbench.compat.migraphx.shapes import from_core, shape
from workbench.compat.migraphx.targets import target, warn_of_stand_in
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.precompiled import build_of, compiled_part, pipeline_for
from workbench.compiler.files.mxr.kernels import NOTHING, Compiled
from workbench.compiler.ir.instruction import Instruction, captured
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.report.tuning import ALL
from workbench.compiler.run.tracing import Traced, run_trace
from workbench.compiler.text.printing import to_text

if TYPE_CHECKING:
    from workbench.compat.migraphx.perf import PerfReport
    from workbench.numerics.precision.calibration import Calibration


class compile_modes(Numbered):
    """The effort of a compilation."""

    eager = 0
    balanced = 50
    max = 100


class _Replacements(Listener):
    """Remembers the ids of instructions that others replace, with those of the others."""

    def __init__(self, found: dict[int, int]) -> None:
        self.found = found

    def replaced(self, old: Instruction, new: Instruction) -> None:
        """Remember the pair."""
        self.found[old.id] = new.id


class program:
    """A computation, built instruction by instruction or read from a model, and compiled in place.

    ``build`` is the workbench's record of the compilation: ``p.build.explore()``.
    """

    def __init__(self) -> None:
        self._core = Program()
        self._core.follow_migraphx()
        self._build: Build | None = None
        self._target = ""
        self._runs: Build | None = None
        self._kept = NOTHING
        self._offload_copy = True
        self._successors: dict[int, int] = {}
        self.calibration: Calibration | None = None
        """The calibration of the last quantization, as a table and plots."""

    @classmethod
    def of(cls, core: Program, compiled_for: str = "") -> program:
        """The program that wraps one of the core's; ``compiled_for`` names the target if it is compiled."""
        made = cls()
        made._core = core
        made._target = compiled_for
        return made

    @classmethod
    def loaded(cls, core: Program, compiled: Compiled, trusted_kernels: bool) -> program:
        """The program of a file, with its compiled part."""
        made = cls.of(core)
        made._offload_copy = compiled.offload_copy
        made._kept = compiled.trusted(trusted_kernels)
        return made

    @property
    def core(self) -> Program:
        """The core's program."""
        return self._core

    def find(self, id: int) -> Instruction | None:
        """The instruction with this id, or what a pass put in its place; None where both are gone."""
        found = self._core.find(id)
        while found is None and id in self._successors:
            id = self._successors[id]
            found = self._core.find(id)
        return found

    @contextmanager
    def following(self) -> Generator[None]:
        """Handles of instructions that the block replaces refer to the replacements from then on."""
        core, heard = self._core, _Replacements(self._successors)
        core.listeners.append(heard)
        try:
            yield
        finally:
            core.listeners.remove(heard)

    @property
    def build(self) -> Build:
        """The core's Build: the recording of the compilation, its views, memory and kernels.

        Raises:
            Error: The program is not compiled, or was compiled elsewhere and loaded from a file.
        """
        if self._build is None and self.is_compiled():
            raise Error(
                "the program has no build: it was compiled before it was saved, and files keep no "
                "recording; compile it in this process"
            )
        if self._build is None:
            raise Error("the program has no build: compile it first, with p.compile(target)")
        return self._build

    # Parameters and results

    @bound
    def get_parameter_names(self) -> list[str]:
        """The names of the parameters, in the order in which they were made."""
        return list(self._core.parameters)

    @bound
    def get_parameter_shapes(self) -> dict[str, shape]:
        """The shapes of the parameters by name."""
        return {name: from_core(s) for name, s in self._core.parameters.items()}

    @bound
    def get_output_shapes(self) -> list[shape]:
        """The shapes of the results."""
        if self._core.main.last is None:
            raise Error("get_output_shapes(): the program is empty")
        return [from_core(s) for s in result_shapes(self._core)]

    # Modules

    @bound
    def get_main_module(self) -> module:
        """The module that a run starts with."""
        return module(self, "main")

    @bound
    def create_module(self, name: str) -> module:
        """Add an empty module."""
        self._core.create_module(name)
        return module(self, name)

    @bound
    def get_module(self, name: str) -> module:
        """The module of this name."""
        if name not in self._core.modules:
            listed = ", ".join(self._core.modules)
            raise Error(f"get_module(): no module {name!r}; the program has {listed}")
        return module(self, name)

    @bound
    def modules(self) -> list[module]:
        """All modules, the main one first."""
        return [module(self, name) for name in self._core.modules]

    # Compiling and running

    @bound
    def is_compiled(self) -> bool:
        """Whether the program is compiled."""
        return bool(self._core.targets)

    @bound
    def compile(
        self,
        t: target,
        offload_copy: bool = True,
        fast_math: bool = True,
        exhaustive_tune: bool = False,
        compile_mode: compile_modes = compile_modes.balanced,
    ) -> None:
        """Compile the program in place.

        Args:
            t: The target.
            offload_copy: Whether a run copies parameters to the device and results back. Otherwise both stay
                on the device, and the buffers of the results are parameters, ``main:#output_0`` and so on.
            fast_math: Whether a device may use approximations, such as another form of GELU.
            exhaustive_tune: Whether to measure several kernels for each product, if the target is a device.
            compile_mode: Accepted for compatibility; every compilation runs the same passes.

        Raises:
            Error: A pass failed, and ``error.recording`` has the steps up to it; or a kernel failed.
        """
        chosen = t.core
        passes = pipeline_for(chosen, self._core, fast_math, offload_copy)
        made = compile(self._core, chosen.name, passes=passes)
        if chosen.takes_device and exhaustive_tune:
            made.tune(most=ALL)
        made.runner.ready()
        self.replace_core(made.program)
        self._build = self._runs = made
        self._offload_copy = offload_copy

    def replace_core(self, core: Program) -> None:
        """Replace the wrapped program; handles are resolved in the new one from now on."""
        self._core = core
        self._runs = None

    @bound
    def run(self, params: dict[str, Any]) -> list[argument]:
        """Run the program on buffers by name; names that are not parameters are ignored.

        Raises:
            Error: A buffer is missing, or its shape is not that of the parameter.
        """
        if self._stays_on_device:
            return run_in_place(self.runs, self._given(params), None, wait=True)
        return self._run(params)

    @bound
    def run_async(self, params: dict[str, Any], stream: Size, stream_name: str) -> list[argument]:
        """Run the program in a stream of the caller.

        Results on the device are ready when the stream reaches them; others are ready at return.

        Args:
            params: Buffers by name, as for ``run``.
            stream: The stream's address.
            stream_name: Its type: ``ihipStream_t``, or ``CUstream_st`` on CUDA.

        Raises:
            Error: A buffer is missing or does not fit, or the device has no streams of that type.
        """
        if not runs_on_device(self.runs):
            warn_of_stand_in(f"no device for stream {stream_name!r}: the host runs the program")
            return self._run(params)
        queue = stream_of(on_device(self.runs).here(), stream, stream_name)
        if self._stays_on_device:
            return run_in_place(self.runs, self._given(params), queue, wait=False)
        return self._results(run_with_copies(self.runs, self.inputs(params), queue))

    @property
    def runs(self) -> Build:
        """The build that runs the program in its present state."""
        if self._runs is None or self._runs.program is not self._core:
            self._runs = build_of(self._core, self._kept)
        return self._runs

    @property
    def _stays_on_device(self) -> bool:
        return not self._offload_copy and runs_on_device(self.runs)

    def compiled(self) -> Compiled:
        """The compiled part for a file: machine code of kernels, and ``offload_copy``."""
        return compiled_part(self.runs, self._offload_copy) if self.is_compiled() else NOTHING

    def inputs(self, params: dict[str, Any]) -> dict[str, Any]:
        """The values of the parameters from a caller's buffers, with MIGraphX's checks."""
        return {name: given.value for name, given in self._given(params).items()}

    def _given(self, params: dict[str, Any]) -> dict[str, argument]:
        given = {
            k: borrowed_argument(v, k) or as_argument(v, f"run(): params[{k!r}]")
            for k, v in params.items()
        }
        wanted = self._core.parameters
        for name, expected in wanted.items():
            if name not in given:
                raise Error(
                    f"Parameter not found: {name} (of shape {expected}; given: {_keys(given)})"
                )
            found = given[name].core
            if expected.dims is None and found != expected:
                raise Error(
                    f"Incorrect shape {{{found}}} for parameter: {name} should be: {{{expected}}}"
                    f"{_remedy(found, expected)}"
                )
        return {name: given[name] for name in wanted}

    def _run(self, params: dict[str, Any]) -> list[argument]:
        views = Views(self._core)
        values = self.runs.evaluator().run(self.inputs(params), hook=views.hook)
        return as_arguments(self._core, values, views.shapes)

    def _results(self, values: list[Any]) -> list[argument]:
        return as_arguments(self._core, values)

    @bound
    def run_trace(
        self, params: dict[str, Any], callback: Callable[[trace_info], Any]
    ) -> list[argument]:
        """Run the program and call ``callback`` after each instruction.

        Args:
            params: Buffers by name, as for ``run``.
            callback: Called with ``index``, ``name``, ``result`` and ``instruction``; an exception ends
                the run.
        """

        def heard(one: Traced) -> None:
            result = of_value(one.instruction.shape, one.result)
            callback(
                trace_info(one.index, one.name, result, instruction_ref(self, one.instruction.id))
            )

        inputs = self.inputs(params)
        if runs_on_device(self.runs):
            return self._results(trace(self.runs, inputs, heard))
        return self._results(run_trace(self._core, inputs, heard))

    @bound
    def perf_report(
        self,
        params: dict[str, Any] = {},
        iterations: Size = 100,
        batch: Size = 1,
        detailed: bool = False,
    ) -> PerfReport:
        """Measure the program as MIGraphX's driver does; parameters that are left out are generated.

        Returns:
            The report: it prints MIGraphX's text, and has ``table()`` and ``to_json()``.
        """
        from workbench.compat.migraphx.perf import perf_report  # noqa: PLC0415

        shapes = self._core.parameters
        made = {k: generate_argument(from_core(s)) for k, s in shapes.items() if k not in params}
        inputs = self.inputs(made | params)
        return perf_report(
            self.runs, inputs, iterations, batch, detailed, copies=self._offload_copy
        )

    # Copies, texts

    @bound
    def clone(self) -> program:
        """An independent copy."""
        made = program.of(self._core.clone())
        made._build = self._build
        made._offload_copy, made._kept = self._offload_copy, self._kept
        made._successors = dict(self._successors)
        return made

    @bound
    def sort(self) -> program:
        """Move instructions right before their first users, in place; returns a copy."""
        for one in list(self._core.modules.values()):
            sort_module(one)
        return self.clone()

    @bound
    def to_py(self) -> str:
        """Python code that builds this program."""
        from workbench.compat.migraphx.printers.python import to_python  # noqa: PLC0415

        return to_python(self._core)

    @bound
    def write_netron_output(self, filename: FileName) -> None:
        """Write the graph as an ONNX file for Netron."""
        from workbench.compat.migraphx.printers.netron import netron_json  # noqa: PLC0415
        from workbench.compiler.files.mxr.files import write_whole  # noqa: PLC0415

        with written(filename):
            write_whole(Path(fspath(filename)), netron_json(self._core).encode())

    @bound
    def print(self) -> None:
        """Print the program."""
        sys.stdout.write(f"{self!r}\n")

    @bound
    def _equals(self, other: program) -> bool:
        return self is other or to_text(self._core) == to_text(other._core)

    def __eq__(self, other: object) -> bool:
        """Whether both print the same text."""
        return self._equals(cast("program", other))

    def __ne__(self, other: object) -> bool:
        """Whether they print different texts."""
        return not self._equals(cast("program", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        """The text of all modules."""
        return to_text(self._core)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self._core._repr_mimebundle_(**options)  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True)
class trace_info:
    """The facts that a traced run passes about an instruction."""

    index: int
    name: str
    result: argument
    instruction: instruction_ref


def sort_module(core: Module) -> None:
    """Sort instructions in MIGraphX's order.

    First come the inputs of the last instruction, depth first from right to left; then the rest, in order.
    """
    if core.last is None:
        return
    done: dict[Instruction, None] = {}
    stack = [core.last]
    while stack:
        current = stack[-1]
        outer = [c for m in current.modules for c in captured(m)]
        needed = [i for i in (*current.inputs, *outer) if i.module is core and i not in done]
        if needed and current not in done:
            stack += needed  # the last one is popped first
        else:
            done.setdefault(stack.pop())
    order = [*done, *(i for i in core if i not in done)]
    if order != list(core):
        core.arrange(order)


def _remedy(found: Shape, expected: Shape) -> str:
    """A call that would make a buffer fit, if there is one."""
    if found.subs is not None or found.lens != expected.lens:
        return ""
    if expected.standard:
        return f"; give numpy.ascontiguousarray(buffer, {_dtype(expected)})"
    return ""


def _dtype(shape: Shape) -> str:
    dtype = shape.type.numpy
    return f"{'numpy' if dtype.type.__module__ == 'numpy' else 'ml_dtypes'}.{dtype.name}"


def _keys(given: dict[str, argument]) -> str:
    return ", ".join(map(repr, given)) or "none"
