"""Quantization of a program to half, bfloat16, int8, fp8 or 4-bit weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from workbench.compiler.builds.build import compile
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.builtin import Capture, watcher
from workbench.compiler.ir.followed import Followed, following
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import find, float_text
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import build, rows_of
from workbench.compiler.ir.selectors import Selectors, select
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.tracing import traced
from workbench.compiler.ops.convert import Convert
from workbench.compiler.passes.base import Pass, Pipeline, open_modules, run_pass
from workbench.compiler.passes.pipelines import optimize_module
from workbench.compiler.passes.precision.capture_arguments import CaptureArguments
from workbench.compiler.passes.precision.quantize_8bits import Quantize8bits
from workbench.compiler.passes.precision.quantize_int4 import (
    OPERATIONS,
    QuantizeInt4,
    Weight,
    is_packable,
    weights_of,
)
from workbench.compiler.passes.precision.truncate_float import TruncateFloat
from workbench.compiler.passes.tidy.dead_code_elimination import DeadCodeElimination
from workbench.compiler.passes.tidy.normalize_ops import NormalizeOps
from workbench.compiler.progress import progress_bar
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.knobs import knobs
from workbench.numerics.precision.calibration import Calibration, Captured

Precision: TypeAlias = Literal["fp16", "bf16", "int8", "fp8", "int4"]
Inputs: TypeAlias = Mapping[str, Any]

_FLOATS = {"fp16": "half", "bf16": "bf16"}
_BITS = {"int8": "int8", "fp8": "fp8e4m3fn"}
INT8 = ("convolution", "dot")
_QDQ = ("quantizelinear", "dequantizelinear")


class Quantized(Program):
    """A program that computes in a narrower type, with its calibration and recording.

    Attributes:
        calibration: The statistics of the captured arguments, and their rounding.
        recording: The edits of the passes.
    """

    calibration: Calibration
    recording: Recording


def quantize(
    program: Program,
    precision: Precision,
    calibration: Inputs | Iterable[Inputs] | None = None,
    ins_names: str | Iterable[str] | None = None,
    target: str = "ref",
    progress: bool | None = None,
    keep: Selectors = (),
    asymmetric: bool = False,
) -> Quantized:
    """A copy of a program in a narrower type; the given program is not changed.

    Args:
        program: The program to quantize.
        precision: ``fp16`` or ``bf16`` computes floats in that type. ``int8`` and ``fp8`` round the
            arguments of operations to 8 bits, by the range that they have on the calibration inputs.
            ``int4`` packs the weights of products and convolutions into four bits.
        calibration: Inputs by name, or several sets of them, for ``int8`` and ``fp8``.
        ins_names: Names of the operations to quantize. By default, all for ``fp16``, ``bf16`` and ``fp8``;
            ``convolution`` and ``dot`` for ``int8``.
        target: The target that runs the program on the calibration inputs.
        progress: Show a progress bar; None shows one after the first second.
        keep: Selectors of the instructions of ``program`` that stay in their type, as in ``wb.compile``.
            So does an instruction that simplification makes of a kept one and others.
        asymmetric: For ``int8``, round what is not constant with a zero point, so that the codes cover the
            range of the values and not twice their largest magnitude, as MIGraphX does. The error is
            smaller; products take more work.

    Raises:
        OperationError: The precision or an operation's name is unknown, the two do not match, or a
            selector chooses nothing; or ``asymmetric`` is given for another type.
        InputError: Required calibration inputs are missing, or do not fit the parameters.
    """
    sets = _expected(program, precision, calibration)
    if asymmetric and precision != "int8":
        raise OperationError(
            f"quantize: asymmetric is for int8, which has zero points; not {precision}"
        )
    named = _names(precision, ins_names)
    kept = select(program, keep)
    rows = rows_of(program)
    made = Quantized()
    build(rows, made)
    with Recording(made, rows) as recording:
        found = quantize_in_place(made, precision, sets, named, target, progress, kept, asymmetric)
    made.calibration, made.recording = found, recording
    return made


def _expected(
    program: Program, precision: str, calibration: Inputs | Iterable[Inputs] | None
) -> Iterable[Inputs]:
    """The sets of calibration inputs; refuses unused ones, and the lack of required ones."""
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise OperationError(f"quantize: unknown precision {precision!r}; expected one of {known}")
    if precision not in _BITS:
        if calibration is not None:
            raise OperationError(f"quantize: {precision} takes no calibration inputs; omit them")
        return ()
    if calibration is None and program.parameters:
        raise InputError(
            f"quantize: {precision} rounds by the range of values, and needs calibration inputs; "
            f"expected calibration={{{next(iter(program.parameters))!r}: array, …}}, or several in a list"
        )
    wanted = program.parameters
    return (_complete(given, wanted) for given in _sets(calibration))


def _sets(calibration: Inputs | Iterable[Inputs] | None) -> Iterable[Inputs]:
    if calibration is None or isinstance(calibration, Mapping):
        return (cast("Inputs", calibration or {}),)
    return calibration


def _complete(given: Inputs, wanted: Mapping[str, Shape]) -> Inputs:
    if missing := [name for name in wanted if name not in given]:
        raise InputError(
            f"quantize: calibration inputs lack {missing[0]!r} of shape {wanted[missing[0]]}; "
            f"found {', '.join(map(repr, given)) or 'none'}"
        )
    return given


def _names(precision: str, ins_names: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if ins_names is None:
        return None
    named = (ins_names,) if isinstance(ins_names, str) else tuple(ins_names)
    if precision == "int4":
        raise OperationError(
            f"quantize: int4 is only for weights of {' and '.join(OPERATIONS)}; omit ins_names"
        )
    for name in named:
        if precision == "int8" and name not in INT8:
            raise OperationError(f"quantize: int8 is only for {' and '.join(INT8)}, not {name!r}")
        if name != "all":
            find(name)
    return named


def quantize_in_place(
    program: Program,
    precision: Precision,
    calibration: Iterable[Inputs] = (),
    ins_names: Sequence[str] | None = None,
    target: str = "ref",
    progress: bool | None = False,
    keep: Selectors = (),
    asymmetric: bool = False,
) -> Calibration:
    """Quantize a program in place, with MIGraphX's passes in MIGraphX's order.

    Parameters without a calibration input are zeros; inputs that are not parameters are ignored. Without
    calibration, every argument gets a step of 1/64.

    Returns:
        The statistics of the captured arguments.

    Raises:
        InputError: Calibration inputs do not fit the parameters; the program is then only simplified.
        OperationError: A selector of what is to be kept chooses nothing.
    """
    with traced(program, "quantize"), following(program, select(program, keep)) as kept:
        found = _quantize(
            program, precision, calibration, ins_names, target, progress, kept, asymmetric
        )
    if knobs.quantization_params and precision in _BITS:
        _say_parameters(found)
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _say_parameters(found: Calibration) -> None:
    for i, (multiplier, shift) in enumerate(found.quant_params):
        _say(f"ins_index = {i}, scale = {float_text(multiplier)}, shift = {float_text(shift)}")
    _say("")


def _quantize(
    program: Program,
    precision: str,
    calibration: Iterable[Inputs],
    ins_names: Sequence[str] | None,
    target: str,
    progress: bool | None,
    kept: Followed,
    asymmetric: bool,
) -> Calibration:
    if precision in _FLOATS:
        _truncate(program, precision, ("all",) if ins_names is None else ins_names, kept)
        return Calibration(precision)
    _expect_no_captures(program)
    names = ins_names if ins_names is not None else (INT8 if precision == "int8" else ("all",))
    names = _all_operations(program) if "all" in names else names
    _run(program, Pipeline("prepare", (NormalizeOps(), optimize_module())))
    if precision == "int4":
        rows = _weights(program, kept.ids)
        _run(program, QuantizeInt4(keep=kept.ids))
        return Calibration(precision, rows)
    capture = CaptureArguments(ins_names=tuple(names), keep=kept.ids)
    rows = _calibrated(
        program, _BITS[precision], capture, calibration, target, progress, asymmetric
    )
    found = Calibration(precision, rows)
    pairs = tuple(found.quant_params)
    _run(program, capture)
    _run(program, Quantize8bits(precision=_BITS[precision], quant_params=pairs))
    _run(program, DeadCodeElimination())
    return found


def _run(program: Program, pass_: Pass) -> None:
    run_pass(pass_, program)


def _expect_no_captures(program: Program) -> None:
    """Refuse a program that already has captures: their numbers would not be unique."""
    if Capture in program.operations:
        raise OperationError("quantize: the program already has capture instructions; remove them")


def _truncate(program: Program, precision: str, ins_names: Sequence[str], kept: Followed) -> None:
    simplify = optimize_module(propagate_constant_skip_ops=_QDQ)
    _run(program, Pipeline("prepare", (NormalizeOps(), simplify)))
    truncate = TruncateFloat(tuple(ins_names), _FLOATS[precision], kept.ids)
    _run(program, Pipeline(f"quantize_{precision}", (truncate, simplify)))


def _all_operations(program: Program) -> tuple[str, ...]:
    """The names of all operations of the main module except conversions, in order."""
    found = (i.name for i in program.main if not isinstance(i.op, Convert))
    return tuple(dict.fromkeys(n for n in found if not n.startswith("@")))


# Ranges of captured arguments


def _calibrated(
    program: Program,
    precision: str,
    capture: CaptureArguments,
    calibration: Iterable[Inputs],
    target: str,
    progress: bool | None,
    asymmetric: bool,
) -> list[Captured]:
    """The captured arguments of a copy of the program, calibrated on the inputs."""
    copy = program.clone()
    run_pass(capture, copy)
    found = (i for m in open_modules(copy) for i in m)
    places = [(i, n) for i in found for n, x in enumerate(i.inputs) if isinstance(x.op, Capture)]
    rows = [_row(k, i, n, precision, asymmetric) for k, (i, n) in enumerate(places)]
    with _watching(lambda index, value: rows[index].see(value)):
        interpreter: PlannedInterpreter | None = None
        sets = calibration if isinstance(calibration, Sequence) else list(calibration)
        with progress_bar(sets, progress, "calibrate") as shown:
            for given in shown:
                if interpreter is None:
                    made = compile(copy, target, record=False)
                    interpreter = PlannedInterpreter(made.program)
                interpreter.run(_filled(program.parameters, given))
    return rows


@contextmanager
def _watching(hear: Callable[[int, Any], None]) -> Generator[None]:
    token = watcher.set(hear)
    try:
        yield
    finally:
        watcher.reset(token)


def _row(
    index: int, taker: Instruction, operand: int, precision: str, asymmetric: bool
) -> Captured:
    value = taker.inputs[operand].inputs[0]
    return Captured(
        index,
        taker.id,
        taker.op.name,
        operand,
        str(value.shape),
        value.shape.type,
        value.is_constant,
        taker.sources,
        precision,
        asymmetric=asymmetric and not value.is_constant,
    )


def _filled(wanted: Mapping[str, Shape], given: Inputs) -> dict[str, Any]:
    """The inputs that are parameters, and zeros for omitted ones."""
    return {name: given[name] if name in given else _zeros(name, s) for name, s in wanted.items()}


def _zeros(name: str, shape: Shape) -> Any:
    if not shape.is_tensor or shape.is_dynamic:
        raise InputError(f"quantize: calibration inputs lack {name!r}, whose shape {shape} varies")
    return np.broadcast_to(np.zeros((), shape.type.numpy), shape.lens)


def _weights(program: Program, kept: Collection[int]) -> list[Captured]:
    """The weights that are packed into four bits, and their rounding."""
    rows: list[Captured] = []
    for module in open_modules(program):
        for instruction in module:
            if instruction.id in kept or not is_packable(instruction.op):
                continue
            found = weights_of(instruction)
            for weight in () if isinstance(found, str) else found:
                rows.append(_weight_row(len(rows), instruction, weight))
    return rows


def _weight_row(index: int, taker: Instruction, weight: Weight) -> Captured:
    value = taker.inputs[weight.operand]
    made = Captured(
        index,
        taker.id,
        taker.op.name,
        weight.operand,
        str(value.shape),
        value.shape.type,
        True,
        taker.sources,
        "int4",
        (weight.scale, weight.zero),
    )
    made.see(weight.value)
    return made
