"""Programs: parameters, compiling in place, running, comparing, sorting, copies, traces, errors."""

import numpy as np
import pytest

from workbench.compat import migraphx

S = migraphx.shape(lens=[2, 3])


def add(first="x", second="y"):
    p = migraphx.program()
    mm = p.get_main_module()
    made = {n: mm.add_parameter(n, S) for n in (first, second)}
    mm.add_return([mm.add_instruction(migraphx.op("add"), [made["x"], made["y"]])])
    return p


def floats(value=1.0):
    return np.full((2, 3), value, np.float32)


def test_what_it_takes_and_gives():
    p = add()
    assert p.get_parameter_names() == ["x", "y"]
    assert p.get_parameter_shapes() == {"x": S, "y": S}
    assert p.get_output_shapes() == [S]
    with pytest.raises(RuntimeError, match="empty"):
        migraphx.program().get_output_shapes()


def test_run_uncompiled_and_compiled():
    p = add()
    given = {"x": floats(), "y": migraphx.fill_argument(S, 2), "other": floats()}
    assert not p.is_compiled()
    (before,) = p.run(given)
    p.compile(migraphx.get_target("ref"), offload_copy=False, fast_math=False, exhaustive_tune=True)
    assert p.is_compiled()
    (after,) = p.run(given)
    assert before == after == migraphx.fill_argument(S, 3)
    assert isinstance(after, migraphx.argument)


def test_results_are_the_callers():
    p = add()
    p.compile(migraphx.get_target("cpu"))
    first = p.run({"x": floats(), "y": floats()})[0]
    second = p.run({"x": floats(5), "y": floats()})[0]
    assert first.tolist() == [2] * 6
    np.asarray(second)[0, 0] = 9
    assert p.run({"x": floats(5), "y": floats()})[0].tolist() == [6] * 6


def test_results_have_the_strides_of_their_shape():
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", S)
    mm.add_return([mm.add_instruction(migraphx.op("transpose", permutation=[1, 0]), [x])])
    (out,) = p.run({"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert repr(out.get_shape()) == "float_type, {3, 2}, {1, 3}"
    assert out.tolist() == [0, 3, 1, 4, 2, 5]


def test_a_tuple_is_one_argument():
    p = migraphx.program()
    mm = p.get_main_module()
    x = mm.add_parameter("x", migraphx.shape(lens=[3]))
    mm.add_instruction(migraphx.op("topk", k=2), [x])
    (out,) = p.run({"x": np.float32([1, 3, 2])})
    assert [o.tolist() for o in out.get_sub_objects()] == [[3, 2], [1, 2]]


def test_dynamic_parameters():
    p = migraphx.program()
    mm = p.get_main_module()
    dims = [migraphx.shape.dynamic_dimension(1, 4), migraphx.shape.dynamic_dimension(3, 3)]
    x = mm.add_parameter("x", migraphx.shape(dyn_dims=dims))
    mm.add_return([mm.add_instruction(migraphx.op("relu"), [x])])
    assert p.run({"x": floats()})[0].get_shape() == S
    with pytest.raises(RuntimeError, match="'x'"):
        p.run({"x": np.zeros((5, 3), np.float32)})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": floats()}, "Parameter not found: y"),
        (
            {"x": floats(), "y": floats().T},
            r"Incorrect shape \{float_type, \{3, 2\}, \{1, 3\}\} for",
        ),
        ({"x": floats(), "y": floats().astype(np.float64)}, "should be: {float_type, {2, 3}"),
        (
            {"x": floats(), "y": np.asfortranarray(floats())},
            r"give numpy.ascontiguousarray\(buffer, numpy.float32\)",
        ),
        ({"x": floats(), "y": np.zeros((2, 3), complex)}, "unsupported data type"),
    ],
)
def test_what_does_not_fit_is_a_runtime_error(given, text):
    with pytest.raises(RuntimeError, match=text):
        add().run(given)


def test_wrong_arguments():
    p = add()
    for wrong in (
        lambda: p.run({"x": [1, 2], "y": floats()}),
        lambda: p.run([floats(), floats()]),
        lambda: p.run({1: floats()}),
        p.run,
        lambda: p.compile("ref"),
        p.compile,
        lambda: p.compile(migraphx.get_target("ref"), offload_copy="no"),
        lambda: p == 3,
        lambda: p.create_module(3),
        lambda: migraphx.program(3),
        lambda: hash(p),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_equality_is_that_of_the_text():
    assert add() == add()
    assert add("x", "y") != add("y", "x")
    assert add() == add()


def test_sort_is_in_place_and_gives_a_copy():
    p, q = add("x", "y"), add("y", "x")
    made = p.sort()
    assert p == q.sort() == made
    made.get_main_module().add_parameter("z", S)
    assert p != made
    order = [repr(i).split(" ", maxsplit=1)[0] for i in p.get_main_module()]
    assert order == ["y", "x", "@2", "@3"]


def test_sort_keeps_what_nobody_needs():
    p = migraphx.program()
    mm = p.get_main_module()
    x, y = mm.add_parameter("x", S), mm.add_parameter("y", S)
    a = mm.add_instruction(migraphx.op("neg"), [x])
    b = mm.add_instruction(migraphx.op("relu"), [y])
    c = mm.add_instruction(migraphx.op("add"), [b, a])
    mm.add_instruction(migraphx.op("mul"), [c, a])
    p.sort()
    assert [i.name() for i in mm] == ["@param", "neg", "@param", "relu", "add", "mul"]
    mm.add_parameter("unused", S)
    p.sort()
    assert repr(list(mm)[-1]).startswith("unused")


def test_clones_are_apart():
    p = add()
    q = p.clone()
    assert p == q
    q.compile(migraphx.get_target("cpu"))
    assert not p.is_compiled()
    assert p != q


def test_the_build_leads_to_the_recording():
    p = add()
    with pytest.raises(RuntimeError, match="compile it first"):
        assert p.build
    p.compile(migraphx.get_target("cpu"))
    assert p.build.program is p.core
    assert [s.name for s in p.build.recording.steps]
    assert len(p.build.source.main) == 4


def test_run_passes_in_place():
    p = add()
    passes = ["simplify_algebra", ("fuse_pointwise", {"enable_rewrite_broadcasts": True})]
    assert migraphx.run_passes(p, passes) is None
    assert "pointwise(x,y), [main:pointwise0]" in repr(p)
    assert p.run({"x": floats(), "y": floats()})[0] == migraphx.fill_argument(S, 2)
    for wrong in (["nonsense"], [("fuse_pointwise", {"nonsense": 1})], [3], [("dead", 3, 4)]):
        with pytest.raises(RuntimeError):
            migraphx.run_passes(p, wrong)
    with pytest.raises(TypeError, match="passes: expected a list"):
        migraphx.run_passes(p, "simplify_algebra")


def test_a_compiled_program_keeps_what_quantization_clips_and_the_pass_drops_it():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float_type", lens=[3]))
    scale = m.add_literal(migraphx.argument(np.full(3, 0.02, np.float32)))
    zero = m.add_literal(migraphx.argument(np.full(3, 3, np.uint8)))
    codes = m.add_instruction(migraphx.op("quantizelinear"), [x, scale, zero])
    back = m.add_instruction(migraphx.op("dequantizelinear"), [codes, scale, zero])
    m.add_return([m.add_instruction(migraphx.op("neg"), [back])])
    given = {"x": migraphx.argument(np.array([-2, 0.113, 100], np.float32))}
    kept, dropped = p.clone(), p.clone()
    migraphx.run_passes(kept, [("simplify_qdq", {"drop_fake_quantization": False})])
    migraphx.run_passes(dropped, ["simplify_qdq"])
    p.compile(migraphx.get_target("gpu"))
    for program in (p, kept):
        np.testing.assert_allclose(program.run(given)[0], [0.06, -0.12, -5.04], rtol=1e-6)
    np.testing.assert_allclose(dropped.run(given)[0], [2, -0.113, -100], rtol=1e-6)


def test_traces_and_reports():
    p = add()
    seen = []
    given = {"x": floats(), "y": floats()}
    (out,) = p.run_trace(given, lambda t: seen.append((t.index, t.name, t.result.tolist()[0])))
    assert seen == [(0, "@param", 1.0), (1, "@param", 1.0), (2, "add", 2.0)]
    assert out == migraphx.fill_argument(S, 2)
    report = p.perf_report(iterations=2, batch=3)
    assert "Batch size: 3" in str(report)
    assert len(report.table())
    with pytest.raises(RuntimeError, match="iterations"):
        p.perf_report(iterations=0)


def test_python_that_builds_it_again():
    p = add()
    scope = {"migraphx": migraphx}
    exec(p.to_py(), scope)
    assert scope["p"] == p.sort() or scope["p"].sort() == p.sort()


def test_files_and_buffers(tmp_path):
    p = add()
    for compiled in (False, True):
        if compiled:
            p.compile(migraphx.get_target("cpu"))
        for format in ("msgpack", "json"):
            path = str(tmp_path / f"p.{format}")
            migraphx.save(p, path, format=format)
            q = migraphx.load(path, format=format)
            assert q == p == migraphx.load_buffer(migraphx.save_buffer(p, format), format)
            assert q.is_compiled() == compiled
            assert q.run({"x": floats(), "y": floats()})[0].tolist() == [2] * 6
    for wrong in (
        lambda: migraphx.save(p, path, format="yaml"),
        lambda: migraphx.load(path, format="yaml"),
        lambda: migraphx.load(tmp_path / "none"),
        lambda: migraphx.save(p, tmp_path / "none" / "none.mxr"),
        lambda: migraphx.load_buffer(b"nonsense"),
        lambda: p.write_netron_output(tmp_path / "none" / "none.onnx"),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    p.write_netron_output(str(tmp_path / "p.onnx"))
    assert (tmp_path / "p.onnx").stat().st_size
