"""Kernels that move memory: how near they come to the device's own copy, and torch.compile beside them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Outcome, Timing
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.devices.registry import device

MIB = 1 << 20
OURS, TORCH = "workbench gpu", "torch.compile"


def _pointwise(type: str) -> Program:
    """A sum and an activation of two tensors; 256 MiB are moved in all."""
    program = Program()
    count = 256 * MIB // 3 // np.dtype(np.float16 if type == "half" else np.float32).itemsize
    lens = (count // 4096 // 8 * 8, 4096)
    x, y = (program.main.add_parameter(n, Shape(type, lens)) for n in "xy")
    program.main.add_return(program.main.add("relu", program.main.add("add", x, y)))
    return program


def _copy() -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (8192, 4096)))
    program.main.add_return(program.main.add("neg", x))
    return program


def _sum(axes: tuple[int, ...]) -> Callable[[], Program]:
    def make() -> Program:
        program = Program()
        x = program.main.add_parameter("x", Shape("float", (16384, 4096)))
        program.main.add_return(program.main.add("reduce_sum", x, axes=axes))
        return program

    return make


def _softmax() -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape("half", (8192, 4096)))
    program.main.add_return(program.main.add("softmax", x, axis=1))
    return program


def _layer_norm() -> Program:
    """As ONNX's LayerNormalization is imported: mean, variance, scale and bias."""
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("LayerNormalization", ["x", "w", "b"], ["y"], epsilon=1e-5)
    half = TensorProto.FLOAT16
    inputs = [
        helper.make_tensor_value_info("x", half, [8192, 4096]),
        helper.make_tensor_value_info("w", half, [4096]),
        helper.make_tensor_value_info("b", half, [4096]),
    ]
    output = helper.make_tensor_value_info("y", half, [8192, 4096])
    graph = helper.make_graph([node], "layer_norm", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    return wb.parse_onnx(onnx.ModelProto.SerializeToString(model))


MAKERS: dict[str, Callable[[], Program]] = {
    "neg f32": _copy,
    "add relu f32": lambda: _pointwise("float"),
    "add relu f16": lambda: _pointwise("half"),
    "sum of rows f32": _sum((1,)),
    "sum of columns f32": _sum((0,)),
    "sum of all f32": _sum((0, 1)),
    "softmax f16": _softmax,
    "layer norm f16": _layer_norm,
}
SUBJECTS = tuple(MAKERS)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """One kernel: GB/s beside the copy, and torch.compile's seconds where it is here."""
    program = MAKERS[subject]()
    here = device(None)
    inputs = inputs_of(program)
    build = wb.compile(program, target="gpu")
    executable = build.runner.executable()  # pyright: ignore[reportOptionalMemberAccess]
    found = on_device.run_seconds(executable, inputs)
    kernels = len(executable.plan.kernels)
    ours = Timing("kernels", subject, OURS, tuple(found))
    moved = sum(s.bytes for s in program.parameters.values())
    moved += sum(o.shape.bytes for o in program.outputs)
    rate, copy = moved / on_device.median(found), here.peaks().bandwidth
    facts = [
        (f"kernels, {subject}", f"{kernels} kernels, {rate / 1e9:,.0f} GB/s on {here.facts.name}"),
        (f"host steps, {subject}", str(len(executable.plan.host))),
    ]
    claims = [
        Claim("kernels", subject, "bandwidth / measured copy", rate / copy, 0.85, at_least=True)
    ]
    timings = [ours]
    if on_device.has_cuda_torch() and (work := torch_work(subject, inputs)) is not None:
        theirs = Timing(
            "kernels", subject, TORCH, tuple(on_device.torch_seconds(work, replay=True))
        )
        timings.append(theirs)
        claims.append(
            Claim("kernels", subject, f"{OURS} / {TORCH}", ours.median / theirs.median, 1.0)
        )
    executable.close()
    return Outcome(tuple(timings), tuple(claims), tuple(facts))


def inputs_of(program: Program) -> dict[str, Any]:
    """Seeded normal numbers for each parameter."""
    return {n: on_device.noise(s.lens, s.type.numpy) for n, s in program.parameters.items()}


def torch_work(subject: str, inputs: dict[str, Any]) -> Callable[[], Any] | None:
    """The same work by torch.compile."""
    import torch

    given = {n: torch.from_numpy(a).cuda() for n, a in inputs.items()}
    functions: dict[str, Callable[..., Any]] = {
        "neg f32": lambda x: -x,
        "add relu f32": lambda x, y: torch.relu(x + y),
        "add relu f16": lambda x, y: torch.relu(x + y),
        "sum of rows f32": lambda x: x.sum(1),
        "sum of columns f32": lambda x: x.sum(0),
        "sum of all f32": lambda x: x.sum(),
        "softmax f16": lambda x: torch.softmax(x, 1),
        "layer norm f16": lambda x, w, b: torch.nn.functional.layer_norm(x, (4096,), w, b),
    }
    compiled = torch.compile(functions[subject])
    return lambda: compiled(**given)
