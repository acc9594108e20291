"""Minimising: planted faults shrink to the instruction at fault, with inputs that still show it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from tests.faults.changed import changed, files, inserted
from tests.faults.planting import expression
from tests.faults.precision import EMBEDDED, many_terms
from tests.faults.rules import ATTENTION, Wrong, sub_commuted
from tests.models.registry import MODELS
from tests.numerics.bisect.test_bisect import Plain
from tests.numerics.compare.test_compare import network
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.errors import (
    DeviceError,
    EvaluationError,
    InputError,
    OperationError,
    RewriteError,
)
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ops.elementary import Erf
from workbench.compiler.passes.base import Pass
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.metrics.limits import Limits
from workbench.numerics.minimise.cases import Case
from workbench.numerics.minimise.failing import Differs, Options
from workbench.numerics.minimise.minimise import minimise

ENCODER = MODELS["small_encoder"]


@pytest.fixture(scope="module")
def encoder() -> Program:
    """The small encoder, of 188 instructions."""
    return wb.parse_onnx(ENCODER.path)


def names(program: Program) -> list[str]:
    """The operations of the main module, without what is given."""
    return [program.instruction(id).name for id in Case(program, {}).ids]


@dataclass(frozen=True)
class Refuses(Pass):
    """Raise an error where there is a softmax."""

    name: ClassVar[str] = "refuses"
    error: type[Exception] = ZeroDivisionError

    def apply(self, program: Program) -> None:
        """Look for one."""
        if any(i.name == "softmax" for i in program.main):
            raise self.error("on purpose")


# Planted faults


def test_a_wrong_kernel_of_a_device_is_cut_out(encoder: Program):
    with expression(Erf, "({} + 0.01f)"):
        found = wb.minimise(encoder, ENCODER.inputs(), target="gpu", device="opencl")
        build = wb.compile(found.program, "gpu", device="opencl")
        ours = build.run(found.inputs).outputs[0]
    assert names(found.program) == ["erf"]
    assert found.instructions == (188, 1)
    assert found.elements == (24, 1)
    assert found.sources[0].endswith("Erf_49")
    theirs = wb.compile(found.program, "ref").run(found.inputs, precision="float64").outputs[0]
    assert (ours - theirs).item() == pytest.approx(0.01, rel=1e-3)
    assert found.error == pytest.approx(0.01 / theirs.item(), rel=1e-3)


def test_an_overflow_of_half_is_cut_out():
    with files(model=changed("small_encoder", inserted(EMBEDDED, many_terms))) as made:
        program = wb.parse_onnx(made["model"])
    found = minimise(program, ENCODER.inputs(), target="cpu", precision="fp16")
    assert names(found.program) == ["reduce_sum"]
    assert found.error == np.inf
    assert "a NaN, an infinity" in found.reason
    (value,) = found.inputs.values()
    assert np.abs(value).max() < 65504 < abs(value.sum(dtype=np.float64))
    assert np.isinf(wb.compile(found.program, "cpu", precision="fp16").run(found.inputs).outputs[0])


def test_a_wrong_rule_is_cut_out(encoder: Program):
    passes = (Wrong(sub_commuted), "optimize")
    found = minimise(encoder, ENCODER.inputs(), target="cpu", passes=passes)
    assert names(found.program) == ["sub"]
    assert found.sources == (f"{ATTENTION}/Sub_38",)
    a, b = (v.item() for v in found.inputs.values())
    assert {a, b} <= {0, 1}
    assert a != b
    assert found.error == 2  # b − a for a − b


@pytest.mark.parametrize("node", range(3))
def test_one_wrong_instruction_of_several_is_enough(node: int):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    outputs = []
    for k in range(3):
        x = program.main.add("tanh" if k == node else "neg", x)
        outputs.append(x)
    program.main.add_return(*outputs)
    found = minimise(program, target="cpu", passes=[Plain()])
    assert names(found.program) == ["tanh"]
    assert found.elements[1] == 1


def test_an_error_is_cut_out_with_the_class_that_it_had(encoder: Program):
    found = minimise(encoder, ENCODER.inputs(), target="cpu", passes=["optimize", Refuses()])
    assert names(found.program) == ["softmax"]
    assert found.reason.startswith("RewriteError: pass refuses: ZeroDivisionError: on purpose")
    assert (found.error, found.elements[1]) == (np.inf, 1)
    with pytest.raises(RewriteError):
        wb.compile(found.program, "cpu", passes=["optimize", Refuses()])


def test_ranges_are_fixed_once_the_graph_is_cut():
    model = MODELS["small_decoder"]
    passes = [Refuses()]
    found = minimise(wb.parse_onnx(model.path), model.inputs(), target="cpu", passes=passes)
    assert found.program.parameters == {next(iter(found.inputs)): Shape("float", (1, 1, 1, 1))}


# Predicates


def test_a_given_predicate_decides(encoder: Program):
    def has_two_additions(program: Program, _: object) -> bool:
        return names(program).count("add") >= 2

    found = minimise(encoder, ENCODER.inputs(), has_two_additions)
    assert names(found.program) == ["add", "add"]
    assert repr(found).startswith("<Minimised: fails with 2 instructions (before: 188) and ")
    assert "has_two_additions holds" in found.summary


def test_a_predicate_sees_inputs_that_fit_and_keep_what_matters():
    def is_large(program: Program, inputs: dict[str, np.ndarray]) -> bool:
        (y,) = Interpreter(program).run(inputs)
        return bool(np.max(y) > 10)

    program = Program()
    x = program.main.add_parameter("x", Shape("float", (8, 4)))
    program.main.add_return(program.main.add("mul", x, program.main.add("abs", x)))
    given = np.full((8, 4), 0.123, np.float32)
    given[5, 2] = 8.7654
    found = minimise(program, {"x": given}, is_large)
    assert names(found.program) == ["mul"]
    assert [v.tolist() for v in found.inputs.values()] == [[[9]], [[9]]]  # 8.7654, to a digit


def test_modules_are_left_whole_and_what_they_read_is_given():
    model = MODELS["small_branches"]

    def branches(program: Program, inputs: dict[str, np.ndarray]) -> bool:
        wb.compile(program, "cpu").run(inputs)
        return "if" in names(program)

    found = minimise(wb.parse_onnx(model.path), model.inputs(), branches)
    assert names(found.program) == ["if"]
    assert len(found.program.reachable_modules()) == 5


def test_an_error_of_the_predicate_is_a_no_for_smaller_programs_only():
    def runs(program: Program, _: object) -> bool:
        if len(names(program)) < 3:
            raise DeviceError("too small")
        return True

    assert minimise(network(), failing=runs).instructions[1] == 3
    with pytest.raises(DeviceError, match="too small"):
        minimise(Program(), failing=runs)


def test_an_interrupted_search_keeps_the_smallest_program():
    count = iter(range(100))

    def interrupted(program: Program, _: object) -> bool:
        if next(count) == 6:
            raise KeyboardInterrupt
        return "tanh" in names(program)

    with pytest.raises(KeyboardInterrupt) as caught:
        minimise(network(), failing=interrupted)
    found = caught.value.result  # pyright: ignore[reportAttributeAccessIssue]
    assert "tanh" in names(found.program)
    assert 1 <= found.instructions[1] < found.instructions[0]
    assert found.trials == 7


def test_the_number_of_trials_is_bounded():
    count: list[int] = []

    def counted(program: Program, _: object) -> bool:
        count.append(1)
        return "tanh" in names(program)

    for most in (1, 5):
        count.clear()
        found = minimise(network(), failing=counted, most=most)
        assert (found.trials, len(count), found.exhausted) == (most, most, True)
        assert f"{most} trial" in found.summary
    assert not minimise(network(), failing=counted).exhausted


def test_an_executor_changes_nothing():
    alone = minimise(network(), target="cpu", passes=[Plain()])
    with ThreadPoolExecutor(2) as pool:
        shared = minimise(network(), target="cpu", passes=[Plain()], executor=pool)
    assert (str(shared.program), repr(shared)) == (str(alone.program), repr(alone))
    assert all(np.array_equal(shared.inputs[k], v) for k, v in alone.inputs.items())


# What is no failure


def test_a_program_that_is_right_is_refused():
    with pytest.raises(InputError, match="does not fail: its results on cpu are within"):
        minimise(network(), target="cpu")
    with pytest.raises(InputError, match="predicate does not hold for the whole program"):
        minimise(network(), failing=lambda *_: False)


def test_a_difference_of_equal_values_is_not_the_fault():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (16,)))
    large = main.add_literal(np.full(16, 1e4, np.float32))
    rest = main.add("sub", main.add("add", x, large), large)  # wrong by a thousandth in float
    tiny = main.add("mul", rest, main.add_literal(np.full(16, 1e-3, np.float32)))
    one = main.add("add", tiny, main.add_literal(np.ones(16, np.float32)))
    main.add_return(main.add("tanh", one))
    inputs = {"x": np.linspace(0.1, 1, 16, dtype=np.float32)}
    check = Differs(Options("cpu", [Plain()]), None)
    failure = check.learn(program, inputs)
    assert failure is not None
    case = Case(program, inputs)
    piece = case.cut([i for i in case.ids if i <= rest.id], case.values())
    assert piece is not None
    error = Limits(Metric.RELATIVE_RMS, 0.0).between(
        *(Interpreter(piece.program, float64=f).run(piece.inputs) for f in (False, True))
    )
    assert error.error > 7.1e-5  # beyond the tolerance, and yet nothing of the target's
    assert check.again(piece.program, piece.inputs) is None
    assert check.again(program, inputs) == failure


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="found Build"):
        minimise(wb.compile(network(), "cpu"))
    with pytest.raises(InputError, match="'y'"):
        minimise(network(), {"y": np.ones(3)}, target="cpu")
    with pytest.raises(OperationError, match="most=0"):
        minimise(network(), target="cpu", most=0)
    with pytest.raises(OperationError, match="tolerance nan"):
        minimise(network(), target="cpu", tolerance=float("nan"))
    with pytest.raises(OperationError, match="unknown target"):
        minimise(network(), target="abacus")
    with pytest.raises(OperationError, match="unknown pass"):
        minimise(network(), target="cpu", passes=["nothing"])
    with pytest.raises(DeviceError):
        minimise(network(), target="gpu", device="cuda:77")


def test_a_program_that_fails_in_the_reference_too_shrinks_to_that():
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (3,)))
    y = program.main.add("gather", x, program.main.add_literal(9), axis=0)
    program.main.add_return(program.main.add("neg", program.main.add("abs", y)))
    found = minimise(program, target="cpu")
    assert names(found.program) == ["gather"]
    assert found.reason.startswith(EvaluationError.__name__)


# Cases


@pytest.mark.parametrize("seed", range(4))
def test_any_cut_computes_the_values_of_the_whole(encoder: Program, seed: int):
    case = Case(encoder, ENCODER.inputs())
    values = case.values()
    chosen = np.random.default_rng(seed).random(len(case.ids)) < 0.3
    cut = case.cut([id for id, c in zip(case.ids, chosen, strict=True) if c], values)
    assert cut is not None
    assert len(cut.ids) <= chosen.sum()
    outputs = Interpreter(cut.program, float64=True).run(cut.inputs)
    for output, found in zip(cut.program.outputs, outputs, strict=True):
        wanted = values[output.id]
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_constants_become_literals_and_all_else_parameters():
    program = Program()
    main = program.main
    x = main.add_parameter("v2", Shape("float", (2,)))
    constant = main.add("neg", main.add_literal(np.ones(2, np.float32)))
    varying = main.add("abs", x)
    last = main.add("add", varying, constant)
    main.add_return(last)
    case = Case(program, {"v2": np.array([-3, 2], np.float32)})
    cut = case.cut([last.id], case.values())
    assert cut is not None
    (name,) = cut.inputs
    assert name not in ("", "v2")
    assert np.array_equal(cut.inputs[name], [3, 2])
    assert [list(i.literal.numpy()) for i in cut.program.main if i.literal] == [[-1, -1]]
    assert cut.program.outputs[0].id == last.id
    assert case.cut(case.ids, case.values()) is None
    assert case.cut([], case.values()) is None


def test_axes_of_one_length_are_shortened_together():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 6)))
    bias = main.add_literal(np.arange(6, dtype=np.float32))
    wide = main.add("multibroadcast", bias, out_lens=(4, 6))
    main.add_return(main.add("add", x, wide))
    case = Case(program, {"x": np.arange(24, dtype=np.float32).reshape(4, 6)})
    assert case.lengths == [6, 4]
    last = case.shortened(6, 2, last=True)
    assert last is not None
    (y,) = Interpreter(last.program).run(last.inputs)
    assert np.array_equal(y, [[8, 10], [14, 16], [20, 22], [26, 28]])
    program.main.set_inputs(
        program.main.last, [program.main.add("reshape", program.outputs[0], dims=(24,))]
    )
    assert Case(program, case.inputs).shortened(6, 2) is None  # 24 elements are 8 now


# Folders


def _fails(*_: object) -> bool:
    return True


def test_the_script_of_a_folder_shows_the_difference(tmp_path: Path):
    program = Program()
    x = program.main.add_parameter("file", Shape("float", (2,)))
    with program.source('loud\n"Exp"'):
        program.main.add_return(program.main.add("exp", x))
    given = {"file": np.array([1, 30], np.float32)}
    found = minimise(program, given, target="cpu", precision="fp16")
    script = found.save(tmp_path / "new" / "exp")
    assert sorted(p.name for p in script.parent.iterdir()) == [
        "inputs.npz", "model.onnx", "reproduce.py",
    ]  # fmt: skip
    assert [p.name for p in script.parent.parent.iterdir()] == ["exp"]
    command = [sys.executable, script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "output 0: relative rms inf, allowed 0.0156\n"


def test_a_folder_in_use_is_refused_and_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = minimise(network(), failing=_fails, most=1)
    (tmp_path / "empty").mkdir()
    kept = found.save(tmp_path / "empty").parent / "mine.txt"
    kept.write_text("")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        found.save(kept.parent)
    assert found.save(kept.parent, overwrite=True).exists()
    assert kept.exists()
    with pytest.raises(FileExistsError, match="this is a file"):
        found.save(kept)

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("numpy.lib.format.write_array", full)
    with pytest.raises(OSError, match="disk full"):
        found.save(tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty"]


def _run(script: Path) -> int:
    with pytest.raises(SystemExit) as caught:
        exec(compile(script.read_text(), str(script), "exec"), {"__file__": str(script)})
    return int(caught.value.code)


@pytest.mark.parametrize(
    "value",
    [np.array([1.5], ml_dtypes.bfloat16), np.array(2.5, np.float16), np.empty((0, 3), np.int8),
     np.array([np.nan, np.inf], np.float32), np.array([[True]])],
)  # fmt: skip
def test_any_type_and_rank_is_saved(value: np.ndarray, tmp_path: Path):
    program = Program()
    x = program.main.add_parameter("x/0", Shape(DType.of(value.dtype), value.shape))
    program.main.add_return(program.main.add("identity", x))
    found = minimise(program, {"x/0": value}, _fails, target="cpu", most=1)
    assert _run(found.save(tmp_path / "x")) == 0  # it fails by the predicate only
    read = wb.parse_onnx(tmp_path / "x" / "model.onnx")
    assert str(read) == str(program)


def test_what_is_kept_stays_kept_in_smaller_programs(tmp_path: Path):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (4,)))
    for source, name in (("a", "neg"), ("b", "exp"), ("c", "sqrt"), ("d", "neg")):
        with program.source(source):
            x = program.main.add(name, x)
    program.main.add_return(x)
    given = {"x": np.full(4, -15, np.float32)}
    options = {"target": "cpu", "precision": "fp16"}
    assert minimise(program, given, **options).sources == ("b",)
    with pytest.raises(InputError, match="does not fail"):
        minimise(program, given, **options, keep=["b", "c"])
    found = minimise(program, given, **options, keep="b")
    assert "c" in found.sources  # its operand, which is in range of float only, is converted
    with pytest.raises(OperationError, match="without a precision"):
        minimise(program, given, target="cpu", keep="b")
    script = found.save(tmp_path / "kept")
    left = "b" in found.sources
    assert ("keep=" in script.read_text()) == left
    assert (tmp_path / "kept" / "program.gwb").exists() == left
    assert _run(script) == 1


@pytest.mark.parametrize(("name", "files"), [
    ("random_uniform", ["inputs.npz", "program.gwb", "reproduce.py"]),
    ("rsqrt", ["inputs.npz", "model.onnx", "program.gwb", "reproduce.py"]),
    ("exp", ["inputs.npz", "model.onnx", "reproduce.py"]),
])  # fmt: skip
def test_a_program_that_onnx_would_change_is_kept_as_it_is(
    name: str, files: list[str], tmp_path: Path
):
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (1, 2, 3, 3)))
    seed = [program.main.add_literal(np.uint32([5]))] if name == "random_uniform" else []
    program.main.add_return(program.main.add(name, *seed, x))
    found = minimise(program, failing=_fails, target="cpu", most=1)
    folder = tmp_path / "x"
    for kept in ("model.onnx", "program.gwb"):  # of an older save
        folder.mkdir(exist_ok=True)
        (folder / kept).write_text("")
    script = found.save(folder, overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == files
    assert ("own form" in script.read_text()) == ("program.gwb" in files)
    assert _run(script) == 0
    if "program.gwb" in files:
        assert str(wb.load(folder / "program.gwb")) == str(program)


def test_the_script_names_options_and_says_where_it_cannot(tmp_path: Path):
    named = minimise(
        network(), failing=_fails, target="cpu", precision="bf16", most=1, disable=("simplify_algebra",)
    )  # fmt: skip
    text = named.save(tmp_path / "a").read_text()
    assert "target='cpu', disable=['simplify_algebra'], precision='bf16')" in text
    given = minimise(network(), target="cpu", passes=["normalize_ops", Plain()])
    text = given.save(tmp_path / "b").read_text()
    assert "# Its passes were objects: add them" in text
    assert "passes=[normalize_ops, plain]" in text


def test_a_sequence_cannot_be_saved(tmp_path: Path):
    program = Program()
    program.main.add_parameter("x", Shape.sequence_of(Shape("float", (2,))))
    found = minimise(program, {"x": [np.ones(2, np.float32)]}, _fails, most=1)
    with pytest.raises(OperationError, match="input 'x' is a list or tuple"):
        found.save(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_lengths_that_are_open_are_bound_by_the_inputs():
    program = Program()
    x = program.main.add_parameter("x", Shape.dynamic("float", [Dim(1, 8), 3]))
    program.main.add_return(program.main.add("tanh", program.main.add("neg", x)))
    found = minimise(program, {"x": np.ones((5, 3), np.float32)}, target="cpu", passes=[Plain()])
    assert (names(found.program), found.elements) == (["tanh"], (15, 1))
