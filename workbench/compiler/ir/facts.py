"""Facts about a program besides its modules: one record, so that every copy of a program has them all."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules, shape_rules


@dataclass(eq=False)
class ProgramFacts:
    """The facts of a program besides its modules; shared by programs, their rows and their files."""

    name: str = ""
    output_names: tuple[str, ...] = ()
    """The model's names of the outputs; empty if it has none."""
    targets: tuple[str, ...] = ()
    """Names of the targets that the program is compiled for; empty before it is compiled."""
    source_nodes: dict[str, SourceNode] = field(default_factory=dict[str, SourceNode])
    """The nodes of the source model, by name."""
    tensors: dict[str, int] = field(default_factory=dict[str, int])
    """The model's tensors by name, as ids of the instructions that the importer made to compute them.

    Tensors of subgraphs and functions are left out. Empty if the program was not imported."""
    gradients: dict[int, int] = field(default_factory=dict[int, int])
    """The gradients of values, as ids of both; empty if the program was not differentiated."""
    updates: dict[str, int] = field(default_factory=dict[str, int])
    """The parameters whose next value a run returns, by name, as positions of outputs."""
    keeps_fixed: bool = False
    """Whether shapes whose ranges are all of one length stay dynamic, as in MIGraphX."""
    strict: bool = False
    """Whether operations refuse the dynamic shapes that MIGraphX refuses; only with ``keeps_fixed``."""
    scalars: bool = False
    """Whether values of rank 0 have the shape of MIGraphX's scalar, ``{1}, {0}``."""
    newest_first: bool = False
    """Whether a parameter is added and printed before the older ones, as in MIGraphX, and not after them."""

    def follow_migraphx(self) -> None:
        """Let shapes and the order of parameters follow MIGraphX's rules."""
        self.keeps_fixed = self.strict = self.scalars = self.newest_first = True

    @property
    def shape_rules(self) -> ShapeRules:
        """The rules by which shapes in this program are inferred."""
        if not (self.keeps_fixed or self.scalars):
            return PLAIN
        return shape_rules(self.keeps_fixed, self.keeps_fixed and self.strict, self.scalars)

    def take_facts(self, other: ProgramFacts) -> None:
        """Copy the facts of another program; no other code copies them."""
        for name in FACTS:
            setattr(self, name, getattr(other, name))


FACTS = tuple(f.name for f in fields(ProgramFacts))
"""Names of all facts."""
