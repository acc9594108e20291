"""The report of a run: a table of times, a table of claims, and JSON with every repetition."""

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench import peers
from tests.bench.measure import Claim, Outcome, Timing

VERSIONS = ("numpy", "onnx", "onnxruntime", "onnxscript", "torch", "netron", "graph-workbench")


def machine() -> dict[str, Any]:
    """The machine and the versions, so that numbers can be compared later."""
    processor = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        processor = models[0].partition(": ")[2] if models else processor
    return {
        "processor": processor,
        "cores": peers.cores(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in VERSIONS},
    }


def _version(distribution: str) -> str | None:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def times(timings: Sequence[Timing]) -> str:
    """A table of medians."""
    rows = [("measure", "subject", "who", "median ms", "IQR ms", "n")]
    for t in timings:
        median, iqr = f"{t.median * 1e3:,.1f}", f"{t.iqr * 1e3:,.1f}"
        rows.append((t.measure, t.subject, t.name, median, iqr, str(len(t.seconds))))
    return _table(rows, right=(3, 4, 5))


def claims(made: Sequence[Claim]) -> str:
    """A table of claims."""
    rows = [("measure", "subject", "claim", "found", "limit", "met")]
    for c in made:
        limit = f"{'≥' if c.at_least else '≤'} {c.limit:g} {c.unit}"
        found = f"{c.value:.2f} {c.unit}" if c.unit or abs(c.value) >= 1 else f"{c.value:.3g}"
        rows.append((c.measure, c.subject, c.text, found, limit, "yes" if c.met else "NO"))
    return _table(rows, right=(3, 4))


def _table(rows: Sequence[tuple[str, ...]], right: tuple[int, ...]) -> str:
    """Rows as aligned text, the first of them a header."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in columns).rstrip()
        for columns in (list(enumerate(zip(row, widths, strict=True))) for row in rows)
    ]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * len(widths)), *lines[1:]])


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """Writes every repetition, claim and fact as JSON."""
    document = {
        "machine": machine(),
        "timings": [
            asdict(t) | {"median": t.median, "iqr": t.iqr, "n": len(t.seconds)}
            for o in outcomes
            for t in o.timings
        ],
        "claims": [asdict(c) | {"met": c.met} for o in outcomes for c in o.claims],
        "facts": dict(fact for o in outcomes for fact in o.facts),
        "failures": dict(failure for o in outcomes for failure in o.failures),
        "choices": [list(chosen) for o in outcomes for chosen in o.choices],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
