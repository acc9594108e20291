"""Rewriting: patterns, rules with their laws, declines with their reasons, and the driver."""

from workbench.compiler.rewrite.pattern import (
    Condition,
    Match,
    Pattern,
    Predicate,
    behind_broadcasts,
    constant,
    either,
    is_pointwise,
    literal,
    op,
    pointwise,
    var,
)
from workbench.compiler.rewrite.rule import (
    Decline,
    Rewriter,
    Rule,
    apply_match,
    change,
    first_applied,
    law,
    matched,
    rule,
    scalar_argument,
)
from workbench.compiler.rewrite.worklist import Candidates, candidates, drive

__all__ = [
    "Candidates", "Condition", "Decline", "Match", "Pattern", "Predicate", "Rewriter", "Rule",
    "apply_match", "behind_broadcasts", "candidates", "change", "constant", "drive", "either",
    "first_applied", "is_pointwise", "law", "literal", "matched", "op",
    "pointwise", "rule", "scalar_argument", "var",
]  # fmt: skip
