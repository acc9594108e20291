"""The graph workbench: see a neural-network compiler think.

The names below are the front door. Each is loaded when first used, so `import workbench` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench.compiler.argument import Argument as Argument
    from workbench.compiler.build import Build as Build
    from workbench.compiler.build import compile as compile
    from workbench.compiler.custom import operation as operation
    from workbench.compiler.dtypes import DType as DType
    from workbench.compiler.errors import WorkbenchError as WorkbenchError
    from workbench.compiler.ir import Instruction as Instruction
    from workbench.compiler.ir import Module as Module
    from workbench.compiler.laws import check_rule as check_rule
    from workbench.compiler.onnx import parse_onnx as parse_onnx
    from workbench.compiler.operation import Operation as Operation
    from workbench.compiler.passes.base import Pass as Pass
    from workbench.compiler.passes.base import Pipeline as Pipeline
    from workbench.compiler.program import Program as Program
    from workbench.compiler.recording import Recording as Recording
    from workbench.compiler.result import Result as Result
    from workbench.compiler.rewrite import Decline as Decline
    from workbench.compiler.rewrite import rule as rule
    from workbench.compiler.serialize import load as load
    from workbench.compiler.serialize import save as save
    from workbench.compiler.shape import Shape as Shape
    from workbench.compiler.targets import targets as targets
    from workbench.compiler.text_parse import parse as parse
    from workbench.compiler.tf import parse_tf as parse_tf
    from workbench.compiler.timing_comparison import compare_timings as compare_timings
    from workbench.front import open as open
    from workbench.front import passes as passes
    from workbench.front import pipelines as pipelines
    from workbench.gpu.devices.registry import devices as devices
    from workbench.numerics.calibration import Calibration as Calibration
    from workbench.numerics.compare import compare as compare
    from workbench.numerics.quantize import quantize as quantize
    from workbench.numerics.report import Report as Report

_HOME = {
    "Argument": "compiler.argument",
    "Build": "compiler.build",
    "Calibration": "numerics.calibration",
    "DType": "compiler.dtypes",
    "Decline": "compiler.rewrite",
    "Instruction": "compiler.ir",
    "Module": "compiler.ir",
    "Operation": "compiler.operation",
    "Pass": "compiler.passes.base",
    "Pipeline": "compiler.passes.base",
    "Program": "compiler.program",
    "Recording": "compiler.recording",
    "Report": "numerics.report",
    "Result": "compiler.result",
    "Shape": "compiler.shape",
    "WorkbenchError": "compiler.errors",
    "check_rule": "compiler.laws",
    "compare": "numerics.compare",
    "compare_timings": "compiler.timing_comparison",
    "compile": "compiler.build",
    "devices": "gpu.devices.registry",
    "load": "compiler.serialize",
    "open": "front",
    "operation": "compiler.custom",
    "parse": "compiler.text_parse",
    "parse_onnx": "compiler.onnx",
    "parse_tf": "compiler.tf",
    "passes": "front",
    "pipelines": "front",
    "quantize": "numerics.quantize",
    "rule": "compiler.rewrite",
    "save": "compiler.serialize",
    "targets": "compiler.targets",
}

# The names are those of the table, which a test holds equal to what type checkers read above.
__all__ = ["__version__", *_HOME]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"workbench has no {name!r}; it has {', '.join(_HOME)}")
    value = getattr(import_module(f"workbench.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
