"""Output of the subcommands of `workbench`: tables for people, JSON for programs, files."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zipfile import ZipFile

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from workbench.compiler.ir.dtypes import Array


def write(path: Path | None, form: Any) -> None:
    """Writes the text that `form` makes, if a path is given."""
    if path:
        path.write_text(form(), encoding="utf-8")
        typer.echo(f"wrote {path}", err=True)


def write_arrays(path: Path, arrays: "Mapping[str, Array]") -> None:
    """Writes arrays by name as an .npz file, one at a time."""
    from numpy.lib.format import write_array

    with ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                write_array(member, value, allow_pickle=False)


def rows_of(table: "DataFrame") -> list[dict[str, Any]]:
    """The rows of a table with the columns of its index; numbers keep all of their digits."""
    return cast("list[dict[str, Any]]", table.reset_index().to_dict(orient="records"))


def print_table(table: "DataFrame", widest: int | None = None) -> None:
    """Prints a table; a text of more than `widest` characters is cut."""
    typer.echo(table.map(lambda cell: _cut(cell, widest)).to_string(float_format=_three_digits))


def _cut(cell: object, widest: int | None) -> object:
    if widest is None or not isinstance(cell, str) or len(cell) <= widest:
        return cell
    return f"{cell[: widest - 1]}…"


def _three_digits(value: float) -> str:
    return f"{value:.3g}"


def print_json(value: Any) -> None:
    """Prints a value as JSON; what JSON does not have is null or a text."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """A value of the types of JSON only: NaN and infinities are null, other objects their texts."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has neither NaN nor infinity
    return value if isinstance(value, bool | int | float | str | None) else str(value)


@contextmanager
def bad_input_is_2() -> Generator[None]:
    """Ends with exit code 2 on an error that a user can cause, because 1 says that something is wrong."""
    from workbench.compiler.errors import WorkbenchError

    try:
        yield
    except (WorkbenchError, OSError) as error:
        typer.echo(f"workbench: {error}", err=True)
        raise typer.Exit(2) from error
