"""Counts what agrees with eager: ``python -m tests.torch.count``.

``--only resnet,Bert`` measures the architectures whose names hold one of these texts, ``--device cuda``
those on a GPU, ``--jobs 16`` in so many processes at a time, each for at most ``--limit`` seconds.
``--json PATH`` keeps the rows in a file, which later runs add to; ``--read PATH`` measures nothing and shows
those of a file. ``--operators`` counts the samples of operators, too; ``--write PATH`` puts the tables
between their marks of a page.
"""

import argparse
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.torch.architectures import architectures
from tests.torch.rows import Row, load, save, table


def operator_table() -> str:
    """Counts of samples, and a row for each exception."""
    from tests.torch.operators import core_operators, outcome, samples

    return _operator_table([outcome(*sample) for sample in samples()], core_operators())


def _operator_table(found: Sequence[Any], core: frozenset[str]) -> str:
    from tests.torch.exceptions import EXCEPTIONS

    kept = [o for o in found if o.kind != "skipped"]
    own = [o for o in kept if o.operators <= core]
    reached = {name for o in own if o.kind == "agrees" for name in o.operators}
    counts, every = Counter(o.kind for o in own), Counter(o.kind for o in kept)
    text = (
        f"{counts['agrees']} of {sum(counts.values())} samples whose graphs have core ATen operators only "
        f"agree; {counts['differs']} have undefined elements or equal ones in another order, and "
        f"{counts['refused']} are refused. They reach "
        f"{len(reached)} of {len(core)} core operators; those that its samples and decompositions leave "
        f"out are called directly. Of all {sum(every.values())} samples, {every['agrees']} agree, "
        f"{every['refused']} are refused with the operator's name, and {every['differs']} differ for "
        "the same reasons."
    )
    return f"{text}\n\n| core operator | exception |\n|---|---|\n" + "\n".join(
        f"| `{name}` | {reason} |" for name, reason in EXCEPTIONS.items()
    )


def measure(names: Sequence[str], given: argparse.Namespace) -> list[Row]:
    """The rows of some architectures, printed as they come; rows of ``--json`` stay for other names."""
    from tests.torch.pool import in_processes

    about = _about(given.device)
    rows = {r.name: r for r in load(given.json)[0]} if given.json and given.json.exists() else {}
    for row in in_processes(names, given.device, given.target, given.jobs, given.limit):
        rows[row.name] = row
        print(row.line(), file=sys.stderr, flush=True)
        if given.json:
            save(given.json, _ordered(rows), about)
    return _ordered(rows)


def _ordered(rows: Mapping[str, Row]) -> list[Row]:
    return [rows[name] for name in architectures() if name in rows]


def _about(device: str) -> str:
    """The device and the versions.

    Raises:
        SystemExit: There is no such device.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"--device cuda: torch {torch.__version__} finds no GPU of NVIDIA on this machine")
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def written(path: Path, name: str, part: str) -> None:
    """Put a table between its marks of a page.

    Raises:
        SystemExit: The page has no such marks.
    """
    begin, end = f"<!-- counted: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = path.read_text().partition(begin)
    if not found or end not in rest:
        sys.exit(f"{path}: no marks {begin} and {end} there")
    path.write_text(f"{before}{begin}\n\n{part}\n\n{end}{rest.partition(end)[2]}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.count", description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--target", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


def main() -> None:
    """Count, print, and write."""
    given = _arguments()
    if given.read:
        rows, about = load(given.read)
    else:
        chosen = [n for n in architectures() if any(part in n for part in given.only.split(","))]
        rows, about = measure(chosen, given), _about(given.device)
    parts = {}
    if rows:
        parts[f"architectures on {rows[0].device}"] = table(rows, about)
    if given.operators:
        parts["operators"] = operator_table()
    print("\n\n".join(parts.values()))
    for name, part in parts.items():
        if given.write:
            written(given.write, name, part)


if __name__ == "__main__":
    main()
