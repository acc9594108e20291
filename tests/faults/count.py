"""Counts the faults that `wb.compare` names first: `python -m tests.faults.count [part of a name…]`."""

import sys
from collections.abc import Sequence
from time import perf_counter
from traceback import format_exception_only
from typing import Any

import pandas as pd

from tests.faults.fault import Control, Fault, Verdict, judged
from tests.faults.table import CONTROLS, FAULTS


def of_fault(fault: Fault) -> dict[str, Any]:
    """The row of a fault; a comparison that raises an error named nothing."""
    started = perf_counter()
    with fault.plant() as planted:
        try:
            verdict = judged(fault, planted)
        except Exception as error:  # a count goes on: the row has the error
            said = "".join(format_exception_only(error)).strip()
            verdict = Verdict(0, 0, False, False, False, True, said, perf_counter() - started)
    return {
        "kind": fault.kind, "fault": fault.name, "first": verdict.is_named_first,
        "rank": verdict.rank, "cause": verdict.cause, "edit": verdict.edit, "right": verdict.is_right,
        "nodes": verdict.nodes, "seconds": verdict.seconds, "all seconds": perf_counter() - started,
        "said": verdict.said,
    }  # fmt: skip


def of_control(control: Control) -> dict[str, Any]:
    """The row of a control."""
    started = perf_counter()
    with control.plant() as planted:
        try:
            report = control.call(planted)
            quiet, said = report.passed and not report.culprits(), repr(report)
        except Exception as error:  # as above
            quiet, said = False, "".join(format_exception_only(error)).strip()
    return {
        "control": control.name,
        "quiet": quiet,
        "seconds": perf_counter() - started,
        "said": said,
    }


def table(faults: Sequence[Fault]) -> pd.DataFrame:
    """One row per fault."""
    return pd.DataFrame(map(of_fault, faults))


def totals(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per kind, and one of all."""
    columns = ["first", "cause", "right", "all seconds"]
    counted = rows.groupby("kind", sort=False)[columns].sum()
    counted.insert(0, "faults", rows.groupby("kind", sort=False).size())
    counted.loc["all"] = counted.sum()
    return counted.astype(dict.fromkeys(("faults", "first", "cause", "right"), int))


def main(parts: Sequence[str]) -> None:
    """Print the tables of the faults and controls whose names have one of the parts."""
    faults, controls = (
        [c for c in cases if not parts or any(p in c.name for p in parts)]
        for cases in (FAULTS, CONTROLS)
    )
    pd.set_option("display.width", 220, "display.max_colwidth", 90, "display.max_rows", 200)
    pd.set_option("display.precision", 2, "display.max_columns", 20)
    if faults:
        rows = table(faults)
        print(rows.to_string(index=False))
        print(totals(rows).to_string())
    if controls:
        rows = pd.DataFrame(map(of_control, controls))
        print(rows.to_string(index=False))
        print(f"{rows['quiet'].sum()} of {len(rows)} controls raise no alarm")


if __name__ == "__main__":
    main(sys.argv[1:])
