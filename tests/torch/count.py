"""Counts what agrees with eager: ``python -m tests.torch.count``.

``--only resnet,Bert`` measures the architectures whose names hold one of these texts; ``--operators``
counts the samples of operators, too; ``--write PATH`` puts the tables between the marks of a page.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.torch.architectures import architectures

MARKS = "<!-- counted -->", "<!-- end of counted -->"


def architecture_table(only: str = "") -> str:
    """A row for each architecture."""
    from tests.torch.measured import measured

    lines = [
        "| architecture | instructions | `from_torch` | `torch.compile` | graphs | breaks |",
        "|---|---|---|---|---|---|",
    ]
    rows = []
    for name in architectures():
        if any(part in name for part in only.split(",")):
            row = measured(name)
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            shown = f"{row.exported:.0e} | {row.compiled:.0e} | {row.graphs} | {row.breaks}"
            lines.append(f"| {name} | {row.instructions} | {row.error or shown} |")
    agree = sum(max(r.exported, r.compiled) < 1e-4 for r in rows)
    return f"{agree} of {len(rows)} agree.\n\n" + "\n".join(lines)


def operator_table() -> str:
    """Counts of samples, and a row for each exception."""
    from tests.torch.exceptions import EXCEPTIONS
    from tests.torch.operators import core_operators, outcome, samples

    core = core_operators()
    found = [outcome(*sample) for sample in samples()]
    kept = [o for o in found if o.kind != "skipped"]
    own = [o for o in kept if o.operators <= core]
    reached = {name for o in own if o.kind == "agrees" for name in o.operators}
    counts, every = Counter(o.kind for o in own), Counter(o.kind for o in kept)
    text = (
        f"{counts['agrees']} of {sum(counts.values())} samples whose graphs have core ATen operators only "
        f"agree; {counts['differs']} have undefined elements, {counts['refused']} are refused. They reach "
        f"{len(reached)} of {len(core)} core operators; those that its samples and decompositions leave "
        f"out are called directly. Of all {sum(every.values())} samples, {every['agrees']} agree, "
        f"{every['refused']} are refused with the operator's name, and {every['differs']} differ: undefined "
        "elements, and equal ones in another order."
    )
    return f"{text}\n\n| core operator | exception |\n|---|---|\n" + "\n".join(
        f"| `{name}` | {reason} |" for name, reason in EXCEPTIONS.items()
    )


def written(path: Path, parts: Iterable[str]) -> None:
    """Put tables between the marks of a page."""
    text = path.read_text()
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    path.write_text(f"{before}{MARKS[0]}\n\n" + "\n\n".join(parts) + f"\n\n{MARKS[1]}{after}")


def main() -> None:
    """Count, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch.count", description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    parts = [architecture_table(given.only)]
    if given.operators:
        parts.append(operator_table())
    print("\n\n".join(parts))
    if given.write:
        written(given.write, parts)


if __name__ == "__main__":
    main()
