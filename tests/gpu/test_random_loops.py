"""Random loops, some in each other: on a device they give what the reference gives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.gpu.harness import built
from tests.gpu.test_loops import asked, fixed, looped
from tests.profiles import IS_DEEP
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.run.reference import run
from workbench.gpu.devices.base import Device
from workbench.gpu.run.executable import Executable

LENS = ((2, 3), (3, 2), (3,), (1, 3), (2, 1))
ROOM = 5


class Writer:
    """Writes a program with a loop of random work.

    Attributes:
        random: the source of all choices.
        inputs: an array for each parameter.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs: dict[str, Any] = {}

    def program(self) -> Program:
        """Values, a loop of known or unknown length on some of them, and all its results."""
        program = Program()
        main = ModuleBuilder(program.main)
        values = [self._parameter(main) for _ in range(3)]
        count = int(self.random.integers(0, ROOM))
        limits = fixed(main, count)
        if self.random.random() < 0.4:
            limits = asked(main)
            self.inputs |= {"count": np.array(count), "condition": np.array(True)}
        carried = [self._pick(values) for _ in range(self.random.integers(1, 4))]
        if carried[0].ndim == 2:
            carried[0] = carried[0].T
        results = self._loop(main, limits, carried, values, depth=0)
        program.main.add_return(*[v.instruction for v in results])
        return program

    def _parameter(self, main: ModuleBuilder) -> Value:
        lens, name = self._pick(LENS), f"x{len(self.inputs)}"
        self.inputs[name] = self.random.standard_normal(lens).astype(np.float32)
        return main.input(name, lens)

    def _pick(self, some: Sequence[Any]) -> Any:
        return some[self.random.integers(len(some))]

    def _loop(
        self, builder: ModuleBuilder, limits: Any, carried: Any, outer: list[Value], depth: int
    ) -> list[Value]:
        def body(inner: ModuleBuilder, number: Value, going: Value, *given: Value) -> list[Value]:
            known = [inner.of(v.instruction) for v in outer]
            values = [*given, *known]
            for _ in range(self.random.integers(1, 6)):
                values.append(self._work(inner, number, values, known, depth))
            following = [self._pick([v for v in values if v.shape == g.shape]) for g in given]
            rows = [self._pick(values) for _ in range(self.random.integers(0, 3))]
            stops = self.random.random() < 0.3
            more = number < int(self.random.integers(0, 4)) if stops else going
            return [more, *following, *rows]

        turned = tuple(int(k) for k in self.random.integers(0, 2, 2))
        return looped(
            builder, limits, carried, body, max_iterations=ROOM, scan_output_directions=turned
        )

    def _work(
        self,
        inner: ModuleBuilder,
        number: Value,
        values: list[Value],
        known: list[Value],
        depth: int,
    ) -> Value:
        a, outer = self._pick(values), self._pick(known)
        ways: list[Callable[[], Value]] = [
            lambda: a.tanh() * 0.7,
            lambda: a + number.astype("float") * 0.1,
            lambda: a.T if a.ndim == 2 else -a,
            lambda: a.sum(axis=0, keepdims=True) * 0.3,
            lambda: a * self._pick(values).sum() * 0.05,
            lambda: outer.apply("scan_slice", number, axis=0) if outer.shape[0] >= ROOM else outer,
            lambda: outer.apply("scan_slice", number % outer.shape[0], axis=0, direction=1),
            lambda: self._nested(inner, number, values, known) if depth == 0 else a * a * 0.1,
        ]
        return self._pick(ways)()

    def _nested(
        self, inner: ModuleBuilder, number: Value, values: list[Value], known: list[Value]
    ) -> Value:
        limits = fixed(inner, int(self.random.integers(0, 4)))
        if self.random.random() < 0.5:
            limits = [number, inner.constant(True, DType.BOOL)]
        carried = [self._pick(values) for _ in range(2)]
        return self._pick(self._loop(inner, limits, carried, known[:2], depth=1))


@settings(
    max_examples=300 if IS_DEEP else 3, suppress_health_check=list(HealthCheck), deadline=None
)
@given(seed=st.integers(0, 10**6), fused=st.booleans())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_random_loop(seed: int, fused: bool, device: Device):
    writer = Writer(seed)
    program = writer.program()
    wanted = run(program, writer.inputs)
    passes = {} if fused else {"passes": []}
    build = wb.compile(program, target="gpu", device=device.spec, **passes)
    plan = build.runner.plan()
    assert not plan.host
    executable = Executable(plan, device, built([plan], device))
    try:
        for _ in range(2):
            for found, value in zip(executable.run(writer.inputs), wanted, strict=True):
                np.testing.assert_allclose(found, value, rtol=2e-4, atol=1e-5)
    finally:
        executable.close()
