"""Recordings: every step and edit rebuilt exactly, reasons kept, lineage both ways, files."""

from builtins import compile as compile_python
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given

from tests.compiler.programs import programs
from workbench.compiler.builds.build import compile
from workbench.compiler.errors import ModelError, OperationError, RewriteError
from workbench.compiler.files.archive import load, save
from workbench.compiler.ir.listener import Listener
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import rows_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.base import Pass, RewritePass, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.report.result import kernel_sources
from workbench.compiler.rewrite import Decline, Rule, drive, op, rule, var


@rule(op("neg", op("neg", var("x"), name="inner").once))
def cancel_neg(_, x):
    """neg(neg(x)) → x."""
    return Decline("x is a vector") if x.shape.ndim == 1 else x


@rule(op("relu", op("relu", var("x"))))
def merge_relu(b, x):
    """relu(relu(x)) → relu(x)."""
    return b("relu", x)


class Tidy(RewritePass):
    """Cancel what cancels."""

    name: ClassVar[str] = "tidy"
    rules: ClassVar[tuple[Rule, ...]] = (cancel_neg, merge_relu)


def chain(*names: str, lens: tuple[int, ...] = (2, 3)) -> Program:
    program = Program()
    value = program.main.add_parameter("x", Shape("float", lens))
    for i, name in enumerate(names):
        with program.source(f"node{i}"):
            value = program.main.add(name, value)
    program.main.add_return(value)
    return program


def test_edits_name_rule_law_and_line():
    program = chain("neg", "neg", "relu", "relu")
    with Recording(program) as recording:
        run_pass(Tidy(), program)
    step = recording[0]
    assert (step.name, step.size_before, step.size_after) == ("tidy", 6, 3)
    assert [e.rule for e in step.edits] == ["cancel_neg", "merge_relu"]
    assert step.edits[0].law == "neg(neg(x)) → x."
    assert step.edits[0].file.endswith("test_recording.py")
    assert step.edits[0].line > 0


def test_steps_and_edits_rebuild():
    program = chain("neg", "neg", "relu", "relu")
    before = str(program)
    with Recording(program) as recording:
        run_pass(Tidy(), program)
    assert str(recording[0].before) == before
    assert str(recording[0].after_edit(-1)) == before
    assert [len(recording[0].after_edit(k).main) for k in (0, 1)] == [4, 3]
    assert str(recording[0].after) == str(program)


def test_the_start_is_kept_when_the_source_changes():
    program = chain("neg", "neg", "relu", "relu")
    before = str(program)
    build = compile(program, "ref", passes=[Tidy()])
    program.main.replace(program.main.outputs[0], program.main.parameters["x"])
    program.clear()
    assert str(build.recording.first) == before


@given(programs())
def test_every_step_of_a_compilation_rebuilds(program: Program):
    texts = []

    class Texts(Listener):
        def pass_ended(self, pass_, error):
            texts.append(str(work))

    work = program.clone()
    work.listeners.append(Texts())
    from workbench.compiler.passes.pipelines import PIPELINES

    with Recording(work) as recording:
        run_pass(PIPELINES["optimize"], work)
    assert [str(s.after) for s in recording] == texts
    assert str(recording.first) == str(program)
    assert rows_of(recording.last).instructions == rows_of(work).instructions


def test_near_misses_carry_the_reason():
    program = chain("neg", "neg", lens=(4,))
    with Recording(program) as recording:
        run_pass(Tidy(), program)
    assert not recording[0].changed
    assert [m.reason for m in recording[0].near_misses] == ["x is a vector"]


def test_a_failed_condition_is_a_near_miss():
    program = chain("neg", "neg")
    inner = list(program.main)[1]
    program.main.set_inputs(program.main.last, [program.outputs[0], inner])
    with Recording(program) as recording:
        run_pass(Tidy(), program)
    assert "other users" in recording[0].near_misses[0].reason


def test_a_users_own_edits_are_a_step():
    program = chain("neg", "relu")
    _, neg, relu, _ = program.main
    with Recording(program) as recording:
        program.main.replace(neg, program.main.insert(neg, "abs", neg.inputs[0]))
        program.main.replace(relu, program.main.insert(relu, "tanh", relu.inputs[0]))
    assert [s.name for s in recording] == ["edits"]
    first, second = recording[0].edits
    assert (len(first.added), len(first.removed)) == (1, 1)
    assert (len(second.added), len(second.removed)) == (1, 1)
    assert first.file.endswith("test_recording.py")
    assert str(recording.last) == str(program)


def test_lineage_goes_both_ways():
    program = chain("neg", "neg", "relu", "relu")
    source = program.clone()
    with Recording(program) as recording:
        run_pass(Tidy(), program)
    relu = program.outputs[0]
    assert relu.sources == ("node2", "node3")
    lineage = recording.lineage(relu)
    old = [i.id for i in source.main if i.name == "relu"]
    assert set(old) <= set(lineage.ancestors)
    assert old[1] in lineage.equals
    assert recording.lineage(old[0]).descendants == (relu.id,)


def test_rules_that_chase_each_other_are_named():
    @rule(op("neg", var("x")))
    def to_abs(b, x):
        """neg(x) → abs(x)."""
        return b("abs", x)

    @rule(op("abs", var("x")))
    def to_neg(b, x):
        """abs(x) → neg(x)."""
        return b("neg", x)

    with pytest.raises(RewriteError, match=r"to_abs|to_neg"):
        drive(chain("neg"), [to_abs, to_neg])


def test_a_rule_that_raises_is_named():
    @rule(op("neg", var("x")))
    def broken(b, x):
        """neg(x) → add(x)."""
        return b("add", x)

    with pytest.raises(RewriteError, match="rule broken"):
        drive(chain("neg"), [broken])


def test_a_rule_must_state_its_law_and_know_its_names():
    with pytest.raises(RewriteError, match="law"):
        rule(op("neg", var("x")))(lambda _, x: x)
    with pytest.raises(RewriteError, match="'y'"):

        @rule(op("neg", var("x")))
        def wrong(b, y):
            """neg(x) → x."""


def test_compile_leaves_the_input_alone():
    program = chain("neg", "neg", "relu", "relu")
    text = str(program)
    build = compile(program, target="cpu")
    assert str(program) == text
    assert str(build.source) == text
    assert len(build.program.main) < len(program.main)


def test_a_failing_pass_leaves_its_step_and_the_input():
    class Failing(Pass):
        """Fail."""

        name: ClassVar[str] = "failing"

        def apply(self, program: Program) -> None:
            raise RewriteError("as meant")

    program = chain("neg")
    with pytest.raises(RewriteError), Recording(program) as recording:
        run_pass(Failing(), program)
    assert recording[0].error == "as meant"


def test_the_place_of_an_edit_is_the_user_s_file_whatever_its_name():
    program = chain("neg")
    (neg,) = [i for i in program.main if i.name == "neg"]
    code = compile_python(
        "def edit(p, i):\n    p.main.insert(i, 'abs', *i.inputs)\n", "/a/module.py", "exec"
    )
    names: dict[str, Any] = {"__name__": "module"}
    exec(code, names)
    with Recording(program) as recording:
        names["edit"](program, neg)
    (edit,) = recording[0].edits
    assert (edit.rule, edit.file, edit.line) == ("edit", "module.py", 2)


def test_only_the_error_of_the_pass_itself_is_the_step_s():
    """A pass that is run while another error is being handled has not failed."""
    program = chain("neg", "neg")
    with Recording(program) as recording:
        try:
            raise ValueError("of the caller")
        except ValueError:
            run_pass(Tidy(), program)
    assert not recording[0].error


def test_the_table_has_a_row_a_pass():
    build = compile(chain("neg", "neg"), passes=[Tidy()])
    table = build.recording.table()
    assert list(table["pass"]) == ["tidy"]
    assert table["edits"].tolist() == [1]


@given(programs())
def test_files_hold_everything(program: Program):
    import tempfile
    from pathlib import Path

    build = compile(program, target="cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.wb"
        save(build.recording, path)
        read = load(path)
        assert isinstance(read, Recording)
        assert [str(s.after) for s in read] == [str(s.after) for s in build.recording]
        assert [s.edits for s in read] == [s.edits for s in build.recording]
        save(program, path)
        assert str(load(path)) == str(program)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "program.wb"
    program = Program()
    program.main.add_return(program.main.add_literal(np.ones((300, 300), np.float32)))
    save(program, path)
    data = path.read_bytes()
    for broken in [b"", b"nonsense", data[: len(data) // 2], data[:-40]]:
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"program\.wb"):
            load(path)
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path / "missing.wb")


def fused() -> Program:
    """relu and tanh, a sum over them, and what is divided by it: two kernels at most."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    for name in ("relu", "tanh"):
        with program.source(name):
            x = main.add(name, x)
    with program.source("sum"):
        total = main.add("reduce_sum", x, axes=[1])
    with program.source("exp"):
        main.add_return(main.add("exp", total))
    return program


def test_lineage_leads_into_fused_kernels_and_back():
    program = fused()
    build = compile(program)
    kernels = [i for i in build.program.main if not i.name.startswith("@")]
    for kernel in kernels:
        for ancestor in build.recording.lineage(kernel).ancestors:
            assert kernel.id in build.recording.lineage(ancestor).descendants
    for node in program.main:
        if not node.name.startswith("@"):
            held = build.recording.lineage(node).descendants
            assert {k.id for k in kernels} & set(held), node
    sources = {s for k in kernels for s in kernel_sources(k)}
    assert sources == {"relu", "tanh", "sum", "exp"}


def test_a_build_is_no_file_and_a_missing_folder_is_named(tmp_path):
    build = compile(fused())
    with pytest.raises(OperationError, match=r"build\.recording"):
        save(build, tmp_path / "b.wb")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError, match="no folder"):
        save(build.program, tmp_path / "none" / "b.wb")
