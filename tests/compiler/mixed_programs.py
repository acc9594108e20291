"""Random programs over many operations and element types: what rules and fusion have to get right."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from hypothesis import strategies as st

from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.tidy.dead_code_elimination import unreachable

OPERATIONS = all_operations()

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]
"""One of some options: drawn by hypothesis, or by a plain random generator in long runs."""

TYPES = ["float", "float", "float", "half", "double", "int32", "int64", "int8", "uint8", "bool"]
LENS = [(2, 3), (3, 2), (2, 2, 3), (4,), (1, 3), (1,), (2, 1, 2), (3, 3)]
NUMBERS = [0, 1, -1, 2, 3, 0.5, 5]
UNARY = [
    "relu", "neg", "tanh", "sigmoid", "abs", "sqrt", "exp", "log", "recip", "rsqrt", "erf", "sin",
    "identity", "contiguous", "sign", "floor", "not", "logsoftmax",
]  # fmt: skip
BINARY = [
    "add", "add", "mul", "mul", "sub", "div", "max", "min", "pow", "greater", "less", "equal",
    "logical_and", "logical_or", "sqdiff", "fmod", "mod", "prelu",
]  # fmt: skip
REDUCE = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "argmax"]
JUMPS = {
    "floor", "sign", "not", "mod", "fmod", "greater", "less", "equal", "logical_and", "logical_or", "argmax",
}  # fmt: skip
"""Operations that make a large difference of a small one; they are given exact values only."""
KINDS = [
    "unary", "unary", "binary", "binary", "binary", "constant", "constant", "transpose", "broadcast",
    "reduce", "reshape", "squeeze", "convert", "where", "clip", "softmax", "concat", "slice", "gather",
    "dot", "pad", "sampled", "sampled", "branch", "repeated",
]  # fmt: skip


GIVEN: "WeakKeyDictionary[Program, dict[str, np.ndarray]]" = WeakKeyDictionary()
"""Values of parameters that stand for samples of operations."""


def build(pick: Pick, size: int) -> Program:
    """A random program; operations that refuse their operands are left out."""
    program = Program("mixed")
    main = program.main
    values = [
        main.add_parameter(f"x{i}", Shape(pick(TYPES), pick(LENS))) for i in range(pick([1, 2, 3]))
    ]
    for i in range(size):
        with program.source(f"node{i}"):
            kind = pick(KINDS)
            try:
                made = _GROW[kind](pick, main, values)
            except (WorkbenchError, IndexError):
                continue
            if made.shape.is_tensor and not made.shape.is_dynamic and made.shape.elements <= 200:
                values.append(made)
    outputs = {values[-1]: None}
    for _ in range(pick([0, 1, 2])):
        outputs[pick(values)] = None
    main.add_return(*outputs)
    for module in unreachable(program):  # of an operation that was refused
        program.remove_module(module)
    return program


@st.composite
def mixed_programs(draw: st.DrawFn, max_size: int = 14) -> Program:
    """Programs as ``build`` makes them."""
    return build(
        lambda options: options[draw(st.integers(0, len(options) - 1)) if options else 0],
        draw(st.integers(1, max_size)),
    )


def mixed_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs whose sums and products are exact: quarters for floats, small integers for the rest."""
    random = np.random.default_rng(seed)

    def one(shape: Shape) -> np.ndarray:
        if shape.type.is_float:
            return (random.integers(-8, 9, shape.lens) / 4).astype(shape.type.numpy)
        low = 0 if shape.type.numpy.kind in "ub" else -3
        return random.integers(low, 2 if shape.type.numpy.kind == "b" else 4, shape.lens).astype(
            shape.type.numpy
        )

    given = GIVEN.get(program, {})
    return {n: given[n] if n in given else one(s) for n, s in program.parameters.items()}


def _like(pick, values, x):
    return pick(
        [v for v in values if v.shape.lens == x.shape.lens and v.shape.type == x.shape.type]
    )


def _exact(x):
    return x.parameter is not None or not x.shape.type.is_float


def _named(pick, names, *values):
    """One of some operations; those that jump are no choice for values that were rounded."""
    return pick([n for n in names if n not in JUMPS or all(map(_exact, values))])


def _unary(pick, main, values):
    x = pick(values)
    name = _named(pick, UNARY, x)
    if name == "logsoftmax" and not x.shape.type.is_float:
        name = "neg"
    return main.add(name, x, **({"axis": x.shape.ndim - 1} if name == "logsoftmax" else {}))


def _binary(pick, main, values):
    x = pick(values)
    y = _like(pick, values, x)
    return main.add(_named(pick, BINARY, x, y), *pick([(x, y), (y, x)]))


def _constant(pick, main, values):
    """A constant beside a value: one number, one a channel, or one an element."""
    x = pick(values)
    lens, dtype = x.shape.lens, x.shape.type.numpy
    form = pick(["one", "row", "full", "column"])
    number = pick(NUMBERS)
    if number == -1 and dtype.kind in "ub":
        number = 1
    if form == "one":
        c = main.add_literal(np.array([number]).astype(dtype))
        c = main.add("multibroadcast", c, out_lens=lens)
    elif form == "row":
        data = (np.arange(lens[-1]) % 3 + number).astype(dtype)
        c = main.add("broadcast", main.add_literal(data), axis=len(lens) - 1, out_lens=lens)
    elif form == "column":
        data = (np.arange(lens[0]) % 3 + number).astype(dtype)
        c = main.add("broadcast", main.add_literal(data), axis=0, out_lens=lens)
    else:
        c = main.add_literal((np.arange(np.prod(lens)) % 4 + number).reshape(lens).astype(dtype))
    op = pick(["add", "mul", "sub", "div", "max", "pow", "add", "mul"])
    return main.add(op, *pick([(x, c), (c, x)]))


def _transpose(pick, main, values):
    x = pick(values)
    order = list(range(x.shape.ndim))
    for i in reversed(range(1, len(order))):
        j = pick(range(i + 1))
        order[i], order[j] = order[j], order[i]
    return main.add("transpose", x, permutation=order)


def _broadcast(pick, main, values):
    x = pick(values)
    lens = [pick([n, 2, 3]) if n == 1 else n for n in x.shape.lens]
    more = [pick([1, 2])] if x.shape.ndim < 3 and pick([True, False]) else []
    return main.add("multibroadcast", x, out_lens=(*more, *lens))


def _reduce(pick, main, values):
    x = pick(values)
    name, axis = _named(pick, REDUCE, x), pick(range(x.shape.ndim))
    return main.add(name, x, **({"axis": axis} if name == "argmax" else {"axes": [axis]}))


def _reshape(pick, main, values):
    x = pick(values)
    n = x.shape.elements
    pairs = [(a, n // a) for a in (1, 2, 3, 4) if n % a == 0]
    return main.add("reshape", x, dims=pick([(n,), pick(pairs), (*pick(pairs), 1)]))


def _squeeze(pick, main, values):
    x = pick(values)
    if 1 in x.shape.lens and x.shape.ndim > 1:
        return main.add("squeeze", x, axes=[x.shape.lens.index(1)])
    return main.add("unsqueeze", x, axes=[pick(range(x.shape.ndim + 1))])


def _convert(pick, main, values):
    x = pick(values)
    kinds = TYPES if _exact(x) else ["float", "half", "double"]
    return main.add("convert", x, target_type=DType.of(pick(kinds)))


def _where(pick, main, values):
    x = pick(values)
    flags = [v for v in values if v.shape.type.numpy.kind == "b" and v.shape.lens == x.shape.lens]
    return main.add("where", pick(flags), x, _like(pick, values, x))


def _clip(pick, main, values):
    x = pick(values)
    low, high = pick([(0, 1), (-1, 2), (2, 1)])
    if x.shape.type.numpy.kind in "ub":
        low = max(low, 0)
    ends = [
        main.add(
            "multibroadcast",
            main.add_literal(np.array([v]).astype(x.shape.type.numpy)),
            out_lens=x.shape.lens,
        )
        for v in (low, high)
    ]
    return main.add("clip", x, *ends)


def _softmax(pick, main, values):
    x = pick([v for v in values if v.shape.type.is_float])
    return main.add("softmax", x, axis=pick(range(x.shape.ndim)))


def _concat(pick, main, values):
    x = pick(values)
    parts = [x] + [_like(pick, values, x) for _ in range(pick([1, 2]))]
    return main.add("concat", *parts, axis=pick(range(x.shape.ndim)))


def _slice(pick, main, values):
    x = pick(values)
    axis = pick(range(x.shape.ndim))
    n = x.shape.lens[axis]
    start = pick(range(n))
    return main.add("slice", x, axes=[axis], starts=[start], ends=[pick(range(start + 1, n + 1))])


def _gather(pick, main, values):
    x = pick(values)
    axis = pick(range(x.shape.ndim))
    data = np.array(pick([[0], [0, 0], [-1, 0]]), np.int64)
    return main.add("gather", x, main.add_literal(data), axis=axis)


def _dot(pick, main, values):
    x = pick([v for v in values if v.shape.ndim >= 2 and v.shape.type.numpy.kind != "b"])
    if pick([True, False]):
        lens = (*x.shape.lens[:-2], x.shape.lens[-1], 2)
        data = (np.arange(np.prod(lens)) % 5 / 2).reshape(lens).astype(x.shape.type.numpy)
        return main.add("dot", x, main.add_literal(data))
    return main.add("dot", x, pick([v for v in values if v.shape.ndim == x.shape.ndim]))


def _pad(pick, main, values):
    x = pick(values)
    pads = [pick([0, 0, 1]) for _ in range(2 * x.shape.ndim)]
    return main.add("pad", x, pads=pads, value=0.0)


def _sampled(pick, main, values):  # noqa: ARG001
    """Any operation at all, on operands that its declaration holds to be worth trying."""
    op, operands = pick(operation_samples())
    inputs = []
    for operand in operands:
        array = operand.numpy() if isinstance(operand, Argument) else operand
        if isinstance(operand, Argument) or pick([True, False]):
            inputs.append(main.add_literal(operand))
        elif array.flags.c_contiguous or not array.ndim:
            inputs.append(_parameter(main, array))
        else:
            inputs.append(
                main.add("transpose", _parameter(main, array.T), permutation=_turned(array))
            )
    made = main.add(op, *inputs)
    return made if made.shape.subs is None else main.add("get_tuple_elem", made, index=0)


def _turned(array):
    return tuple(reversed(range(array.ndim)))


def _parameter(main, array):
    """A parameter whose value is that of the sample, for values may matter: indices, scales."""
    name = f"s{len(main.parameters)}"
    GIVEN.setdefault(main.program, {})[name] = np.ascontiguousarray(array)
    return main.add_parameter(name, Shape(DType.of(array.dtype), array.shape))


def _branch(pick, main, values):
    """An `if` on a parameter; both branches capture values, and one is transposed."""
    x = pick(values)
    y = _like(pick, values, x)
    flag = _parameter(main, np.array([pick([True, False])]))
    branches = []
    for i, name in enumerate(("then", "else")):
        module = main.program.create_module(f"{name}{len(main.program.modules)}")
        value = module.add(_named(pick, UNARY[:-1], x), pick([x, y]))
        value = module.add(pick(["add", "mul", "max"]), value, y if i else x)
        module.add_return(module.add("contiguous", value))
        branches.append(module)
    made = main.add("if", flag, modules=branches)
    return main.add("get_tuple_elem", made, index=0) if made.shape.subs else made


def _repeated(pick, main, values):
    """A `loop` that adds a captured value some times."""
    x = main.add("contiguous", pick(values))
    module = main.program.create_module(f"loop{len(main.program.modules)}")
    shapes = [Shape(DType.INT64, (1,)), Shape(DType.BOOL, (1,)), x.shape]
    inner = [module.add_parameter(f"i{k}", s) for k, s in enumerate(shapes)]
    value = module.add(pick(["add", "sub", "max"]), inner[2], x)
    module.add_return(inner[1], module.add("contiguous", value))
    count = main.add_literal(np.array([pick([0, 1, 3])], np.int64))
    condition = main.add_literal(np.array([True]))
    made = main.add("loop", count, condition, x, modules=[module], max_iterations=4)
    return main.add("get_tuple_elem", made, index=0) if made.shape.subs else made


@cache
def operation_samples():
    """Samples of all operations that give one small tensor, in the order of their names."""
    found = []
    for name, declared in sorted(OPERATIONS.items()):
        if declared.takes_modules or name.startswith("@") or not declared.context_free:
            continue
        found += [s for s in declared.samples() if all(np.size(_array(v)) <= 200 for v in s[1])]
    return found


def _array(operand):
    return operand.numpy() if isinstance(operand, Argument) else operand


_GROW = {name[1:]: made for name, made in list(globals().items()) if name[1:] in KINDS}
