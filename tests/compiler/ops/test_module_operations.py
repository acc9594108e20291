"""Operations that take modules or tuples: shapes, values, text and refusals on small programs."""

from collections.abc import Callable

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import all_operations
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.fused import Fused
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import parse, to_text

OPERATIONS = all_operations()

X = np.arange(-3, 9, dtype=np.float32).reshape(3, 4)
Y = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
SCALAR = Shape(DType.FLOAT)
Case = tuple[Program, dict[str, np.ndarray], list[np.ndarray]]


def of(array: np.ndarray) -> Shape:
    return Shape(DType.of(array.dtype), array.shape)


def body(program: Program, name: str, *shapes: Shape) -> tuple[Module, list[Instruction]]:
    """A body with parameters x0, x1…, made last first so that sorting by name matters."""
    module = program.create_module(name, bypass=True)
    named = [(f"x{i}", s) for i, s in enumerate(shapes)]
    found = [module.add_parameter(n, s) for n, s in reversed(named)]
    return module, found[::-1]


def scaled_difference(program: Program, name: str = "main:pointwise0") -> Module:
    """A body that computes (x0 - x1) * 2."""
    module, (a, b) = body(program, name, SCALAR, SCALAR)
    two = module.add_literal(np.float32(2))
    module.add_return(module.add("mul", module.add("sub", a, b), two))
    return module


def start() -> tuple[Program, Instruction, Instruction]:
    program = Program()
    x = program.main.add_parameter("x", of(X))
    return program, x, program.main.add_parameter("y", of(Y))


def pointwise() -> Case:
    program, x, y = start()
    module = scaled_difference(program)
    program.main.add_return(program.main.add("pointwise", x, y, modules=[module]))
    return program, {"x": X, "y": Y}, [(X - Y) * 2]


def fused_reduce() -> Case:
    program, x, y = start()
    module, (a, b) = body(program, "main:reduce_sum0", of(X), of(Y))
    module.add_return(module.add("reduce_sum", module.add("sub", a, b), axes=[1]))
    made = program.main.add("fused_reduce", x, y, modules=[module], axes=[1])
    program.main.add_return(made)
    return program, {"x": X, "y": Y}, [(X - Y).sum(1, keepdims=True)]


def split_fused_reduce() -> Case:
    program, x, y = start()
    module, (a, b) = body(program, "main:split", of(X), of(Y))
    sums = [module.add("reduce_sum", v, axes=[0]) for v in (a, b)]
    module.add_return(*sums)
    made = program.main.add(
        "split_fused_reduce", x, y, modules=[module], axes=[0], assign="assign_add"
    )
    parts = [program.main.add("get_tuple_elem", made, index=i) for i in (1, 0)]
    program.main.add_return(*parts)
    return program, {"x": X, "y": Y}, [Y.sum(0, keepdims=True), X.sum(0, keepdims=True)]


def group() -> Case:
    program, x, y = start()
    module, (a, b) = body(program, "attn0", of(X), Shape("float", (3, 4), (1, 3)))
    module.add_return(module.add("sub", a, b))
    turned = program.main.add("transpose", y, permutation=[1, 0])
    flat = program.main.add("reshape", turned, dims=[3, 4])
    made = program.main.add("group", x, flat, modules=[module], tag="attention")
    program.main.add_return(made)
    return program, {"x": X, "y": Y}, [X - Y.T.reshape(3, 4)]


def fused_concat() -> Case:
    program, x, y = start()
    first = scaled_difference(program, "concat:main:pointwise0")
    second, (only,) = body(program, "concat:noop1", SCALAR)
    second.add_return(only)
    last = program.create_module("main:pointwise1:concat", bypass=True)
    whole, other = last.add_parameter("!x1", SCALAR), last.add_parameter("x0", SCALAR)
    last.add_return(last.add("sub", other, whole))
    z = program.main.add_parameter("z", Shape("float", (6, 4)))
    made = program.main.add("fused_concat", x, y, x, z, modules=[first, second, last], axis=0)
    program.main.add_return(made)
    wanted = 1 - np.concatenate([(X - Y) * 2, X])
    return program, {"x": X, "y": Y, "z": np.ones((6, 4), np.float32)}, [wanted]


def branch(taken: bool) -> Case:
    program, x, y = start()
    condition = program.main.add_parameter("condition", Shape("bool", (1,)))
    then, otherwise = program.create_module("then"), program.create_module("else")
    then.add_return(then.add("neg", then.add_parameter("b", of(X))))
    otherwise.add_return(otherwise.add("abs", otherwise.add_parameter("a", of(X))))
    made = program.main.add("if", condition, x, y, modules=[then, otherwise])
    program.main.add_return(program.main.add("get_tuple_elem", made, index=0))
    inputs = {"x": X, "y": Y, "condition": np.array([taken])}
    return program, inputs, [-Y if taken else np.abs(X)]


def loop() -> Case:
    """Doubles x while its first element is above -20; scans the iteration number, forth and back."""
    program, x, _ = start()
    program.main.remove(program.main.parameters["y"])
    count = program.main.add_parameter("count", Shape("int64", (1,)))
    condition = program.main.add_parameter("condition", Shape("bool", (1,)))
    module = program.create_module("loop0")
    i = module.add_parameter("i", Shape("int64", (1,)))
    module.add_parameter("keep", Shape("bool", (1,)))
    value = module.add_parameter("a_value", of(X))
    doubled = module.add("add", value, value)
    part = module.add("slice", doubled, axes=[0, 1], starts=[0, 0], ends=[1, 1])
    limit = module.add_literal(np.full((1, 1), -20, np.float32))
    going = module.add("convert", module.add("greater", part, limit), target_type=DType.BOOL)
    module.add_return(module.add("reshape", going, dims=[1]), doubled, i, i)
    made = program.main.add(
        "loop", count, condition, x, modules=[module], max_iterations=5,
        scan_output_directions=[0, 1],
    )  # fmt: skip
    parts = [program.main.add("get_tuple_elem", made, index=k) for k in range(3)]
    program.main.add_return(*parts)
    inputs = {"x": X, "count": np.array([4]), "condition": np.array([True])}
    forth, back = np.array([0, 1, 2, 0, 0]), np.array([0, 2, 1, 0, 0])
    return program, inputs, [X * 8, forth[:, None], back[:, None]]


def select_module() -> Case:
    program, x, y = start()
    modules = []
    for rows in (2, 3):
        module = program.create_module(f"batch{rows}")
        b = module.add_parameter("b", Shape("float", (rows, 4)))
        a = module.add_parameter("a", Shape("float", (rows, 4)))
        module.add_return(module.add("sub", a, b))
        modules.append(module)
    found = Shape.tuple_of([Shape.dynamic(DType.FLOAT, [Dim(2, 3), 4])])
    made = program.main.add("select_module", x, y, modules=modules, output_dyn_shapes=found)
    program.main.add_return(program.main.add("get_tuple_elem", made, index=0))
    return program, {"x": X, "y": Y}, [X - Y]


def run_on_target() -> Case:
    program, x, y = start()
    module, (a, b) = body(program, "away", of(X), of(Y))
    module.add_return(module.add("sub", a, b), a)
    made = program.main.add("run_on_target", x, y, modules=[module], target_id=1)
    program.main.add_return(program.main.add("get_tuple_elem", made, index=0))
    return program, {"x": X, "y": Y}, [X - Y]


def called() -> Case:
    """Two calls of a module, which captures a value; operands bind in the order of its parameters."""
    program, x, y = start()
    module, (a, b) = body(program, "layer", of(X), of(Y))
    module.add_return(module.add("sub", module.add("mul", a, y), b), module.add("neg", a))
    first = program.main.add("call", x, y, modules=[module])  # x1, then x0
    part = program.main.add("get_tuple_elem", first, index=0)
    second = program.main.add("call", part, x, modules=[module])
    program.main.add_return(*[program.main.add("get_tuple_elem", second, index=k) for k in (0, 1)])
    return program, {"x": X, "y": Y}, [X * Y - (Y * Y - X), -X]


CASES: dict[str, Callable[[], Case]] = {
    "pointwise": pointwise, "fused_reduce": fused_reduce, "group": group,
    "split_fused_reduce": split_fused_reduce, "fused_concat": fused_concat, "loop": loop,
    "if": lambda: branch(True), "if, not taken": lambda: branch(False),
    "select_module": select_module, "run_on_target": run_on_target,
    "get_tuple_elem": split_fused_reduce, "call": called,
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES)


def test_every_operation_with_modules_has_a_program():
    assert {n for n, op in OPERATIONS.items() if op.takes_modules} <= set(CASES)


@every_case
@pytest.mark.parametrize("float64", [False, True])
def test_values(case: str, float64: bool):
    program, inputs, wanted = CASES[case]()
    results = Interpreter(program, float64).run(inputs)
    for output, found, value in zip(program.outputs, results, wanted, strict=True):
        np.testing.assert_allclose(found, value, 1e-6)
        is_float = output.shape.type.is_float
        assert found.dtype == (np.float64 if float64 and is_float else value.dtype)
        assert output.shape.is_dynamic or output.shape.lens == found.shape


@every_case
def test_text_reads_back(case: str):
    program, inputs, wanted = CASES[case]()
    again = parse(to_text(program))
    assert to_text(again) == to_text(program)
    for found, value in zip(Interpreter(again).run(inputs), wanted, strict=True):
        np.testing.assert_allclose(found, value, 1e-6)


@every_case
def test_work_is_counted(case: str):
    program, _, _ = CASES[case]()
    for instruction in program.main:
        inputs, op = [i.shape for i in instruction.inputs], instruction.op
        if isinstance(op, Fused):
            assert op.flops(inputs, instruction.shape, instruction.modules) >= 12


@pytest.mark.parametrize("case", [c for c in CASES if c not in {"if", "get_tuple_elem"}])
def test_a_wrong_number_of_inputs_is_refused(case: str):
    program, _, _ = CASES[case]()
    found = next(i for i in program.main if i.modules)
    shapes = [i.shape for i in found.inputs]
    if found.name != "select_module":
        with pytest.raises(ShapeError, match=found.name):
            found.op.compute_shape([*shapes, shapes[-1]], found.modules)
    with pytest.raises(ShapeError, match=found.name):
        found.op.compute_shape([], found.modules)
    with pytest.raises(ShapeError, match=found.name):
        found.op.compute_shape(shapes, ())


def test_pointwise_of_a_transposed_tensor_and_broadcasts_keeps_the_tensors_layout():
    program = Program()
    module = scaled_difference(program)
    turned, flat = Shape("float", (3, 4), (1, 3)), Shape("float", (3, 4), (0, 1))
    op = OPERATIONS["pointwise"]()
    assert op.compute_shape([turned, flat], [module]) == turned
    assert op.compute_shape([flat, flat], [module]) == Shape("float", (3, 4))
    assert op.compute_shape([Shape("float", (4,), (0,))] * 2, [module]) == Shape("float", (4,))
    assert op.compute_shape([SCALAR, SCALAR], [module]) == SCALAR


def test_pointwise_refuses_other_types_and_lens():
    program = Program()
    module = scaled_difference(program)
    op = OPERATIONS["pointwise"]()
    with pytest.raises(ShapeError, match=r"parameter 'x1' .* is float_type"):
        op.compute_shape([of(X), Shape("half", (3, 4))], [module])
    with pytest.raises(ShapeError, match="insert a multibroadcast"):
        op.compute_shape([of(X), Shape("float", (3, 1))], [module])


def test_pointwise_takes_dynamic_dimensions():
    program = Program()
    shape = Shape.dynamic(DType.FLOAT, [Dim(1, 4), 3])
    assert OPERATIONS["pointwise"]().compute_shape(
        [shape, shape], [scaled_difference(program)]
    ) == (shape)


@pytest.mark.parametrize("outputs", [1, 2])
def test_large_pointwise_bodies_are_computed_as_small_ones(outputs: int):
    program = Program()
    module, (a, b) = body(program, "main:pointwise0", SCALAR, SCALAR)
    value = module.add("sub", a, b)
    for name in ("tanh", "exp", "relu", "sqrt"):
        value = module.add(name, value)
    module.add_return(*[value, a][:outputs])
    lens = Shape("float", (7, 5, 3001))
    x, y = (
        program.main.add_parameter("x", lens),
        program.main.add_parameter("y", Shape("float", (1,))),
    )
    spread = program.main.add("multibroadcast", y, out_lens=lens.lens)
    made = program.main.add("pointwise", x, spread, modules=[module])
    program.main.add_return(
        *[program.main.add("get_tuple_elem", made, index=i) for i in range(2)]
        if outputs == 2 else [made]
    )  # fmt: skip
    data = np.random.default_rng(0).standard_normal(lens.lens, np.float32)
    found = Interpreter(program).run({"x": data, "y": np.ones(1, np.float32)})
    np.testing.assert_allclose(found[0], np.sqrt(np.exp(np.tanh(data - 1))), 1e-5)


def test_a_pointwise_body_of_literals_fills_the_lens():
    program, x, y = start()
    module, _ = body(program, "main:pointwise0", SCALAR, SCALAR)
    module.add_return(module.add("neg", module.add_literal(np.float32(3))))
    program.main.add_return(program.main.add("pointwise", x, y, modules=[module]))
    (found,) = Interpreter(program).run({"x": X, "y": Y})
    np.testing.assert_array_equal(found, np.full((3, 4), -3, np.float32))


def test_fused_reduce_keeps_the_layout_of_most_inputs():
    program = Program()
    turned = Shape("float", (3, 4, 5), (20, 1, 4))
    module, (a,) = body(program, "main:reduce_max0", Shape("float", (3, 4, 5)))
    module.add_return(module.add("reduce_max", a, axes=[2]))
    op = OPERATIONS["fused_reduce"](axes=(2,))
    assert op.compute_shape([turned], [module]) == Shape("float", (3, 4, 1), (4, 1, 4))
    module.bypass = False
    with pytest.raises(ShapeError, match="bypass"):
        op.compute_shape([turned], [module])


def test_if_wants_results_of_one_rank_and_one_condition():
    program, inputs, _ = branch(True)
    made = next(i for i in program.main if i.name == "if")
    other = program.create_module("other")
    other.add_return(other.add("transpose", other.add_parameter("a", of(X)), permutation=[1, 0]))
    joined = made.op.compute_shape([i.shape for i in made.inputs], [made.modules[0], other])
    assert joined == Shape.tuple_of([Shape.dynamic(DType.FLOAT, [Dim(3, 4), Dim(3, 4)])])
    other = program.create_module("flat")
    other.add_return(other.add("reshape", other.add_parameter("a", of(X)), dims=[12]))
    with pytest.raises(ShapeError, match="one number of dimensions"):
        made.op.compute_shape([i.shape for i in made.inputs], [made.modules[0], other])
    with pytest.raises(EvaluationError, match="one condition"):
        made.op.compute_modules(lambda _m, v: list(v), made.modules, np.array([True, False]), X, Y)
    del inputs


def test_loop_stops_at_the_count_and_may_not_run_at_all():
    program, inputs, _ = loop()
    interpreter = Interpreter(program)
    found = interpreter.run(inputs | {"count": np.array([1])})
    np.testing.assert_array_equal(found[0], X * 2)
    found = interpreter.run(inputs | {"condition": np.array([False])})
    np.testing.assert_array_equal(found[0], X)
    assert found[1].shape == (5, 1)
    assert found[1].dtype == np.int64


def test_select_module_says_when_none_fits():
    program, _, _ = select_module()
    made = next(i for i in program.main if i.name == "select_module")
    with pytest.raises(EvaluationError, match=r"no module takes inputs of lens \[5, 4\]"):
        made.op.compute_modules(lambda _m, v: list(v), made.modules, np.zeros((5, 4), np.float32))


def test_get_tuple_elem_wants_an_element_that_is_there():
    pair = Shape.tuple_of([of(X), of(X)])
    op = OPERATIONS["get_tuple_elem"]
    assert op(index=1).compute_shape([pair]) == of(X)
    for index, shape in ((2, pair), (0, of(X))):
        with pytest.raises(ShapeError, match="expected a tuple"):
            op(index=index).compute_shape([shape])


def test_a_call_is_refused_unless_its_operands_fit_the_module():
    program, x, y = start()
    module, _ = body(program, "layer", of(X), of(Y))
    module.add_return(*module.parameters.values())
    with pytest.raises(
        ShapeError, match=r"call: module 'layer' has 2 parameters \(x1, x0\); found 1"
    ):
        program.main.add("call", x, modules=[module])
    with pytest.raises(ShapeError, match=r"call: .* 1 module"):
        program.main.add("call", x, y)
    turned = program.main.add("transpose", y, permutation=[1, 0])
    with pytest.raises(ShapeError, match=r"call: module 'layer' takes 'x0' as .*3, 4.*; found"):
        program.main.add("call", x, turned, modules=[module])
    half = program.main.add("convert", y, target_type=DType.HALF)
    with pytest.raises(ShapeError, match=r"call: .* takes 'x1' as float_type.*; found half_type"):
        program.main.add("call", half, x, modules=[module])


def test_a_call_takes_operands_of_any_layout():
    program, x, _ = start()
    module, (a,) = body(program, "layer", Shape("float", (4, 3)))
    module.add_return(module.add("add", a, a))
    turned = program.main.add("transpose", x, permutation=[1, 0])
    made = program.main.add("call", turned, modules=[module])
    program.main.add_return(program.main.add("get_tuple_elem", made, index=0))
    (found,) = Interpreter(program).run({"x": X, "y": Y})
    np.testing.assert_array_equal(found, 2 * X.T)
