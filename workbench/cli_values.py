"""The subcommands about the values of a run: `compare` and `inspect`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
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
from workbench.cli_output import (
    bad_input_is_2,
    print_json,
    print_table,
    rows_of,
    write,
    write_arrays,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from workbench.compiler.builds.build import Build
    from workbench.compiler.ir.dtypes import Array
    from workbench.compiler.ir.program import Program
    from workbench.numerics.capture.values import Values
    from workbench.numerics.compare.culprit import Culprit
    from workbench.numerics.compare.report import Report

_WORST = 10
"""The number of rows that `compare` prints."""
_WIDEST = 40
"""Characters of a text in a printed table."""
_WORST_COLUMNS = [
    "name", "reference", "kernel", "shape", "max abs", "relative rms", "wrong", "sources",
]  # fmt: skip
_STATISTICS_COLUMNS = [
    "name", "tensors", "kernel", "shape", "min", "max", "mean", "std", "nan", "inf", "zero", "beyond half",
    "below half", "histogram",
]  # fmt: skip
"""The columns that `inspect` prints; JSON has all."""

Reference = Annotated[
    str | None,
    typer.Argument(
        help="What is right: another model's file; an .npz file of arrays by the names of the model's "
        "tensors; onnxruntime; or a target to compile the same model for. By default the model itself, "
        "not compiled, in float64.",
        show_default=False,
    ),
]
InputsSecond = Annotated[
    Path | None,
    typer.Argument(
        help="An .npz file; inputs it leaves out come from the seed. May come second, if its arrays are all "
        "inputs.",
        show_default=False,
    ),
]


def compare(
    model: AnyModel,
    reference: Reference = None,
    inputs: InputsSecond = None,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    passes: Passes = None,
    disable: Disable = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The largest relative RMS of a right value; by default that of the narrowest type.",
            show_default=False,
        ),
    ] = None,
    reference_precision: Annotated[
        str, typer.Option(help="float64 or float32: how the reference computes floats.")
    ] = "float64",
    seed: Seed = 0,
    json: Json = False,
    csv: Annotated[Path | None, typer.Option(help="Write a row per value, as CSV.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the graph, coloured by error, as an offline page.")
    ] = None,
) -> None:
    """Compares every value of a run with a reference. Exit code 0: all is well; 1: not; 2: bad input.

    An interrupt prints what was measured until then, and ends with 130.
    """
    import workbench as wb

    with bad_input_is_2():
        program = _opened(model)
        second, inputs = _told_apart(program, reference, inputs)
        build = _compiled(program, target, precision, passes, disable, keep)
        try:
            report = wb.compare(
                build,
                _arrays(inputs, build),
                second,
                model=model,
                reference_precision=reference_precision,
                tolerance=tolerance,
                seed=seed,
                progress=False if json else None,
            )
        except KeyboardInterrupt as stopped:
            report: Report | None = getattr(stopped, "result", None)
            if report is None:
                raise
        write(csv, lambda: report.table().to_csv())
        write(html, lambda: report.view().to_html())
    if json:
        print_json(_described(report))
    else:
        _print_report(report)
    raise typer.Exit((0 if report.passed else 1) if report.is_complete else 130)


def inspect(
    model: AnyModel,
    inputs: Inputs = None,
    names: Annotated[
        str | None,
        typer.Option(
            help="Names of tensors, nodes or modules of the model, separated by commas; by default all that "
            "the compiled program computes.",
            show_default=False,
        ),
    ] = None,
    statistics: Annotated[
        bool,
        typer.Option(
            "--statistics",
            help="Print a row per value: range, mean, NaNs, what half would lose. The default without --out.",
        ),
    ] = False,
    per_channel: Annotated[
        int | None,
        typer.Option(help="Print a row per index along this axis.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the values as an .npz file, which `workbench compare` can read."),
    ] = None,
    target: Target = "auto",
    precision: Precision = None,
    keep: Keep = None,
    passes: Passes = None,
    disable: Disable = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Shows the values inside a run of a compiled model: their statistics, or the values in a file."""
    program = _opened(model)
    build = _compiled(program, target, precision, passes, disable, keep)
    options: dict[str, Any] = {"seed": seed, "progress": False if json else None}
    wanted = None if names is None else names_of(names)
    given = _arrays(inputs, build)
    if out is not None:
        with build.values(given, wanted, **options) as values:
            write_arrays(out, _Named(values, wanted))
        typer.echo(f"wrote {out}", err=True)
    if statistics or per_channel is not None or out is None:
        options |= {"statistics": True, "per_channel": per_channel}
        _print_statistics(build.values(given, wanted, **options), json)


def _opened(model: Path) -> "Program":
    from workbench.numerics.compare.sides import as_program

    return as_program(model)


def _compiled(
    program: "Program",
    target: str,
    precision: str | None,
    passes: str | None,
    disable: str | None,
    keep: list[str] | None,
) -> "Build":
    import workbench as wb

    return wb.compile(
        program,
        target,
        passes=passes_of(passes),
        disable=names_of(disable),
        precision=precision,
        keep=keep or (),
    )


def _arrays(inputs: Path | None, build: "Build") -> "dict[str, Array]":
    from workbench.compiler.files.npz import read_npz

    return {} if inputs is None else read_npz(inputs, build.program.parameters)


# compare


def _told_apart(
    program: "Program", reference: str | None, inputs: Path | None
) -> tuple[str, Path | None]:
    """The reference and the file of inputs; the latter can be where the reference would be."""
    from workbench.compiler.files.npz import names_in

    if reference is None:
        return "ref", inputs
    if inputs is None and Path(reference).suffix == ".npz":
        names = names_in(reference)
        if names and set(names) <= set(program.parameters):
            return "ref", Path(reference)
    return reference, inputs


def _print_report(report: "Report") -> None:
    typer.echo(report.summary)
    for culprit in report.culprits():
        typer.echo(f"{culprit.cause}: {culprit}")
    for reason, count in Counter(left.reason for left in report.not_compared).items():
        typer.echo(f"not compared: {count}: {reason}")
    if report.rows:
        print_table(_worst(report.table()), _WIDEST)


def _worst(table: "DataFrame") -> "DataFrame":
    """The wrong values first, the largest errors first; NaN is the largest."""
    order = ["wrong", "relative rms"]
    rows = table.sort_values(order, ascending=False, na_position="first", kind="stable")
    return rows.filter(items=_WORST_COLUMNS).head(_WORST)


def _described(report: "Report") -> dict[str, Any]:
    return {
        "summary": report.summary,
        "complete": report.is_complete,
        "passed": report.passed,
        "tolerance": report.tolerance,
        "culprits": [_culprit(culprit) for culprit in report.culprits()],
        "values": rows_of(report.table()),
        "not compared": [asdict(left) for left in report.not_compared],
    }


def _culprit(culprit: "Culprit") -> dict[str, Any]:
    names = ("id", "name", "kernel", "error", "bound", "sources", "reason")
    found = {name: getattr(culprit, name) for name in names}
    return found | {"cause": culprit.cause.value, "text": str(culprit)}


# inspect


class _Named(Mapping[str, Any]):
    """Values by the names that a user asked for, or all that were computed, by those of the model's tensors.

    A value that is not a tensor of the model, such as a constant that is broadcast, has the name `#id`.

    Args:
        values: The values.
        wanted: The names that were asked for; None for all.
    """

    def __init__(self, values: "Values", wanted: list[str] | None) -> None:
        self._values = values
        self._keys: dict[str, Any] = (
            _keys(values) if wanted is None else {name: name for name in wanted}
        )

    def __getitem__(self, name: str) -> Any:
        return self._values[self._keys[name]]

    def __iter__(self) -> Any:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _keys(values: "Values") -> dict[str, int]:
    """The ids of all captured values by name."""
    known = {name: id for name, id in values.tensors.items() if id in values.store}
    named = set(known.values())
    return known | {f"#{id}": id for id in values if id not in named}


def _print_statistics(table: "DataFrame", json: bool) -> None:
    if json:
        print_json(rows_of(table))
    else:
        print_table(table.filter(items=_STATISTICS_COLUMNS), _WIDEST)
