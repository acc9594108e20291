"""Counts: whole numbers of at least 1; whoever takes one refuses all else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compat.triton.repository import write_repository
from workbench.compiler.counts import is_count
from workbench.compiler.errors import InputError, OperationError

NONE = (0, -1, 1.0, 2.5, float("nan"), "3", None, [3], np.ones(2, int), np.float32(2), object())


def program() -> wb.Program:
    made = wb.Program("sum")
    x = made.main.add_parameter("x", wb.Shape("float", (4, 4)))
    made.main.add_return(made.main.add("add", x, x))
    return made


TAKERS: dict[str, Callable[[Any, Path], Any]] = {
    "repetitions": lambda n, _: wb.compile(program()).run(profile=True, repetitions=n),
    "most variants": lambda n, _: wb.compile(program(), "gpu", device="opencl").tune(most=n),
    "most trials": lambda n, _: wb.minimise(program(), most=n),
    "streams": lambda n, _: wb.serve_bench(program(), streams=[n]),
    "runs": lambda n, _: wb.serve_timeline(program(), runs=n),
    "runtimes": lambda n, folder: write_repository(wb.compile(program()), folder, runtimes=n),
}


@pytest.mark.parametrize("value", [1, 7, np.int64(2), np.array(3), 10**30])
def test_whole_numbers_are(value: Any):
    assert is_count(value)


@pytest.mark.parametrize("value", NONE, ids=lambda value: type(value).__name__)
def test_nothing_else_is(value: Any):
    assert not is_count(value)


@pytest.mark.parametrize("value", [0, 2.5, "3"], ids=repr)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_none_is_refused(taker: str, value: Any, tmp_path: Path):
    with pytest.raises((InputError, OperationError), match=r"at least 1"):
        TAKERS[taker](value, tmp_path)
