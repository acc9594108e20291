"""Coverage: operations without a kernel, found by lowering their samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.operation import Operation, Sample, all_operations
from workbench.compiler.ir.program import Program
from workbench.gpu.dialect import OPENCL, Dialect
from workbench.gpu.lowering.lower import lower


@dataclass(frozen=True)
class Coverage:
    """The number of an operation's samples that have kernels."""

    name: str
    samples: int
    on_host: int
    summary: str
    """The first line of the operation's docstring."""
    reason: str = ""
    """Why the host computes some or all of them."""


def coverage(dialect: Dialect = OPENCL) -> list[Coverage]:
    """A row for each operation that has samples, i.e. can be computed by itself."""
    return [row for cls in all_operations().values() if (row := _covered(cls, dialect)).samples]


def on_host(dialect: Dialect = OPENCL) -> list[Coverage]:
    """The operations that the host computes, wholly or in some forms."""
    return [row for row in coverage(dialect) if row.on_host]


def _covered(cls: type[Operation], dialect: Dialect) -> Coverage:
    found = [left for left in (_is_left(s, dialect) for s in _samples(cls)) if left is not None]
    summary = (cls.__doc__ or "").splitlines()[0] if cls.__doc__ else ""
    return Coverage(cls.name, len(found), sum(found), summary, cls.on_host)


def _samples(cls: type[Operation]) -> Iterable[Sample]:
    return () if cls.takes_modules else cls.samples()


def _is_left(sample: Sample, dialect: Dialect) -> bool | None:
    """Whether the host computes a sample; None if the sample is not a program of static tensors."""
    op, operands = sample
    program = Program()
    try:
        shapes = [x.shape if isinstance(x, Argument) else Argument.of(x).shape for x in operands]
        inputs = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
        program.main.add_return(program.main.add(op, *inputs))
    except WorkbenchError:
        return None
    return bool(lower(program, dialect).host)
