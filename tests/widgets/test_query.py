"""The query language: what a query finds, what is wrong with it, and that the browser agrees."""

import json
import math

import pytest

from tests.widgets.networks import HOSTILE, fused, hostile, residual, transformer
from tests.widgets.test_javascript import node
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.text.printing import names
from workbench.widgets import GraphView, palette
from workbench.widgets.facts import facts_of
from workbench.widgets.query import Known, QueryError, find_ids, parse_query

QUERIES = """
relu|block1 relu|BLOCK1 RELU|"block1 relu"|relu or dot|relu OR dot|(relu or dot) block1|-relu
-relu -convolution -@0
block0 -(relu or mul)|/layer0/block0/conv0/convolution_1|/layer0/block0|/conv[01]/|/RELU_\\d+/
/RELU_\\d+/i|/^@\\d+ dot/
op:dot|OP:Dot|op:conv|op:conv*|op:@param|op:param|op:return|op:"conv*"|op:/^re/|op:pointwise|op:*
name:@1|name:image|name:x|name:weight|@13|@1|@999|#0|#7|#2443|main:pointwise0:@2|-#7 relu
source:conv1|node:/relu/|node:"/layer0/block0/add_9"|source:*relu*|scope:layer0|scope:layer0/block1
scope:block|scope:bl*1
scope:/layer0/|scope:/block[01]$/|scope:lay|scope:head|dtype:float|dtype:FLOAT_TYPE|dtype:half
dtype:f*|dtype:int8|dtype:/^fl/
shape:1x8x16x16|shape:1x*x16x16|shape:{1,*,16,16}|shape:{1, *, 16, 16}|shape:*|shape:1x...
shape:...x4|shape:...
shape:scalar|shape:{}|shape:2×3|shape:1..4x3|shape:8x8x3x3|attr:axis=1|attr:axis|attr:padding={1,1}
attr:padding={1, 1}
attr:group>0|attr:group>=1|attr:group<1|attr:axis!=1|attr:out_lens={1,*}|attr:mode|attr:axes={2,3}
attr:ax*=1|attr:group=/1/
family:contraction|family:red*|family:reduce|mark:added|mark:a*|rule:fuse|rule:"fuse_chain"|pass:cse
pass:*chain*|kernel:gemm
ms>0.1|MS>=0.1|time<=0.5 op:relu|value>1|value>1e3|error>1e-3|relative>0|value<inf|value>=inf
value=0|value!=0|ms:0.1..0.5
"relative rms">0|ms=0.25|axis=1|x=y|value>.5|value>-1|value>+1|relu-add|or_|nor|a|é|İ|ß|"|"|relu
op:relu or op:dot -@3
-(op:relu)|((relu))|-(-relu)|"a "" b"|relu(x)|x)|(relu "x)")|kernel:"|mark:*|value:0..inf
op:|-|- relu|relu or|or relu|(relu|()|"open|rule:|attr:|attr:=1|attr:axis=|attr:axis>x|ms>|ms>x|ms:1
ms:1..2..3
what:x|http://x|a:b|nothing>1|shape:1xx3|shape:a-b|shape:/x/|family:foo|mark:new|/(/|/[/|op:/(/i
dtype:|scope:|#x|@x|op:"x
"""
CASES = sorted({q for line in QUERIES.strip().splitlines() for q in line.split("|")}
               | {"relu|dot", "relu | dot", "(relu|dot) block1", "op:relu|op:dot", "relu |", "a||b", "",
                  "  ", "relu  ", HOSTILE, HOSTILE.split()[0], "/a|b/", '"|"', "op:*|-op:*"})  # fmt: skip


def several() -> list[GraphView]:
    """A network, a transformer, a fused program, hostile names, all kinds of shapes, and nothing."""
    shapes = Program("shapes")
    shapes.main.add_parameter("n", Shape.dynamic("half", [4, 3]))
    shapes.main.add_parameter("m", Shape("int8", ()))
    shapes.main.add_return(shapes.main.add_parameter("é İ", Shape("float", (0, 3))))
    programs = [residual(2), transformer(1), fused(), hostile(), shapes, Program("empty")]
    views = [GraphView(program) for program in programs]
    for k, view in enumerate(views[:4]):
        values = [0.25, math.nan, 0.0, -3.0, 1e4, math.inf, 0.1, 2.0]
        ids = [n.id for n in view.scene.versions]
        names = [{"name": "time", "unit": "ms"}, {"name": "relative RMS", "scale": "magma"}]
        view.overlay = {**names[k % 2], "values": dict(zip(ids[::2], values * 99, strict=False))}
    return views


def known(view: GraphView) -> Known:
    """Facts as a recording has them, for all but the last views."""
    ids = [f.id for f in facts_of(view.scene, view.scene.steps[0])]
    if len(ids) < 4:
        return Known(overlay=view.overlay or None)
    return Known(view.overlay or None, {ids[0]: "added", ids[1]: "changed"},
                 {ids[2]: "fuse_chain\nfold", ids[3]: "other"}, {ids[1]: "cse", ids[2]: "fuse_chain"},
                 {ids[3]: "kernel gemm_0", ids[0]: ""})  # fmt: skip


def hits(query: str, view: GraphView) -> list[object]:
    try:
        return list(find_ids(query, facts_of(view.scene, view.scene.steps[0]), known(view)))
    except QueryError as error:
        return [error.at, error.message]


def test_the_browser_finds_what_python_finds():
    views = several()
    scenes = [
        {"data": view.page_data(), "overlay": view.overlay, **{
            name: getattr(known(view), name) for name in ("marks", "rules", "passes", "kernels")}}
        for view in views
    ]  # fmt: skip
    given = {"palette": {"families": palette.FAMILY_COLORS}, "queries": CASES, "scenes": scenes}
    there = json.loads(node("query_cases.mjs", given=json.dumps(given)))
    for view, found in zip(views, there, strict=True):
        here = {query: hits(query, view) for query in CASES}
        assert dict(zip(CASES, found, strict=True)) == here


def titles(query: str, view: GraphView) -> set[str]:
    found = set(find_ids(query, facts_of(view.scene, view.scene.steps[0]), known(view)))
    return {n.title for n in view.scene.versions if n.id in found}


@pytest.fixture(scope="module")
def view() -> GraphView:
    return several()[0]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("op:conv*", {"convolution"}),
        ("op:conv", set()),
        ("op:dot or op:relu", {"dot", "relu"}),
        ("shape:1x*x16x16 family:contraction", {"convolution"}),
        ("shape:{1, 4}", {"dot"}),
        ("attr:padding={1,1}", {"convolution"}),
        ("attr:axes={2, *}", {"reduce_mean"}),
        ("attr:group>0 -family:contraction", set()),
        ("node:/head/dot", {"dot"}),
        ("scope:head -op:literal", {"reshape", "dot"}),
        ("scope:hea", set()),
        ("#0", {"image"}),
        ("rule:fold", {"literal"}),
        ("mark:added", {"literal"}),
        ("pass:cse -@1", set()),
        ("", set()),
    ],
)
def test_what_a_query_finds(view: GraphView, query: str, wanted: set[str]):
    assert titles(query, view) == wanted


def test_numbers_are_compared_and_what_is_not_finite_is_over_every_bound(view: GraphView):
    values = {int(k): v for k, v in view.overlay["values"].items()}
    facts, all_known = facts_of(view.scene, view.scene.steps[0]), known(view)
    found = {q: set(find_ids(q, facts, all_known)) for q in ("ms>1", "value<=1", "time:0.1..0.25")}
    assert found["ms>1"] == {k for k, v in values.items() if v is None or v > 1}
    assert found["value<=1"] == values.keys() - found["ms>1"]
    assert found["time:0.1..0.25"] == {k for k, v in values.items() if v in (0.1, 0.25)}


@pytest.mark.parametrize(
    ("query", "at", "words"),
    [
        ("op:dot ms>", 10, "expected a number after ms>"),
        ("relu nothing>1", 5, "no numbers called nothing: the overlay is called time, ms, value"),
        ('relu "open', 10, "closing quote for the one at position 6"),
        ("(relu or dot", 12, r"expected \) for the \( at position 1"),
        ("main:relu", 0, "no field main: — expected one of op, name"),
        ("shape:1xx3", 0, "expected sizes after shape:"),
        ("relu or", 7, "expected something to search for"),
        ("mark:new", 0, "expected one of added, removed, changed, not new"),
        ("/(/", 0, "this regular expression is invalid"),
        ("relu -", 6, "expected a term to leave out"),
    ],
)
def test_a_wrong_query_says_where_and_what_was_expected(
    view: GraphView, query: str, at: int, words: str
):
    with pytest.raises(QueryError, match=words) as caught:
        titles(query, view)
    assert (caught.value.at, str(caught.value).split(":")[0]) == (at, f"position {at + 1}")


def test_names_are_those_of_the_text_form():
    for program in (residual(1), fused()):
        scene = GraphView(program).scene
        assert {f.id: f.name for f in facts_of(scene, scene.steps[0])} == names(program)


def test_a_blank_query_is_none():
    assert parse_query(" \n") is None
