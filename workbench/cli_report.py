"""The subcommand `report`: a model's offline page."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli_options import AnyModel, Disable, Precision, Seed, Target, names_of


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
    disable: Disable = None,
    seed: Seed = 0,
    compare: Annotated[bool, typer.Option(help="Compare each value with the reference.")] = True,
) -> None:
    """Writes one offline page: graph, passes, kernels, timings, memory and errors of a model, linked."""
    import workbench as wb
    from workbench.compiler.builds.models import read_model

    program = read_model(model)
    build = wb.compile(program, target, precision=precision, disable=names_of(disable))
    arrays = None if inputs is None else wb.read_inputs(program, inputs)
    view = build.report(output, arrays, compare=compare, seed=seed)
    typer.echo(f"{output}: {output.stat().st_size / 1e6:.2g} MB; {view.summary()}")
