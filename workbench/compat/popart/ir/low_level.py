"""The part of PopART's low-level Ir that programs in ``popart.ir`` use to make a session."""

# ruff: noqa: N802 - PopART's names
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from workbench.compat.popart.ir.session_options import SessionOptions

if TYPE_CHECKING:
    from workbench.compat.popart.inference import DataFlow
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.ir import Ir


class LowLevelIr:
    """An Ir as ``InferenceSession.fromIr`` takes it: ``ir._pb_ir``."""

    def __init__(self, ir: Ir) -> None:
        """The low-level side of an Ir, without a data flow."""
        from workbench.compat.popart.inference import DataFlow  # noqa: PLC0415 - it imports sessions

        self.ir = ir
        self.flow = DataFlow()

    def setDataFlow(self, flow: DataFlow) -> None:
        """Set the number of batches in a step, and the anchors."""
        self.flow = flow
        self.ir.num_host_transfers = flow.batchesPerStep * self.ir.options.accumulationFactor

    def getSessionOptions(self) -> SessionOptions:
        """The options."""
        return self.ir.options

    def getMainGraph(self) -> Graph:
        """The main graph."""
        return self.ir.main_graph()

    def getAllGraphs(self) -> list[Graph]:
        """All graphs."""
        return list(self.ir.graphs)

    def logIr(self) -> None:
        """Write all graphs to the log."""
        logging.getLogger("popart.ir").debug(self.ir.log_ir())

    def updateVertices(self) -> None:
        """Do nothing: records are always up to date."""

    def setIsPrepared(self) -> None:
        """Do nothing: a session prepares the Ir."""

    def setPatterns(self, patterns: Any) -> None:
        """Do nothing: the target's passes take the place of patterns."""

    def applyPreAliasPatterns(self, graph: Graph) -> None:
        """Do nothing: the target's passes take the place of patterns."""

    def applyInplacePattern(self, graph: Graph) -> None:
        """Do nothing: the target's plan of memory reuses buffers."""

    def removeIsolatedGraphs(self) -> None:
        """Do nothing: graphs that nothing calls are not in the program."""

    def removeIsolatedTensors(self, retainUsedIOTensors: bool = False) -> None:  # noqa: N803
        """Do nothing: the target's passes remove what nothing uses."""
