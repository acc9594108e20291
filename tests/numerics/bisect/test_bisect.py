"""Bisection: planted faults in passes, in kernels and in precision are found, in few runs."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from tests.numerics.compare.test_compare import network
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.builds.runner import Runner
from workbench.compiler.errors import (
    EvaluationError,
    GraphError,
    InputError,
    OperationError,
)
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.elementary import Tanh
from workbench.compiler.passes.base import Pass, RewritePass
from workbench.compiler.rewrite import Rewriter, Rule, op, var
from workbench.numerics.bisect.bisect import bisect


@wb.rule(op("tanh", var("x")))
def tanh_is_sigmoid(b: Rewriter, x: wb.Instruction) -> wb.Instruction:
    """tanh(x) → sigmoid(x), which is not so."""
    return b("sigmoid", x)


class Wrong(RewritePass):
    """Break every tanh."""

    name: ClassVar[str] = "wrong"
    rules: ClassVar[tuple[Rule, ...]] = (tanh_is_sigmoid,)


class Plain(Pass):
    """Break every tanh, of whatever lens, without a rule."""

    name: ClassVar[str] = "plain"

    def apply(self, program: Program) -> None:
        """Replace them."""
        for old in [i for i in program.main if i.name == "tanh"]:
            program.main.replace(old, program.main.insert(old, "sigmoid", *old.inputs))


def steps_of(count: int, lens: tuple[int, ...] = (4,)) -> Program:
    """A chain of additions, each of a node of its own."""
    program = Program("steps")
    x = program.main.add_parameter("x", Shape("float", lens))
    for k in range(count):
        with program.source(f"node{k}"):
            one = program.main.add_literal(np.full(lens, 1 + k / count, np.float32))
            x = program.main.add("add", x, one)
    program.main.add_return(x)
    return program


@dataclass(frozen=True)
class Turn(Pass):
    """Swap the operands of the addition of one node; a wrong one makes it a product."""

    name: ClassVar[str] = "turn"
    node: int = 0
    wrong: bool = False

    def apply(self, program: Program) -> None:
        """Replace it."""
        old = next(i for i in program.main if i.sources == (f"node{self.node}",) and i.inputs)
        op = "mul" if self.wrong else "add"
        with program.source(*old.sources):
            new = program.main.insert(old, op, *reversed(old.inputs))
        program.main.replace(old, new)


@dataclass(frozen=True)
class Fails(Pass):
    """Raise an error."""

    name: ClassVar[str] = "fails"
    error: type[Exception] = GraphError

    def apply(self, program: Program) -> None:
        """Raise it."""
        raise self.error("on purpose")


@pytest.mark.parametrize("node", [0, 1, 39, 78, 79])
def test_one_wrong_pass_of_eighty_is_found_in_a_dozen_runs(node: int):
    passes = [Turn(k, wrong=k == node) for k in range(80)]
    found = bisect(steps_of(80), passes=passes, target="cpu")
    assert (found.kind, found.step.index, found.edit.index) == ("pass", node, 0)
    assert found.sources == (f"node{node}",)
    assert found.step.after_edit(0).find(found.instruction).name == "mul"
    assert found.runs <= 12
    # Source and result in full. Any other program differs from one of them before the fault, where all
    # values are the source's, or it has the fault, and only unturned additions after it are new.
    assert found.evaluated <= 80 + 80 + 80


def test_the_text_names_pass_edit_instruction_nodes_law_and_number():
    found = bisect(network(), passes=["normalize_ops", Wrong()], target="cpu")
    assert repr(found).startswith(
        "<Bisection: pass wrong (step 1), edit 1 of 2 by tanh_is_sigmoid ("
    )
    assert "from 'layer0'), in place of tanh (#" in found.summary
    assert f"relative rms {found.error:.3g}, more than 7.01e-05" in found.summary
    assert found.summary.endswith("law: tanh(x) → sigmoid(x), which is not so.")
    assert found.error == pytest.approx(0.34, abs=0.01)
    assert "in place of tanh" in found._repr_html_()
    assert "&lt;" not in found._repr_html_()
    assert json.loads(json.dumps(found.to_json()))["rule"] == "tanh_is_sigmoid"


def test_the_checks_are_listed_and_the_recording_is_at_hand():
    found = bisect(network(), passes=["normalize_ops", Wrong()], target="cpu")
    table = found.table()
    assert table["pass"].tolist() == ["source", "wrong", "wrong"]
    assert table["edit"].isna().tolist() == [True, True, False]
    assert table["within"].tolist() == [True, False, False]
    assert table["evaluated"].sum() == found.evaluated
    assert found.runs == len(table)
    assert found.explore().step == 1


def test_the_second_of_two_edits_is_found():
    class WrongBySize(RewritePass):
        """Break only the tanh of the second layer."""

        name: ClassVar[str] = "wrong_by_size"
        rules: ClassVar[tuple[Rule, ...]] = ()

        def apply(self, program: Program) -> None:
            for k, old in enumerate([i for i in program.main if i.name == "tanh"]):
                new = program.main.insert(old, "sigmoid" if k else "tanh", *old.inputs)
                program.main.replace(old, new)

    found = bisect(network(), passes=[WrongBySize()], target="cpu")
    assert (found.step.index, found.edit.index, found.sources) == (0, 1, ("layer1",))


def test_an_operation_that_is_changed_in_place_is_found():
    class Rewire(Pass):
        """Give the first addition its other operand twice."""

        name: ClassVar[str] = "rewire"

        def apply(self, program: Program) -> None:
            add = next(i for i in program.main if i.name == "add")
            program.main.set_inputs(add, [add.inputs[1]] * 2)

    found = bisect(network(), passes=[Rewire()], target="cpu")
    assert found.step.after.find(found.instruction).name == "add"
    assert "in place of" not in found.summary


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
@pytest.mark.parametrize("name", ["small_encoder", "small_branches", "small_loop"])
def test_right_compilations_have_no_fault(name: str, precision: str | None):
    program, inputs = wb.parse_onnx(MODELS[name].path), MODELS[name].inputs()
    found = bisect(program, inputs, target="cpu", precision=precision)
    assert (found.kind, found.found, found.instruction, found.sources) == ("none", False, None, ())
    assert found.runs == 2
    assert found.table()["within"].all()
    assert "nothing wrong" in repr(found)
    assert found.explore().step == 0 or found.explore().step > 0


@pytest.mark.parametrize("node", [0, 1])
def test_a_wrong_kernel_is_no_wrong_pass(node: int, monkeypatch: pytest.MonkeyPatch):
    right = Tanh.compute
    calls: list[int] = []

    def compute(self: Tanh, x: np.ndarray) -> np.ndarray:
        if x.dtype == np.float64:
            return right(self, x)
        calls.append(1)
        return right(self, x) * np.float32(1 + (len(calls) % 2 == (node + 1) % 2))

    monkeypatch.setattr(Tanh, "compute", compute)
    monkeypatch.setattr(Tanh, "compute_into", lambda self, _, x: compute(self, x))
    found = bisect(network(), passes=[], target="cpu")
    assert (found.kind, found.step, found.sources) == ("kernel", None, (f"layer{node}",))
    assert found.recording.last.find(found.instruction).name == "tanh"
    assert not found.culprit.shares
    assert "with every pass right: tanh (#" in repr(found)


def test_an_overflow_in_half_is_in_the_run():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2,)))
    with program.source("loud"):
        y = program.main.add("exp", x)
    program.main.add_return(program.main.add("tanh", y), y)
    found = bisect(program, {"x": np.array([1, 30], np.float32)}, precision="fp16", target="cpu")
    assert (found.kind, found.sources, found.error) == ("kernel", ("loud",), np.inf)
    assert found.to_json()["error"] is None


def test_rounding_errors_that_add_up_are_no_kernels_fault():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (64,)))
    for k in range(60):
        x = program.main.add(
            "mul", x, program.main.add_literal(np.linspace(1, 1 + k / 99, 64).astype("f4"))
        )
    program.main.add_return(x)
    found = bisect(program, passes=[], target="cpu", tolerance=1e-7)
    assert found.kind == "kernel"
    assert found.culprit.shares
    assert "rounding errors add up" in found.summary


def _single(name: str, lens: tuple[int, ...]) -> Program:
    program = Program()
    x = program.main.add_parameter("x", Shape("float", lens))
    with program.source("only"):
        y = program.main.add(name, x)
    program.main.add_return(y)
    return program


@pytest.mark.parametrize("lens", [(), (1,), (2, 3)])
def test_any_rank(lens: tuple[int, ...]):
    found = bisect(_single("tanh", lens), passes=[Wrong()], target="cpu")
    assert (found.kind, found.sources) == ("pass", ("only",))


def test_no_elements_are_never_wrong():
    assert bisect(_single("tanh", (0, 3)), passes=[Wrong()], target="cpu").kind == "none"


def test_a_nan_is_worse_than_any_number():
    @wb.rule(op("abs", var("x")))
    def abs_is_log(b: Rewriter, x: wb.Instruction) -> wb.Instruction:
        """|x| → ln x"""
        return b("log", x)

    class Logs(RewritePass):
        """Take logarithms."""

        name: ClassVar[str] = "logs"
        rules: ClassVar[tuple[Rule, ...]] = (abs_is_log,)

    minus = {"x": np.array([-1, 1], np.float32)}
    found = bisect(_single("abs", (2,)), minus, passes=[Logs()], target="cpu", tolerance=1e9)
    assert (found.kind, found.error, found.step.name) == ("pass", np.inf, "logs")
    assert "a NaN" in found.summary
    same = bisect(_single("log", (2,)), minus, target="cpu")  # the source has one, too
    assert same.kind == "none"


def test_any_of_two_outputs_counts():
    program = network()
    tanh = next(i for i in program.main if i.name == "tanh")
    program.main.set_inputs(program.main.last, [*program.outputs, tanh])
    found = bisect(program, passes=[Wrong()], target="cpu")
    assert (found.edit.index, found.sources) == (0, ("layer0",))


@pytest.mark.parametrize("error", [ZeroDivisionError, GraphError, OperationError])
def test_a_pass_that_raises_is_found(error: type[Exception]):
    found = bisect(network(), passes=["normalize_ops", Fails(error)], target="cpu")
    assert (found.kind, found.step.index, found.step.pass_.name) == ("pass", 1, "fails")
    assert "on purpose" in repr(found)
    assert (found.edit, found.instruction, found.runs) == (None, None, 0)
    assert not found.table()["within"].any()


def test_a_pass_after_which_a_run_fails_is_found():
    class Far(Pass):
        """Gather beyond the end."""

        name: ClassVar[str] = "far"

        def apply(self, program: Program) -> None:
            old = next(i for i in program.main if i.name == "tanh")
            with program.source("far"):
                at = program.main.add_literal(np.full(old.shape.lens[0], 99))
                new = program.main.insert(old, "gather", old.inputs[0], at, axis=0)
            program.main.replace(old, new)

    found = bisect(network(), passes=[Far()], target="cpu")
    assert (found.kind, found.step.name, found.sources) == ("pass", "far", ("far",))
    assert "a run fails: gather" in found.summary
    assert found.error == np.inf


@pytest.mark.parametrize("what", ["2 outputs; the source has 1", "output 0 is half_type"])
def test_other_outputs_are_found_without_a_look_at_elements(what: str):
    class Outputs(Pass):
        """Return twice as many results, or half the precision."""

        name: ClassVar[str] = "outputs"

        def apply(self, program: Program) -> None:
            (y,) = program.outputs
            last = program.main.last
            half = program.main.insert(last, "convert", y, target_type="half")
            program.main.set_inputs(last, [y, y] if what.startswith("2") else [half])

    found = bisect(_single("neg", (2,)), passes=[Outputs()], target="cpu")
    assert (found.kind, found.step.name) == ("pass", "outputs")
    assert what in found.summary


def test_a_run_that_fails_on_the_target_is_found(monkeypatch: pytest.MonkeyPatch):
    right = Tanh.compute

    def compute(self: Tanh, x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float64:
            raise ValueError("out of registers")
        return right(self, x)

    monkeypatch.setattr(Tanh, "compute", compute)
    monkeypatch.setattr(Tanh, "compute_into", lambda self, _, x: compute(self, x))
    found = bisect(network(), passes=[], target="cpu")
    assert (found.kind, found.sources, found.error) == ("kernel", ("layer0",), np.inf)
    assert "out of registers" in found.problem
    assert repr(found).count("tanh (#") == 1


def test_a_lowering_that_fails_is_found(monkeypatch: pytest.MonkeyPatch):
    def lowered(_: Runner) -> None:
        raise OperationError("no such instruction set")

    monkeypatch.setattr(Runner, "lowered", lowered)
    found = bisect(network(), target="cpu")
    assert (found.kind, found.step.name) == ("kernel", "lowering")
    assert "lowering for cpu: no such instruction set" in repr(found)


def test_integers_have_to_be_equal_unless_a_tolerance_is_given():
    class Shift(Pass):
        """Reverse the axis that is searched."""

        name: ClassVar[str] = "shift"

        def apply(self, program: Program) -> None:
            old = next(i for i in program.main if i.name == "argmax")
            new = program.main.insert(old, "argmin", *old.inputs, axis=1)
            program.main.replace(old, new)

    program = Program()
    x = program.main.add_parameter("x", Shape("float", (4, 9)))
    program.main.add_return(program.main.add("argmax", x, axis=1))
    assert bisect(program, passes=[Shift()], target="cpu").kind == "pass"
    assert bisect(program, passes=[Shift()], target="cpu", tolerance=100).kind == "none"


@pytest.mark.parametrize("metric", list(Metric))
def test_every_metric_finds_it(metric: Metric):
    found = bisect(network(), passes=[Wrong()], target="cpu", metric=metric, tolerance=1e-4)
    assert (found.kind, found.edit.index) == ("pass", 0)
    assert metric.value in repr(found)
    assert bisect(network(), target="cpu", metric=metric, tolerance=1e-4).kind == "none"


def test_lengths_that_are_open_and_random_numbers():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape.dynamic("float", [Dim(1, 8), Dim(3, 3)]))
    noise = main.add("random_uniform", main.add("random_seed"), x)
    main.add_return(main.add("tanh", main.add("add", x, noise)))
    inputs = {"x": np.ones((5, 3), np.float32)}
    assert bisect(program, inputs, target="cpu").kind == "none"
    found = bisect(program, inputs, target="cpu", passes=[Plain()])
    assert found.recording.last.find(found.instruction).name == "sigmoid"


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="found Build"):
        bisect(wb.compile(network(), "cpu"))
    with pytest.raises(InputError, match="'y'"):
        bisect(network(), {"y": np.ones(3)}, target="cpu")
    with pytest.raises(OperationError, match="tolerance nan"):
        bisect(network(), target="cpu", tolerance=float("nan"))
    with pytest.raises(OperationError, match="'max abs' has no tolerance by default"):
        bisect(network(), target="cpu", metric=Metric.MAX_ABS)
    with pytest.raises(OperationError, match="unknown pass"):
        bisect(network(), target="cpu", passes=["nothing"])
    with pytest.raises(OperationError, match="unknown target"):
        bisect(network(), target="abacus")
    gather = Program()
    x = gather.main.add_parameter("x", Shape("float", (3,)))
    gather.main.add_return(gather.main.add("gather", x, gather.main.add_literal(9), axis=0))
    with pytest.raises(EvaluationError, match="gather"):
        bisect(gather, target="cpu")
