"""The forms of objects in a notebook."""

import numpy as np

from workbench.compat import migraphx
from workbench.knobs import knobs


def test_tables_and_texts():
    s = migraphx.shape(lens=[2, 3])
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("<x>", s)
    relu = mm.add_instruction(migraphx.op("relu"), [x])
    inner = p.create_module("inner")
    inner.add_parameter("<y>", s)
    large = migraphx.generate_argument(migraphx.shape(lens=[1000]))
    for one, text in (
        (s, "float_type, {2, 3}"),
        (large, "..."),
        (migraphx.argument(np.ones(2, np.int8)), "1, 1"),
        (migraphx.op("concat", axis=1), "axis"),
        (relu, "relu(&lt;x&gt;)"),
        (inner, "@param:&lt;y&gt;"),
    ):
        shown = one._repr_mimebundle_()
        assert text in shown["text/html"] or text in shown["text/plain"]
        assert "<x>" not in shown["text/html"]
        assert len(shown["text/html"]) < 5000


def test_a_program_shows_its_graph():
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", migraphx.shape(lens=[2]))
    mm.add_return([mm.add_instruction(migraphx.op("relu"), [x])])
    with knobs.scope(static=True):
        for one in (p, mm):
            data, _ = one._repr_mimebundle_()
            assert "<svg" in data["image/svg+xml"]
