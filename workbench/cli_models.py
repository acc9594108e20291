"""The subcommands about whole models: `report`, `diff`, `export` and `lint`."""

from pathlib import Path
from typing import Annotated, Any

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


def report(
    model: AnyModel,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    inputs: Annotated[
        Path | None, typer.Option(help="An .npz or .npy file, or an image; by default generated.")
    ] = None,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    seed: Seed = 0,
    compare: Annotated[bool, typer.Option(help="Compare each value with the reference.")] = True,
) -> None:
    """Writes one offline page: graph, passes, kernels, timings, memory and errors of a model, linked."""
    import workbench as wb
    from workbench.compiler.builds.models import read_model

    program = read_model(model)
    build = wb.compile(
        program, target, precision=precision, keep=keep or (), disable=names_of(disable)
    )
    arrays = None if inputs is None else wb.read_inputs(program, inputs)
    view = build.report(output, arrays, compare=compare, seed=seed)
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.2g} MB; {view.summary()}")


def diff(
    a: AnyModel,
    b: AnyModel,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write both graphs as one page.")
    ] = None,
    json: Json = False,
) -> None:
    """Says what one model adds, removes or changes. Exit code 0: nothing; 1: something; 2: bad input."""
    import workbench as wb
    from workbench.compiler.errors import WorkbenchError

    try:
        found = wb.differences(a, b)
        if output is not None:
            found.view().to_html(output)
    except (WorkbenchError, OSError) as error:
        typer.echo(f"workbench: {error}", err=True)
        raise typer.Exit(2) from error
    if json:
        print_json({"summary": found.summary, "differences": rows_of(found.table())})
    else:
        print_table(found.table().drop(columns=["program", "id"]), widest=60)
        typer.echo(found.summary)
    raise typer.Exit(0 if found.table().empty else 1)


def export(
    model: AnyModel,
    output: Annotated[
        Path | None, typer.Argument(help="The ONNX file to write.", show_default=False)
    ] = None,
    serve: Annotated[
        Path | None,
        typer.Option(help="Compile it, and write it to this model repository of Triton's instead."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The served model's name; by default its file's.")
    ] = None,
    runtimes: Annotated[int, typer.Option(help="Requests that a served model runs at once.")] = 4,
    target: Annotated[
        str | None,
        typer.Option(
            help="Compile for this target first; by default nothing is compiled for ONNX."
        ),
    ] = None,
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
) -> None:
    """Writes a model, or what a target's passes made of it, as ONNX; or compiled, for a server."""
    import workbench as wb
    from workbench.compiler.builds.models import read_model

    if (output is None) == (serve is None):
        raise typer.BadParameter("expected either the ONNX file to write or --serve with a folder")
    if serve is not None:
        settings = {"precision": precision, "keep": keep or (), "disable": names_of(disable)}
        _export_served(model, serve, name or model.stem, runtimes, target or "auto", settings)
        return
    assert output is not None
    program = read_model(model)
    if target is not None or precision is not None:
        build = wb.compile(
            program,
            target or "ref",
            precision=precision,
            keep=keep or (),
            disable=names_of(disable),
        )
        program = build.program
    made = wb.to_onnx(program, output)
    typer.echo(f"{output}: {len(made.graph.node):,} nodes, {len(made.functions):,} functions")


def _export_served(
    path: Path, folder: Path, name: str, runtimes: int, target: str, settings: dict[str, Any]
) -> None:
    from workbench.cli_serving import load_or_compile
    from workbench.compat.triton import write_repository

    made = write_repository(load_or_compile(path, target, **settings), folder, name, runtimes)
    typer.echo(f"{made}: tritonserver --model-repository {folder}")


def lint(
    model: AnyModel,
    inputs: Inputs = None,
    target: Target = "auto",
    passes: Passes = None,
    disable: Disable = None,
    precision: Precision = None,
    keep: Keep = None,
    only: Annotated[
        str | None, typer.Option(help="Kinds of findings to look for; commas between.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Run the model, for measured milliseconds.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Finds needless work, its cost and the remedy. Exit code 0: nothing; 1: something; 2: bad input."""
    import workbench as wb
    from workbench.compiler.builds.models import read_model

    with bad_input_is_2():
        program = read_model(model)
        build = wb.compile(
            program,
            target,
            passes=passes_of(passes),
            disable=names_of(disable),
            precision=precision,
            keep=keep or (),
        )
        result = None
        if profile:
            given = {} if inputs is None else wb.read_inputs(program, inputs)
            result = build.run(given, profile=True, seed=seed, progress=False if json else None)
        found = build.lint(result, only=names_of(only))
    if json:
        print_json(found.to_json())
    else:
        typer.echo(str(found))
    raise typer.Exit(1 if found else 0)
