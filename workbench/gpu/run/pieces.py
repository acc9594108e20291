"""A run in pieces: launches that are replayed as graphs, and collectives between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from workbench.gpu.devices.base import Device, Stream
from workbench.gpu.lowering.plan import MOST_LAUNCHES, launches_of
from workbench.gpu.run.ready import Ready

_FEWEST = 2
"""The fewest launches between collectives that are worth a graph."""


class Start(Protocol):
    """Starts steps in a stream, and after the last ones what follows them."""

    def __call__(self, steps: Sequence[Ready], stream: Stream, *, is_last: bool) -> None:
        """Start the steps."""


@dataclass
class _Piece:
    ready: Sequence[Ready]
    fits: bool
    """Whether a graph can hold them."""
    is_last: bool = False
    graph: Any = None
    """The graph that was captured of them."""


class Pieces:
    """The pieces of a run, of which the second run captures graphs for those after it.

    Args:
        ready: The steps of the run.
        is_fixed: Whether one graph can hold them all.
    """

    def __init__(self, ready: Sequence[Ready], is_fixed: bool) -> None:
        """Divide the steps; nothing is captured yet."""
        self._has_run = False
        self._pieces = [_Piece(ready, fits=True)] if is_fixed else _between(ready)
        self._pieces[-1].is_last = True

    def run(self, device: Device, start: Start, own: Stream, stream: Stream) -> None:
        """Run once.

        Args:
            device: The device, which has graphs.
            start: Starts steps.
            own: The stream to capture in, in which nothing else is started meanwhile.
            stream: The stream to run in.
        """
        for piece in self._pieces:
            if piece.graph is None and piece.fits and self._has_run:
                with device.capture(own, overlap=True) as captured:
                    start(piece.ready, own, is_last=piece.is_last)
                piece.graph = captured[0]
            if piece.graph is None:
                start(piece.ready, stream, is_last=piece.is_last)
            else:
                device.replay(piece.graph, stream)
        self._has_run = True


def _between(ready: Sequence[Ready]) -> list[_Piece]:
    """The steps of known launches between others, and those."""
    groups = [list(g) for _, g in groupby(ready, key=lambda r: launches_of(r.step) is None)]
    return [_Piece(g, _FEWEST <= _launches(g) <= MOST_LAUNCHES) for g in groups]


def _launches(ready: Sequence[Ready]) -> int:
    """The number of kernels that steps launch; 0 if it is not known before."""
    counts = [launches_of(r.step) for r in ready]
    return 0 if None in counts else sum(filter(None, counts))
