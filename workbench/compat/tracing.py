"""Traces that MIGraphX's environment variables ask for; the tracing code is loaded only if one is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.knobs import knobs

if TYPE_CHECKING:
    from workbench.compiler.ir.listener import Listener
    from workbench.compiler.ir.program import Program


def pass_listeners(program: Program, purpose: str) -> Sequence[Listener]:
    """The listeners that the options ask for while passes run."""
    if purpose == "quantize":
        wanted = knobs.trace_quantization
    else:
        wanted = knobs.trace_passes or knobs.trace_compile or knobs.time_passes
        wanted = wanted or knobs.trace_matches or knobs.trace_matches_for
    if not wanted:
        return []
    from workbench.compat.migraphx.pass_tracing import tracers  # noqa: PLC0415

    return tracers(program, purpose)


def run(program: Program, inputs: Mapping[str, Any]) -> list[Any] | None:
    """The outputs of a run with the trace of ``MIGRAPHX_TRACE_EVAL``; None if that is not set."""
    if not (level := knobs.trace_eval):
        return None
    from workbench.compat.migraphx.narration import narrate  # noqa: PLC0415

    return narrate(program, inputs, level)
