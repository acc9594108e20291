"""Machines: the properties of a device that schedules depend on. A dialect only decides the syntax."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The properties that schedules depend on. The defaults describe an unknown GPU."""

    is_cpu: bool = False
    """Whether a core runs a block's work items in a loop: barriers are slow, shared memory is no faster."""
    warp: int = 0
    """Work items that run in lockstep; 0 if none do, or if it is unknown."""
    access: int = 16
    """Bytes of a work item's vector access; 0 if it does not pay to give a work item adjacent elements."""
    units: int = 0
    """Compute units; 0 if kernels are made for any number of them."""
    shared: int = 48 << 10
    """Bytes of shared memory per block."""
    threads: int = 1024
    """Most work items of a block."""
    matrix: int = 0
    """The compute capability of its matrix instructions: 80 for a warp's, 90 for a warp group's; or 0."""

    vector: int = 32
    """Bytes of a CPU's vector register."""
    registers: int = 16
    """Vector registers of a CPU."""

    @property
    def busy(self) -> int:
        """Number of work items that keep it busy."""
        return self.units * self.threads if self.units else 1 << 17


CPU = Machine(is_cpu=True, access=0)
