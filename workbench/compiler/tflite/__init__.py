"""Reads TensorFlow Lite's models: ``parse_tflite`` makes a Program of one, ``tflite_op`` adds an operator."""

from __future__ import annotations

from pathlib import Path

from workbench.compiler.ir.program import Program
from workbench.compiler.tflite.context import Context
from workbench.compiler.tflite.importer import Importer
from workbench.compiler.tflite.reader import Model
from workbench.compiler.tflite.registry import operators, tflite_op

__all__ = ["Context", "operators", "parse_tflite", "tflite_op"]


def parse_tflite(model: str | Path | bytes) -> Program:
    """Import a model of TensorFlow Lite (``.tflite``).

    Images stay as they are in the model, with the channels last. Around an operator on quantized tensors
    the operands are dequantized and the result is quantized, so passes for quantized programs find what
    they look for; weights keep their integers. Results may differ from TensorFlow Lite's by one step of
    the scale, as its integer kernels round in their own way.

    Args:
        model: A path, or the bytes of a file.

    Raises:
        ModelError: The package ``tflite`` is missing; or the model is missing, damaged, hostile or uses an
            unsupported operator or feature, which the message names.
    """
    name = Path(model).name if isinstance(model, str | Path) else ""
    return Importer(Model.read(model), name).run()
