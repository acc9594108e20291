"""Numbers of programs beside each other: times, kernels or errors of counterparts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.compiler.errors import OperationError
from workbench.compiler.record.differences import Differences
from workbench.compiler.report.result import Result
from workbench.compiler.report.timings import COPY
from workbench.compiler.text.printing import names

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class _Numbers:
    """The numbers of one program, by its own ids."""

    unit: str
    values: Mapping[int, float]
    kernels: Mapping[int, str] = field(default_factory=dict[int, str])


def beside(differences: Differences, numbers: Sequence[Any]) -> DataFrame:
    """A row per instruction that has a number in any of the programs, the largest difference first.

    Columns: the operation, the model's nodes, then for each program the name that the instruction has there
    (empty without a counterpart), its kernels if the numbers are times, and the number. Of two programs the
    difference follows, the second minus the first; an instruction that is missing takes no time, and has no
    difference of errors. The index is the instruction's id in ``differences.recording``.

    Args:
        differences: The programs.
        numbers: For each program a result of a profiled run, a report of ``wb.compare``, or a mapping or
            Series of instruction ids to numbers.

    Raises:
        OperationError: There is not one for each program, one is none of these or of another program, or a
            run on a device was not profiled.
    """
    return _table(differences, _given(differences, numbers))


def difference_overlay(differences: Differences, numbers: Sequence[Any]) -> dict[str, Any]:
    """The second program's numbers minus the first's, as an overlay of both graphs."""
    given = _given(differences, numbers)
    if len(given) != 2:
        raise OperationError("numbers colour two programs; these are more: use beside()")
    table = _table(differences, given)
    pairs = zip(table.index, table["difference"], strict=True)
    return {
        "name": f"{differences.names[1]} minus {differences.names[0]}",
        "unit": given[0].unit if given[0].unit == "ms" else "",
        "scale": "puor",
        "values": {int(id): float(x) for id, x in pairs if not math.isnan(x)},
    }


def _given(differences: Differences, numbers: Sequence[Any]) -> list[_Numbers]:
    """The numbers of each program, which are all of one kind."""
    if len(numbers) != len(differences.programs):
        raise OperationError(
            f"beside: expected the numbers of {len(differences.programs)} programs; found {len(numbers)}"
        )
    given = [_numbers(n, p) for n, p in zip(numbers, differences.programs, strict=True)]
    units = {g.unit for g in given}
    if len(units) > 1:
        raise OperationError(
            f"beside: numbers of one kind are compared; found {', '.join(sorted(units))}"
        )
    return given


def _table(differences: Differences, given: Sequence[_Numbers]) -> Any:
    """A row per instruction that has a number; of two programs with the difference."""
    import pandas as pd  # noqa: PLC0415

    rows = _rows(differences, given)
    unit = given[0].unit
    operations = _operations(differences)
    columns: dict[str, list[Any]] = {
        "operation": [operations[id] for id in rows],
        "nodes": [", ".join(differences.recording.sources_of(id)) for id in rows],
    }
    for k, name in enumerate(differences.names):
        columns |= _columns(differences, given[k], k, rows, f"{name}: ")
    table: Any = pd.DataFrame(columns, index=pd.Index(rows, name="id"))
    if len(given) != 2:
        return table
    first, second = (f"{name}: {unit}" for name in differences.names)
    # What is not there takes no time; but it has no error that could be compared.
    sides = [table[c].fillna(0) if unit == "ms" else table[c] for c in (first, second)]
    table["difference"] = sides[1] - sides[0]
    return table.sort_values("difference", key=abs, ascending=False, kind="stable")


def _rows(differences: Differences, given: Sequence[_Numbers]) -> list[int]:
    """The ids of instructions that have a number, in the order of the programs."""
    found = [
        ids[id]
        for ids, g in zip(differences.ids, given, strict=True)
        for id in g.values
        if id in ids
    ]
    return list(dict.fromkeys(found))


def _columns(
    differences: Differences, given: _Numbers, k: int, rows: Sequence[int], prefix: str
) -> dict[str, list[Any]]:
    own = {id: mine for mine, id in differences.ids[k].items()}
    said = names(differences.programs[k])
    mine = [own.get(id) for id in rows]
    found: dict[str, list[Any]] = {f"{prefix}name": ["" if i is None else said[i] for i in mine]}
    if given.kernels:
        found[f"{prefix}kernels"] = ["" if i is None else given.kernels.get(i, "") for i in mine]
    nan = math.nan
    found[f"{prefix}{given.unit}"] = [nan if i is None else given.values.get(i, nan) for i in mine]
    return found


def _operations(differences: Differences) -> dict[int, str]:
    """The name of each operation in the first program that has the instruction."""
    found: dict[int, str] = {}
    for ids, program in zip(differences.ids, differences.programs, strict=True):
        for i in program.instructions:
            found.setdefault(ids[i.id], i.name)
    return found


def _numbers(given: Any, program: Any) -> _Numbers:
    """The numbers of one program."""
    of = getattr(given, "program", None)
    if of is not None and of is not program:
        raise OperationError(
            "beside: the numbers are of another program than the one that was compared"
        )
    if isinstance(given, Result):
        return _times(given)
    if hasattr(given, "overlay"):
        return _Numbers("error", given.overlay())
    if hasattr(given, "items"):
        pairs: Iterable[tuple[Any, Any]] = given.items()
        return _Numbers("value", {int(getattr(i, "id", i)): float(v) for i, v in pairs})
    raise OperationError(
        "beside: expected a result of run(profile=True), a report of compare() or a mapping of ids to "
        f"numbers; found {type(given).__name__}"
    )


def _times(result: Result) -> _Numbers:
    times: dict[int, float] = {}
    kernels: dict[int, str] = {}
    for row in result.measured.rows:
        if row.where != COPY:
            times[row.id] = times.get(row.id, 0.0) + row.spread.median * 1e3
            kernels[row.id] = " + ".join(filter(None, (kernels.get(row.id), row.kernel)))
    return _Numbers("ms", times, kernels)
