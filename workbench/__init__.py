"""The graph workbench: see a neural-network compiler think.

The names below are the front door. Each is loaded when first used, so `import workbench` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.compat import tracing as _traces
from workbench.compiler.builds.declared import declare
from workbench.compiler.ir import tracing as _tracing
from workbench.compiler.showing import provide

__version__ = "0.1.0"

# The targets and their locations; the compiler itself knows none of them.
declare("ref", "workbench.compiler.builds.numpy_targets:REF")
declare("cpu", "workbench.compiler.builds.numpy_targets:CPU")
declare("gpu", "workbench.gpu.target:GPU")
# Traces that MIGraphX's environment variables request, for all passes and programs.
_tracing.provide(_traces.pass_listeners, _traces.run)

if TYPE_CHECKING:
    from workbench.compat.onnxruntime.session import Session as Session
    from workbench.compat.serving.load import serve_bench as serve_bench
    from workbench.compat.serving.timeline import serve_timeline as serve_timeline
    from workbench.compat.torch.modules import to_torch as to_torch
    from workbench.compat.torch.pretrained import from_pretrained as from_pretrained
    from workbench.compiler.builds.build import Build as Build
    from workbench.compiler.builds.build import compile as compile
    from workbench.compiler.builds.differences import differences as differences
    from workbench.compiler.builds.targets import targets as targets
    from workbench.compiler.errors import WorkbenchError as WorkbenchError
    from workbench.compiler.expressions.builder import Builder as Builder
    from workbench.compiler.expressions.builder import extend as extend
    from workbench.compiler.expressions.builder import trace as trace
    from workbench.compiler.files.archive import load as load
    from workbench.compiler.files.archive import save as save
    from workbench.compiler.files.inputs import read_inputs as read_inputs
    from workbench.compiler.ir.argument import Argument as Argument
    from workbench.compiler.ir.dtypes import DType as DType
    from workbench.compiler.ir.module import Instruction as Instruction
    from workbench.compiler.ir.module import Module as Module
    from workbench.compiler.ir.operation import Operation as Operation
    from workbench.compiler.ir.program import Program as Program
    from workbench.compiler.ir.shape import Shape as Shape
    from workbench.compiler.laws.check import check_rule as check_rule
    from workbench.compiler.lint.lint import lint as lint
    from workbench.compiler.onnx import parse_onnx as parse_onnx
    from workbench.compiler.onnx.write import to_onnx as to_onnx
    from workbench.compiler.ops.custom import operation as operation
    from workbench.compiler.passes.base import Pass as Pass
    from workbench.compiler.passes.base import Pipeline as Pipeline
    from workbench.compiler.passes.gradients.gradient import gradient as gradient
    from workbench.compiler.record.recording import Recording as Recording
    from workbench.compiler.report.foreign.trace import load_trace as load_trace
    from workbench.compiler.report.result import Result as Result
    from workbench.compiler.report.run_comparison import compare_runs as compare_runs
    from workbench.compiler.report.timing_comparison import compare_timings as compare_timings
    from workbench.compiler.rewrite import Decline as Decline
    from workbench.compiler.rewrite import rule as rule
    from workbench.compiler.stablehlo import from_jax as from_jax
    from workbench.compiler.stablehlo import parse_stablehlo as parse_stablehlo
    from workbench.compiler.stablehlo.write import to_stablehlo as to_stablehlo
    from workbench.compiler.text.parsing import parse as parse
    from workbench.compiler.tf import parse_tf as parse_tf
    from workbench.compiler.tflite import parse_tflite as parse_tflite
    from workbench.compiler.torch import from_torch as from_torch
    from workbench.compiler.training.optimizers import SGD as SGD
    from workbench.compiler.training.optimizers import Adam as Adam
    from workbench.compiler.training.optimizers import Lamb as Lamb
    from workbench.compiler.training.training_step import training_step as training_step
    from workbench.front import open as open
    from workbench.front import passes as passes
    from workbench.front import pipelines as pipelines
    from workbench.gpu.devices.registry import devices as devices
    from workbench.numerics.bisect.bisect import bisect as bisect
    from workbench.numerics.compare.compare import compare as compare
    from workbench.numerics.compare.report import Report as Report
    from workbench.numerics.metrics.tensor_difference import inspect as inspect
    from workbench.numerics.minimise.minimise import minimise as minimise
    from workbench.numerics.precision.calibration import Calibration as Calibration
    from workbench.numerics.precision.precision_search import search_precision as search_precision
    from workbench.numerics.precision.quantize import quantize as quantize
    from workbench.numerics.precision.sensitivity import sensitivity as sensitivity

_HOME = {
    "Adam": "compiler.training.optimizers",
    "Argument": "compiler.ir.argument",
    "Build": "compiler.builds.build",
    "Builder": "compiler.expressions.builder",
    "Calibration": "numerics.precision.calibration",
    "DType": "compiler.ir.dtypes",
    "Decline": "compiler.rewrite",
    "Instruction": "compiler.ir.module",
    "Lamb": "compiler.training.optimizers",
    "Module": "compiler.ir.module",
    "Operation": "compiler.ir.operation",
    "Pass": "compiler.passes.base",
    "Pipeline": "compiler.passes.base",
    "Program": "compiler.ir.program",
    "Recording": "compiler.record.recording",
    "Report": "numerics.compare.report",
    "Result": "compiler.report.result",
    "SGD": "compiler.training.optimizers",
    "Session": "compat.onnxruntime.session",
    "Shape": "compiler.ir.shape",
    "WorkbenchError": "compiler.errors",
    "bisect": "numerics.bisect.bisect",
    "check_rule": "compiler.laws.check",
    "compare": "numerics.compare.compare",
    "compare_runs": "compiler.report.run_comparison",
    "compare_timings": "compiler.report.timing_comparison",
    "compile": "compiler.builds.build",
    "devices": "gpu.devices.registry",
    "differences": "compiler.builds.differences",
    "extend": "compiler.expressions.builder",
    "from_jax": "compiler.stablehlo",
    "from_pretrained": "compat.torch.pretrained",
    "from_torch": "compiler.torch",
    "gradient": "compiler.passes.gradients.gradient",
    "inspect": "numerics.metrics.tensor_difference",
    "lint": "compiler.lint.lint",
    "load": "compiler.files.archive",
    "load_trace": "compiler.report.foreign.trace",
    "minimise": "numerics.minimise.minimise",
    "open": "front",
    "operation": "compiler.ops.custom",
    "parse": "compiler.text.parsing",
    "parse_onnx": "compiler.onnx",
    "parse_stablehlo": "compiler.stablehlo",
    "parse_tf": "compiler.tf",
    "parse_tflite": "compiler.tflite",
    "passes": "front",
    "pipelines": "front",
    "quantize": "numerics.precision.quantize",
    "read_inputs": "compiler.files.inputs",
    "rule": "compiler.rewrite",
    "save": "compiler.files.archive",
    "serve_bench": "compat.serving.load",
    "serve_timeline": "compat.serving.timeline",
    "search_precision": "numerics.precision.precision_search",
    "sensitivity": "numerics.precision.sensitivity",
    "targets": "compiler.builds.targets",
    "to_onnx": "compiler.onnx.write",
    "to_stablehlo": "compiler.stablehlo.write",
    "to_torch": "compat.torch.modules",
    "trace": "compiler.expressions.builder",
    "training_step": "compiler.training.training_step",
}

provide(
    {
        "beside": "workbench.compiler.report.beside:beside",
        "bisect": "workbench.numerics.bisect.bisect:bisect",
        "compare": "workbench.numerics.compare.compare:compare",
        "difference overlay": "workbench.compiler.report.beside:difference_overlay",
        "devices": "workbench.gpu.devices.registry:devices",
        "explorer": "workbench.widgets.explorer:PassExplorer",
        "filmstrip": "workbench.widgets.filmstrip:Filmstrip",
        "graph": "workbench.widgets.graph_view:GraphView",
        "kernel explorer": "workbench.widgets.kernel_view:explorer",
        "kernels": "workbench.widgets.kernel_view:KernelView",
        "notebook kernels": "workbench.widgets.display:kernels_bundle",
        "notebook program": "workbench.widgets.display:mimebundle",
        "report": "workbench.widgets.report_view:ReportView",
        "tensor": "workbench.widgets.tensor_view:TensorView",
        "open": "workbench.front:open",
        "report page": "workbench.widgets.report_file:report_page",
        "text": "workbench.compiler.text.printing:to_text",
        "workbench": "workbench.widgets.workbench_view:Workbench",
        "lint": "workbench.compiler.lint.lint:lint",
        "values": "workbench.numerics.capture.values:show",
    }
)

# These names are those of the table; a test checks that it equals what type checkers read above.
__all__ = ["__version__", *_HOME]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "torch":  # a module, whose import loads no torch
        return import_module("workbench.torch")
    if name not in _HOME:
        raise AttributeError(f"workbench has no {name!r}; it has {', '.join(_HOME)}")
    value = getattr(import_module(f"workbench.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
