"""The subcommands that find a fault: `bisect`, where it comes in, and `minimise`, the least that has it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli_options import (
    AnyModel,
    Disable,
    Inputs,
    Json,
    Keep,
    Passes,
    Precision,
    Seed,
    Target,
    names_of,
    passes_of,
)
from workbench.cli_output import bad_input_is_2, print_json, print_table, rows_of

if TYPE_CHECKING:
    from workbench.compiler.ir.program import Program
    from workbench.numerics.minimise.minimised import Minimised

Tolerance = Annotated[float | None, typer.Option(help="The largest relative RMS of a right value.")]


def bisect(
    model: AnyModel,
    inputs: Inputs = None,
    target: Target = "auto",
    tolerance: Tolerance = None,
    passes: Passes = None,
    disable: Disable = None,
    precision: Precision = None,
    keep: Keep = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Finds where compiling goes wrong: pass, rewrite, node. Exit code 0: nowhere; 1: found; 2: bad input."""
    import workbench as wb

    with bad_input_is_2():
        program, given = _opened(model, inputs)
        found = wb.bisect(
            program,
            given,
            target=target,
            tolerance=tolerance,
            passes=passes_of(passes),
            disable=names_of(disable),
            precision=precision,
            keep=keep or (),
            seed=seed,
            progress=False if json else None,
        )
    if json:
        print_json(found.to_json() | {"checks": rows_of(found.table())})
    else:
        print_table(found.table())
        typer.echo(found.summary)
    raise typer.Exit(1 if found.found else 0)


def minimise(
    model: AnyModel,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder for the model, its inputs and a script."),
    ] = Path("minimised"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace these files in a folder that is not empty.")
    ] = False,
    inputs: Inputs = None,
    target: Target = "auto",
    tolerance: Tolerance = None,
    passes: Passes = None,
    disable: Disable = None,
    precision: Precision = None,
    keep: Keep = None,
    most: Annotated[int, typer.Option(min=1, help="The largest number of trials.")] = 200,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Writes the smallest part of a failing model that still fails. Exit code 0: found; 2: it does not fail.

    An interrupt writes the smallest part until then, and ends with 130.
    """
    import workbench as wb

    ended = 0
    with bad_input_is_2():
        program, given = _opened(model, inputs)
        try:
            found = wb.minimise(
                program,
                given,
                target=target,
                tolerance=tolerance,
                passes=passes_of(passes),
                disable=names_of(disable),
                precision=precision,
                keep=keep or (),
                seed=seed,
                most=most,
                progress=False if json else None,
            )
        except KeyboardInterrupt as stopped:
            if (found := getattr(stopped, "result", None)) is None:
                raise
            ended = 130
        script = found.save(output, overwrite)
    if json:
        print_json(_described(found) | {"script": str(script)})
    else:
        typer.echo(f"{found.summary}\n{script}")
    raise typer.Exit(ended)


def _described(found: "Minimised") -> dict[str, Any]:
    """The facts of a smallest program."""
    (before, after), (wide, narrow) = found.instructions, found.elements
    return {
        "summary": found.summary,
        "reason": found.reason,
        "error": found.error,
        "trials": found.trials,
        "instructions": {"before": before, "after": after},
        "elements": {"before": wide, "after": narrow},
        "sources": list(found.sources),
        "program": str(found.program),
    }


def _opened(model: Path, inputs: Path | None) -> "tuple[Program, dict[str, Any]]":
    """The program of a file, and the arrays of another."""
    from workbench.compiler.builds.models import read_model
    from workbench.compiler.files.npz import read_npz

    program = read_model(model)
    return program, {} if inputs is None else read_npz(inputs, program.parameters)
