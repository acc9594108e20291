"""Loading of a model by the driver's options, and the changes that they make to it."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from workbench.compat.migraphx.driver.dimensions import (
    dim,
    dim_by_name,
    dims_by_name,
    lens_by_name,
    relaxed_json,
)
from workbench.compat.migraphx.driver.messages import Messages, UsageError
from workbench.compat.migraphx.editing import with_migraphx_options
from workbench.compiler.errors import ModelError, OperationError, WorkbenchError
from workbench.compiler.files.mxr.kernels import Compiled
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.tracing import traced
from workbench.compiler.passes.base import Pass, passes_of, run_pass

OPTIMIZE = (
    "eliminate_identity",
    "dead_code_elimination",
    "simplify_algebra",
    "dead_code_elimination",
    "simplify_reshapes",
    "dead_code_elimination",
    "propagate_constant",
    "dead_code_elimination",
    "eliminate_pad",
    "dead_code_elimination",
)
"""The passes of ``--optimize``, as in MIGraphX's driver."""

_ALSO_CALLED = {"eliminate_dead_code": "dead_code_elimination"}
_KINDS = {".onnx": "onnx", ".pb": "tf", ".json": "json", ".py": "py"}


@dataclass(frozen=True)
class Loaded:
    """A program, with the compiled part of its file."""

    program: Program
    compiled: Compiled = field(default_factory=Compiled)


def load(options: argparse.Namespace, file: str, messages: Messages) -> Loaded:
    """The program of a file, changed by the options.

    Raises:
        WorkbenchError: The file cannot be read in its format, or an option does not fit it.
    """
    if options.mlir:
        raise OperationError("--mlir: there is no MLIR here to hand the program to")
    if options.test:
        found = Loaded(test_program())
    else:
        messages.info(f"Reading: {file}")
        found = _read(options, file, messages)
    if options.strip_context:
        found.program.targets = ()
    return Loaded(_changed(options, found.program), found.compiled)


def test_program() -> Program:
    """The program of ``--test``: a product of a 4 × 5 and a 5 × 3 matrix."""
    program = Program("test")
    program.newest_first = True
    a = program.main.add_parameter("a", Shape("float", (4, 5)))
    b = program.main.add_parameter("b", Shape("float", (5, 3)))
    program.main.add("dot", a, b)
    return program


def _read(options: argparse.Namespace, file: str, messages: Messages) -> Loaded:
    kind = options.file_type or _KINDS.get(Path(file).suffix, "migraphx")
    if not Path(file).is_file():
        raise FileNotFoundError(f"{file}: no such file")
    if kind == "onnx":
        return Loaded(_onnx(options, file, messages))
    if kind == "tf":
        return Loaded(_tf(options, file))
    return Loaded(_python(file)) if kind == "py" else _saved(file, kind)


def _onnx(options: argparse.Namespace, file: str, messages: Messages) -> Program:
    from workbench.compiler.onnx import parse_onnx  # noqa: PLC0415

    open_dims: dict[str, Any] = {"default_dim_value": options.batch}
    if options.default_dyn_dim is not None:
        value = dim("--default-dyn-dim", options.default_dyn_dim)
        open_dims = {"default_dyn_dim_value": value}
    if options.debug_symbols:
        open_dims["use_debug_symbols"] = True
    given: dict[str, Any] = {
        "map_input_dims": lens_by_name("--input-dim", options.input_dim),
        "map_dyn_input_dims": dims_by_name("--dyn-input-dim", options.dyn_input_dim),
        "dim_params": dim_by_name("--dim-param", options.dim_param),
        "skip_unknown_operators": options.skip_unknown_operators,
        "use_dyn_output": False,
        **open_dims,
    }
    try:
        return parse_onnx(file, strict=True, **given)
    except ModelError as error:
        found = parse_onnx(file, print_program_on_error=True, **given)
        messages.warn(f"not as MIGraphX would import it: {error}")
        return found


def _tf(options: argparse.Namespace, file: str) -> Program:
    from workbench.compiler.tf import parse_tf  # noqa: PLC0415

    return parse_tf(
        file,
        is_nhwc=options.nhwc,
        batch_size=options.batch,
        map_input_dims=lens_by_name("--input-dim", options.input_dim),
        output_names=options.output_names,
        skip_unknown_operators=options.skip_unknown_operators,
    )


def _saved(file: str, kind: str) -> Loaded:
    """A program saved by MIGraphX or by the workbench."""
    from workbench.compat.migraphx.driver import files  # noqa: PLC0415

    return Loaded(*(files.read_json(file) if kind == "json" else files.read_binary(file)))


def _python(file: str) -> Program:
    """The program that a script makes: the variable ``p``, or else the only program."""
    from workbench.compat import migraphx  # noqa: PLC0415

    with _as_module("migraphx", migraphx):
        try:
            made = runpy.run_path(
                file, init_globals={"migraphx": migraphx}, run_name="migraphx_model"
            )
        except WorkbenchError:
            raise
        except Exception as error:  # whatever a script raises
            raise ModelError(f"{file}: {type(error).__name__}: {error}") from error
    programs = {k: v for k, v in made.items() if isinstance(v, Program | migraphx.program)}
    found = programs.get("p") or next(iter(programs.values()), None)
    if found is None:
        raise ModelError(
            f"{file}: no program found; expected the script to assign one, such as `p`"
        )
    if "p" not in programs and len(programs) > 1:
        raise ModelError(
            f"{file}: several programs, {', '.join(programs)}; name the one to load `p`"
        )
    return found if isinstance(found, Program) else found.core


@contextmanager
def _as_module(name: str, module: Any) -> Generator[None]:
    """Make ``import name`` import a module, until the block ends."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


# Changes to the loaded program


def _changed(options: argparse.Namespace, program: Program) -> Program:
    if options.trim:
        program = _trimmed(program, options.trim, options.trim_size)
    elif options.trim_size:
        raise UsageError("--trim-size says how much of what --trim leaves is kept; give --trim too")
    passes = passes_of(["dead_code_elimination"]) if options.output_type == "cpp" else []
    passes += passes_of(OPTIMIZE) if options.optimize else []
    run_passes(program, [*passes, *named_passes(options.apply_pass)])
    if options.replace_literals:
        replace_literals(program)
    return program


def _trimmed(program: Program, count: int, size: int) -> Program:
    from workbench.numerics.verify.excerpts import trim, trim_window  # noqa: PLC0415

    return trim_window(program, count, size) if size else trim(program, count)


def run_passes(program: Program, passes: list[Pass]) -> None:
    """Run passes on a program in place, with the traces that the environment asks for."""
    with traced(program, "compile"):
        for one in passes:
            run_pass(one, program)


def named_passes(words: list[str]) -> list[Pass]:
    """The passes that ``--apply-pass`` names: commas between them, options in braces.

    Raises:
        OperationError: There is no such pass, or it has no such option.
    """
    found: list[Pass] = []
    for word in re.findall(r"[^,{}]+(?:\{.*?\})?|[{}]", ",".join(words)):
        name, brace, inner = word.strip().partition("{")
        name = _ALSO_CALLED.get(name.strip(), name.strip())
        if not name:
            raise UsageError(
                f"--apply-pass: {word!r}: expected the name of a pass before the options"
            )
        given = _options(name, brace + inner) if brace else {}
        found += passes_of([with_migraphx_options(name, given)])
    return found


def _options(name: str, text: str) -> dict[str, Any]:
    """The options of a pass from ``{limit:3}``, with lists as tuples."""
    given = relaxed_json(f"--apply-pass {name}", text)
    if not isinstance(given, dict):
        raise UsageError(f"--apply-pass {name}: expected {{option:value}}, found {text!r}")
    pairs = cast("dict[str, Any]", given).items()
    return {k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in pairs}


def replace_literals(program: Program) -> None:
    """Make every literal of the main module a parameter: ``literal:0``, ``literal:1`` and so on."""
    main, number = program.main, 0
    for instruction in list(main):
        if instruction.literal is None:
            continue
        while f"literal:{number}" in main.parameters:
            number += 1
        parameter = main.add_parameter(f"literal:{number}", instruction.shape)
        main.move(parameter, instruction)
        main.replace(instruction, parameter)
        number += 1
    run_passes(program, passes_of(["dead_code_elimination"]))
