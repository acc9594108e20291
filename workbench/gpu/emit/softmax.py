"""Values of softmax along an axis, in fused bodies and for rows that one work item computes alone."""

from __future__ import annotations

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.reduce import LogSoftmax, Softmax
from workbench.gpu.emit.index import Index
from workbench.gpu.emit.scalar import Scalar, c_type, cast, number
from workbench.gpu.emit.sums import finished, larger, lowest, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of
from workbench.gpu.emit.views import attributes


@value_of(Softmax)
def softmax(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The exponential of the difference from the maximum, divided by the sum of exponentials."""
    most, total = _row(t, i, index)
    return _made(t, i, index, f"exp({{}} - {most}) / {total}")


@value_of(LogSoftmax)
def log_softmax(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The difference from the maximum, minus the logarithm of the sum of exponentials."""
    most, total = _row(t, i, index)
    return _made(t, i, index, f"{{}} - {most} - log({total})")


def _made(t: Tensors, i: Instruction, index: Indices, text: str) -> Scalar:
    work = real_type(i.shape.type)
    value = _element(t, i, index)
    return finished(t.w, Scalar(t.w.let(c_type(work), text.format(value)), work), i.shape.type)


def _element(t: Tensors, i: Instruction, index: Indices) -> str:
    return cast(t.w, t.at(i.inputs[0], index), real_type(i.shape.type)).text


def _row(t: Tensors, i: Instruction, index: Indices) -> tuple[str, str]:
    """The maximum along the axis, and the sum of exponentials; computed once per row."""
    axis = attributes(t, i).axis
    place = (*index[:axis], Index(), *index[axis + 1 :])
    return t.once(i, place, lambda: _row_made(t, i, place, axis))


def _row_made(t: Tensors, i: Instruction, place: Indices, axis: int) -> tuple[str, str]:
    w, work = t.w, real_type(i.shape.type)
    n, kind = i.shape.lens[axis], c_type(work)
    most = w.variable(kind, lowest(work).text)
    with w.loop(n) as k:
        value = _element(t, i, (*place[:axis], k, *place[axis + 1 :]))
        w.line(f"{most} = {larger(w, most, value, work)};")
    total = w.variable(kind, number(0, work).text)
    with w.loop(n) as k:
        value = _element(t, i, (*place[:axis], k, *place[axis + 1 :]))
        w.line(f"{total} += exp({value} - {most});")
    return most, total
