"""Files: programs and arguments, in both forms, compiled or not; errors are those of MIGraphX."""

import numpy as np
import pytest

from workbench.compat import migraphx
from workbench.compat.migraphx.targets import StandInWarning


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
@pytest.mark.filterwarnings("ignore::workbench.compat.migraphx.targets.StandInWarning")
def test_a_compiled_program_runs_as_it_is(name):
    p = made()
    p.compile(migraphx.get_target(name))
    q = migraphx.load_buffer(migraphx.save_buffer(p))
    assert q.is_compiled()
    assert q == p
    x = migraphx.generate_argument(p.get_parameter_shapes()["x"])
    assert q.run({"x": x})[0] == p.run({"x": x})[0]
    assert issubclass(StandInWarning, UserWarning)


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
        (lambda: migraphx.load_buffer(packed[:-1]), "cut off"),
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
