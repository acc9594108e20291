"""The subcommand that puts a model under load: `serve-bench`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli_options import AnyModel, Disable, Json, Keep, Precision, Seed, Target, names_of
from workbench.cli_output import print_json, print_table, rows_of

if TYPE_CHECKING:
    from workbench.compat.aitemplate.model import Model

_FACTS = "model.json"


def serve_bench(
    model: AnyModel,
    streams: Annotated[
        str, typer.Option(help="Threads with a stream each; numbers, commas between.")
    ] = "1,2,4",
    runtimes: Annotated[
        str | None, typer.Option(help="Sizes of their pool; by default as many as streams.")
    ] = None,
    batches: Annotated[
        str | None, typer.Option(help="Lengths of the inputs' first axis, where it is a range.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for each combination.")] = 1.0,
    graph: Annotated[
        bool, typer.Option("--graph", help="Launch the kernels of a run at once.")
    ] = False,
    copies: Annotated[
        bool, typer.Option("--copies", help="Copy inputs and results from and to the host.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw it, as .png, .svg or .pdf.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write the streams over time, as a trace for Perfetto.")
    ] = None,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measures throughput and latency of a model that several streams run at once."""
    import workbench as wb

    given = load_or_compile(
        model, target=target, precision=precision, keep=keep or (), disable=names_of(disable)
    )
    found = wb.serve_bench(
        given,
        streams=_numbers("--streams", streams) or (),
        runtimes=_numbers("--runtimes", runtimes),
        batches=_numbers("--batches", batches),
        seconds=seconds,
        graph_mode=graph,
        copies=copies,
        seed=seed,
        progress=False if json else None,
    )
    if plot is not None:
        found.plot().figure.savefig(plot)  # pyright: ignore[reportAttributeAccessIssue]
    if trace is not None:
        most = max(load.streams for load in found.loads)
        wb.serve_timeline(given, streams=most, seed=seed).save_trace(trace)
    if json:
        print_json({"summary": found.summary, "loads": rows_of(found.table().rename_axis("k"))})
    else:
        print_table(found.table())
        typer.echo(found.summary)


def load_or_compile(path: Path, target: str, **options: Any) -> "Model | Any":
    """A model that was saved to a folder with its constants, or a build of any other file."""
    import workbench as wb
    from workbench.compat.aitemplate.model import Model
    from workbench.compiler.builds.models import read_model

    if (path / _FACTS).is_file():
        return Model(path)
    return wb.compile(read_model(path), target, record=False, **options)


def _numbers(option: str, text: str | None) -> list[int] | None:
    """The numbers in a list with commas between; None if the option is not given."""
    if text is None:
        return None
    try:
        return [int(name) for name in names_of(text)]
    except ValueError:
        raise typer.BadParameter(
            f"{option}: expected numbers with commas, found {text!r}"
        ) from None
