"""The subcommands that show parts of a compiled model: `kernels`, `tune`, `memory` and `why-not`."""

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli_options import AnyModel, Disable, Json, Keep, Precision, Target, names_of
from workbench.cli_output import print_json, print_table, rows_of

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build

Node = Annotated[str, typer.Argument(help="The name of a node of the model.")]


def kernels(
    model: AnyModel,
    target: Target = "gpu",
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    source: Annotated[
        str | None,
        typer.Option(help="Print the source of one: its instruction or the start of its name."),
    ] = None,
    json: Json = False,
) -> None:
    """Lists the kernels that a run launches, in order: work, resources, nodes of the model."""
    found = _build(model, target, precision, keep, disable).kernels()
    if source is not None:
        kernel = found[source]
        typer.echo(kernel.source.rstrip("\n"))
    elif json:
        print_json(rows_of(found.table()))
    else:
        print_table(found.table())


def tune(
    model: AnyModel,
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    most: Annotated[
        int, typer.Option(help="The most kernels that are measured for a problem.")
    ] = 8,
    json: Json = False,
) -> None:
    """Measures several kernels for each product on the device, and keeps the times."""
    table = _build(model, "gpu", precision, keep, disable).tune(most=most).table()
    if json:
        print_json(rows_of(table))
    else:
        print_table(table)


def memory(
    model: AnyModel,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    json: Json = False,
) -> None:
    """Lists the buffers of a run: bytes, offset, first and last use."""
    table = _build(model, target, precision, keep, disable).memory().table()
    if json:
        print_json(rows_of(table))
    else:
        print_table(table)


def why_not(
    model: AnyModel,
    a: Node,
    b: Node,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    disable: Disable = None,
    json: Json = False,
) -> None:
    """Says why two nodes of a model are not one kernel, or how they are."""
    said = _build(model, target, precision, keep, disable).why_not(a, b)
    if json:
        print_json({"a": a, "b": b, "answer": said})
    else:
        typer.echo(said)


def _build(
    model: AnyModel, target: str, precision: str | None, keep: list[str] | None, disable: str | None
) -> "Build":
    """The model, compiled."""
    import workbench as wb
    from workbench.compiler.builds.models import read_model

    return wb.compile(
        read_model(model),
        target,
        precision=precision,
        keep=keep or (),
        disable=names_of(disable),
    )
