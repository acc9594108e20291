"""The contract of kernels: every sample of every operation gives on the device what the reference gives."""

import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

import workbench as wb
from tests.compiler.ops.test_operation_variants import distinct
from tests.compiler.ops.test_operations import OPERATIONS, SAMPLED
from tests.compiler.variants import Case, cases, computed, edged, expect_close, said
from tests.gpu.harness import built, planned, run_all
from workbench.compiler.errors import EvaluationError, OperationError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops import custom
from workbench.compiler.ops.buffers import Copy, Write
from workbench.compiler.ops.collectives import Collective
from workbench.compiler.ops.contract import Dot
from workbench.compiler.ops.fused import FusedReduce, SplitFusedReduce
from workbench.compiler.ops.reduce import Normalisation
from workbench.gpu.devices.base import Code, Device
from workbench.gpu.emit.tensors import is_declared, value_of
from workbench.gpu.kernels.schedules import schedule, schedule_of

COMPUTED = sorted(set(SAMPLED) - {"undefined"})
BATCH = 8
"""The operations whose kernels are compiled together: each source costs what its headers do."""


@cache
def codes(batch: int, device: Device) -> dict[str, Code]:
    """The code of all kernels of a batch of operations."""
    names = COMPUTED[batch * BATCH : (batch + 1) * BATCH]
    plans = [planned(use, device) for name in names for use in cases(name)]
    return built(plans, device)


@pytest.mark.parametrize("name", COMPUTED)
def test_kernels_agree_with_the_reference(name: str, device: Device):
    left, uses = 0, cases(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [computed(op, operands) for op, operands in uses]
        ran = list(run_all(uses, device, codes(COMPUTED.index(name) // BATCH, device)))
    for (op, operands), (values, plan), results in zip(uses, ran, wanted, strict=True):
        left += len(plan.host)
        for a, b in zip(values, results, strict=True):
            expect_close(a, b, a.dtype, said(op, operands))
    said_so = OPERATIONS[name].on_host
    assert bool(left) == bool(said_so), f"{name}: the host computes {left} samples; {said_so!r}"


NOT_FINITE = {
    "convolution": "kernels skip padding, so that it meets no infinite weight",
    "deform_convolution": "kernels skip taps that lie outside, so that these meet no infinite weight",
    "det": "a sum of products has infinities of both signs, or not, by the order of elimination",
    "dft": "NumPy splits sums into parts that an infinity reaches in another way",
}
"""Operations whose kernels have NaN in other places where an operand is not finite, and why."""


@pytest.mark.parametrize("name", COMPUTED)
def test_kernels_agree_with_the_reference_at_the_edges_of_types(name: str, device: Device):
    uses = [(op, given) for op, operands in distinct(name) for _, given in edged(op, operands)]
    if name in NOT_FINITE:
        uses = [(op, xs) for op, xs in uses if all(np.isfinite(x.array).all() for x in xs)]
    known: list[tuple[Case, list[np.ndarray]]] = []
    for op, operands in uses:
        with suppress(EvaluationError):
            known.append(((op, operands), computed(op, operands)))
    made = codes(COMPUTED.index(name) // BATCH, device)
    ran = run_all([case for case, _ in known], device, made)
    for ((op, operands), wanted), (values, _) in zip(known, ran, strict=True):
        for a, b in zip(values, wanted, strict=True):
            expect_same_edges(a, b, said(op, operands))


def expect_same_edges(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Close, with NaN and infinities in the same places."""
    expect_close(found, wanted, found.dtype, what)
    if DType.of(wanted.dtype).is_float:
        a, b = (np.where(np.isfinite(v), 0, v) for v in map(np.float64, (found, wanted)))
        np.testing.assert_array_equal(a, b, what)


def test_each_operation_has_an_element_or_a_schedule_or_the_host_has_a_reason():
    ours = {n: cls for n, cls in OPERATIONS.items() if not issubclass(cls, custom.Custom)}
    for name, cls in ours.items():
        op = cls()
        ways = [is_declared(op), schedule_of(op) is not None]
        by_expression = op.pointwise and op.expression is not None
        stored = isinstance(op, Write | Copy | Collective)  # not by kernels of their own
        known = by_expression or stored or any(ways) or op.on_host
        assert known, f"{name}: nothing computes it, nor says why"
        assert not (by_expression and any(ways)), (
            f"{name} is elementwise, and has kernels of its own"
        )
        reads_many = (
            op.monoid
            or op.contraction
            or isinstance(op, Normalisation | FusedReduce | SplitFusedReduce)
        )
        if all(ways):  # bodies fall back on the element where the schedule does not fit
            assert reads_many, f"{name} has an element and a schedule"


def test_a_second_declaration_for_an_operation_is_refused():
    for declare, what in ((value_of, "an element"), (schedule, "a schedule")):
        with pytest.raises(OperationError, match=f"Dot already has {what}"):
            declare(Dot)(lambda *_: None)


def test_a_plan_says_why_the_host_computes_what_was_fused():
    shape = Shape("float", (4, 8))
    wb.operation(
        name="mystery",
        compute_shape=lambda shapes: shapes[0],
        compute=lambda _, arrays: arrays[0],
        context_free=True,
        op_attributes={"pointwise": True},
    )
    try:
        program = Program()
        x = program.main.add_parameter("x", shape)
        made = program.main.add("mystery", program.main.add("exp", x))
        program.main.add_return(program.main.add("relu", made))
        plan = wb.compile(program, target="gpu").plan()
        (host,) = [row for row in plan if row.kind == "host"]
        assert host.reason == "mystery in it: no kernel is declared for it"
        assert f"the host computes {host.instruction}: {host.reason}" in repr(plan)
        assert host.reason in plan.table()["reason"].tolist()
    finally:
        custom.forget("mystery")
