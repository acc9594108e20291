"""Graphs for the tests: a function of tensors, run once on arrays."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops


def results(
    build: Callable[..., Any],
    *arrays: Any,
    ordered: bool = False,
    target: str = "ref",
    unroll: int = 0,
) -> list[np.ndarray]:
    """The values of the tensors that a function returns, in a session of its own."""
    return run(build, *arrays, ordered=ordered, target=target, unroll=unroll)[0]


def run(
    build: Callable[..., Any],
    *arrays: Any,
    ordered: bool = False,
    target: str = "ref",
    unroll: int = 0,
) -> tuple[list[np.ndarray], pir.Session]:
    """The values, and the session."""
    ir = pir.Ir()
    with ir.main_graph(), pir.in_sequence(ordered):
        given = [np.asarray(a) for a in arrays]
        streams = [
            pir.h2d_stream(a.shape, pir.dtype.as_dtype(a.dtype), f"x{k}")
            for k, a in enumerate(given)
        ]
        found = build(*[ops.host_load(s, f"loaded{k}") for k, s in enumerate(streams)])
        outputs = found if isinstance(found, list | tuple) else [found]
        stores = [pir.d2h_stream(t.shape, t.dtype, f"y{k}") for k, t in enumerate(outputs)]
        for stream, tensor in zip(stores, outputs, strict=True):
            ops.host_store(stream, tensor)
    session = pir.Session(ir, target=target, unroll=unroll)
    rows = session.run(dict(zip(streams, given, strict=True)))
    return [rows[s] for s in stores], session


@contextmanager
def as_script() -> Generator[None]:
    """A script that imports popart may run inside; nothing of it is left after."""
    path, argv, modules = list(sys.path), list(sys.argv), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv
        for name in set(sys.modules) - modules:
            if name.partition(".")[0] == "popart":
                del sys.modules[name]


def types(graph: pir.Graph) -> list[str]:
    """The types of a graph's operations, in the order in which they were made."""
    return [op.op_type for op in graph.ops()]
