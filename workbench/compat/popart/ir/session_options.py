"""PopART's session options."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from workbench.knobs import knobs


class VirtualGraphMode(Enum):
    """The way in which operations are placed on IPUs; programs in ``popart.ir`` place them by hand."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


@dataclass
class SessionOptions:
    """The options that an Ir sets, with PopART's names; those without an effect here are recorded."""

    dotChecks: set[str] = field(default_factory=set[str])  # noqa: N815 - PopART's name
    """Checkpoints that write DOT files; any case, or ALL."""
    logDir: str = "."  # noqa: N815 - PopART's name
    """The folder of DOT files."""
    separateCallOpPdfs: bool = True  # noqa: N815 - PopART's name
    """Whether each graph has a file of its own."""
    firstDotOp: int = 0  # noqa: N815 - PopART's name
    """The first operation that is drawn."""
    finalDotOp: int = 10000  # noqa: N815 - PopART's name
    """The end of those that are drawn."""
    dotOpNames: bool = True  # noqa: N815 - PopART's name
    """Whether operations have their names in labels."""
    enableReplicatedGraphs: bool = False  # noqa: N815 - PopART's name
    """Whether there are several replicas."""
    replicatedGraphCount: int = 1  # noqa: N815 - PopART's name
    """The number of replicas."""
    accumulationFactor: int = 1  # noqa: N815 - PopART's name
    """The number of batches that share an update; it multiplies the rows of streams."""
    virtualGraphMode: VirtualGraphMode = VirtualGraphMode.Manual  # noqa: N815 - PopART's name
    """Operations are placed on IPUs by hand."""
    useHostCopyOps: bool = True  # noqa: N815 - PopART's name
    """Streams are read and written by operations."""
    aliasZeroCopy: bool = True  # noqa: N815 - PopART's name
    """Calls pass memory without copies where that is possible."""
    enableExplicitMainLoops: bool = True  # noqa: N815 - PopART's name
    """Loops over batches are operations."""
    explicitRecomputation: bool = True  # noqa: N815 - PopART's name
    """Recomputed operations are operations."""
    enableInplaceAmbiguityChecking: bool = True  # noqa: N815 - PopART's name
    """Updates in place whose order nothing fixes are refused."""
    enableEngineCaching: bool = field(  # noqa: N815 - PopART's name
        default_factory=lambda: bool(knobs.popart_cache_dir)
    )
    """Compiled models are kept in a folder; the workbench keeps them in a folder of its own."""
    cachePath: str = field(default_factory=lambda: knobs.popart_cache_dir)  # noqa: N815 - PopART's name
    """The folder of compiled models."""
