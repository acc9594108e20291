"""Lowering as the last step of a recording: what each instruction became, and where its value lies."""

import numpy as np
import pytest

import workbench as wb
from tests.gpu.harness import as_built
from tests.models.registry import MODELS
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.record.lowered import Lowered, LoweredRow
from workbench.gpu.devices.base import Device
from workbench.gpu.kernels.kernel import Place, Root
from workbench.gpu.lowering.places import overlap


def lowered(program: Program, **options) -> tuple[wb.Build, Lowered]:
    build = wb.compile(program, target="gpu", **options)
    step = build.recording[-1]
    assert step.name == "lowering"
    assert step.lowered is build.recording.lowered is not None
    return build, step.lowered


def test_every_instruction_has_a_row_and_every_kernel_is_named():
    build, found = lowered(wb.parse_onnx(MODELS["small_encoder"].path))
    assert {row.id for row in found} == {i.id for i in build.program.instructions}
    assert len({row.id for row in found}) == len(found)
    plan = build.runner.plan()
    kernels = [row for row in found if row.kind == "kernel"]
    assert [s.launch.kernel.name for s in plan.kernels] == [
        one.partition("[")[0] for row in kernels for one in row.what.split(", ")
    ]
    schedules = {row.what.rpartition("[")[2].rstrip("]") for row in kernels}
    assert schedules == {"elementwise", "reduce", "contraction", "attention"}
    assert all(p.arena is None or p.arena + p.bytes <= found.arena for r in found for p in r.places)


@pytest.fixture
def rows() -> dict[str, LoweredRow]:
    program = Program()
    main = program.main
    x, empty = main.add_parameter("x", Shape("float", (6, 4))), Shape("float", (0, 4))
    table = main.add_literal(np.arange(24, dtype=np.float32).reshape(6, 4))
    one = main.add("multibroadcast", main.add_literal(np.float32(2)), out_lens=(6, 4))
    main.add("relu", main.add_parameter("none", empty))
    made = main.add("tanh", main.add("mul", main.add("add", x, table), one))
    part = main.add("slice", made, axes=(0,), starts=(2,), ends=(3,))
    main.add_return(main.add("neg", part), made, main.add("nonzero", x))
    _, found = lowered(program, passes=[])
    by = {i.id: i for i in program.instructions}
    return {f"{by[row.id].name} {by[row.id].shape.elements}": row for row in found}


def test_a_row_says_what_an_instruction_became(rows):
    assert rows["add 24"].became.startswith("kernel add_")
    assert rows["add 24"].became.endswith("[elementwise]")
    assert (rows["slice 4"].kind, rows["slice 4"].what) == ("view", rows["tanh 24"].instruction)
    assert rows["@literal 24"].became == "literal"
    assert rows["@literal 1"].became == "literal written into kernels"
    assert rows["@param 24"].became == "parameter x"
    assert rows["relu 0"].became == "nothing: it has no elements"
    assert next(row for name, row in rows.items() if "@return" in name).became == "nothing"


def test_a_row_says_where_the_value_lies(rows):
    whole, part = rows["tanh 24"].places[0], rows["slice 4"].places[0]
    assert part.root == whole.root == f"value#{rows['tanh 24'].id}"
    assert (whole.offset, whole.bytes, part.offset, part.bytes) == (0, 96, 32, 16)
    assert whole.arena is None  # a result has memory of its own
    assert rows["add 24"].places[0].arena is not None
    add = rows["add 24"]
    place = f"value#{add.id}+0 (96 B, arena+{add.places[0].arena})"
    assert str(add) == f"{add.instruction} -> {add.became} place {place}"


def test_a_host_step_says_why():
    found = lowered(wb.parse_onnx(MODELS["small_loop"].path))[1]
    (rows,) = [row for row in found if row.kind == "host"]
    assert rows.what == "its lengths are known only at run time"
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (4, 4)))
    program.main.add_return(program.main.add("unique", x, axis=0))
    (row,) = [row for row in lowered(program)[1] if row.kind == "host"]
    assert row.what


def test_branches_are_followed_by_what_their_modules_became():
    found = lowered(wb.parse_onnx(MODELS["small_branches"].path))[1]
    kinds = {row.instruction: row.kind for row in found}
    assert list(kinds.values()).count("branch") == 2
    assert {kind for name, kind in kinds.items() if "else:" in name} == {
        "kernel", "view", "nothing", "part",
    }  # fmt: skip


def test_the_text_has_a_line_an_instruction_and_the_arena():
    build, found = lowered(wb.parse_onnx(MODELS["small_cnn"].path, default_dim_value=1))
    first, *lines = str(build.recording[-1]).splitlines()[1:]
    assert f"arena of {found.arena:,} bytes" in first
    assert len(lines) == sum(row.kind != "part" for row in found)
    assert build.recording[-1].text == found.text


def test_what_cannot_be_lowered_ends_the_recording_with_the_reason():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (4,)))
    constant = program.main.add_literal(np.arange(4, dtype=np.float32))
    program.main.add_return(program.main.add("copy", x, constant))
    with pytest.raises(DeviceError, match="writes into a constant") as caught:
        wb.compile(program, target="gpu", passes=[])
    assert caught.value.recording is not None
    assert "writes into a constant" in caught.value.recording[-1].error


def test_ranges_of_lengths_are_lowered_by_the_build_for_some():
    program = Program()
    x = program.main.add_parameter("x", Shape.dynamic("float", [Dim(1, 9), 4]))
    program.main.add_return(program.main.add("relu", x))
    build, found = lowered(program)
    assert (len(found), "build.specialised" in found.summary) == (0, True)
    three = build.specialised({"x": np.zeros((3, 4), np.float32)})
    assert {r.kind for r in three.recording.lowered} == {"parameter", "kernel", "part", "nothing"}


def test_other_targets_lower_nothing():
    program = Program()
    program.main.add_return(program.main.add_parameter("x", Shape("float", (4,))))
    assert wb.compile(program, target="cpu").recording.lowered is None


def test_a_file_keeps_it_and_undo_drops_it(tmp_path):
    build, found = lowered(wb.parse_onnx(MODELS["small_branches"].path))
    wb.save(build.recording, tmp_path / "recording")
    kept = wb.load(tmp_path / "recording")
    assert kept.lowered == found
    build.recording.undo()
    assert build.recording.lowered is None


def test_what_backend_writes_into_parts_of_a_buffer_is_written_there_by_kernels(device: Device):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 300)))
    halves = [main.add("softmax", v, axis=1) for v in (x, main.add("neg", x))]
    main.add_return(main.add("reduce_max", main.add("concat", *halves, axis=0), axes=(0,)))
    given = {"x": np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)}
    build, plan = lowered(program, passes=["backend"], device=device.spec)
    kernels = [row.what for row in plan if row.kind == "kernel"]
    assert not any("copy" in what or "concat" in what for what in kernels)
    wanted = wb.compile(program, target="ref").run(given)[0]
    found = as_built(build, device).run(given)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_parts_of_memory_overlap_where_they_share_a_byte():
    root = Root("value", 1)
    rows = [Place(root, Shape("float", (2, 4)), 4 * k) for k in range(3)]
    assert overlap(rows[0], rows[1])
    assert not overlap(rows[0], rows[2])
    assert not overlap(rows[0], Place(Root("value", 2), Shape("float", (2, 4))))
    assert overlap(rows[2], Place(root, Shape("int8", (1,)), 33))
    assert not overlap(rows[0], Place(root, Shape("int8", (1,)), 32))
