"""Programs whose passes make one reducing kernel of several operations: norms, softmax, variance."""

from collections.abc import Callable, Sequence

import numpy as np

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

Lens = tuple[int, ...]


def spread(m: Module, x: Instruction, lens: Sequence[int]) -> Instruction:
    return m.add("multibroadcast", x, out_lens=tuple(lens))


def given(*shapes: Shape) -> tuple[Program, Module, list[Instruction]]:
    program = Program()
    inputs = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
    return program, program.main, inputs


def softmax(type: DType, lens: Lens) -> Program:
    program, m, (x,) = given(Shape(type, lens))
    m.add_return(m.add("softmax", x, axis=len(lens) - 1))
    return program


def softmax_of_channels(type: DType, lens: Lens) -> Program:
    program, m, (x,) = given(Shape(type, lens))
    m.add_return(m.add("softmax", x, axis=1))
    return program


def layer_norm(type: DType, lens: Lens) -> Program:
    program, m, (x, scale, bias) = given(Shape(type, lens), *[Shape(type, lens[-1:])] * 2)
    axes = (len(lens) - 1,)
    shifted = m.add("sub", x, spread(m, m.add("reduce_mean", x, axes=axes), lens))
    variance = m.add("reduce_mean", m.add("mul", shifted, shifted), axes=axes)
    scaled = m.add("mul", shifted, spread(m, _root(m, variance), lens))
    m.add_return(m.add("add", m.add("mul", scaled, spread(m, scale, lens)), spread(m, bias, lens)))
    return program


def rms_norm(type: DType, lens: Lens) -> Program:
    program, m, (x, scale) = given(Shape(type, lens), Shape(type, lens[-1:]))
    squares = m.add("reduce_mean", m.add("mul", x, x), axes=(len(lens) - 1,))
    m.add_return(
        m.add("mul", m.add("mul", x, spread(m, _root(m, squares), lens)), spread(m, scale, lens))
    )
    return program


def _root(m: Module, x: Instruction) -> Instruction:
    epsilon = m.add_literal(np.full(x.shape.lens, 1e-5, x.shape.type.numpy))
    return m.add("rsqrt", m.add("add", x, epsilon))


def variance(type: DType, lens: Lens) -> Program:
    program, m, (x,) = given(Shape(type, lens))
    axes = (0, *range(2, len(lens)))
    shifted = m.add("sub", x, spread(m, m.add("reduce_mean", x, axes=axes), lens))
    m.add_return(m.add("reduce_mean", m.add("mul", shifted, shifted), axes=axes))
    return program


def masked_log_softmax(type: DType, lens: Lens) -> Program:
    """With a bias, and what a mask leaves out far below all others."""
    program, m, (x, bias, mask) = given(
        Shape(type, lens), Shape(type, lens[-1:]), Shape("bool", lens)
    )
    low = spread(m, m.add_literal(np.array([-1e4], type.numpy)), lens)
    shown = m.add("where", mask, m.add("add", x, spread(m, bias, lens)), low)
    m.add_return(m.add("logsoftmax", shown, axis=len(lens) - 1))
    return program


def mean_of_places(type: DType, lens: Lens) -> Program:
    """The mean over height and width of what lies channel by channel in memory."""
    program, m, (x,) = given(Shape(type, lens))
    turned = m.add("transpose", x, permutation=(0, 3, 1, 2))
    m.add_return(m.add("relu", m.add("reduce_mean", turned, axes=(2, 3))))
    return program


def sum_and_maximum(type: DType, lens: Lens) -> Program:
    """Two reductions, neither of which needs the other, and both with every element again."""
    program, m, (x,) = given(Shape(type, lens))
    total = m.add("reduce_sum", m.add("abs", x), axes=(1,))
    parts = m.add("div", x, spread(m, total, lens))
    m.add_return(m.add("add", parts, spread(m, m.add("reduce_max", x, axes=(1,)), lens)))
    return program


BODIES: dict[str, tuple[Callable[[DType, Lens], Program], Lens]] = {
    "softmax": (softmax, (3, 7, 40)),
    "softmax of long rows": (softmax, (2, 5000)),
    "softmax of odd rows": (softmax, (300, 67)),
    "softmax of channels": (softmax_of_channels, (2, 21, 12)),
    "softmax of many channels": (softmax_of_channels, (2, 70, 6)),
    "layer norm": (layer_norm, (2, 5, 96)),
    "RMS norm": (rms_norm, (6, 128)),
    "variance": (variance, (4, 3, 8, 8)),
    "log-softmax with bias and mask": (masked_log_softmax, (4, 9, 33)),
    "mean over height and width": (mean_of_places, (2, 7, 7, 64)),
    "sum and maximum": (sum_and_maximum, (3, 1000)),
}
"""Each with the lens of its first input."""
