"""Hypothesis strategies for whole programs: small, valid, with strides, broadcasts and shared values."""

import numpy as np
from hypothesis import strategies as st

from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

LENS = [(2, 3), (3, 2), (2, 2, 3), (4,), (), (1,)]
UNARY = ["relu", "neg", "tanh", "sigmoid", "abs", "sqrt"]
BINARY = ["add", "mul", "sub", "max"]
ANY_RANK = ["unary", "binary", "transpose", "broadcast", "reshape", "unsqueeze"]
RANKED = ["reduce", "sum", "gather"]


@st.composite
def programs(draw: st.DrawFn, max_size: int = 12) -> Program:
    """A random program over float tensors with one to three parameters and at least one result."""
    program = Program("random")
    main = program.main
    shapes = [Shape("float", draw(st.sampled_from(LENS))) for _ in range(draw(st.integers(1, 3)))]
    values = [main.add_parameter(f"x{i}", shape) for i, shape in enumerate(shapes)]
    for seed in range(draw(st.integers(0, 2))):
        lens = draw(st.sampled_from(LENS))
        data = np.random.default_rng(seed).standard_normal(lens, np.float32)
        values.append(main.add_literal(data))
    for i in range(draw(st.integers(1, max_size))):
        with program.source(f"node{i}"):
            values.append(_grow(draw, program, values))
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
    main.add_return(*results)
    return program


def _grow(draw: st.DrawFn, program: Program, values: list[Instruction]) -> Instruction:
    main = program.main
    x = draw(st.sampled_from(values))
    lens = x.shape.lens
    kind = draw(st.sampled_from([*ANY_RANK, *(RANKED if lens else ())]))
    if kind == "unary":
        return main.add(draw(st.sampled_from(UNARY)), x)
    if kind == "binary":
        same = [v for v in values if v.shape.lens == lens]
        return main.add(draw(st.sampled_from(BINARY)), x, draw(st.sampled_from(same)))
    if kind == "transpose":
        order = draw(st.permutations(range(len(lens))))
        return main.add("transpose", x, permutation=order)
    if kind == "broadcast":
        return main.add("multibroadcast", x, out_lens=(2, *lens)) if len(lens) < 4 else x
    if kind == "unsqueeze":
        return main.add("unsqueeze", x, axes=[draw(st.integers(0, len(lens)))])
    if kind in RANKED:
        return _along(main, kind, x, draw(st.integers(0, len(lens) - 1)))
    return main.add("reshape", x, dims=[int(np.prod(lens))])


def _along(main: Module, kind: str, x: Instruction, axis: int) -> Instruction:
    if kind == "gather":  # by an index of rank 0
        return main.add("gather", x, main.add_literal(np.int64(0)), axis=axis)
    summed = main.add("reduce_sum", x, axes=[axis])
    return main.add("squeeze", summed, axes=[axis]) if kind == "sum" else summed


def inputs_for(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Positive and negative inputs of moderate size for each parameter."""
    random = np.random.default_rng(seed)
    return {
        name: random.uniform(-2, 2, shape.lens).astype(shape.type.numpy)
        for name, shape in program.parameters.items()
    }


def with_buffers(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs in the types that a pass left, and zeros for the buffers that it made parameters of."""
    return {
        name: _typed(inputs[name], shape)
        if name in inputs
        else np.zeros(shape.lens, shape.type.numpy)
        for name, shape in program.parameters.items()
    }


def _typed(value: np.ndarray, shape: Shape) -> np.ndarray:
    return value.astype(shape.type.numpy, copy=False) if isinstance(value, np.ndarray) else value
