"""Results written into buffers, and the passes on these where texts cannot say it."""

import numpy as np
import pytest

from workbench.compiler.errors import EvaluationError, GraphError, OperationError, ShapeError
from workbench.compiler.ir.operation import make
from workbench.compiler.ir.shape import Shape
from workbench.compiler.memory.liveness import Lifetime
from workbench.compiler.ops.elementary import Exp
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.passes.memory import memory_coloring
from workbench.compiler.passes.memory.allocation import AllocationModel
from workbench.compiler.passes.memory.schedule import ScheduleModel
from workbench.compiler.run.reference import Interpreter, run
from workbench.compiler.text.printing import parse

INTO = """module: "main"
x = @param:x -> float_type, {3}, {1}
output = @param:output -> float_type, {3}, {1}
a = write[op=exp](x,output) -> float_type, {3}, {1}
b = neg(output) -> float_type, {3}, {1}
r = @return(a,b)
"""


def test_a_result_is_in_the_memory_of_its_buffer():
    x, output = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    first, second = run(parse(INTO), {"x": x, "output": output})
    np.testing.assert_array_equal(output, np.exp(x))
    np.testing.assert_array_equal(second, -output)
    assert np.shares_memory(first, output)


def test_a_read_only_buffer_is_refused():
    output = np.zeros(3, np.float32)
    output.flags.writeable = False
    with pytest.raises(EvaluationError, match="the buffer is read-only"):
        run(parse(INTO), {"x": np.zeros(3, np.float32), "output": output})


def test_an_allocated_buffer_has_no_room_for_float64():
    allocated = "allocate[shape=float_type, {3}, {1},buf_type=nullopt] ->"
    program = parse(INTO.replace("@param:output ->", allocated))
    with pytest.raises(EvaluationError, match="float64 mode needs a program without buffers"):
        Interpreter(program, float64=True).run({"x": np.zeros(3, np.float32)})


def test_a_buffer_has_the_type_and_lens_of_the_result():
    with pytest.raises(ShapeError, match="does not fit the buffer half_type"):
        make("write", op=Exp()).compute_shape([Shape("float", (3,)), Shape("half", (3,))])
    with pytest.raises(ShapeError, match=r"does not fit the buffer float_type, \{4\}"):
        make("copy").compute_shape([Shape("float", (3,)), Shape("float", (4,))])


def test_equal_allocations_stay_two():
    text = """module: "main"
x = @param:x -> float_type, {3}, {1}
p = allocate[shape=float_type, {3}, {1},buf_type=nullopt] -> float_type, {3}, {1}
q = allocate[shape=float_type, {3}, {1},buf_type=nullopt] -> float_type, {3}, {1}
a = write[op=exp](x,p) -> float_type, {3}, {1}
b = write[op=neg](x,q) -> float_type, {3}, {1}
r = @return(a,b)
"""
    program = parse(text)
    run_pass(pass_named("eliminate_common_subexpression"), program)
    assert str(program) == str(parse(text))


BRANCHES = """module: "main"
x = @param:x -> float_type, {2, 2}, {2, 1}
a = dot(x,x) -> float_type, {2, 2}, {2, 1}
b = dot(x,x) -> float_type, {2, 2}, {2, 1}
c = add(a,b) -> float_type, {2, 2}, {2, 1}
"""


def test_marks_of_a_schedule_survive_dead_code_elimination():
    program = parse(BRANCHES)
    run_pass(pass_named("schedule"), program)
    marks = [i.name for i in program.main if i.name.endswith(("_stream", "_event"))]
    run_pass(pass_named("dead_code_elimination"), program)
    assert marks == [i.name for i in program.main if i.name.endswith(("_stream", "_event"))] != []


def test_verification_finds_values_that_overlap(monkeypatch: pytest.MonkeyPatch):
    def wrong(values: list[Lifetime], unit: int) -> list[int]:  # noqa: ARG001
        return [0] * len(values)

    monkeypatch.setattr(memory_coloring, "color", wrong)
    text = """module: "main"
p = allocate[shape=float_type, {3}, {1},buf_type=nullopt] -> float_type, {3}, {1}
q = allocate[shape=float_type, {3}, {1},buf_type=nullopt] -> float_type, {3}, {1}
r = add(p,q) -> float_type, {3}, {1}
"""
    with pytest.raises(GraphError, match="overlap in memory"):
        run_pass(pass_named("memory_coloring", verify=True), parse(text))


def test_models_are_values_that_print():
    assert str(pass_named("schedule")) == "schedule"
    assert "ScheduleModel(streams=2" in str(pass_named("schedule", model=ScheduleModel(streams=2)))
    assert pass_named("replace_allocate") == pass_named("replace_allocate", model=AllocationModel())
    with pytest.raises(OperationError, match="its options are model, offload_copy"):
        pass_named("replace_allocate", modell=1)
