"""Puts what tuning chose into the package: `python -m tests.bench.ship_choices a.json b.json`.

`python -m tests.bench --only tuning --json a.json` writes such files on a device; with `networks`, too.
"""

import json
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

from workbench.gpu.choices import FOLDER, file_name


def main() -> None:
    """Write a file for each device; of several choices for a problem, the one that most networks made."""
    votes: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for path in map(Path, sys.argv[1:]):
        for device, chosen in json.loads(path.read_text())["choices"]:
            for problem, variant in chosen.items():
                votes[device][problem][variant] += 1
    FOLDER.mkdir(exist_ok=True)
    for device, problems in votes.items():
        choices = {name: found.most_common(1)[0][0] for name, found in sorted(problems.items())}
        day = datetime.now(tz=UTC).date().isoformat()
        document = {"device": device, "measured": day, "choices": choices}
        path = FOLDER / file_name(device)
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{path}: {len(choices)} choices")


if __name__ == "__main__":
    main()
