"""Work grows with a program's length: calls are counted, so no clock is needed."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import pass_named, run_pass

FLOAT = Shape("float", (2, 3))


def constants(count: int) -> Callable[[], object]:
    """Fusion of elementwise work on scalar constants of which each is computed from the one before."""
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    scalar = program.main.add_literal(np.float32(1))
    for _ in range(count):
        scalar = program.main.add("neg", scalar)
        x = program.main.add("add", x, program.main.add("multibroadcast", scalar, out_lens=(2, 3)))
    return lambda: run_pass(pass_named("fuse_pointwise", without=("fuse_chain",)), program)


def branches(count: int) -> Callable[[], object]:
    """Removal of instructions that call modules of their own."""
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    condition = program.main.add_parameter("c", Shape("bool", (1,)))
    for k in range(count):
        modules = [program.create_module(f"{k}:{name}") for name in ("then", "else")]
        for module in modules:
            module.add_return(module.add("neg", x))
        program.main.add("if", condition, modules=modules)
    program.main.add_return(x)
    return lambda: run_pass(pass_named("dead_code_elimination"), program)


def rewrites(count: int) -> Callable[[], object]:
    """The list of all places where a rule applies."""
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    for _ in range(count):
        x = program.main.add("log", program.main.add("exp", x))
    return lambda: pass_named("simplify_algebra").would_change(program)


def wrappings(count: int) -> Callable[[], object]:
    """The same for a rule that moves what it finds into a module."""
    program = Program()
    x = program.main.add_parameter("x", FLOAT)
    for _ in range(count):
        x = program.main.add("exp", x)
    return lambda: pass_named("fuse_pointwise").would_change(program)


@pytest.mark.parametrize("made", [constants, branches, rewrites, wrappings])
def test_twice_the_length_is_twice_the_work(made: Callable[[int], Callable[[], object]]):
    made(5)()  # what is worked out once for all
    small, large = calls(made(40)), calls(made(80))
    assert large < 2.3 * small


def calls(work: Callable[[], object]) -> int:
    """The number of functions called and generators resumed."""
    count = 0

    def heard(frame: object, event: str, argument: object) -> None:  # noqa: ARG001
        nonlocal count
        count += event == "call"

    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
