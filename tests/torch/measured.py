"""An architecture measured: differences from eager by both doors, graphs, breaks and times."""

import warnings
from dataclasses import dataclass
from time import perf_counter

import torch

import workbench as wb
from tests.torch.agreement import by_compile, by_export, difference, tensors
from tests.torch.architectures import architectures


@dataclass
class Row:
    """One row of the table."""

    name: str
    instructions: int = 0
    """Of the program, before passes."""
    largest: float = 0.0
    """The largest element of eager's results."""
    exported: float = float("nan")
    """The difference of ``from_torch`` from eager, relative to the largest element."""
    compiled: float = float("nan")
    """The same of ``torch.compile``."""
    graphs: int = 0
    breaks: int = 0
    seconds: float = 0.0
    error: str = ""


def measured(name: str) -> Row:
    """One architecture through both doors."""
    row, started = Row(name), perf_counter()
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            module, arguments, named = architectures()[name]()
            wanted = tensors(module(*arguments, **named))
            row.largest = max(float(w.abs().max()) for w in wanted)
            found, build = by_export(module, arguments, named)
            row.exported, row.instructions = difference(found, wanted), len(build.source.main)
            wb.torch.clear()
            row.compiled = difference(by_compile(module, arguments, named), wanted)
        except Exception as error:  # it is what the table shows
            row.error = f"{type(error).__name__}: {error}"
    row.graphs, row.breaks = len(wb.torch.builds()), len(wb.torch.builds().breaks)
    row.seconds = perf_counter() - started
    return row
