"""The matrix product."""

from __future__ import annotations

from enum import Enum

from workbench.compat.popart.ir import dtypes
from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.op import record
from workbench.compat.popart.ir.ops.checks import check, check_same_type
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value


class SerialiseMode(Enum):
    """The dimension along which the hardware would divide a product into steps."""

    NoSerialisation = 0
    ReducingDim = 1
    InputChannels = 2
    OutputChannels = 3


@api
def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    serialise_mode: SerialiseMode = SerialiseMode.NoSerialisation,
    serialise_factor: int = 1,
    output_type: dtype | None = None,
    partials_type: dtype | None = None,
) -> Tensor:
    """The matrix product by NumPy's rules.

    Args:
        lhs: The left matrix, or a stack of them.
        rhs: The right one.
        available_memory_proportion: Recorded; a hint for PopART's hardware.
        serialise_mode: Recorded; a hint for PopART's hardware.
        serialise_factor: Recorded; a hint for PopART's hardware.
        output_type: The element type of the result; by default the operands'.
        partials_type: Recorded; sums are at least float32 here.

    Raises:
        ValueError: ``partials_type`` is neither float16 nor float32.
    """
    check(lhs=lhs, rhs=rhs)
    check_same_type("MatMul", lhs, rhs)
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(
            f"partials_type must be either float16 or float32. Provided: {partials_type}."
        )

    def meaning(a: Value, b: Value) -> Value:
        found = a @ b
        return found if output_type is None else found.astype(output_type.as_numpy().__name__)

    attributes = {
        "available_memory_proportion": available_memory_proportion,
        "serialise_mode": serialise_mode.name,
        "serialise_factor": serialise_factor,
        "output_type": output_type,
        "partials_type": partials_type,
    }
    given = {k: v for k, v in attributes.items() if v is not None}
    return record("MatMul", [lhs, rhs], meaning, attributes=given).outputs[0]
