"""AITemplate's module paths as modules of this front end."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from workbench.compat.aitemplate import element_types
from workbench.compat.aitemplate.frontend import (
    compiling,
    data,
    graph,
    lengths,
    ops,
    targets,
    tensor,
)
from workbench.compat.aitemplate.frontend.operator import Operator
from workbench.compat.aitemplate.frontend.ops.func_enum import FuncEnum

_RUNTIME = "workbench.compat.aitemplate"


def _contents() -> dict[str, dict[str, Any]]:
    """The names in each of AITemplate's modules."""
    compiler = {
        "compile_model": compiling.compile_model,
        "DynamicProfileStrategy": compiling.DynamicProfileStrategy,
        "AITDebugSettings": compiling.AITDebugSettings,
        "ops": ops,
    }
    lens = {"IntVar": lengths.IntVar, "IntImm": lengths.IntImm, "Tensor": tensor.Tensor}
    base = {
        **lens,
        "Operator": Operator,
        "DynamicProfileStrategy": compiling.DynamicProfileStrategy,
        "AITDebugSettings": compiling.AITDebugSettings,
        "_ConstantTensorData": data.ConstantData,
        "_HostConstantTensorData": data.HostConstantTensorData,
        "_NumpyConstantTensorData": data.NumpyConstantTensorData,
        "_TorchConstantTensorData": data.TorchConstantTensorData,
        "_create_host_zero_tensor": tensor.create_host_zero_tensor,
        "get_dtype_size": element_types.dtype_size,
    }
    return {
        "aitemplate": {},
        "aitemplate.compiler": compiler,
        "aitemplate.compiler.compiler": compiler,
        "aitemplate.compiler.base": base,
        "aitemplate.compiler.dtype": {
            "get_dtype_size": element_types.dtype_size,
            "normalize_dtype": element_types.normalized,
        },
        "aitemplate.compiler.public": {**compiler, **lens, "FuncEnum": FuncEnum},
        "aitemplate.compiler.ops.common": {},
        "aitemplate.compiler.ops.common.epilogue": {"FuncEnum": FuncEnum},
        "aitemplate.compiler.transform": {
            "toposort": graph.toposort,
            "name_graph": graph.name_graph,
        },
        "aitemplate.frontend": {**lens},
        "aitemplate.testing": {"detect_target": targets.detect_target},
        "aitemplate.testing.detect_target": {"detect_target": targets.detect_target},
        "aitemplate.backend": {},
        "aitemplate.backend.target": {n: getattr(targets, n) for n in ("Target", "CUDA", "ROCM")},
    }


def _model_module() -> ModuleType:
    """``aitemplate.compiler.model``: the model, and what describes the arrays of a run."""
    parts = [importlib.import_module(f"{_RUNTIME}.{n}") for n in ("data", "model")]
    module = ModuleType("aitemplate.compiler.model", "The model and its arrays.")
    for part in parts:
        module.__dict__.update({k: v for k, v in vars(part).items() if not k.startswith("__")})

    def torch_to_ait_data(tensor: Any) -> Any:
        """The pointer, the lengths and the type of a tensor."""
        name = str(tensor.dtype).rpartition(".")[2]
        return parts[0].AITData(tensor.data_ptr(), list(tensor.size()), name)

    module.__dict__.update(torch_to_ait_data=torch_to_ait_data, AIT_DEFAULT_NUM_RUNTIMES=1)
    return module


def install() -> None:
    """Make ``import aitemplate`` and the modules below it import this front end."""
    found = _contents()
    for name, contents in found.items():
        module = ModuleType(name, f"``{name}`` of the workbench.")
        module.__dict__.update(contents, __path__=[])
        sys.modules[name] = module
    sys.modules["aitemplate.compiler.ops"] = ops
    sys.modules["aitemplate.compiler.model"] = _model_module()
    for name in [n for n in sys.modules if n.startswith("aitemplate.")]:
        parent, _, child = name.rpartition(".")
        if not hasattr(sys.modules[parent], child):
            setattr(sys.modules[parent], child, sys.modules[name])
