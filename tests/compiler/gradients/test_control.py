"""Gradients through branches, loops and calls, and through recurrent networks."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import workbench as wb
from tests.compiler.gradients.differences import check_gradient
from workbench.compiler.errors import DifferentiationError, EvaluationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import Interpreter

LENS = (2, 3)
RANDOM = np.random.default_rng(3)
X, W = RANDOM.standard_normal(LENS), RANDOM.standard_normal(LENS)
Body = Callable[..., Sequence[Value]]


def start(**inputs: np.ndarray) -> tuple[Program, dict[str, Value]]:
    """A program with these inputs as parameters."""
    program = Program()
    builder = ModuleBuilder(program.main)
    return program, {
        n: builder.of(program.main.add_parameter(n, wb.Argument.of(x).shape))
        for n, x in inputs.items()
    }


def module(program: Program, name: str, shapes: dict[str, Shape], body: Body) -> Module:
    """A module with these parameters; ``body`` gets a builder and their values, and gives results."""
    made = program.create_module(name)
    builder = ModuleBuilder(made)
    values = [builder.of(made.add_parameter(n, s)) for n, s in shapes.items()]
    made.add_return(*[v.instruction for v in body(builder, *values)])
    return made


def results(program: Program, name: str, inputs: Sequence[Value], modules: Sequence[Module],
            **attributes: object) -> list[Value]:  # fmt: skip
    """The elements of the tuple that an operation with modules gives."""
    main = program.main
    whole = main.add(name, *[v.instruction for v in inputs], modules=modules, **attributes)
    builder = inputs[0].builder
    count = len(whole.shape.subs or ())
    return [builder.of(main.add("get_tuple_elem", whole, index=k)) for k in range(count)]


def returned(program: Program, *values: Value) -> Program:
    program.main.add_return(*[v.instruction for v in values])
    return program


# Branches


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch(taken: bool):
    """One operand is passed to both branches, one to the second; a third is captured by the first."""
    inputs = {"c": np.array([taken]), "x": X, "w": W, "v": X + W}
    program, at = start(**inputs)
    shape = Shape("double", LENS)
    outer = at["w"].exp()
    then = module(program, "then", {"a": shape},
                  lambda b, a: [a * b.of(outer.instruction), a.sum(keepdims=True)])  # fmt: skip
    other = module(program, "other", {"a": shape, "b": shape},
                   lambda _, a, b: [(a - b).sin(), (a * b).sum(keepdims=True)])  # fmt: skip
    made = results(program, "if", [at["c"], at["x"], at["v"]], [then, other])
    check_gradient(returned(program, made[0] * 2.0, made[1]), inputs)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_of_which_one_result_is_used(taken: bool):
    inputs = {"c": np.array([taken]), "x": X}
    program, at = start(**inputs)
    capture = lambda b: b.of(at["x"].instruction)  # noqa: E731
    then = module(program, "then", {}, lambda b: [capture(b).exp(), capture(b)])
    other = module(program, "other", {}, lambda b: [capture(b), b.constant(W)])
    made = results(program, "if", [at["c"]], [then, other])
    check_gradient(returned(program, made[1]), inputs)
    assert np.all(Interpreter(wb.gradient(program), float64=True).run(
        inputs | {"grad_output0": np.ones(LENS)})[1] == float(taken))  # fmt: skip


@pytest.mark.parametrize("taken", [(True, False), (True, True), (False, True)])
def test_branches_within_branches(taken: tuple[bool, bool]):
    inputs = {"c": np.array([taken[0]]), "d": np.array([taken[1]]), "x": X, "w": W}
    program, at = start(**inputs)
    here = lambda b, n: b.of(at[n].instruction)  # noqa: E731
    inner = [module(program, "deep0", {}, lambda b: [here(b, "x").tanh() * here(b, "w")]),
             module(program, "deep1", {}, lambda b: [here(b, "w").sigmoid()])]  # fmt: skip

    def then(b: ModuleBuilder) -> Sequence[Value]:
        whole = b.module.add("if", at["d"].instruction, modules=inner)
        return [b.of(whole).apply("get_tuple_elem", index=0) * here(b, "x")]

    branches = [
        module(program, "then", {}, then),
        module(program, "other", {}, lambda b: [here(b, "x")]),
    ]
    made = results(program, "if", [at["c"]], branches)
    check_gradient(returned(program, made[0]), inputs)


# Loops

NUMBER, FLAG = Shape("int64", (1,)), Shape("bool", (1,))


def repeated(
    program: Program, at: dict[str, Value], carried: Sequence[str], body: Body, **attributes: object
) -> list[Value]:
    """A loop of ``n`` iterations, while ``c`` holds, of a body on carried values."""
    shapes = {f"s{k}": at[n].instruction.shape for k, n in enumerate(carried)}
    inner = module(program, "body", {"i": NUMBER, "go": FLAG, **shapes}, body)
    given = [at["n"], at["c"], *[at[n] for n in carried]]
    return results(program, "loop", given, [inner], **attributes)


def counted(n: int, c: bool = True, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return {"n": np.array([n]), "c": np.array([c]), **inputs}


@pytest.mark.parametrize(("n", "c"), [(0, True), (1, True), (4, True), (4, False)])
def test_a_loop_with_carried_values_and_captured_weights(n: int, c: bool):
    inputs = counted(n, c, x=X, w=W)
    program, at = start(**inputs)

    def body(b: ModuleBuilder, _i: Value, go: Value, s: Value, t: Value) -> Sequence[Value]:
        w = b.of(at["w"].instruction)
        return [go, (s * w).sin() + t, t * 0.5]

    made = repeated(program, at, ["x", "w"], body, max_iterations=4)
    check_gradient(returned(program, *made), inputs)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_loop_with_scans(n: int):
    """Results of iterations are stacked; rows beyond the last iteration are 0."""
    inputs = counted(n, x=X, w=W)
    program, at = start(**inputs)

    def body(b: ModuleBuilder, i: Value, go: Value, s: Value) -> Sequence[Value]:
        w = b.of(at["w"].instruction)
        return [go, s * w + i.astype("double").broadcast_to(LENS), s.exp() * w, w]

    made = repeated(program, at, ["x"], body, max_iterations=5)
    check_gradient(returned(program, *made[:2]), inputs)
    program.main.remove(program.main.last)
    check_gradient(returned(program, made[2]), inputs)


def test_a_loop_that_stops_early_by_its_condition():
    inputs = counted(9, x=np.abs(X) + 1.0, w=W)
    program, at = start(**inputs)

    def body(b: ModuleBuilder, _i: Value, _go: Value, s: Value) -> Sequence[Value]:
        more = s * (b.of(at["w"].instruction).sigmoid() + 1.0)
        return [(more.sum() < 40.0).reshape(1), more]

    made = repeated(program, at, ["x"], body, max_iterations=9)
    check_gradient(returned(program, made[0]), inputs)


def test_a_loop_whose_count_is_constant_keeps_room_for_no_more():
    inputs = {"c": np.array([True]), "x": X}
    program, at = start(**inputs)
    at["n"] = at["x"].builder.constant(np.array([3]))
    body = lambda _b, _i, go, s: [go, s.sin() * s, s]  # noqa: E731
    made = repeated(program, at, ["x"], body, max_iterations=50)
    check_gradient(returned(program, made[0]), inputs)
    program.main.remove(program.main.last)
    check_gradient(returned(program, *made), inputs)


def test_a_loop_that_only_its_condition_ends_keeps_room_for_its_limit():
    """An endless count is how a loop without one is written; it is no number of rows."""
    inputs = {"c": np.array([True]), "x": X}
    program, at = start(**inputs)
    at["n"] = at["x"].builder.constant(np.array([np.iinfo(np.int64).max]))
    body = lambda _b, i, _go, s: [i < 2, s.sin() * s]  # noqa: E731
    made = repeated(program, at, ["x"], body, max_iterations=5)
    check_gradient(returned(program, made[0]), inputs)


def test_integers_are_carried_beside_floats():
    inputs = counted(3, x=X, k=np.array([2]))
    program, at = start(**inputs)

    def body(_b: ModuleBuilder, i: Value, go: Value, k: Value, s: Value) -> Sequence[Value]:
        return [go, k + i, s * k.astype("double").broadcast_to(LENS)]

    made = repeated(program, at, ["k", "x"], body)
    check_gradient(returned(program, made[1]), inputs)


def test_a_loop_within_a_loop_with_a_branch():
    inputs = counted(3, x=X, w=W)
    program, at = start(**inputs)
    shape = Shape("double", LENS)

    def inner(b: ModuleBuilder, _i: Value, go: Value, s: Value) -> Sequence[Value]:
        return [go, (s * b.of(at["w"].instruction)).tanh()]

    deep = module(program, "deep", {"i": NUMBER, "go": FLAG, "s": shape}, inner)
    here = lambda b: b.of(at["w"].instruction)  # noqa: E731
    branches = [module(program, "then", {"a": shape}, lambda b, a: [a + here(b)]),
                module(program, "other", {"a": shape}, lambda b, a: [a * here(b)])]  # fmt: skip

    def body(b: ModuleBuilder, i: Value, go: Value, s: Value) -> Sequence[Value]:
        two = b.constant(np.array([2]))
        whole = b.of(b.module.add("loop", *[v.instruction for v in (two, go, s)], modules=[deep]))
        value = whole.apply("get_tuple_elem", index=0)
        test = (i < 1).instruction
        chosen = b.of(b.module.add("if", test, value.instruction, modules=branches))
        return [go, chosen.apply("get_tuple_elem", index=0)]

    made = repeated(program, at, ["x"], body)
    check_gradient(returned(program, made[0]), inputs)


@pytest.mark.parametrize("n", [3, 5])
def test_a_scan_that_has_the_last_iteration_first(n: int):
    inputs = counted(n, x=X)
    program, at = start(**inputs)
    body = lambda _b, i, go, s: [(i < 3), s * s, s.sin(), s]  # noqa: E731, ARG005
    made = repeated(program, at, ["x"], body, max_iterations=5, scan_output_directions=[0, 1])
    check_gradient(returned(program, *made), inputs)


def test_a_loop_that_runs_longer_than_its_limit_says_so():
    """Without scans a loop may run on; its gradient keeps room for as many iterations as the limit says."""
    inputs = counted(4, x=X)
    program, at = start(**inputs)
    made = repeated(program, at, ["x"], lambda _b, _i, go, s: [go, s * 0.5], max_iterations=3)
    returned(program, made[0])
    assert np.allclose(Interpreter(program).run(inputs)[0], X / 16)
    with pytest.raises(EvaluationError, match="more than 3 iterations"):
        Interpreter(wb.gradient(program)).run(inputs | {"grad_output0": X})


# Calls


def called_twice() -> tuple[Program, dict[str, np.ndarray]]:
    """A module that two calls share, which captures a weight; it calls another one."""
    inputs = {"x": X, "w": W}
    program, at = start(**inputs)
    shape = Shape("double", LENS)
    leaf = module(program, "leaf", {"a": shape}, lambda _, a: [a.tanh() * a])

    def body(b: ModuleBuilder, a: Value, c: Value) -> Sequence[Value]:
        whole = b.of(b.module.add("call", a.instruction, modules=[leaf]))
        inner = whole.apply("get_tuple_elem", index=0)
        return [inner * b.of(at["w"].instruction) + c, c.exp()]

    shared = module(program, "shared", {"a": shape, "c": shape}, body)
    first = results(program, "call", [at["x"], at["w"]], [shared])
    second = results(program, "call", [first[0], at["x"]], [shared])
    return returned(program, second[0], first[1]), inputs


@pytest.mark.parametrize("recompute", [False, True])
def test_calls(recompute: bool):
    program, inputs = called_twice()
    made = check_gradient(program, inputs, recompute=recompute)
    calls = [i for i in made.main if i.name == "call"]
    assert bool(calls) is recompute
    if not recompute:
        assert len(made.modules) == 1


# Recurrent networks


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_networks_are_unrolled_first(name: str, direction: str):
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    d, steps, batch, size, hidden = 2 if direction == "bidirectional" else 1, 3, 2, 3, 2
    draw = RANDOM.standard_normal
    inputs = {
        "x": draw((steps, batch, size)), "w": draw((d, gates * hidden, size)),
        "r": draw((d, gates * hidden, hidden)), "b": draw((d, 2 * gates * hidden)),
    }  # fmt: skip
    program, at = start(**inputs)
    made = at["x"].apply(name, at["w"], at["r"], at["b"], hidden_size=hidden, direction=direction)
    last = made.rnn_last_hs_output()
    check_gradient(returned(program, made, last), inputs)


def test_a_recurrent_network_that_is_not_unrolled_is_refused():
    draw = RANDOM.standard_normal
    inputs = {"x": draw((3, 2, 3)), "w": draw((1, 2, 3)), "r": draw((1, 2, 2))}
    program, at = start(**inputs)
    made = at["x"].apply("rnn", at["w"], at["r"], hidden_size=2, clip=0.5)
    with pytest.raises(
        DifferentiationError, match=r"#\d+ rnn: rewrite_rnn unrolls .* but not this form"
    ):
        wb.gradient(returned(program, made))
