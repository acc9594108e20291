"""Reads TensorFlow's frozen graphs: ``parse_tf`` makes a Program of one, ``tf_op`` teaches it an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.compiler.ir.program import Program
from workbench.compiler.tf.context import NodeContext
from workbench.compiler.tf.importer import Importer
from workbench.compiler.tf.options import ParseOptions
from workbench.compiler.tf.reader import read
from workbench.compiler.tf.registry import operators, tf_op

__all__ = ["NodeContext", "ParseOptions", "operators", "parse_tf", "tf_op"]


def parse_tf(
    model: str | Path | bytes,
    *,
    is_nhwc: bool = True,
    batch_size: int = 1,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    output_names: Sequence[str] = (),
    skip_unknown_operators: bool = False,
    strict: bool = False,
) -> Program:
    """Import a frozen TensorFlow graph (a GraphDef).

    With ``is_nhwc``, parameters and results of rank 4 that are ``[N, H, W, C]`` in the graph become ``[N,
    C, H, W]``, and values in between are transposed accordingly.

    Args:
        model: A path, or the bytes of a GraphDef.
        is_nhwc: Whether the channels come last in the graph.
        batch_size: The length of a dimension that the graph leaves open.
        map_input_dims: Lens of parameters in the program's layout, by the placeholder's name.
        output_names: The nodes whose values are returned; if empty, those that no other node reads.
        skip_unknown_operators: Keep unknown operators as ``unknown:Op`` instead of failing.
        strict: Hold what has rank 0, and constants of one element, in the shape of MIGraphX's scalar,
            ``{1}, {0}``.

    Raises:
        ModelError: The graph is missing, damaged, hostile or uses an unsupported feature.
    """
    options = ParseOptions(
        is_nhwc,
        batch_size,
        map_input_dims or {},
        tuple(output_names),
        skip_unknown_operators,
        strict,
    )
    name = Path(model).name if isinstance(model, str | Path) else ""
    return Importer(read(model), options, name).run()
