"""Facts about a program beside its modules: one record, so that every copy of a program has them all."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules


@dataclass(eq=False)
class ProgramFacts:
    """The facts of a program beside its modules; programs, their rows and their files have these."""

    name: str = ""
    output_names: tuple[str, ...] = ()
    """The model's names for the outputs; empty when it had none."""
    targets: tuple[str, ...] = ()
    """Names of the targets that the program is compiled for; empty before it is compiled."""
    source_nodes: dict[str, SourceNode] = field(default_factory=dict[str, SourceNode])
    """The nodes of the model that the program was made from, by name."""
    keeps_fixed: bool = False
    """Whether shapes whose ranges are all single lengths stay dynamic, as they do in MIGraphX."""
    strict: bool = False
    """Whether operations refuse what MIGraphX refuses of dynamic shapes; with ``keeps_fixed`` only."""

    @property
    def shape_rules(self) -> ShapeRules:
        """The rules by which shapes in this program are inferred."""
        return ShapeRules(True, self.strict) if self.keeps_fixed else PLAIN

    def take_facts(self, other: ProgramFacts) -> None:
        """Have the facts of another program; this is the one place where they are copied."""
        for name in FACTS:
            setattr(self, name, getattr(other, name))


FACTS = tuple(f.name for f in fields(ProgramFacts))
"""Names of all facts."""
