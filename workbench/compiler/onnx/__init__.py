"""Reads ONNX models: ``parse_onnx`` makes a Program of one, ``onnx_op`` teaches it an operator."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.onnx.context import NodeContext
from workbench.compiler.onnx.importer import Importer
from workbench.compiler.onnx.inputs import open_note
from workbench.compiler.onnx.options import ParseOptions
from workbench.compiler.onnx.reader import broken_text, read
from workbench.compiler.onnx.registry import onnx_op, operators

__all__ = ["NodeContext", "ParseOptions", "onnx_op", "operators", "parse_onnx"]


def parse_onnx(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    map_input_dims: Mapping[str, Sequence[int]] | None = None,
    map_dyn_input_dims: Mapping[str, Sequence[Dim | int]] | None = None,
    dim_params: Mapping[str, Dim | int] | None = None,
    default_dim_value: int = 0,
    default_dyn_dim_value: Dim | None = None,
    skip_unknown_operators: bool = False,
    max_loop_iterations: int = 10,
    limit_max_iterations: int = 65535,
    use_dyn_output: bool = True,
    constant_inputs: Mapping[str, Any] | None = None,
    external_data_path: str | Path | None = None,
    use_debug_symbols: bool = False,
    strict: bool = False,
    print_program_on_error: bool = False,
) -> Program:
    """Import an ONNX model.

    Lengths that the model leaves open stay open: ranges from 1 to 4096, equal where the model gives them
    one name. One program then runs inputs of any such lengths, and a device compiles it for each set of
    lengths that occurs. If the importer must know a length, the error names it and how to give it.

    Args:
        model: A path, the bytes of a model, or a ModelProto.
        map_input_dims: Static lengths of inputs, by the input's name.
        map_dyn_input_dims: Ranges of lengths of inputs, by the input's name.
        dim_params: Lengths or ranges of symbolic dimensions, by the dimension's name.
        default_dim_value: The length of a dimension that the model leaves open, instead of a range.
        default_dyn_dim_value: The range of a dimension that the model leaves open; 1 to 4096 by default,
            with ``strict`` the length 1.
        skip_unknown_operators: Keep unknown operators as ``unknown:Op`` instead of failing.
        max_loop_iterations: Iterations of a loop whose number is only known at run time.
        limit_max_iterations: The most iterations of any loop; further ones are cut off.
        use_dyn_output: Give results whose length is data (NonZero, NonMaxSuppression) their exact length,
            with a dynamic dimension. False pads them with zeros to their greatest length.
        constant_inputs: Arrays for inputs that become constants of the program, by the input's name. Values
            that a model computes from them (the lengths of a Reshape, the k of a TopK) are then known at
            import.
        external_data_path: The folder of tensors stored outside of the model file.
        use_debug_symbols: Give every instruction the name of its node as a debug symbol. Nodes without a
            name are called ``migx_uid:<operator>_<place>``, outputs ``@output_0:<name>``.
        strict: Emit the instructions that MIGraphX's importer emits, even where ONNX or onnxruntime give
            other numbers, and refuse the dynamic shapes and attention that it refuses. As there, an
            open length is 1 unless an option says otherwise.
        print_program_on_error: If the import fails, print the program so far on stderr.

    Raises:
        ModelError: The model is missing, damaged, hostile or uses an unsupported feature.
    """
    options = ParseOptions(
        map_input_dims or {},
        map_dyn_input_dims or {},
        dim_params or {},
        default_dim_value,
        default_dyn_dim_value,
        skip_unknown_operators,
        max_loop_iterations,
        limit_max_iterations,
        use_dyn_output,
        constant_inputs or {},
        external_data_path,
        use_debug_symbols,
        strict,
    )
    source = read(model)
    importer = Importer(source, options)
    try:
        return importer.run()
    except Exception as error:  # a damaged file may break any assumption
        if print_program_on_error:
            sys.stderr.write(f"{importer.program}\n")
        name = source.name or "the model"
        if (broken := broken_text(source.model)) is not None:
            raise ModelError(f"{name}: {broken}; the file is damaged") from None
        if isinstance(error, ModelError):
            error.args = (f"{name}: {error}{open_note(source.model.graph, options, error)}",)
            raise
        found = f"{type(error).__name__}: {error}"
        raise ModelError(f"{name}: the model is damaged: {found}") from error
