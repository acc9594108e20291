"""The contract of all that takes inputs: those that do not fit are refused, also where none is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import InputError

BAD: dict[str, tuple[Any, str]] = {
    "unknown": ({"y": np.ones((4, 4), np.float32)}, r"no parameter is called 'y'"),
    "shape": ({"x": np.ones((3, 4), np.float32)}, r"input 'x': expected shape .*, found \[3, 4\]"),
    "type": ({"x": np.ones((4, 4))}, r"input 'x': expected float32, found float64"),
    "text": ({"x": "ones"}, r"input 'x': expected float32, found <U4"),
    "list": ([np.ones((4, 4), np.float32)], r"expected .*arrays by name.* found list"),
}


def program() -> wb.Program:
    """A sum, which has no kernels to choose among."""
    made = wb.Program("sum")
    x = made.main.add_parameter("x", wb.Shape("float", (4, 4)))
    made.main.add_return(made.main.add("add", x, x))
    return made


def on_device() -> wb.Build:
    return wb.compile(program(), target="gpu", device="opencl")


def reported(inputs: Any, folder: Path) -> None:
    wb.compile(program()).report(folder / "report.html", inputs)


TAKERS: dict[str, Callable[[Any, Path], Any]] = {
    "run": lambda x, _: wb.compile(program()).run(x),
    "run on a device": lambda x, _: on_device().run(x),
    "profile": lambda x, _: on_device().run(x, profile=True),
    "tune": lambda x, _: on_device().tune(x),
    "run_async": lambda x, _: on_device().runner.executable().run_async(x),
    "values": lambda x, _: wb.compile(program()).values(inputs=x),
    "report": reported,
    "compile": lambda x, _: wb.compile(program(), check=x),
    "compare": lambda x, _: wb.compare(wb.compile(program()), x),
    "bisect": lambda x, _: wb.bisect(program(), x),
    "minimise": lambda x, _: wb.minimise(program(), x),
    "search_precision": lambda x, _: wb.search_precision(program(), x, tolerance=0.1),
    "sensitivity": lambda x, _: wb.sensitivity(program(), x),
}
SEVERAL_SETS = ("search_precision", "sensitivity")
"""These take a list, of several sets of inputs."""


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("taker", TAKERS)
def test_inputs_that_do_not_fit_are_refused(taker: str, kind: str, tmp_path: Path):
    inputs, said = BAD[kind]
    if kind == "list" and taker in SEVERAL_SETS:
        inputs, said = inputs[0], r"expected arrays by name.* found ndarray"
    with pytest.raises(InputError, match=said):
        TAKERS[taker](inputs, tmp_path)
    assert not list(tmp_path.iterdir())
