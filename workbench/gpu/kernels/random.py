"""Random numbers: the Mersenne twister that the reference uses, 32 bits at a time.

One block keeps the twister's state in shared memory. Each third of the new state depends only on the
old one and on earlier thirds, so work items compute a third in parallel. A second kernel converts
the draws to numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.random import RandomUniform
from workbench.gpu.emit.index import linear, split
from workbench.gpu.emit.scalar import Scalar, c_type, number, stored
from workbench.gpu.emit.scalar import cast as converted
from workbench.gpu.emit.writer import Writer
from workbench.gpu.kernels.kernel import BLOCK, Builder, Launch, Place, blocks_of, work_item
from workbench.gpu.kernels.schedules import schedule

if TYPE_CHECKING:
    from workbench.gpu.lowering.lower import Lowering

_STATE, _FAR = 624, 397
_STEPS = (0, 227, 454, 624)
"""The starts of a twist's steps: each step reads the old state and the results of earlier steps only."""
_TWIST = (
    "DEVICE u32 twist(u32 a, u32 b, u32 far) { u32 y = (a & 0x80000000u) | (b & 0x7fffffffu);"
    " return far ^ (y >> 1) ^ (y & 1u ? 0x9908b0dfu : 0u); }"
)
_TEMPER = (
    "DEVICE u32 tempered(u32 y) { y ^= y >> 11; y ^= (y << 7) & 0x9d2c5680u;"
    " y ^= (y << 15) & 0xefc60000u; return y ^ (y >> 18); }"
)


@schedule(RandomUniform)
def random_uniform(lowering: Lowering, i: Instruction) -> list[Launch]:
    """A kernel that draws, and one that converts the draws to the result's type."""
    type = i.shape.type
    each = 1 if type.is_integral and type.size < 8 else 2
    draws = lowering.scratch(i, 0, Shape(DType.UINT32, (i.shape.elements * each,)))
    return [_draws(lowering, i, draws), _numbers(lowering, i, draws, each)]


def _draws(lowering: Lowering, i: Instruction, draws: Place) -> Launch:
    seeds = [(one, p) for one, p in lowering.inputs(i) if one is i.inputs[0]]
    b = Builder(lowering.dialect, "random_draws", [draws, *(p for _, p in seeds)])
    for one, place in seeds:
        b.tensors.bind(one, b.memory(place))
    w, target, count = b.w, b.memory(draws, writes=True).name, draws.shape.elements
    state = w.array("u32", _STATE, "s", "SHARED")
    seed = converted(w, b.tensors.at(i.inputs[0], ()), DType.INT64).text
    _seeded(w, state, seed)
    w.need(_TWIST)
    w.need(_TEMPER)
    with w.block(f"for ({w.integer_type} start = 0; start < {count}; start += {_STATE})"):
        for first, end in pairwise(_STEPS):
            _twisted(w, state, first, end)
        with w.block(f"for (i32 k = LOCAL(0); k < {_STATE}; k += {BLOCK})"):
            w.line(f"if (start + k < {count}) {target}[start + k] = tempered({state}[k]);")
        w.line("BARRIER();")
    return b.launch(1)


def _seeded(w: Writer, state: str, seed: str) -> None:
    with w.block("if (LOCAL(0) == 0)"):
        w.line(f"{state}[0] = (u32){seed};")
        with w.block(f"for (i32 k = 1; k < {_STATE}; ++k)"):
            w.line(f"const u32 before = {state}[k - 1];")
            w.line(f"{state}[k] = 1812433253u * (before ^ (before >> 30)) + (u32)k;")
    w.line("BARRIER();")


def _twisted(w: Writer, state: str, first: int, end: int) -> None:
    """Compute elements ``first`` to ``end`` of the next state, at most one per work item."""
    with w.fresh():
        w.line(f"const i32 k = {first} + LOCAL(0);")
        w.line(f"const i32 next = k + 1 < {_STATE} ? k + 1 : 0;")
        w.line(f"const i32 far = k + {_FAR} < {_STATE} ? k + {_FAR} : k + {_FAR - _STATE};")
        w.line("u32 made = 0;")
        w.line(f"if (k < {end}) made = twist({state}[k], {state}[next], {state}[far]);")
        w.line("BARRIER();")
        w.line(f"if (k < {end}) {state}[k] = made;")
        w.line("BARRIER();")


def _numbers(lowering: Lowering, i: Instruction, draws: Place, each: int) -> Launch:
    out = lowering.place(i)
    b = Builder(lowering.dialect, "random_numbers", [draws, out])
    w, source, target = b.w, b.memory(draws).name, b.memory(out, writes=True)
    flat = work_item(b, i.shape.elements)
    first, second = (w.let("u32", f"{source}[{(flat * each + k).text()}]") for k in (0, each - 1))
    value = _spread(w, first, second, i.shape.type)
    index = linear(split(flat, i.shape.lens, w), target.shape.strides, target.offset)
    w.line(f"{target.name}[{index.text()}] = {stored(w, value)};")
    return b.launch(blocks_of(i.shape.elements))


def _spread(w: Writer, first: str, second: str, type: DType) -> Scalar:
    """A number of a type from one or two draws."""
    if not type.is_integral:
        unit = w.let(
            "f64", f"((f64){first} + (f64){second} * 4294967296.0) / 18446744073709551616.0"
        )
        below = number(1 - type.format.epsilon / 2, DType.DOUBLE).text
        least = w.let("f64", f"{unit} < {below} ? {unit} : {below}")
        return converted(w, Scalar(least, DType.DOUBLE), type)
    kind, signed = c_type(type), not c_type(type).startswith("u")
    if type.size == 8:
        text = f"((u64)({first} >> {int(signed)}) << 32) | (u64){second}"
    elif type is DType.BOOL:
        text = f"({first} >> 24) != 0"
    else:
        text = f"{first} >> {32 - 8 * type.size + (signed and type.size > 1)}"
    return Scalar(w.let(kind, f"({kind})({text})"), type)
