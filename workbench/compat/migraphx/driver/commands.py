"""The commands of the driver. Results go to stdout, everything else to the messages."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from workbench.compat.migraphx.driver.compiling import (
    Made,
    asked_precisions,
    build,
    compiled,
    inputs_of,
    passes_of,
    quantize,
    target_of,
)
from workbench.compat.migraphx.driver.loading import Loaded, load
from workbench.compat.migraphx.driver.messages import Messages, UsageError
from workbench.compat.migraphx.driver.writing import form_of, write
from workbench.compiler.builds.precompiled import build_of
from workbench.compiler.errors import OperationError
from workbench.compiler.files.mxr.values import operation_value, shape_value
from workbench.compiler.ir.operation import float_text
from workbench.compiler.ir.program import Program

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.builds.targets import Target
    from workbench.numerics.verify.verify import Verification


@dataclass(frozen=True)
class Call:
    """A command line: the options, the positional words, and the messages."""

    options: argparse.Namespace
    rest: Sequence[str]
    messages: Messages


Command = Callable[[Call], int]
"""A command: does its work and returns the exit code."""


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_json(value: Any) -> None:
    """JSON over several lines as MIGraphX prints it: keys sorted, null for NaN and infinity."""
    text = json.dumps(_finite(value), sort_keys=True, indent=4, ensure_ascii=False)
    _print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in cast("dict[str, Any]", value).items()}
    return value


# Models


def _loaded(call: Call) -> Loaded:
    return load(call.options, _model(call.options, call.rest), call.messages)


def _model(options: argparse.Namespace, rest: Sequence[str]) -> str:
    """The one file of the command line.

    Raises:
        UsageError: There is no file, or there are several.
    """
    if options.test and rest:
        raise UsageError(f"--test is a model of its own; found the file {rest[0]!r} too")
    if not rest and not options.test:
        raise UsageError("expected a model: a file, or --test")
    if len(rest) > 1:
        raise UsageError(f"expected one model, found {', '.join(rest)}")
    return rest[0] if rest else ""


def read(call: Call) -> int:
    """Load a model and write it."""
    write(_loaded(call).program, call.options, "read")
    return 0


def params(call: Call) -> int:
    """Print parameters and their shapes; as JSON the outputs too."""
    program = _loaded(call).program
    if call.options.json:
        outputs = zip(_output_names(program), program.outputs, strict=True)
        _print_json(
            {
                "parameters": {k: shape_value(s) for k, s in program.parameters.items()},
                "outputs": {name: shape_value(o.shape) for name, o in outputs},
            }
        )
        return 0
    for name, shape in program.parameters.items():
        _print(f"{name}: {shape}")
    return 0


def compile(call: Call) -> int:
    """Compile a model and write it."""
    _compiled(call, "compile")
    return 0


def _compiled(call: Call, command: str) -> Made:
    """The compiled model; it is also written, unless only a report in JSON is asked for."""
    options = call.options
    made = compiled(_loaded(call), options, call.messages)
    reported = options.json and command != "compile" and not options.output
    if not reported:
        write(made.build.program, options, command, made.part)
    return made


def _with_inputs(call: Call, command: str) -> tuple[Made, dict[str, Any]]:
    made = _compiled(call, command)
    call.messages.info("Allocating params ... ")
    return made, inputs_of(made.build.program, call.options)


def run(call: Call) -> int:
    """Compile, run once, and report the outputs."""
    from workbench.compiler.builds.precompiled import outputs_of  # noqa: PLC0415

    options = call.options
    made, inputs = _with_inputs(call, "run")
    program = made.build.program
    outputs = outputs_of(made.build, inputs, progress=None)
    if not options.json:
        _print(f"{program}")
    named = zip(_output_names(program), outputs, strict=True)
    facts = [_fact(name, value) for name, value in named]
    if options.json:
        _print_json({"outputs": facts})
        return 0
    for fact in facts:
        call.messages.info("{output}: {shape}, from {min} to {max}".format(**fact))
    return 0


def _output_names(program: Program) -> Sequence[str]:
    """The model's names of the outputs, or numbers if it has none."""
    count = len(program.outputs)
    if len(program.output_names) == count:
        return program.output_names
    return [f"output_{k}" for k in range(count)]


def _fact(name: str, value: Any) -> dict[str, Any]:
    """The shape of an output and the range of its values."""
    arrays = _arrays(value)
    wide = [a.astype(np.float64) for a in arrays if a.size]
    return {
        "output": name,
        "shape": ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays),
        "min": min((float(w.min()) for w in wide), default=math.nan),
        "max": max((float(w.max()) for w in wide), default=math.nan),
    }


def _arrays(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, tuple | list):
        return [a for part in value for a in _arrays(part)]  # pyright: ignore[reportUnknownVariableType]
    return [np.asarray(value)]


def time(call: Call) -> int:
    """Compile, and time whole runs."""
    from workbench.compat.migraphx.perf import time_run  # noqa: PLC0415

    options = call.options
    made, inputs = _with_inputs(call, "time")
    call.messages.info("Running ... ")
    ms = time_run(made.build, inputs, options.iterations, made.offload_copy)
    if options.json:
        _print_json({"iterations": options.iterations, "total ms": ms})
    else:
        _print(f"Total time: {float_text(ms)}ms")
    return 0


def perf(call: Call) -> int:
    """Compile, and report the time of each instruction."""
    from workbench.compat.migraphx.perf import perf_report  # noqa: PLC0415

    options = call.options
    made, inputs = _with_inputs(call, "perf")
    call.messages.info("Running performance report ... ")
    report = perf_report(
        made.build,
        inputs,
        options.iterations,
        batch=options.batch,
        detailed=options.detailed,
        copies=made.offload_copy,
    )
    if options.json:
        _print_json(report.to_json())
    else:
        _print(str(report).rstrip("\n"))
    return 0


def roctx(_: Call) -> int:
    """Refuse: there are no markers."""
    raise OperationError(
        "roctx marks instructions for ROCm's profiler, which this workbench does not drive; "
        "`workbench driver perf` times each instruction"
    )


# Comparing


def verify(call: Call) -> int:
    """Run on a target and on the reference, and compare; the exit code is 1 if they differ."""
    options = call.options
    program = _loaded(call).program
    if not options.json or options.output:
        write(program, options, "verify")
        if form_of(options, "verify") != "text":
            _print(str(program))
    found = _verified(program, options, call.messages)
    if options.json:
        _print_json(found.to_json())
    return 0 if found.passed else 1


def _verified(program: Program, options: argparse.Namespace, messages: Messages) -> Verification:
    from workbench.knobs import knobs  # noqa: PLC0415
    from workbench.numerics.metrics.agreement import tolerance_for  # noqa: PLC0415
    from workbench.numerics.verify.verify import verify  # noqa: PLC0415

    half = next((n for n in asked_precisions(options) if n in {"fp16", "bf16"}), None)
    tolerance = tolerance_for(
        program, half, rms_tol=options.rms_tol, atol=options.atol, rtol=options.rtol
    )
    if not options.json:
        for name in ("rms_tol", "atol", "rtol"):
            _print(f"{name}: {float_text(getattr(tolerance, name))}")
    target = target_of(options, messages)
    return verify(
        program,
        target.name,
        inputs_of(program, options, in_range=True),
        _mode(options),
        tolerance=tolerance,
        ref_use_double=options.ref_use_double,
        compiled=_other(program, target, options, messages),
        options={"passes": passes_of(program, options, target)},
        quantize=half,
        allclose=knobs.verify_enable_allclose,
        dump=knobs.verify_dump_diff,
        batch=options.batch,
        say=_say(options, messages),
    )


def _mode(options: argparse.Namespace) -> str:
    if options.per_instruction:
        return "instructions"
    if options.reduce:
        return "reduce"
    return "bisect" if options.bisect else "outputs"


def _other(
    program: Program, target: Target, options: argparse.Namespace, messages: Messages
) -> Build | None:
    """The build to compare with the reference, if it is not simply the compiled program."""
    if options.compiled_model:
        from workbench.compat.migraphx.driver import files  # noqa: PLC0415

        found, kept = files.read_binary(options.compiled_model)
        return build_of(found, kept.trusted(options.trusted_kernels))
    narrow = [name for name in asked_precisions(options) if name not in {"fp16", "bf16"}]
    if not narrow:
        return None
    if _mode(options) != "outputs":
        raise UsageError(
            f"verify: --{narrow[0].replace('_', '-')} is calibrated for the whole program, which cannot "
            "be verified in parts; leave out --per-instruction, --reduce and --bisect"
        )
    return build(quantize(program, options, messages), target, options)


def _say(options: argparse.Namespace, messages: Messages) -> Callable[[str, str], object]:
    """The writer of a report's lines: results to stdout (unless the report is JSON), others to messages."""
    from workbench.numerics.verify.verify import PASSED  # noqa: PLC0415

    def say(level: str, line: str) -> None:
        if level in {"error", "out"} or line == PASSED:
            if not options.json:
                _print(line)
        elif level == "warn":
            messages.warn(line)
        elif "\n" in line:  # a whole program
            messages.debug(line)
        else:
            messages.info(line)

    return say


# Operators


def op(call: Call) -> int:
    """Print an operator's attributes with their defaults, or the names of all."""
    from workbench.compiler.ir import operation  # noqa: PLC0415

    options = call.options
    if options.list:
        _print_names(operation_names(), options)
        return 0
    if len(call.rest) != 1:
        raise UsageError("op: expected the name of an operator, or --list")
    name = call.rest[0]
    values = operation_value(operation.make(name))
    if options.json:
        _print_json({name: values})
        return 0
    _print(f"{name}: ")
    _print_json(values)
    return 0


def operation_names() -> list[str]:
    """The names of all operators, sorted."""
    from workbench.compiler.ir.operation import all_operations  # noqa: PLC0415

    return sorted(all_operations())


def onnx(call: Call) -> int:
    """Print the names of the ONNX operators that can be read."""
    from workbench.compiler.onnx import operators  # noqa: PLC0415

    _expect_nothing("onnx", call.rest)
    _print_names(operators(), call.options)
    return 0


def tf(call: Call) -> int:
    """Print the names of the TensorFlow operators that can be read."""
    from workbench.compiler.tf import operators  # noqa: PLC0415

    _expect_nothing("tf", call.rest)
    _print_names(operators(), call.options)
    return 0


def _expect_nothing(command: str, rest: Sequence[str]) -> None:
    if rest:
        raise UsageError(f"{command}: expected options only, found {rest[0]!r}")


def _print_names(names: list[str], options: argparse.Namespace) -> None:
    if options.json:
        _print_json(names)
    else:
        _print("\n".join(names))


DO: dict[str, Command] = {
    "read": read, "compile": compile, "run": run, "time": time, "perf": perf, "verify": verify,
    "params": params, "op": op, "onnx": onnx, "tf": tf, "roctx": roctx,
}  # fmt: skip
