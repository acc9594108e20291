"""One instruction on a device and in the reference."""

import numpy as np

from tests.compiler.variants import Operand, computed, expect_close, inferred, said
from tests.gpu.harness import run_one
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.gpu.devices.base import Device


def operands(*arrays: np.ndarray) -> list[Operand]:
    return [Operand(x, DType.of(x.dtype)) for x in arrays]


def is_possible(op: Operation, *arrays: np.ndarray) -> bool:
    """Whether the shape rule takes these operands."""
    return inferred(op, [x.shape for x in operands(*arrays)]) is not None


def expect_agreement(device: Device, op: Operation, *arrays: np.ndarray) -> None:
    """One kernel and no host step, and what the reference gives."""
    given = operands(*arrays)
    wanted = computed(op, given)
    values, plan = run_one(op, given, device)
    some = any(v.size for v in wanted)
    assert (len(plan.kernels), plan.host) == (int(some), []), said(op, given)
    for found, one in zip(values, wanted, strict=True):
        expect_close(found, one, one.dtype, said(op, given))


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values in another order in memory, or with gaps."""
    if layout == "gappy":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return np.asfortranarray(array) if layout == "turned" else array


LAYOUTS = ["plain", "turned", "gappy"]
