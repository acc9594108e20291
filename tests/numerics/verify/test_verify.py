"""Verification of a target: what is compared in each mode, what fails, and where it starts."""

import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.passes.base import Pass
from workbench.numerics.metrics.agreement import Tolerance
from workbench.numerics.verify.verify import MODES, heaviest_chain, verify

_TEXT = """module: "main"
y = @param:y -> float_type, {5, 3}, {3, 1}
x = @param:x -> float_type, {4, 5}, {5, 1}
@2 = @literal{2} -> float_type, {1}, {0}
@3 = dot(x,y) -> float_type, {4, 3}, {3, 1}
@4 = multibroadcast[out_lens={4, 3},out_dyn_dims={}](@2) -> float_type, {4, 3}, {0, 0}
@5 = add(@3,@4) -> float_type, {4, 3}, {3, 1}
@6 = tanh(@5) -> float_type, {4, 3}, {3, 1}
@7 = neg(@6) -> float_type, {4, 3}, {3, 1}
@8 = @return(@7)
"""


class BreakTanh(Pass):
    """Compiles tanh into sigmoid."""

    name = "break_tanh"

    def apply(self, program: wb.Program) -> None:
        """Replace them."""
        for instruction in list(program.main):
            if instruction.name == "tanh":
                new = program.main.insert(instruction, "sigmoid", *instruction.inputs)
                program.main.replace(instruction, new)


@pytest.mark.parametrize("mode", MODES)
def test_a_right_target_passes(mode: str) -> None:
    found = verify(wb.parse(_TEXT), "cpu", mode=mode)
    assert found.passed
    assert found.checks
    assert "1 of 1" in repr(found) or mode != "outputs"
    json.dumps(found.to_json())


def _broken(mode: str, **options: Any) -> Any:
    return verify(wb.parse(_TEXT), "cpu", mode=mode, options={"passes": [BreakTanh()]}, **options)


def test_a_wrong_target_fails() -> None:
    said: list[tuple[str, str]] = []
    found = _broken("outputs", say=lambda level, line: said.append((level, line)))
    assert not found.passed
    assert ("error", "FAILED: program") in said
    assert found.table()["passed"].tolist() == [False]


def test_the_wrong_instruction_is_named() -> None:
    found = _broken("instructions")
    assert [c.name for c in found.failures] == ["@6 = tanh"]
    assert repr(found).endswith("first failure @6 = tanh>")
    assert found.checks[0].name == "@3 = dot"


@pytest.mark.parametrize("mode", ["reduce", "bisect"])
def test_the_place_where_it_goes_wrong_is_found(mode: str) -> None:
    said: list[str] = []
    program = wb.parse(_TEXT)
    tanh = next(i for i in program.main if i.name == "tanh")
    found = verify(
        program,
        "cpu",
        mode=mode,
        options={"passes": [BreakTanh()]},
        say=lambda _, line: said.append(line),
    )
    start = found.failure_starts_at
    assert start is not None
    assert (start.trimmed, start.id) == (2, tanh.id)
    assert found.to_json()["failure starts at"] == 2
    assert repr(found).endswith(f"; failure starts at #{tanh.id}, with 2 instructions trimmed>")
    assert ("Failure starts at: 2" in said) == (mode == "bisect")


def test_parts_that_are_leaves_are_skipped() -> None:
    said: list[str] = []
    verify(wb.parse(_TEXT), "cpu", mode="reduce", say=lambda _, line: said.append(line))
    assert "Verify steps: 9" in said
    assert [line for line in said if line.startswith("Skip")] == ["Skip: 6", "Skip: 7", "Skip: 8"]


def test_a_failing_part_is_a_failure_and_the_rest_goes_on() -> None:
    program = wb.Program()
    x = program.main.add_parameter("x", Shape("float", [2]))
    indices = program.main.add_parameter("i", Shape("int64", [1]))
    got = program.main.add("gather", program.main.add("neg", x), indices, axis=0)
    program.main.add_return(program.main.add("relu", got))
    inputs = {"x": np.ones(2, np.float32), "i": np.array([7])}
    found = verify(program, "cpu", inputs, "reduce")
    errors = [bool(c.error) for c in found.checks]
    assert errors == [True, True, False]
    assert "gather" in found.checks[0].error


def embedding() -> Program:
    """Rows of a table by ids, then a product."""
    program = Program()
    ids = program.main.add_parameter("ids", Shape("int64", (2, 3)))
    table = program.main.add_literal(np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4))
    found = program.main.add("gather", table, ids, axis=0)
    program.main.add_return(program.main.add("mul", found, found))
    return program


@pytest.mark.parametrize("mode", MODES)
def test_generated_ids_are_in_range(mode: str) -> None:
    is_whole = mode == "outputs"
    program = wb.parse_onnx(MODELS["small_encoder"].path) if is_whole else embedding()
    found = verify(program, "cpu", mode=mode)
    assert [c.error for c in found.checks if c.error] == []
    assert found.passed


def test_quantized_against_what_it_was() -> None:
    program = wb.parse(_TEXT)
    half = verify(program, "cpu", quantize="fp16")
    assert half.passed
    assert half.tolerance.rms_tol == 8e-2
    assert 0 < half.checks[0].rms < 1e-2
    strict = verify(program, "cpu", quantize="fp16", tolerance=Tolerance(1e-9))
    assert not strict.passed


def test_a_reference_in_double() -> None:
    rounded = verify(wb.parse(_TEXT), "ref", ref_use_double=True)
    same = verify(wb.parse(_TEXT), "ref")
    assert same.checks[0].rms == 0
    assert rounded.passed
    assert 0 < rounded.checks[0].rms < 1e-6


def test_a_compiled_program_is_taken_as_it_is() -> None:
    program = wb.parse(_TEXT)
    build = wb.compile(program, passes=[BreakTanh()])
    assert not verify(program, compiled=build).passed
    assert not verify(program, compiled=build.program).passed
    with pytest.raises(
        OperationError, match="compiles parts of the program; omit compiled, or use mode 'outputs'"
    ):
        verify(program, compiled=build, mode="reduce")


def test_tuples_and_branches_are_compared() -> None:
    program = wb.Program()
    main = program.main
    condition = main.add_parameter("condition", Shape("bool", [1]))
    x = main.add_parameter("x", Shape("float", [2, 3]))
    branches = [program.create_module(name) for name in ("yes", "no")]
    for module, op in zip(branches, ("neg", "relu"), strict=True):
        module.add_return(module.add(op, x))
    chosen = main.add("get_tuple_elem", main.add("if", condition, modules=branches), index=0)
    best = main.add("topk", chosen, k=2, axis=1)
    main.add_return(main.add("get_tuple_elem", best, index=0))
    for mode in MODES:
        found = verify(program, "cpu", mode=mode)
        assert found.passed, found.table()
    found = verify(program, "cpu", mode="reduce")
    assert {len(c.outputs) for c in found.checks} == {1, 2}


def test_single_instructions_get_the_integers_of_a_run() -> None:
    program = wb.Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", [3, 4]))
    best = main.add("squeeze", main.add("argmax", x, axis=1), axes=[1])
    main.add_return(main.add("gather", x, best, axis=1))
    assert verify(program, "cpu", mode="instructions").passed


def test_single_instructions_get_the_lengths_of_a_run() -> None:
    program = wb.Program()
    main = program.main
    x = main.add_parameter("x", Shape.dynamic(DType.FLOAT, [Dim(1, 4), Dim(2, 6)]))
    main.add_return(main.add("tanh", main.add("reduce_sum", x, axes=[0])))
    given = {"x": np.ones((3, 5), np.float32)}
    found = verify(program, "cpu", given, mode="instructions")
    assert found.passed, found.table()


def test_single_instructions_take_inputs_that_they_are_not_made_for() -> None:
    program = wb.Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", [3, 2, 4]))
    weights = [main.add_parameter(n, Shape("float", [1, 20, 4 if n == "w" else 5])) for n in "wr"]
    absent = main.add("undefined")
    outputs = main.add("lstm", x, *weights, *[absent] * 5, hidden_size=5)
    root = main.add("sqrt", main.add("rnn_last_cell_output", outputs))
    main.add_return(root)
    found = verify(program, "cpu", mode="instructions")
    assert [c.name.split("[")[0] for c in found.checks] == [
        "@4 = lstm",
        "@5 = rnn_last_cell_output",
        "@6 = sqrt",
    ]
    assert found.passed, found.table()


def test_the_heaviest_chain_leads_to_the_result() -> None:
    assert [i.name for i in heaviest_chain(wb.parse(_TEXT))] == ["dot", "add", "tanh", "neg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "all"}, "unknown mode 'all'"),
        ({"tolerence": 1}, "no option 'tolerence'"),
        ({"quantize": "int3"}, "cannot quantize to 'int3'"),
        ({"target": "tpu"}, "unknown target"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OperationError, match=message):
        verify(wb.parse(_TEXT), **options)
