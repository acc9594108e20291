"""Collectives among replicas: groups, shapes that are refused, gradients across replicas, waiting."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.builds.replicas import compile_replicas
from workbench.compiler.errors import DifferentiationError, EvaluationError, ShapeError
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.team import host_team

PAIRS = {"replicas": 4, "size": 2, "stride": 2}


def applied(name: str, *shape: Any, **attributes: Any) -> Program:
    """A program of one collective."""
    program = wb.Program("one")
    x = program.main.add_parameter("x", Shape(*shape))
    program.main.add_return(program.main.add(name, x, **attributes))
    return program


def test_groups_are_of_members_a_stride_apart() -> None:
    def groups(replicas: int, size: int, stride: int) -> Any:
        return make("all_reduce", replicas=replicas, size=size, stride=stride).divisions()  # pyright: ignore[reportAttributeAccessIssue]

    assert groups(4, 4, 1) == [(0, 1, 2, 3)]
    assert groups(4, 2, 1) == [(0, 1), (2, 3)]
    assert groups(4, 2, 2) == [(0, 2), (1, 3)]
    assert groups(12, 2, 3) == [(0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11)]
    assert groups(3, 1, 1) == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("said", "name", "shape", "attributes"),
    [
        ("groups of 3 replicas, 1 apart, do not divide 4", "all_reduce", ("float", (2,)), (4, 3)),
        ("groups of 0 replicas", "all_gather", ("float", (2,)), (4, 0)),
        ("groups of 2 replicas, 4 apart", "all_gather", ("float", (2,)), (4, 2, 4)),
        ("at most 4096", "all_gather", ("float", (2,)), (1 << 40, 2)),
        ("expected at least one axis", "all_gather", ("float", ()), (2, 2)),
        ("has 5 elements; expected a multiple", "reduce_scatter", ("float", (5,)), (2, 2)),
        (r"mul of bool; expected min \(and\)", "all_reduce", ("bool", (5,)), (2, 2, 1, "mul")),
        ("combine=local combines nothing", "all_reduce", ("float", (5,)), (2, 2, 1, "local")),
    ],
)
def test_what_cannot_be_exchanged_is_refused(
    said: str, name: str, shape: Any, attributes: Any
) -> None:
    named = dict(zip(("replicas", "size", "stride", "combine"), attributes, strict=False))
    with pytest.raises(ShapeError, match=said):
        applied(name, *shape, **named)


def test_a_collective_prints_and_parses() -> None:
    program = applied("reduce_scatter", "half", (4, 3), **PAIRS, combine="max")
    line = "reduce_scatter[replicas=4,size=2,stride=2,combine=max](x) -> half_type, {2, 3}, {3, 1}"
    assert line in str(program)
    assert str(wb.parse(str(program))) == str(program)


def across(program: Program, inputs: list[dict[str, Any]]) -> list[list[Any]]:
    """The outputs of four replicas in threads."""
    return compile_replicas(program, "cpu", [None] * 4).run(inputs)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("all_reduce", {}),
        ("all_gather", {}),
        ("reduce_scatter", {}),
        ("all_reduce", {"combine": "add"}),
    ],
)
def test_gradients_are_those_of_the_sum_of_all_losses(name: str, attributes: Any) -> None:
    """The loss of a replica is a sum of its results with weights of its own, so gradients are exact."""
    program = applied(name, "double", (4,), **PAIRS, **attributes)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 4))
    seeds = [rng.normal(size=o[0].shape) for o in across(program, [{"x": v} for v in x])]

    def loss(x: Any) -> float:
        found = across(program, [{"x": v} for v in x])
        return float(sum((o[0] * s).sum() for o, s in zip(found, seeds, strict=True)))

    given = [{"x": v, "grad_output0": s} for v, s in zip(x, seeds, strict=True)]
    slopes = np.stack([o[1] for o in across(wb.gradient(program), given)])
    for k, i in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[k, i] = 1
        np.testing.assert_allclose(slopes[k, i], loss(x + step) - loss(x), rtol=1e-9)


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
def test_other_operators_have_no_gradient(name: str) -> None:
    with pytest.raises(DifferentiationError, match="combine=max has no gradient; only add does"):
        wb.gradient(applied(name, "float", (4,), **PAIRS, combine="max"))


def test_a_constant_operand_is_not_folded() -> None:
    """Each replica has it, so the sum is of all."""
    program = wb.Program("constant")
    one = program.main.add_literal(np.ones(3, np.float32))
    program.main.add_return(program.main.add("all_reduce", one, **PAIRS | {"size": 4, "stride": 1}))
    for target, device in ("ref", None), ("gpu", "opencl:0"):
        found = compile_replicas(program, target, [device] * 4).run([{}] * 4)
        assert [o[0].tolist() for o in found] == [[4, 4, 4]] * 4


def test_replicas_that_come_to_different_collectives_are_told() -> None:
    team = host_team(2)
    ops: list[Any] = [make(n, replicas=2, size=2) for n in ("all_reduce", "all_gather")]
    works = [partial(ops[k].compute, np.ones(2)) for k in range(2)]
    with pytest.raises(EvaluationError, match=r"came to all_.*, and replica \d to all_"):
        team.run(works)


def test_another_number_of_replicas_is_told() -> None:
    op: Any = make("all_reduce", replicas=3, size=3)
    with pytest.raises(EvaluationError, match="one of 3 replicas that run together, and 2 run"):
        host_team(2).run([partial(op.compute, np.ones(2))] * 2)
