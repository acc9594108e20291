"""The teacher's key of `05-write-your-own-rule.ipynb`: right answers, and three wrong ones each."""

from typing import Any

import workbench as wb
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.rewrite import literal, op, var

EXPS = op("mul", op("exp", var("x")), op("exp", var("y"))).where(
    lambda i: i.shape.type.is_float, "exp of integers is cut off"
)


@wb.rule(op("relu", op("relu", var("x"))))
def merge_relu(b: Any, x: Any) -> Any:
    """relu(relu(x)) → relu(x)"""
    return b("relu", x)


@wb.rule(op("relu", op("relu", var("x"))))
def drop_both(b: Any, x: Any) -> Any:
    """relu(relu(x)) → x"""
    return x


@wb.rule(op("relu", op("exp", op("relu", var("x")))))
def through_exp(b: Any, x: Any) -> Any:
    """relu(exp(relu(x))) → exp(relu(x))"""
    return b("exp", b("relu", x))


def is_one(instruction: Any) -> bool:
    """Whether every element of a literal is 1."""
    return bool((instruction.literal.numpy() == 1).all())


@wb.rule(op("mul", var("x"), literal("one", is_one)))
def drop_one(b: Any, x: Any, one: Any) -> Any:
    """mul(x, 1) → x"""
    return x


@wb.rule(op("mul", var("x"), literal("one", lambda i: not is_one(i))))
def drop_others(b: Any, x: Any, one: Any) -> Any:
    """mul(x, c) → x"""
    return x


@wb.rule(EXPS, except_at=set(Edge))
def one_exp(b: Any, x: Any, y: Any) -> Any:
    """mul(exp(x), exp(y)) → exp(add(x, y))"""
    return b("exp", b("add", x, y))


@wb.rule(EXPS, except_at=set(Edge))
def wrong_exp(b: Any, x: Any, y: Any) -> Any:
    """mul(exp(x), exp(y)) → exp(mul(x, y))"""
    return b("exp", b("mul", x, y))


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    return {
        "where a law breaks": (
            "where x is infinite or NaN",
            ["where x is 0", "where x is very small", "nowhere"],
        ),
        "two relu": (merge_relu, [lesson["merge_relu"], drop_both, through_exp]),
        "times one": (drop_one, [lesson["drop_one"], drop_others, merge_relu]),
        "fewer exp": (one_exp, [lesson["drop_one"], wrong_exp, drop_both]),
    }
