"""Models' files: the program of one, by its kind, and the code that reads it."""

from __future__ import annotations

from pathlib import Path

from workbench.compiler.ir.program import Program

STABLEHLO = {".mlir", ".stablehlo"}
"""Suffixes of files with modules of StableHLO."""

TFLITE = ".tflite"
"""The suffix of models of TensorFlow Lite."""


def read_model(path: str | Path) -> Program:
    """The program of a model's file: ONNX, TensorFlow (``.pb``, SavedModel), ``.tflite``, StableHLO, or ours.

    Modules of StableHLO end in ``.mlir`` or ``.stablehlo``, whether they are text or bytecode.

    Raises:
        ModelError: The file cannot be read.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "parse_onnx":
        from workbench.compiler.onnx import parse_onnx  # noqa: PLC0415

        return parse_onnx(path)
    if kind == "parse_tf":
        from workbench.compiler.tf import parse_tf  # noqa: PLC0415

        return parse_tf(path)
    if kind == "parse_stablehlo":
        from workbench.compiler.stablehlo import parse_stablehlo  # noqa: PLC0415

        return parse_stablehlo(path)
    if kind == "parse_tflite":
        from workbench.compiler.tflite import parse_tflite  # noqa: PLC0415

        return parse_tflite(path)
    from workbench.compiler.files.archive import load  # noqa: PLC0415

    found = load(path)
    return found if isinstance(found, Program) else found.last


def reading_code(path: str | Path) -> str:
    """The Python that reads a model's file, with ``import workbench as wb``."""
    return f"wb.{_kind(Path(path))}({str(path)!r})"


def _kind(path: Path) -> str:
    """The function of the front door that reads it."""
    if path.suffix == ".onnx":
        return "parse_onnx"
    if path.suffix == TFLITE:
        return "parse_tflite"
    if path.suffix in STABLEHLO:
        return "parse_stablehlo"
    return "parse_tf" if path.suffix == ".pb" or path.is_dir() else "load"
