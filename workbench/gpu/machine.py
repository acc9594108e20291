"""Machines: the properties of a device that shape kernels; the dialect only spells them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The properties that schedules ask for. The defaults are those of an unknown GPU."""

    is_cpu: bool = False
    """Whether a core runs a block's work items in a loop: barriers cost, and shared memory gains nothing."""
    warp: int = 0
    """Work items that run in lockstep; 0 where none do, or it is not known."""
    access: int = 16
    """Bytes that a work item moves at once; 0 where it does not pay that it has neighbouring elements."""
    units: int = 0
    """Compute units; 0 where kernels are made for any number of them."""
    shared: int = 48 << 10
    """Bytes of memory that a block shares."""
    threads: int = 1024
    """Most work items of a block."""

    @property
    def busy(self) -> int:
        """Work items that keep it busy."""
        return self.units * self.threads if self.units else 1 << 17


CPU = Machine(is_cpu=True, access=0)
