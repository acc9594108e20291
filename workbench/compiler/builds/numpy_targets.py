"""The targets that run on NumPy: ``ref`` defines what programs mean, ``cpu`` is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.compiler.builds.runner import NumPyRunner, Runner
from workbench.compiler.builds.targets import Target
from workbench.compiler.ir.program import Program
from workbench.compiler.passes import pipelines
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.run.reference import Interpreter


@dataclass(frozen=True)
class _Reference(Target):
    def prepare(self, program: Program, **_: Any) -> Runner:
        """The reference interpreter."""
        return NumPyRunner(program, Interpreter)


@dataclass(frozen=True)
class _Fast(Target):
    @property
    def preference(self) -> int:
        """Preferred only if nothing faster is available."""
        return 1

    def prepare(self, program: Program, **_: Any) -> Runner:
        """The interpreter that reuses memory and uses threads."""
        return NumPyRunner(program, PlannedInterpreter)


REF = _Reference("ref", "minimal pipeline, plain NumPy: the definition", pipelines.ref)
CPU = _Fast("cpu", "optimising pipeline, fused modules run by NumPy", pipelines.optimize)
