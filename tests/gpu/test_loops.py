"""Loops on a device: their kernels once, for any number of iterations, and what the host reads for them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.harness import built, run_plan
from workbench.compiler.errors import EvaluationError
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.lowering.plan import KernelStep, LoopStep, Plan
from workbench.gpu.report.lowered import lowered_of
from workbench.gpu.run.device_array import DeviceArray
from workbench.gpu.run.executable import Executable
from workbench.gpu.run.loaded import Loaded
from workbench.gpu.run.ready import Ready, uses
from workbench.gpu.run.runtime import Runtime

Body = Callable[..., Sequence[Value]]
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def looped(
    main: ModuleBuilder, limits: Sequence[Value], carried: Sequence[Value], body: Body, **attributes
) -> list[Value]:
    """A loop whose module is written as a function of the iteration, the condition and the values."""
    module = main.module.program.create_module(f"body{len(main.module.program.modules)}")
    inner = ModuleBuilder(module)
    number = inner.input("number", (), DType.INT64)
    going = inner.input("going", (), DType.BOOL)
    given = [inner.input(f"v{k}", v.instruction.shape.as_standard()) for k, v in enumerate(carried)]
    module.add_return(*[v.instruction for v in body(inner, number, going, *given)])
    operands = [v.instruction for v in (*limits, *carried)]
    made = main.module.add("loop", *operands, modules=[module], **attributes)
    count = len(made.shape.subs or ())
    return [main.of(main.module.add("get_tuple_elem", made, index=k)) for k in range(count)]


def program_of(write: Callable[[ModuleBuilder], Sequence[Value]]) -> Program:
    program = Program()
    results = write(ModuleBuilder(program.main))
    program.main.add_return(*[v.instruction for v in results])
    return program


def fixed(main: ModuleBuilder, count: int) -> list[Value]:
    """The limits of a loop of a known number of iterations."""
    return [main.constant(count, DType.INT64), main.constant(True, DType.BOOL)]


def asked(main: ModuleBuilder) -> list[Value]:
    """The limits of a loop that are parameters."""
    return [main.input("count", (), DType.INT64), main.input("condition", (), DType.BOOL)]


def planned(program: Program, device: Device) -> Plan:
    return lower(program, device.dialect)


def check(program: Program, device: Device, *several: dict[str, Any]) -> Plan:
    """Compare with the reference, for several inputs and twice each, since graphs are replayed."""
    plan = planned(program, device)
    assert not plan.host
    executable = Executable(plan, device, built([plan], device))
    try:
        for given in several:
            wanted = run(program, given)
            for _ in range(3 if len(several) == 1 else 1):
                for found, value in zip(executable.run(given), wanted, strict=True):
                    np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
    finally:
        executable.close()
    return plan


def loop_of(plan: Plan) -> LoopStep:
    (found,) = [s for s in plan.steps if isinstance(s, LoopStep)]
    return found


def rows(main: ModuleBuilder, limits: Sequence[Value], **attributes) -> list[Value]:
    """Grow x by y, which lies outside, and stack it, a row of it, and the number of the iteration."""
    x, y = main.input("x", (2, 3)), main.input("y", (3,))

    def body(inner: ModuleBuilder, number: Value, going: Value, a: Value, b: Value):
        grown = a + inner.of(y.instruction) * 0.5
        return going, grown, a + b, grown, b[0:1], number

    turned = {"scan_output_directions": (0, 1, 1)}
    return looped(main, limits, [x, x], body, **turned, **attributes)


GIVEN = {"x": X, "y": np.array([1, -2, 3], np.float32)}


def flat_ready(executable: Executable) -> list[Ready]:
    """All steps made ready, those of all iterations included."""
    found = list(executable._ready)
    for one in found:
        found += [inner for branch in one.branches for inner in branch]
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_known_number_of_iterations(count: int, device: Device):
    program = program_of(lambda main: rows(main, fixed(main, count), max_iterations=5))
    plan = check(program, device, GIVEN)
    step = loop_of(plan)
    assert (step.iterations, step.count, step.condition, step.room) == (count, count, None, 5)
    assert plan.is_fixed
    assert not step.after
    inner = [s for s in step.body if isinstance(s, KernelStep)]
    assert len(inner) == 3  # two sums, and one for all rows and the count
    before = [s.instruction.name for s in plan.steps if isinstance(s, KernelStep)]
    assert before == ["mul", "loop"]  # what is the same in all iterations, and the first values


def test_limits_that_only_the_run_knows(device: Device):
    program = program_of(lambda main: rows(main, asked(main), max_iterations=4))
    several = [(3, True), (0, True), (4, True), (2, False), (1, True), (-3, True)]
    limits = [{"count": np.array(n), "condition": np.array(go)} for n, go in several]
    plan = check(program, device, *[GIVEN | one for one in limits])
    step = loop_of(plan)
    assert step.iterations is None
    assert step.settled
    assert not plan.is_fixed
    assert len(step.after) == 1


def test_more_iterations_than_stacked_results_have_rows_for(device: Device):
    program = program_of(lambda main: rows(main, asked(main), max_iterations=2))
    given = GIVEN | {"count": np.array(3), "condition": np.array(True)}
    with pytest.raises(EvaluationError, match="more than 2 iterations"):
        run_plan(planned(program, device), given, device)
    program = program_of(lambda main: rows(main, fixed(main, 3), max_iterations=2))
    with pytest.raises(EvaluationError, match="more than 2 iterations"):
        run_plan(planned(program, device), GIVEN, device)


def test_a_condition_that_is_computed_ends_it(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        x, limit = main.input("x", (2, 3)), main.input("limit", ())

        def body(inner: ModuleBuilder, _number: Value, _going: Value, a: Value, n: Value):
            doubled = a + a
            return doubled.max().reshape() < inner.of(limit.instruction), doubled, n + 1, doubled

        start = [x, main.constant(0, DType.INT64)]
        return looped(main, fixed(main, 100), start, body, max_iterations=8)

    cases = [{"x": X, "limit": np.float32(n)} for n in (1, 7.5, 30)]
    step = loop_of(check(program_of(write), device, *cases))
    assert (step.count, step.condition is not None, step.settled) == (100, True, False)


def test_values_that_change_places_or_stay(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        x, y = main.input("x", (2, 3)), main.input("y", (2, 3))

        def body(inner: ModuleBuilder, _number: Value, going: Value, *given: Value):
            a, b, c, *_ = given
            same = a * 0.5
            whole = inner.of(x.instruction)
            return going, b, a, c, same, same, inner.constant(X + 1), whole * 2, whole

        return looped(main, fixed(main, 3), [x, y, x, y, x, y, x, y], body)

    found = check(program_of(write), device, {"x": X, "y": X * X})
    copied = [s for s in loop_of(found).body if isinstance(s, KernelStep)][-1]
    assert copied.launch.schedule == "carry"


def test_a_loop_in_a_loop(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        x = main.input("x", (2, 3))

        def inside(inner: ModuleBuilder, number: Value, going: Value, a: Value):
            return going, a + inner.of(x.instruction), number

        def body(inner: ModuleBuilder, number: Value, going: Value, a: Value):
            fewer = [number, inner.constant(True, DType.BOOL)]
            (some, _) = looped(inner, fewer, [a], inside, max_iterations=4)
            (more, counts) = looped(inner, fixed(inner, 3), [some], inside, max_iterations=3)
            return going, more, counts

        return looped(main, fixed(main, 4), [x], body, max_iterations=4)

    program = program_of(write)
    plan = check(program, device, {"x": X})
    first, second = [s for s in loop_of(plan).body if isinstance(s, LoopStep)]
    assert (first.iterations, second.iterations) == (None, 3)
    assert not plan.is_fixed
    runtime = Runtime(Loaded(plan, device, built([plan], device)), outside=("x",))
    assert all(r.launch is None for r in flat_ready(runtime) if uses(r.step, runtime.outside))
    runtime.bind({"x": DeviceArray.of(device, X)})
    device.wait(runtime.start({}))
    np.testing.assert_allclose(runtime.download(0), run(program, {"x": X})[0], rtol=1e-5)
    runtime.close()


def test_known_loops_inside_each_other_make_one_graph(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        x = main.input("x", (2, 3))

        def inside(_inner: ModuleBuilder, _number: Value, going: Value, a: Value):
            return going, a * 0.5 + 1

        def body(inner: ModuleBuilder, _number: Value, going: Value, a: Value, b: Value):
            (some,) = looped(inner, fixed(inner, 3), [a], inside)
            return going, some, b + some

        return looped(main, fixed(main, 5), [x, x], body)

    program = program_of(write)
    plan = check(program, device, {"x": X})
    assert plan.is_fixed
    assert max(n for _, n in plan.timed) == 15
    loaded = Loaded(plan, device, built([plan], device))
    runtime = Runtime(loaded)
    array = DeviceArray.of(device, X)
    outputs = {k: DeviceArray(device, Shape("float", (2, 3))) for k in range(2)}
    wanted = run(program, {"x": X})
    for graph in (False, device.has_graphs):
        device.wait(runtime.start({"x": array}, outputs, graph=graph))
        for k, value in enumerate(wanted):
            np.testing.assert_allclose(outputs[k].numpy(), value, rtol=1e-6)
    marks: list[int] = []
    device.wait(runtime.start({"x": array}, mark=lambda row, *_: marks.append(row)))
    assert Counter(marks) == {k: n for k, (_, n) in enumerate(plan.timed)}
    executable = Executable(plan, device, loaded.codes)
    for found, value in zip(executable.run_async({"x": array}), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-6)
    executable.close()
    runtime.close()


def test_branches_in_a_loop(device: Device):
    program = Program()
    main = ModuleBuilder(program.main)
    x = main.input("x", (2, 3))

    def branch(name: str, value: Value, factor: float) -> Any:
        module = program.create_module(name)
        inner = ModuleBuilder(module)
        module.add_return((inner.of(value.instruction) * factor).instruction)
        return module

    def body(inner: ModuleBuilder, number: Value, going: Value, a: Value):
        two = [branch("yes", a, 2.0), branch("no", a, -1.0)]
        made = inner.module.add("if", (number < 2).instruction, modules=two)
        return going, inner.of(inner.module.add("get_tuple_elem", made, index=0))

    (result,) = looped(main, fixed(main, 5), [x], body)
    program.main.add_return(result.instruction)
    assert not check(program, device, {"x": X}).is_fixed


def test_slices_at_an_iteration_are_read_where_they_lie(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        table = main.input("table", (4, 2, 3))

        def body(inner: ModuleBuilder, number: Value, going: Value, a: Value, _b: Value):
            whole = inner.of(table.instruction)
            forth = whole.apply("scan_slice", number, axis=0).reshape(2, 3)
            back = whole.apply("scan_slice", number, axis=0, direction=1)[0, 1:2]
            again = whole.apply("scan_slice", number, axis=0)
            return going, (a + forth) * back, again.reshape(2, 3), forth

        x = main.input("x", (2, 3))
        return looped(main, fixed(main, 4), [x, x], body, max_iterations=4)

    table = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    step = loop_of(check(program_of(write), device, {"x": X, "table": table}))
    names = [s.instruction.name for s in step.body]
    assert names.count("scan_slice") == 2  # those that are returned are copied by the last kernel


def test_a_module_that_needs_the_host_is_run_there(device: Device):
    program = Program()
    main = ModuleBuilder(program.main)
    x = main.input("x", (2, 3))

    def body(inner: ModuleBuilder, _number: Value, going: Value, a: Value):
        found = inner.module.add("couple_pairs", a[:, 0:1].instruction)
        return going, a + inner.of(found)[0:1, 0:1].broadcast_to(2, 3)

    (result,) = looped(main, fixed(main, 2), [x], body)
    program.main.add_return(result.instruction)
    plan = planned(program, device)
    assert [i.name for i in plan.host] == ["loop"]
    (row,) = [r for r in lowered_of(plan, "") if r.kind == "host"]
    assert "body1 needs the host for couple_pairs" in row.what
    (found,) = run_plan(plan, {"x": X}, device).values
    np.testing.assert_allclose(found, run(program, {"x": X})[0], rtol=1e-6)


# What is shown of them


@pytest.fixture(scope="module")
def build() -> wb.Build:
    return wb.compile(program_of(lambda m: rows(m, fixed(m, 5), max_iterations=5)), target="gpu")


def test_the_plan_has_its_kernels_once_and_says_how_often_they_run(build: wb.Build):
    plan = list(build.plan())
    (at,) = [k for k, row in enumerate(plan) if row.kind == "loop"]
    row = plan[at]
    inner = plan[at + 1 : at + 1 + row.steps[0]]
    assert {(r.kind, r.runs) for r in inner} == {("kernel", 5)}
    assert {r.runs for r in plan if r not in inner} == {1}
    swapped = [a for pair in row.swaps for a in pair]
    assert len({(a.kind, a.name, a.offset) for a in swapped}) == len(swapped)
    written = {(a.kind, a.name, a.offset) for r in inner for a in r.arguments if a.writes}
    assert all(written & {(a.kind, a.name, a.offset) for a in pair} for pair in row.swaps)


def test_kernels_and_times_count_all_iterations(build: wb.Build):
    result = build.run(GIVEN, profile=True, repetitions=3)
    kernels = build.kernels(result)
    runs = {k.runs for k in kernels}
    assert runs == {1, 5}
    assert f"{sum(k.runs or 0 for k in kernels)} launches of" in repr(kernels)
    assert list(kernels.table()["launches"]) == [k.runs for k in kernels]
    # Of a short kernel nothing may be left when the overhead of its events is taken off.
    assert all(k.seconds is not None for k in kernels)
    assert sum(k.seconds or 0 for k in kernels) > 0
    timings = [t for t in result.measured.rows if t.where == "device"]
    assert sum(t.launches for t in timings) == result.run_times.launches
    assert sum(t.launches for t in timings) == sum(k.runs or 0 for k in kernels)
    inside = {i.id for m in build.program.modules.values() if m.name == "body1" for i in m}
    assert {t.id for t in timings} & inside


def test_the_lowering_follows_a_loop_into_its_module(build: wb.Build):
    found = build.recording.lowered
    assert found is not None
    (row,) = [r for r in found if r.kind == "loop"]
    assert row.what.startswith("5 times: carry_")
    assert "1 loop(s)" in found.summary or "1 loop" in found.summary
    kinds = {r.instruction: r.kind for r in found}
    assert {k for n, k in kinds.items() if n.startswith("body")} >= {"kernel", "parameter"}
    text = build.recording.lowered.text
    assert "loop 5 times" in text


def test_lint_finds_loops_that_wait_for_the_host(build: wb.Build):
    assert not build.lint(only=["host-step"])
    program = program_of(lambda main: rows(main, asked(main), max_iterations=4))
    (finding,) = wb.compile(program, target="gpu").lint(only=["host-step"])
    assert "the host reads the count" in finding.reason
    assert "give the loop a constant count" in finding.remedy


# Places


def test_values_of_an_iteration_share_memory_but_not_with_what_is_carried(device: Device):
    def write(main: ModuleBuilder) -> Sequence[Value]:
        x = main.input("x", (64, 64))

        def body(inner: ModuleBuilder, _number: Value, going: Value, a: Value):
            for _ in range(6):
                a = (a @ inner.of(x.instruction)) * 0.1
            return going, a

        return looped(main, fixed(main, 3), [x], body)

    program = program_of(write)
    given = {"x": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)}
    plan = check(program, device, given)
    size = 64 * 64 * 4
    assert plan.arena <= 5 * size  # not one for each of the twelve products
