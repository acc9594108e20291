"""Choices between the variants of a kernel: what was measured, or else what is estimated to be fastest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

Variant = TypeVar("Variant")

NONE: Mapping[str, str] = MappingProxyType({})
FOLDER = Path(__file__).parent / "tuned"
"""A file for each device that variants come with the package for, measured on common networks."""
_ALIKE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"), "NVIDIA H200")
)
"""Devices with the multiprocessors of another one, whose variants they have: none were measured on them."""


@cache
def shipped(device: str) -> Mapping[str, str]:
    """The variants that were measured to be faster than the estimated ones, by problem.

    They were measured on such a device, or on one with the same multiprocessors.

    Args:
        device: The device's name, as its driver gives it.
    """
    path = FOLDER / file_name(device)
    if not path.is_file() and device in _ALIKE:
        path = FOLDER / file_name(_ALIKE[device])
    if not path.is_file():
        return NONE
    found = cast("dict[str, Any]", json.loads(path.read_text()))
    return MappingProxyType(dict(found["choices"]))


def file_name(device: str) -> str:
    """The name of a device's file."""
    return re.sub(r"\W+", "_", device.lower()) + ".json"


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
