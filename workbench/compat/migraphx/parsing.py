"""Programs from models: ONNX and TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workbench.compat.migraphx.errors import Error, FileName, Size, bound
from workbench.compat.migraphx.programs import program
from workbench.compat.migraphx.shapes import dynamic_dimension
from workbench.compiler import onnx
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim

_ONE = dynamic_dimension(1, 1)


@bound
def parse_onnx(
    filename: FileName,
    default_dim_value: Size = 0,
    default_dyn_dim_value: dynamic_dimension = _ONE,
    dim_params: dict[str, dynamic_dimension] = {},
    map_input_dims: dict[str, list[Size]] = {},
    map_dyn_input_dims: dict[str, list[dynamic_dimension]] = {},
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    max_loop_iterations: Size = 10,
    limit_max_iterations: Size = 65535,
    use_debug_symbols: bool = False,
    *,
    use_dyn_output: bool = False,
    strict: bool = True,
) -> program:
    """A program from an ONNX file.

    Args:
        filename: The file.
        default_dim_value: The length of dimensions that the model leaves open.
        default_dyn_dim_value: The range of such dimensions; only one of the two may be given.
        dim_params: Ranges of named dimensions, by name.
        map_input_dims: Lengths of inputs, by name.
        map_dyn_input_dims: Ranges of inputs, by name; only one of the two may be given.
        skip_unknown_operators: Keep unknown operators as instructions that cannot run.
        print_program_on_error: Print the program so far when something in the model is refused.
        max_loop_iterations: Iterations of a loop without a trip count.
        limit_max_iterations: The most iterations of any loop.
        use_debug_symbols: Keep the names of the model's nodes on instructions.
        use_dyn_output: Give results whose length depends on data their exact length, which MIGraphX offers
            in C++ only.
        strict: Make MIGraphX's instructions, and refuse what it refuses. False, which MIGraphX does
            not have, imports like ``workbench.parse_onnx``: more models, with the results that ONNX defines.

    Raises:
        Error: The file is missing or damaged, or uses something that is not supported.
    """
    options = {
        "dim_params": {name: _plain(d.core) for name, d in dim_params.items()},
        "max_loop_iterations": max_loop_iterations,
        "limit_max_iterations": limit_max_iterations,
    }
    common = _common(
        default_dim_value, default_dyn_dim_value, map_input_dims, map_dyn_input_dims,
        skip_unknown_operators, print_program_on_error, use_debug_symbols,
    )  # fmt: skip
    more = {"use_dyn_output": use_dyn_output, "strict": strict}
    return _parsed(Path(os.fspath(filename)), {**options, **common, **more})


@bound
def parse_onnx_buffer(
    filename: bytes | str,
    default_dim_value: Size = 0,
    default_dyn_dim_value: dynamic_dimension = _ONE,
    map_input_dims: dict[str, list[Size]] = {},
    map_dyn_input_dims: dict[str, list[dynamic_dimension]] = {},
    skip_unknown_operators: bool = False,
    print_program_on_error: bool = False,
    external_data_path: FileName = "",
    use_debug_symbols: bool = False,
    *,
    use_dyn_output: bool = False,
    strict: bool = True,
) -> program:
    """A program from the bytes of an ONNX file.

    Args:
        filename: The bytes.
        default_dim_value: The length of dimensions that the model leaves open.
        default_dyn_dim_value: The range of such dimensions; only one of the two may be given.
        map_input_dims: Lengths of inputs, by name.
        map_dyn_input_dims: Ranges of inputs, by name; only one of the two may be given.
        skip_unknown_operators: Keep unknown operators as instructions that cannot run.
        print_program_on_error: Print the program so far when something in the model is refused.
        external_data_path: The folder of tensors that are stored outside of the file.
        use_debug_symbols: Keep the names of the model's nodes on instructions.
        use_dyn_output: Give results whose length depends on data their exact length, which MIGraphX offers
            in C++ only.
        strict: Make MIGraphX's instructions, and refuse what it refuses. False, which MIGraphX does
            not have, imports like ``workbench.parse_onnx``: more models, with the results that ONNX defines.

    Raises:
        Error: The model is damaged, or uses something that is not supported.
    """
    common = _common(
        default_dim_value, default_dyn_dim_value, map_input_dims, map_dyn_input_dims,
        skip_unknown_operators, print_program_on_error, use_debug_symbols,
    )  # fmt: skip
    folder = os.fspath(external_data_path)
    more = {"use_dyn_output": use_dyn_output, "strict": strict}
    data = filename.encode("latin-1") if isinstance(filename, str) else filename
    return _parsed(data, {**common, "external_data_path": folder or None, **more})


def _common(
    default_dim_value: int,
    default_dyn_dim_value: dynamic_dimension,
    map_input_dims: dict[str, list[int]],
    map_dyn_input_dims: dict[str, list[dynamic_dimension]],
    skip_unknown_operators: bool,
    print_program_on_error: bool,
    use_debug_symbols: bool,
) -> dict[str, Any]:
    dim = default_dyn_dim_value.core
    is_default = (dim.min, dim.max) == (1, 1)
    if default_dim_value and not is_default:
        raise Error("default_dim_value and default_dyn_dim_value are both given; give one of them")
    ranges = {k: [_plain(d.core) for d in dims] for k, dims in map_dyn_input_dims.items()}
    return {
        "default_dim_value": default_dim_value,
        "default_dyn_dim_value": None if default_dim_value else dim,
        "map_input_dims": map_input_dims,
        "map_dyn_input_dims": ranges,
        "skip_unknown_operators": skip_unknown_operators,
        "print_program_on_error": print_program_on_error,
        "use_debug_symbols": use_debug_symbols,
    }


def _plain(dim: Dim) -> Dim | int:
    return dim.min if dim.is_fixed else dim


def _parsed(model: Path | bytes, options: dict[str, Any]) -> program:
    try:
        return program.of(onnx.parse_onnx(model, **options))
    except ModelError as error:
        if options["strict"] and _imports(model, options):
            error.args = (f"{error}; strict=False imports the model",)
        raise


def _imports(model: Path | bytes, options: dict[str, Any]) -> bool:
    """Whether a model that strict import refuses can be imported otherwise."""
    relaxed: dict[str, Any] = {**options, "strict": False, "print_program_on_error": False}
    try:
        onnx.parse_onnx(model, **relaxed)
    except ModelError:
        return False
    return True


@bound
def parse_tf(
    filename: FileName,
    is_nhwc: bool = True,
    batch_size: Size = 1,
    map_input_dims: dict[str, list[Size]] = {},
    output_names: list[str] = [],
) -> program:
    """A program from a frozen TensorFlow graph.

    Args:
        filename: The file.
        is_nhwc: Whether images have their channels last.
        batch_size: The length of first dimensions that the graph leaves open.
        map_input_dims: Lengths of inputs, by name.
        output_names: The nodes whose results the program returns.

    Raises:
        Error: The file is missing or damaged, or uses something that is not supported.
    """
    from workbench.compiler.tf import parse_tf as parse  # noqa: PLC0415

    made = parse(
        Path(os.fspath(filename)),
        is_nhwc=is_nhwc,
        batch_size=batch_size,
        map_input_dims=map_input_dims,
        output_names=output_names,
        skip_unknown_operators=True,
        strict=True,
    )
    return program.of(made)


@bound
def get_onnx_operators() -> list[str]:
    """The names of all ONNX operators that can be read, in order."""
    return sorted(set(onnx.operators()))
