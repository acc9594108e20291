"""Choices between the variants of a kernel: what was measured, or else what is estimated to be fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

Variant = TypeVar("Variant")

NONE: Mapping[str, str] = MappingProxyType({})


class Choices:
    """Picks a variant for each problem, and remembers which there were.

    Args:
        chosen: The text of a variant by the text of its problem. Other problems have their first variant.
    """

    def __init__(self, chosen: Mapping[str, str] = NONE) -> None:
        """Start without problems."""
        self.chosen = chosen
        self.offers: dict[str, tuple[str, ...]] = {}
        """The texts of the variants of each problem, the one with the least estimated time first."""

    def pick(self, problem: str, variants: Sequence[Variant]) -> Variant:
        """The variant that was chosen; the first one if none was, or if it is not among these.

        Args:
            problem: The problem's text.
            variants: Its variants, each of another text; the one with the least estimated time first.
        """
        texts = tuple(map(str, variants))
        self.offers[problem] = texts
        wanted = self.chosen.get(problem, texts[0])
        return variants[texts.index(wanted) if wanted in texts else 0]
