"""An architecture measured: differences from eager by both doors, graphs, breaks and times.

``python -m tests.torch.measured NAME DEVICE TARGET PATH`` measures one in a process of its own and writes
its row to a file.
"""

import copy
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

import workbench as wb
from tests.torch.agreement import by_compile, by_export, difference, tensors
from tests.torch.architectures import Made, architectures
from tests.torch.rows import Row

TARGETS = {"cpu": "cpu", "cuda": "gpu"}
"""The target for tensors of each device."""


def measured(name: str, device: str = "cpu", target: str = "") -> Row:
    """One architecture through both doors.

    Args:
        name: Its package and name.
        device: Where its weights and inputs are: ``cpu`` or ``cuda``.
        target: What the workbench compiles for; the device's own if there is none.
    """
    row, started = Row(name, device), perf_counter()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    wb.torch.clear()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            _measure(row, target or TARGETS[device])
        except Exception as error:  # it is what the table shows
            row.error = f"{type(error).__name__}: {error}"
    builds = wb.torch.builds()
    row.graphs = len(builds)
    row.broken = [f"{b.file}:{b.line} {b.code}: {b.reason}" for b in builds.breaks]
    row.seconds = perf_counter() - started
    return row


def _measure(row: Row, target: str) -> None:
    made = architectures()[row.name]()
    exact = _exact(made) if row.device != "cpu" else []
    module, arguments, named = _on(row.device, made)
    wanted = [v.cpu() for v in tensors(module(*arguments, **named))]
    row.largest = max(float(w.abs().max()) for w in wanted)
    if exact:
        row.eager = difference(wanted, exact)
    found, build = by_export(module, arguments, named, target)
    row.exported, row.instructions = difference(found, wanted), len(build.source.main)
    del build, found
    again = by_compile(module, arguments, named, options={"target": target})
    row.compiled = difference([v.cpu() for v in again], wanted)


def _on(device: str, made: Made) -> Made:
    """A module and its inputs on a device."""
    module, arguments, named = made
    moved = {name: v.to(device) for name, v in named.items()}
    return module.to(device), tuple(v.to(device) for v in arguments), moved


def _exact(made: Made) -> Sequence[Any]:
    """Eager's results in float64 on the host; none of a module that has other types fixed."""
    module, arguments, named = copy.deepcopy(made)
    wide = {n: v.double() if v.is_floating_point() else v for n, v in named.items()}
    try:
        return tensors(module.double()(*(v.double() for v in arguments), **wide))
    except RuntimeError:
        return []


def main() -> None:
    """Measure one architecture and write its row."""
    name, device, target, path = sys.argv[1:]
    Path(path).write_text(json.dumps(asdict(measured(name, device, target))))


if __name__ == "__main__":
    main()
