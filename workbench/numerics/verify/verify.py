"""Checks a target against the reference like MIGraphX's driver: whole, part by part, or by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.precompiled import build_of, outputs_of
from workbench.compiler.errors import OperationError, WorkbenchError
from workbench.compiler.ir.builtin import Literal, Param, Undefined
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.broadcast import Broadcast
from workbench.compiler.ops.recurrent import Recurrent
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.ops.view import Transpose
from workbench.compiler.progress import progress_bar
from workbench.compiler.run.tracing import Traced, run_trace
from workbench.compiler.text.printing import names
from workbench.numerics.metrics.agreement import Agreement, Tolerance, agree, tolerance_for, unlike
from workbench.numerics.verify.excerpts import trim, trim_window
from workbench.numerics.verify.generate import driver_inputs, generate, static, std_hash

if TYPE_CHECKING:
    from pandas import DataFrame

MODES = ("outputs", "instructions", "reduce", "bisect")
PASSED = "MIGraphX verification passed successfully."
_SKIPPED = (Broadcast, Transpose, Reshape, Undefined)
_ITSELF = (Undefined, Recurrent)
"""Inputs that no parameter can replace: absent ones, and the networks that last states are read from."""


@dataclass(frozen=True)
class Check:
    """The comparison of one program's outputs: the model, a part of it, or one instruction."""

    name: str
    outputs: tuple[Agreement, ...] = ()
    error: str = ""
    """Why the program could not be compiled or run; empty if it could."""
    trimmed: int = 0
    """The number of instructions trimmed from the end."""
    id: int | None = None
    """The id in the whole program of the last, or the only, instruction of this one."""

    @property
    def passed(self) -> bool:
        """Whether all outputs agree."""
        return not self.error and all(o.passed for o in self.outputs)

    @property
    def rms(self) -> float:
        """The largest of MIGraphX's RMS errors."""
        return max([float(np.nan_to_num(o.rms, nan=np.inf)) for o in self.outputs], default=0.0)

    def to_json(self) -> dict[str, Any]:
        """The content as plain values."""
        return {
            "name": self.name,
            "passed": self.passed,
            "trimmed": self.trimmed,
            "error": self.error,
            "outputs": [o.to_json() for o in self.outputs],
        }


class Verification:
    """The checks, in order, and those that failed."""

    def __init__(self, mode: str, tolerance: Tolerance, checks: Sequence[Check]) -> None:
        """Keep the checks."""
        self.mode = mode
        self.tolerance = tolerance
        self.checks = list(checks)

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(c.passed for c in self.checks)

    @property
    def failures(self) -> list[Check]:
        """The checks that failed."""
        return [c for c in self.checks if not c.passed]

    @property
    def failure_starts_at(self) -> Check | None:
        """The failing check of the shortest program: after ``reduce`` and ``bisect``, where it goes wrong."""
        return max(self.failures, key=lambda c: c.trimmed, default=None)

    def table(self) -> DataFrame:
        """One row per check: name, id, trimmed instructions, passed, RMS error, greatest difference."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            {
                "name": c.name, "id": c.id, "trimmed": c.trimmed, "passed": c.passed, "rms": c.rms,
                "max diff": max([o.max_diff for o in c.outputs], default=0.0), "error": c.error,
            }
            for c in self.checks
        ]  # fmt: skip
        columns = ["name", "id", "trimmed", "passed", "rms", "max diff", "error"]
        return pd.DataFrame(rows, columns=columns)

    def to_json(self) -> dict[str, Any]:
        """The content as plain values."""
        start = self.failure_starts_at
        return {
            "mode": self.mode,
            "passed": self.passed,
            "rms_tol": self.tolerance.rms_tol,
            "atol": self.tolerance.atol,
            "rtol": self.tolerance.rtol,
            "failure starts at": start.trimmed if start and self.mode != "instructions" else None,
            "checks": [c.to_json() for c in self.checks],
        }

    def __repr__(self) -> str:
        """The number of checks that passed, and where it goes wrong."""
        counted = f"{len(self.checks) - len(self.failures)} of {len(self.checks)} checks passed"
        return f"<Verification ({self.mode}): {counted}{self._failure()}>"

    def _failure(self) -> str:
        """The failing check of ``failure_starts_at``."""
        start = self.failure_starts_at
        if start is None:
            return ""
        if self.mode in ("reduce", "bisect"):
            return f"; failure starts at #{start.id}, with {start.trimmed} instructions trimmed"
        return f"; first failure {start.name}"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<p>{escape(repr(self))}</p>{self.table().to_html(border=0)}"


Say = Callable[[str, str], object]
"""Receives each line of a report with its level: ``error``, ``warn``, ``info``, or ``out`` for results."""


def _silent(_: str, __: str) -> None:
    """Discard a message."""


@dataclass(frozen=True)
class Verifier:
    """The settings of a check: target, tolerance, and where messages go."""

    target: str = "auto"
    tolerance: Tolerance | None = None
    """The tolerance; by default ``tolerance_for`` the program."""
    quantize: str | None = None
    """``fp16`` or ``bf16`` to quantize the program that is compared; the reference is not quantized."""
    ref_use_double: bool = False
    """Compute every float of the reference in float64, without pairs of quantize and dequantize."""
    compiled: Build | Program | None = None
    """A compiled program to compare with the reference, instead of compiling."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further arguments of ``compile`` for the target, such as ``passes`` or ``disable``."""
    allclose: bool = False
    """Also require every element to be within atol and rtol."""
    dump: bool = False
    """Print values whole if they differ."""
    equal_nan: bool = False
    """Ignore elements where both are NaN, or the same infinity; always so for single
    instructions, whose random inputs may be invalid."""
    batch: int = 1
    """The length of dynamic dimensions in generated inputs."""
    say: Say = _silent
    progress: bool | None = None

    def outputs(self, program: Program, inputs: Mapping[str, Any] | None = None) -> Verification:
        """Compare all outputs of a program."""
        found = self._check(program.name or "program", program, inputs, self._limits(program))
        return Verification("outputs", self._limits(program), [found])

    def instructions(
        self, program: Program, inputs: Mapping[str, Any] | None = None
    ) -> Verification:
        """Compare each instruction by itself: in a program of one operation, on random inputs.

        Literals keep their values. Integers, which may be indices or lengths, are taken from a run of the
        program, up to where it fails; dynamic lengths are those of that run. Views, reshapes and
        instructions without inputs are not checked. An instruction that fails to run counts as a failure,
        and the others are still checked.
        """
        limits, known = self._limits(program), self._of_run(program, inputs)
        chosen = [i for i in program.main if i.name[0] != "@" and not isinstance(i.op, _SKIPPED)]
        named = names(program)
        checks: list[Check] = []
        with progress_bar(chosen, self.progress, "verify") as shown:
            for instruction in shown:
                single = _alone(instruction)
                self.say("info", f"Verify: {instruction.name}")
                self.say("out", str(single))
                numbered = ((str(k), i) for k, i in enumerate(instruction.inputs))
                made = {name: _made(name, known[i.id]) for name, i in numbered if i.id in known}
                lenient = replace(self, equal_nan=True)
                check = lenient._guarded(instruction.name, single, made, limits)
                if check.error:
                    self.say("error", f"Instruction {instruction.name} threw an exception.")
                name = f"{named[instruction.id]} = {instruction.op}"
                checks.append(replace(check, name=name, id=instruction.id))
        return Verification("instructions", limits, checks)

    def _of_run(
        self, program: Program, inputs: Mapping[str, Any] | None
    ) -> dict[int, np.ndarray[Any, Any] | Shape]:
        """Integer values and the static shapes of dynamic ones by instruction id, up to where a run fails."""
        found: dict[int, np.ndarray[Any, Any] | Shape] = {}

        def note(one: Traced) -> None:
            shape, result = one.instruction.shape, one.result
            if not isinstance(result, np.ndarray):
                return
            if shape.type.is_integral:
                found[one.instruction.id] = result
            elif shape.is_dynamic:
                found[one.instruction.id] = Shape(shape.type, result.shape)

        with suppress(WorkbenchError):
            run_trace(program, self._inputs(program, inputs), note)
        return found

    def reduced(self, program: Program, inputs: Mapping[str, Any] | None = None) -> Verification:
        """Compare the program without its last instruction, without the last two, and so on."""
        limits, main = self._limits(program), list(program.main)
        given = self._inputs(program, inputs)
        self.say("info", f"Verify steps: {len(main)}")
        checks: list[Check] = []
        with progress_bar(range(1, len(main)), self.progress, "verify") as steps:
            for count in steps:
                last = main[-count - 1]
                if isinstance(last.op, Literal | Param):
                    self.say("info", f"Skip: {count}")
                else:
                    checks.append(self._trimmed(program, count, last, given, limits))
        return Verification("reduce", limits, checks)

    def bisected(self, program: Program, inputs: Mapping[str, Any] | None = None) -> Verification:
        """Find where a program goes wrong, by bisection along its heaviest chain of instructions.

        Once a prefix is wrong, longer ones are assumed wrong, too. ``failure_starts_at`` is the shortest.
        """
        limits = self._limits(program)
        given = self._inputs(program, inputs)
        chain, count = heaviest_chain(program), len(program.main)
        place = {i.id: at for at, i in enumerate(program.main)}
        checks: list[Check] = []
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            last = chain[middle]
            trimmed = count - 1 - place[last.id]
            checks.append(self._trimmed(program, trimmed, last, given, limits))
            low, high = (middle + 1, high) if checks[-1].passed else (low, middle)
        found = Verification("bisect", limits, checks)
        if found.failure_starts_at is not None:
            self.say("out", f"Failure starts at: {found.failure_starts_at.trimmed}")
        return found

    def _trimmed(
        self,
        program: Program,
        count: int,
        last: Instruction,
        inputs: Mapping[str, Any],
        limits: Tolerance,
    ) -> Check:
        part = trim(program, count)
        self.say("info", f"Verify: {count}")
        self.say("info", str(part))
        check = self._guarded(str(count), part, inputs, limits)
        if check.error:
            self.say("error", f"FAILED: {count}")
            self.say("error", f"Exception: {check.error}")
        return replace(check, trimmed=count, id=last.id)

    def _guarded(
        self, name: str, program: Program, inputs: Mapping[str, Any] | None, limits: Tolerance
    ) -> Check:
        try:
            return self._check(name, program, inputs, limits)
        except WorkbenchError as error:
            return Check(name, error=str(error))

    def _check(
        self, name: str, program: Program, inputs: Mapping[str, Any] | None, limits: Tolerance
    ) -> Check:
        given = self._inputs(program, _known(inputs, program))
        reference = self._reference(program)
        wanted = self._run(reference, given, self.ref_use_double)
        compiled = self._target(program)
        found = self._run(compiled, given, False)
        programs = reference.program, compiled.program
        outputs = self._compare(name, programs, wanted, found, limits)
        for output in outputs:
            for level, line in output.lines:
                self.say(level, line)
        if all(o.passed for o in outputs):
            self.say("info", PASSED)
        return Check(name, tuple(outputs))

    def _compare(
        self,
        name: str,
        programs: tuple[Program, Program],
        wanted: Sequence[Any],
        found: Sequence[Any],
        limits: Tolerance,
    ) -> list[Agreement]:
        reference, compiled = programs
        if len(wanted) != len(found):
            return [unlike(name, f"{len(wanted)} outputs", f"{len(found)} outputs")]
        made: list[Agreement] = []
        for k, outputs in enumerate(zip(reference.outputs, compiled.outputs, strict=True)):
            shapes = [o.shape for o in outputs]
            if not _alike(*shapes):
                made.append(unlike(name, *shapes))
                continue
            for a, b in zip(_flat(wanted[k]), _flat(found[k]), strict=True):
                same = np.asarray(a).astype(np.asarray(b).dtype)
                how = {"allclose": self.allclose, "dump": self.dump, "equal_nan": self.equal_nan}
                made.append(agree(name, b, same, limits, **how))
        return made

    def _run(self, build: Build, inputs: Mapping[str, Any], float64: bool) -> list[Any]:
        program = build.program
        given = _known(inputs, program)
        for name, shape in program.parameters.items():
            if name not in given:  # a parameter that only the compiled program has
                given[name] = generate(static(shape, self.batch))
        outputs = outputs_of(build, given, self.progress, float64)
        self.say("info", str(program))
        return outputs

    def _reference(self, program: Program) -> Build:
        return compile(program, "ref", record=False)

    def _target(self, program: Program) -> Build:
        if self.compiled is not None:
            given = self.compiled
            return given if isinstance(given, Build) else build_of(given)
        options: dict[str, Any] = {"record": False, **self.options}
        if self.quantize in ("fp16", "bf16"):
            options["precision"] = self.quantize
        elif self.quantize is not None:
            raise OperationError(
                f"verify cannot quantize to {self.quantize!r}; expected fp16 or bf16; for other types, "
                "quantize the program first"
            )
        return compile(program, self.target, **options)

    def _inputs(self, program: Program, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Inputs as the driver generates them, with indices in range: out of range, there is no result."""
        return driver_inputs(program, given=given, batch=self.batch, in_range=True)

    def _limits(self, program: Program) -> Tolerance:
        return self.tolerance or tolerance_for(program, self.quantize)


def verify(
    program: Program,
    target: str = "auto",
    inputs: Mapping[str, Any] | None = None,
    mode: str = "outputs",
    **options: Any,
) -> Verification:
    """Compile a program for a target and for the reference, run both, and compare.

    Args:
        program: The program, not compiled.
        target: The target to check.
        inputs: An array for each parameter, by name; omitted ones are generated as by MIGraphX's driver
            (``driver_inputs``), with indices in range.
        mode: ``outputs`` compares the program's results; ``instructions`` each instruction by itself;
            ``reduce`` the program with more and more of its last instructions trimmed; ``bisect`` finds the
            place where it goes wrong by bisection.
        options: Fields of ``Verifier``: ``tolerance``, ``quantize``, ``ref_use_double``, ``compiled``,
            ``options`` (for ``compile``), ``allclose``, ``dump``, ``batch``, ``say``, ``progress``.

    Raises:
        OperationError: The mode, target or an option is unknown.
        InputError: An input does not fit.
        EvaluationError: In mode ``outputs``, an instruction failed; other modes record it as a failure.
    """
    known = Verifier.__dataclass_fields__
    if wrong := [k for k in options if k not in known]:
        raise OperationError(f"verify has no option {wrong[0]!r}; it has {', '.join(known)}")
    verifier = Verifier(target, **options)
    runs = {
        "outputs": verifier.outputs,
        "instructions": verifier.instructions,
        "reduce": verifier.reduced,
        "bisect": verifier.bisected,
    }
    if mode not in runs:
        raise OperationError(f"unknown mode {mode!r} of verify; expected {', '.join(MODES)}")
    if verifier.compiled is not None and mode != "outputs":
        raise OperationError(
            f"mode {mode!r} compiles parts of the program; omit compiled, or use mode 'outputs'"
        )
    return runs[mode](program, inputs)


def heaviest_chain(program: Program) -> list[Instruction]:
    """The chain of instructions, first to last, with the most work before each.

    The weight of an instruction is 1 plus the weights of its inputs; constants weigh nothing. From the
    program's result (its ``@return``, if it has several), the chain follows the heaviest input of each.
    """
    weights: dict[Instruction, int] = {}
    for instruction in program.main:
        if not instruction.is_constant:
            weights[instruction] = 1 + sum(weights.get(i, 0) for i in instruction.inputs)
    chain: list[Instruction] = []
    current = program.main.last
    if program.main.has_return and len(program.outputs) == 1:
        current = program.outputs[0]
    while current is not None and not isinstance(current.op, Literal | Param):
        chain.append(current)
        current = max(current.inputs, key=lambda i: weights.get(i, 0), default=None)
    return chain[::-1]


def _made(name: str, known: np.ndarray[Any, Any] | Shape) -> Any:
    """A known value, or a random one of the known shape."""
    return generate(known, std_hash(name), "random") if isinstance(known, Shape) else known


def _alone(instruction: Instruction) -> Program:
    """A program of one instruction: its inputs are parameters, named by position, or literals."""
    module = instruction.module
    if instruction.modules:
        after = sum(1 for i in module if i.order > instruction.order)
        return trim_window(module.program, after, 1)
    program = Program(instruction.name)
    inputs = [_placed(program, str(k), i) for k, i in enumerate(instruction.inputs)]
    program.main.add(instruction.op, *inputs)
    return program


def _placed(program: Program, name: str, given: Instruction) -> Instruction:
    """The replacement of an input: a parameter, or a copy of a value that no parameter can replace."""
    if given.literal is not None:
        return program.main.add_literal(given.literal)
    if not isinstance(given.op, _ITSELF):
        return program.main.add_parameter(name, given.shape)
    inputs = [_placed(program, f"{name}.{k}", i) for k, i in enumerate(given.inputs)]
    return program.main.add(given.op, *inputs)


def _known(inputs: Mapping[str, Any] | None, program: Program) -> dict[str, Any]:
    return {k: v for k, v in (inputs or {}).items() if k in program.parameters}


def _alike(wanted: Shape, found: Shape) -> bool:
    """Whether two results can be compared: equal types and lens."""
    if wanted.subs is not None or found.subs is not None:
        subs = wanted.subs or (), found.subs or ()
        same = len(subs[0]) == len(subs[1]) and wanted.kind == found.kind
        return same and all(_alike(a, b) for a, b in zip(*subs, strict=True))
    lens = wanted.lens == found.lens or wanted.is_dynamic or found.is_dynamic
    return wanted.type == found.type and lens


def _flat(value: Any) -> list[Any]:
    """The arrays of a value, flattened."""
    if not isinstance(value, tuple | list):
        return [] if value is None else [value]
    parts = cast("Sequence[Any]", value)
    return [array for part in parts for array in _flat(part)]
