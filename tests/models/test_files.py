"""Save, load, print, read back, compile and run: on every model the same program and the same results."""

import numpy as np
import pytest

import workbench as wb
from tests.compiler.mxr.examples import expect_same
from tests.models.registry import MODELS, Model
from tests.models.test_models import parse
from workbench.compiler.files import mxr
from workbench.compiler.text import printing as text

LARGEST_JSON = 4_000_000
"""Bytes of literals from which on JSON is left out: it takes four times the room, and as much time."""


def parameters() -> list:
    """Every model; the heavy ones are left to `make models`."""
    marks = {True: [pytest.mark.models], False: []}
    return [pytest.param(m, id=m.name, marks=marks[m.heavy]) for m in MODELS.values()]


def copies(program: wb.Program) -> list[wb.Program]:
    """The program after each way out and back in."""
    found = [mxr.load_buffer(mxr.save_buffer(program))]
    found.append(text.parse(str(program), literals=text.literals(program)))
    if sum(i.literal.shape.bytes for i in program.instructions if i.literal) < LARGEST_JSON:
        found.append(mxr.load_buffer(mxr.save_buffer(program, "json"), "json"))
    return found


def results(program: wb.Program, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of the program as it stands."""
    return wb.compile(program, "ref", passes=[], record=False).run(inputs).outputs


@pytest.mark.parametrize("target", [None, "ref", "cpu"])
@pytest.mark.parametrize("model", parameters())
def test_files_and_texts_are_the_program(model: Model, target: str | None):
    inputs = model.inputs()
    parsed = wb.parse_onnx(
        model.path,
        map_input_dims={k: v.shape for k, v in inputs.items()},
        use_debug_symbols=target == "cpu",
    )
    program = parsed if target is None else wb.compile(parsed, target, record=False).program
    saved, read, *others = copies(program)
    for one in (saved, *others):
        expect_same(program, one)
    assert str(read) == str(program)
    wanted = results(program, inputs)
    for one in (saved, read):
        for a, b in zip(results(one, inputs), wanted, strict=True):
            assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("model", parameters())
def test_what_was_loaded_compiles_to_the_same(model: Model):
    program = parse(model, model.inputs())
    loaded = mxr.load_buffer(mxr.save_buffer(program))
    for target in ("ref", "cpu"):
        compiled = [wb.compile(p, target, record=False).program for p in (program, loaded)]
        expect_same(*compiled)
