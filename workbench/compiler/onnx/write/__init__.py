"""Writes programs as ONNX models: ``to_onnx``."""

from __future__ import annotations

from pathlib import Path

import onnx

from workbench.compiler.ir.program import Program
from workbench.compiler.onnx.write.writer import model_of

__all__ = ["to_onnx"]

LARGE = 3 << 29
"""Bytes of constants from which they are stored in a file of their own; protobuf ends at 2 GiB."""


def to_onnx(program: Program, path: str | Path | None = None) -> onnx.ModelProto:
    """Write a program as an ONNX model.

    Nodes have the names of the model's nodes that they come from, inputs and outputs their own, and lengths
    that are open theirs. Fused modules are functions of the domain ``workbench``, each with its body in
    standard operators. Layouts are left out: ONNX has none. Values are those of the program; where ONNX has
    no operator for an operation, a few others compute it.

    Args:
        program: The program.
        path: The file to write, if any. Constants of more than 1.5 GB together are stored beside it, in a
            file with ``.data`` after its name, and are no longer in the model that is returned.

    Returns:
        The model, in operator set 21, or a later one where an operator needs it.

    Raises:
        ModelError: An instruction has no meaning in ONNX; the message names it, its source node and why.
        OSError: The file cannot be written.
    """
    model = model_of(program)
    if path is not None:
        path = Path(path)
        size = sum(len(t.raw_data) for t in model.graph.initializer)
        beside = f"{path.name}.data"
        onnx.save_model(model, path, save_as_external_data=size > LARGE, location=beside)
    return model
