"""Repeated blocks in Python: the overlay spread over the blocks of a fold, and two blocks compared."""

import math

import numpy as np
import pytest

from tests.widgets.networks import Builder, recorded, transformer
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.widgets.explorer import PassExplorer
from workbench.widgets.graph_view import GraphView

MS = {"name": "time", "unit": "ms", "total": True}


def layers(*, equal: int = 0, last: float = 1.0) -> Program:
    """Four layers of a dot and a relu; the weights of two are equal, and of the last multiplied."""
    b = Builder("layers")
    x = b.main.add_parameter("x", Shape("float", (2, 8)))
    for k in range(4):
        weights = np.full((8, 8), 1.0 if k <= equal else k, np.float32) * (last if k == 3 else 1)
        x = b.add("dot", x, b.main.add_literal(weights), scope=f"layer.{k}")
        x = b.add("relu", x, scope=f"layer.{k}")
        x = b.add("add", x, x, scope=f"layer.{k}")
    b.main.add_return(x)
    return b.program


def dots(program: Program) -> list[int]:
    return [i.id for i in program.main if i.name == "dot"]


def test_an_overlay_is_spread_over_the_blocks():
    program = layers()
    times = dict(zip(dots(program), (0.5, 0.25, math.nan), strict=False))
    table = GraphView(program, overlay=MS | {"values": times}).blocks()
    assert [*table["block"]] == ["layer.0", "layer.1", "layer.2", "layer.3"]
    assert [*table["instructions"]] == [3, 3, 3, 3]
    assert table["sum of time ms"][:2].tolist() == [0.5, 0.25]
    assert table["largest time ms"][2:].isna().all(), "not finite, and none"
    assert GraphView(program).blocks().columns.tolist() == ["block", "instructions"]


def test_blocks_differ_in_their_constants_and_numbers_not_in_names():
    program = layers(equal=1, last=2.0)
    view = GraphView(program, overlay=MS | {"values": {dots(program)[0]: 0.5}})
    same = view.compare_blocks(0, 1)
    assert same["differs"].tolist() == ["time ms"]
    assert same["constants: largest difference"].tolist() == [0.0]
    other = view.compare_blocks(1, -1)
    assert other[["operation", "differs"]].to_numpy().tolist() == [["dot", "constants"]]
    assert other["constants: largest difference"][0] == 5.0
    assert view.compare_blocks(2, 2).empty


def test_a_constant_that_is_not_a_number_differs():
    (row,) = GraphView(layers(last=math.nan)).compare_blocks(0, 3).to_dict("records")
    assert math.isnan(row["constants: largest difference"])
    assert row["differs"] == "constants"


def test_the_blocks_of_a_later_step_are_those_of_that_step():
    view = PassExplorer(recorded(transformer(4)))
    counts = []
    for k in (0, len(view.recording) - 1):
        view.step = k
        table = view.blocks()
        counts.append(table["instructions"].sum())
        shown = {view.scene.versions[v].id for v in view.scene.steps[view.steps.shown(k)[1]]}
        assert len(table) == 4
        assert counts[-1] <= len(shown)
        assert (view.compare_blocks(0, 1)["differs"] == "constants").all()
    assert counts[1] < counts[0], "fused"


def test_a_wrong_fold_or_block_is_refused():
    view = GraphView(transformer(4))
    with pytest.raises(ValueError, match=r"no repeated blocks 'x'; expected .*layer.0×4"):
        view.blocks("x")
    with pytest.raises(IndexError, match="no block 4; there are 4"):
        view.compare_blocks(0, 4)
    with pytest.raises(IndexError, match=r"no block 'layer.0'; there are 4"):
        view.compare_blocks("layer.0", 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="no blocks of this program repeat"):
        GraphView(transformer(1)).blocks()


def test_the_picture_has_a_cell_for_each_block():
    program = layers()
    values = dict(zip(dots(program), (0.5, 0.25, 0.125, math.inf), strict=True))
    text = GraphView(program, overlay=MS | {"values": values}).to_svg()
    assert text.count('height="5"') == 4
    assert "<title>layer.1: 0.25 ms</title>" in text
    assert "<title>layer.3: not finite</title>" in text
    assert 'height="5"' not in GraphView(program).to_svg()
