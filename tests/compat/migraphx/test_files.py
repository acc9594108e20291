"""Files: programs and arguments, in both forms, compiled or not; errors are those of MIGraphX."""

import numpy as np
import pytest

import workbench as wb
from workbench.compat import migraphx
from workbench.compiler.ir.shape import Dim


def made():
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[2, 3], strides=[1, 2]))
    y = m.add_literal(np.arange(6, dtype=np.float32).reshape(2, 3))
    total = m.add_instruction(migraphx.op("add"), [x, y])
    m.add_debug_symbols(total, ["Add_0"])
    m.add_return([total])
    return p


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_a_program_comes_back(tmp_path, form):
    p = made()
    path = str(tmp_path / "program")
    migraphx.save(p, path, form)
    q = migraphx.load(path, format=form)
    assert p == q
    assert p.get_parameter_names() == q.get_parameter_names()
    assert not q.is_compiled()
    symbols = [i.get_debug_symbols() for i in q.get_main_module()]
    assert symbols == [set(), set(), {"Add_0"}, set()]


def test_msgpack_is_the_default_and_is_in_memory_too(tmp_path):
    p = made()
    migraphx.save(p, str(tmp_path / "p.mxr"))
    packed = migraphx.save_buffer(p)
    assert isinstance(packed, bytes)
    assert (tmp_path / "p.mxr").read_bytes() == packed
    assert migraphx.load(str(tmp_path / "p.mxr")) == migraphx.load_buffer(packed) == p


@pytest.mark.parametrize("name", ["ref", "cpu", "gpu"])
def test_a_compiled_program_runs_as_it_is(name):
    p = made()
    p.compile(migraphx.get_target(name))
    q = migraphx.load_buffer(migraphx.save_buffer(p))
    assert q.is_compiled()
    assert q == p
    x = migraphx.generate_argument(p.get_parameter_shapes()["x"])
    assert q.run({"x": x})[0] == p.run({"x": x})[0]


def test_a_file_keeps_no_recording_and_other_files_are_named(tmp_path):
    p = made()
    p.compile(migraphx.get_target("ref"))
    again = migraphx.load_buffer(migraphx.save_buffer(p))
    with pytest.raises(RuntimeError, match="compiled before it was saved"):
        _ = again.build
    (tmp_path / "model.mxr").write_bytes(b"\x08\x07\x12\x04test")
    with pytest.raises(RuntimeError, match="read a model with parse_onnx or parse_tf"):
        migraphx.load(tmp_path / "model.mxr")


def test_arguments_come_back(tmp_path):
    path = str(tmp_path / "a.mxr")
    for kind, lens, strides in (("float", [2, 3], [1, 2]), ("bf16", [4], [1]), ("int8", [1], [0])):
        a = migraphx.generate_argument(migraphx.shape(type=kind, lens=lens, strides=strides), 3)
        migraphx.argument.save(a, path)
        b = migraphx.argument.load(path)
        assert a == b
        assert a.get_shape() == b.get_shape()


def test_what_is_wrong(tmp_path):
    p = made()
    packed = migraphx.save_buffer(p)
    path = str(tmp_path / "none" / "p.mxr")
    for call, says in (
        (lambda: migraphx.load(path), "cannot be read"),
        (lambda: migraphx.save(p, path), "no folder|cannot be written"),
        (lambda: migraphx.save(p, path, format="xml"), "xml"),
        (lambda: migraphx.load(path, format="xml"), "xml"),
        (lambda: migraphx.load_buffer(packed[:-1]), "truncated"),
        (lambda: migraphx.load_buffer(b""), "byte 0"),
        (
            lambda: migraphx.load_buffer(packed.replace(b"\xa7version\x08", b"\xa7version\x07")),
            "version 7",
        ),
        (lambda: migraphx.argument.load(path), "cannot be read"),
    ):
        with pytest.raises(RuntimeError, match=says):
            call()
    for wrong in (
        lambda: migraphx.load(3),
        lambda: migraphx.load_buffer("x"),
        lambda: migraphx.save(3, "x"),
    ):
        with pytest.raises(TypeError):
            wrong()
    (tmp_path / "a.mxr").write_bytes(packed)
    with pytest.raises(RuntimeError, match=r"a\.mxr: argument"):
        migraphx.argument.load(str(tmp_path / "a.mxr"))


def ranges(*dims):
    dims = [d if isinstance(d, tuple) else (d, d) for d in dims]
    return migraphx.shape(dyn_dims=[migraphx.shape.dynamic_dimension(*d) for d in dims])


def of_two(first, second, name, **attributes):
    p = migraphx.program()
    mm = p.get_main_module()
    x, y = mm.add_parameter("x", first), mm.add_parameter("y", second)
    mm.add_instruction(migraphx.op(name, **attributes), [x, y])
    return p


@pytest.mark.parametrize(
    "program",
    [
        of_two(ranges((1, 4), (2, 6)), ranges((1, 3), (2, 8)), "multibroadcast"),
        of_two(ranges(4, 4), ranges(4, 4), "add"),
        of_two(ranges((1, 4), 5, 5), ranges((1, 4), 5, (5, 8)), "dot"),
    ],
    ids=["ranges that meet", "ranges of one length", "a range of columns"],
)
def test_rules_for_dynamic_shapes_come_back(program, tmp_path):
    compiled = program.clone()
    compiled.compile(migraphx.get_target("ref"))
    for p in (program, compiled):
        migraphx.save(p, tmp_path / "p.json", format="json")
        for q in (
            migraphx.load_buffer(migraphx.save_buffer(p)),
            migraphx.load(tmp_path / "p.json", format="json"),
        ):
            assert q == p
            assert q.core.strict
            assert q.core.keeps_fixed
        assert str(wb.parse(str(p))) == str(p)
        wb.save(p.core, tmp_path / "p.wb")
        assert wb.load(tmp_path / "p.wb").strict


def test_a_loaded_program_refuses_what_others_do():
    p = of_two(ranges((1, 4), 3), ranges((1, 4), 3), "add")
    q = migraphx.load_buffer(migraphx.save_buffer(p))
    for made in (p, q):
        mm = made.get_main_module()
        last = list(mm)[-1]
        with pytest.raises(RuntimeError, match="multibroadcast"):
            mm.add_instruction(migraphx.op("multibroadcast", out_lens=[4, 3]), [last])


def test_a_program_by_our_own_rules_keeps_them():
    native = wb.Program()
    shapes = [wb.Shape.dynamic("float_type", [Dim(1, 4), Dim(n, 6)]) for n in (1, 2)]
    x, y = (native.main.add_parameter(name, s) for name, s in zip("xy", shapes, strict=True))
    native.main.add_return(native.main.add("add", x, y))
    loaded = migraphx.load_buffer(migraphx.save_buffer(migraphx.program.of(native)))
    assert str(loaded) == str(native)
    assert not loaded.core.strict
    loaded.compile(migraphx.get_target("cpu"))
