"""Without JAX: errors that name the extra, and what needs no jaxlib: writing, and the table of writers."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.compiler.ops.test_operations import OPERATIONS
from workbench.compiler.builds.models import read_model
from workbench.compiler.errors import ModelError
from workbench.compiler.stablehlo.provenance import Place, argument_name
from workbench.compiler.stablehlo.write.lines import elements_text, quoted
from workbench.compiler.stablehlo.write.registry import refused, written

EXTRA = r"'jax(lib)?' is not installed.*graph-workbench\[jax\]"
GIVEN = {"@param", "@literal", "@return"}


@pytest.fixture
def no_jax(monkeypatch):
    for package in ("jax", "jaxlib", "jaxlib.mlir", "jaxlib.mlir.ir"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("no_jax")
def test_a_missing_jax_is_an_error_that_names_the_extra(tmp_path: Path):
    path = tmp_path / "net.mlir"
    path.write_text("module { }")
    for read in (wb.parse_stablehlo, read_model, lambda p: wb.parse_stablehlo(str(p))):
        with pytest.raises(ModelError, match=EXTRA):
            read(path)
    with pytest.raises(ModelError, match=EXTRA):
        wb.from_jax(lambda x: x, 1.0)


def test_a_place_is_read_from_the_text_of_a_location():
    frames = 'callsite("f"("/models/net.py":12:4 to :9) at "g"("main.py":3:1))'
    text = f'loc("jit(f)/Net/Dense_0/jit(relu)/dot_general"({frames}))'
    place = Place(text)
    assert (place.path, place.line) == (("f", "Net", "Dense_0", "relu", "dot_general"), "net.py:12")
    assert place.scope == ("f", "Net", "Dense_0", "relu")
    assert Place("loc(unknown)", "net.py:7").line == "net.py:7"
    assert argument_name("loc(\"params['w']\")") == "params['w']"


def test_every_operation_is_written_or_refused_with_a_reason():
    assert set(written()).isdisjoint(refused())
    assert set(written()) | set(refused()) == set(OPERATIONS) - GIVEN


def test_a_program_is_text_with_names_lineage_and_functions(tmp_path: Path):
    program = wb.trace(lambda x, y: ((x @ y).relu() + 1.0).sum(axis=1), x=(2, 3), y=(3, 4))
    text = wb.to_stablehlo(program, tmp_path / "net.mlir")
    assert (tmp_path / "net.mlir").read_text() == text
    assert 'func.func public @main(%arg0: tensor<2x3xf32> loc("x"), %arg1: tensor<3x4xf32>' in text
    assert '"stablehlo.dot_general"(%arg0, %arg1)' in text
    fused = wb.to_stablehlo(wb.compile(program, "cpu").program)
    assert "func.func private @main_" in fused
    assert "callee = @main_" in fused


def test_what_cannot_be_written_is_named():
    program = wb.Program()
    x = program.main.add_parameter("x", wb.Shape("float", (3,)))
    program.main.add_return(program.main.add("nonzero", x))
    with pytest.raises(ModelError, match=r"nonzero cannot be written as StableHLO: "):
        wb.to_stablehlo(program)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([1, 1], np.int8), "dense<1>"),
        (np.array([[1.5], [-0.0]], np.float32), "dense<[[1.5], [-0.0]]>"),
        (np.array([1e-20, np.inf], np.float32), "dense<[1.0e-20, 0x7F800000]>"),
        (np.array([True, False]), "dense<[true, false]>"),
        (np.zeros((0, 2), np.float32), "dense<>"),
        (np.arange(9, dtype=np.uint8), 'dense<"0x000102030405060708">'),
        (np.broadcast_to(np.float32(2), (10**6, 10**6)), "dense<2.0>"),
    ],
)
def test_constants_are_short_and_exact(array: np.ndarray, text: str):
    assert elements_text(array, wb.DType.of(array.dtype)) == text


def test_names_are_escaped():
    assert quoted('a"\\é\n') == '"a\\22\\5C\\C3\\A9\\0A"'


def test_the_page_lists_what_is_refused_with_its_reason():
    page = (Path(__file__).parents[2] / "docs" / "from_jax.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+`) \| (.*) \|$", page, re.MULTILINE)
    listed = {n.strip("` "): reason for names, reason in rows for n in names.split(",")}
    assert {n: listed.get(n) for n in refused()} == refused()
