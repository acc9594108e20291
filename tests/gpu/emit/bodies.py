"""One kernel that applies an operation to elements of many types, and what it is given."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tests.compiler.variants import Operand, computed, inferred, parts
from tests.gpu.harness import built
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Operation
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.elementwise import EDGES
from workbench.gpu.devices.base import Device
from workbench.gpu.lowering.lower import lower
from workbench.gpu.run.executable import Executable


class Use(NamedTuple):
    """An operation on operands of one length."""

    op: Operation
    operands: list[Operand]


class Made(NamedTuple):
    """The results of a use on a device and on the reference."""

    use: Use
    found: np.ndarray
    wanted: np.ndarray


def together(uses: Sequence[Use], device: Device) -> list[Made]:
    """The results of uses that no shape rule refuses, from one kernel, and the reference's."""
    signature = tuple((op, tuple((x.type, x.array.size) for x in xs)) for op, xs in uses)
    executable = _executable(signature, device)
    fitting = [u for u in uses if _fits(u.op, [x.shape for x in u.operands])]
    arrays = {
        _name(j, k): x.array for j, use in enumerate(fitting) for k, x in enumerate(use.operands)
    }
    values = parts(executable.run(arrays)[0])
    return [Made(use, found, _reference(use)) for use, found in zip(fitting, values, strict=True)]


def _reference(use: Use) -> np.ndarray:
    with np.errstate(all="ignore"):
        return computed(*use)[0]


def _fits(op: Operation, found: Sequence[Shape]) -> bool:
    return inferred(op, found) is not None


def _name(use: int, operand: int) -> str:
    return f"x{use:03}_{operand}"


@cache
def _executable(signature: tuple[Any, ...], device: Device) -> Executable:
    """One kernel for operations, each on operands of some types and lengths."""
    program = Program()
    body = program.create_module("body")
    inputs, outputs = [], []
    known = [(op, [Shape(t, (n,)) for t, n in operands]) for op, operands in signature]
    for j, (op, shapes) in enumerate(k for k in known if _fits(*k)):
        names = [_name(j, k) for k in range(len(shapes))]
        named = list(zip(names, shapes, strict=True))
        scalars = [body.add_parameter(n, Shape(x.type, (1,))) for n, x in named]
        outputs.append(body.add(op, *scalars))
        inputs += [program.main.add_parameter(n, x) for n, x in named]
    body.add_return(*outputs)
    program.main.add_return(program.main.add("pointwise", *inputs, modules=[body]))
    plan = lower(program, device.dialect)
    assert (len(plan.kernels), plan.host) == (1, [])
    return Executable(plan, device, built([plan], device))


def edges(type: DType) -> np.ndarray:
    """Values at which conversions and functions tend to differ."""
    if type is DType.BOOL:
        return np.array([True, False] * 8)
    if type.is_integral:
        info = np.iinfo(type.numpy)
        few = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3]
        return np.array(few * 2, type.numpy)
    with np.errstate(all="ignore"):
        return np.array([*EDGES, 1.5, -1.5, 1e-8, 1e5, -1e30, 3.0]).astype(type.numpy)


def bits(type: DType, content: bytes) -> np.ndarray:
    """Elements with these bytes; whatever they are is a value."""
    array = np.frombuffer(content, f"u{type.size}")
    return array % 2 == 1 if type is DType.BOOL else array.view(type.numpy)


def same_bits(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Compares bits; elements that are both NaN count as equal."""
    same = found.view(f"u{found.itemsize}") == wanted.view(f"u{wanted.itemsize}")
    if DType.of(found.dtype).is_float:
        with np.errstate(all="ignore"):
            both = [np.isnan(x.astype(np.float64)) for x in (found, wanted)]
        same |= both[0] & both[1]
    return same


NARROW = [t for t in DType if t.is_narrow_float]
