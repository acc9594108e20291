"""Steps that the host computes for a device."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject
from workbench.compiler.record.lowered import BRANCH, HOST, LOOP, LoweredRow


@kind("host-step")
def host_steps(subject: Subject) -> Iterator[Finding]:
    """The device waits while the host runs an operation that has no kernel, or reads a condition.

    Inputs are copied to the host and results back, and the device is idle meanwhile. The finding gives the
    operation's reason; `workbench devices --on-host` lists all such operations.
    """
    for one in subject.open:
        row = subject.lowered.get(one.id)
        if row is None or not _waits(row):
            continue
        copied = sum(i.shape.bytes for i in one.inputs if not i.shape.is_dynamic)
        made = 0 if one.shape.is_dynamic else one.shape.bytes
        remedy = (
            f"replace {one.name} in the model by operations that have kernels, or move it to the model's "
            "beginning or end, so that the device is not interrupted"
        )
        if row.kind == BRANCH:
            remedy = "compute both branches and choose with Where, or decide before the run"
        elif row.kind == LOOP:
            remedy = "give the loop a constant count and a condition that stays true, where it can have them"
        cost = Cost(copied + made, subject.cost(one).flops, 0, subject.ms.get(one.id))
        yield subject.finding("host-step", one, remedy, row.became, cost=cost)


def _waits(row: LoweredRow) -> bool:
    """Whether the host takes part in a step: it computes it, or reads a value for it."""
    reads = row.kind == LOOP and "the host reads" in row.what
    return row.kind in (HOST, BRANCH) or reads
