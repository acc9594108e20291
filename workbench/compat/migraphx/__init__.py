"""MIGraphX's Python interface over the workbench's core: ``from workbench.compat import migraphx``."""

from workbench.compat.migraphx import sym
from workbench.compat.migraphx.arguments import (
    argument,
    create_argument,
    fill_argument,
    generate_argument,
)
from workbench.compat.migraphx.custom import custom_op
from workbench.compat.migraphx.devices import (
    allocate_gpu,
    argument_from_pointer,
    from_gpu,
    gpu_sync,
    to_gpu,
)
from workbench.compat.migraphx.editing import run_passes
from workbench.compat.migraphx.errors import Error
from workbench.compat.migraphx.files import load, load_buffer, save, save_buffer
from workbench.compat.migraphx.modules import instruction_ref, module
from workbench.compat.migraphx.operations import macro, op
from workbench.compat.migraphx.parsing import (
    get_onnx_operators,
    parse_onnx,
    parse_onnx_buffer,
    parse_tf,
)
from workbench.compat.migraphx.programs import compile_modes, program, trace_info
from workbench.compat.migraphx.quantization import (
    autocast_fp8,
    quantize_bf16,
    quantize_fp8,
    quantize_fp16,
    quantize_int4,
    quantize_int8,
)
from workbench.compat.migraphx.shapes import shape
from workbench.compat.migraphx.targets import get_target, target

__version__ = "2.16.0.dev"

__all__ = [
    "Error",
    "__version__",
    "allocate_gpu",
    "argument",
    "argument_from_pointer",
    "autocast_fp8",
    "compile_modes",
    "create_argument",
    "custom_op",
    "fill_argument",
    "from_gpu",
    "generate_argument",
    "get_onnx_operators",
    "get_target",
    "gpu_sync",
    "instruction_ref",
    "load",
    "load_buffer",
    "macro",
    "module",
    "op",
    "parse_onnx",
    "parse_onnx_buffer",
    "parse_tf",
    "program",
    "quantize_bf16",
    "quantize_fp8",
    "quantize_fp16",
    "quantize_int4",
    "quantize_int8",
    "run_passes",
    "save",
    "save_buffer",
    "shape",
    "sym",
    "target",
    "to_gpu",
    "trace_info",
]  # fmt: skip
