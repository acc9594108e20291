"""Generated values for inputs: MIGraphX's generators bit for bit, constants, and its driver's inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np

from workbench.compiler.errors import InputError
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.verify.index_ranges import indexed_lengths, remainders

MAX_BYTES = 1 << 34
"""The largest value that is generated."""

MODES = ("legacy", "random")
"""``legacy`` draws from few small values, like ``generate_argument``; ``random`` from many, like the
driver."""

_X, _Y, _Z = 123456789, 362436069, 521288629
_MASK = (1 << 64) - 1
_FIRST = 192
_LEVELS = 15
"""Numbers are drawn ``2 ** 15`` at a time, which fits in a processor's cache."""


def generate(shape: Shape, seed: int = 0, mode: str = "legacy") -> Value:
    """A pseudorandom value, the same as MIGraphX's ``generate_argument`` bit for bit.

    A generator (xorshf96, whose third word starts as ``521288629 ^ seed``) draws 64 bits for each element
    in memory: elements of a transposed shape are drawn in the order of its strides, and elements that a
    stride of 0 repeats are drawn once.

    Args:
        shape: The shape of the value; for a tuple, each part starts from the seed again.
        seed: 64 bits; a negative seed is read as unsigned. Equal seeds give equal values.
        mode: ``legacy`` gives 32 different floats from -1 to 15/16 and integers within
            ``2 ** (5 * bytes)``; ``random`` gives floats of every precision and wider integers.

    Raises:
        InputError: The shape is dynamic or too large, or there is no such mode.
    """
    if mode not in MODES:
        raise InputError(f"unknown mode {mode!r} of random values; expected {' or '.join(MODES)}")
    if shape.subs is not None:
        return tuple(generate(s, seed, mode) for s in shape.subs)
    drawn = random_bits(_space(shape), seed)
    return _laid_out(shape, _scaled(drawn, shape.type, mode))


def filled(shape: Shape, value: float = 0) -> Value:
    """A value with all elements equal, as from MIGraphX's ``fill_argument``.

    Raises:
        InputError: The shape is dynamic or too large, or its type cannot represent the value.
    """
    if shape.subs is not None:
        return tuple(filled(s, value) for s in shape.subs)
    space = _space(shape)
    try:
        return _laid_out(shape, np.full(space, value).astype(shape.type.numpy))
    except (OverflowError, ValueError, TypeError) as error:
        raise InputError(f"{value!r} cannot fill {shape}: {error}") from error


def generate_argument(shape: Shape, seed: int = 0, mode: str = "legacy") -> Argument:
    """``generate`` as an argument that keeps the shape's strides.

    Raises:
        InputError: The shape is a tuple, dynamic or too large, or there is no such mode.
    """
    return _argument(shape, generate(shape, seed, mode))


def fill_argument(shape: Shape, value: float = 0) -> Argument:
    """``filled`` as an argument that keeps the shape's strides.

    Raises:
        InputError: The shape is a tuple, dynamic or too large, or its type cannot represent the value.
    """
    return _argument(shape, filled(shape, value))


def driver_inputs(
    program: Program,
    fill0: Collection[str] = (),
    fill1: Collection[str] = (),
    given: Mapping[str, Any] | None = None,
    batch: int = 1,
    in_range: bool = False,
) -> dict[str, Any]:
    """Inputs as MIGraphX's driver generates them, by name.

    Other parameters are generated in mode ``random``, with C++'s ``std::hash`` of the parameter's name as
    seed (see ``std_hash``), so a parameter has the same value in every program. Dynamic dimensions get the
    length ``batch`` unless they are fixed.

    Args:
        program: The program whose parameters need inputs.
        fill0: Names of parameters that are all 0.
        fill1: Names of parameters that are all 1.
        given: Values for some of the parameters, which override the other options.
        batch: The length of dynamic dimensions.
        in_range: Replace generated integers that are out of range where the program gathers or scatters by
            them; MIGraphX's driver keeps them.

    Raises:
        InputError: A name is not a parameter's, or a value cannot be generated.
    """
    shapes = {name: static(shape, batch) for name, shape in program.parameters.items()}
    _expect_known(shapes, [*fill0, *fill1, *(given or {})])
    lengths = indexed_lengths(program, batch) if in_range else {}
    made: dict[str, Any] = {}
    for name, shape in shapes.items():
        if name in (given or {}):
            made[name] = (given or {})[name]
        elif name in fill0 or name in fill1:
            made[name] = filled(shape, 1 if name in fill1 else 0)
        else:
            value = generate(shape, std_hash(name), "random")
            made[name] = remainders(value, lengths[name]) if name in lengths else value
    return made


def _expect_known(shapes: Mapping[str, Shape], names: Collection[str]) -> None:
    for name in names:
        if name not in shapes:
            known = ", ".join(map(repr, shapes)) or "none"
            raise InputError(f"no parameter is called {name!r}; parameters are {known}")


def static(shape: Shape, length: int) -> Shape:
    """The shape with every range replaced by this length, even if the range does not allow it."""
    if shape.subs is not None:
        return shape if shape.kind else Shape.tuple_of(static(s, length) for s in shape.subs)
    if shape.dims is None:
        return shape
    return Shape(shape.type, [d.min if d.is_fixed else length for d in shape.dims])


def std_hash(text: str) -> int:
    """The 64-bit ``std::hash`` of a string in GNU's C++ library, which differs from that of other libraries.

    It is the 64-bit murmur hash of the UTF-8 bytes, seeded with ``0xc70f6907``: blocks of 8 bytes,
    little-endian, then the remaining 1 to 7 bytes, which are mixed without a shift. Only this seed and this
    word size are reproduced, as for strings on a 64-bit machine.
    """
    data = text.encode("utf-8", "surrogateescape")
    multiplier = 0xC6A4A7935BD1E995
    mixed = 0xC70F6907 ^ (len(data) * multiplier & _MASK)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        block = int.from_bytes(data[at : at + 8], "little") * multiplier & _MASK
        block = (block ^ block >> 47) * multiplier & _MASK
        mixed = (mixed ^ block) * multiplier & _MASK
    if rest := data[whole:]:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    mixed = (mixed ^ mixed >> 47) * multiplier & _MASK
    return mixed ^ mixed >> 47


def random_bits(count: int, seed: int = 0) -> Array:
    """The first numbers of the xorshf96 generator, 64 bits each.

    A number is ``L(z[n-3]) ^ z[n-2] ^ z[n-1]``, where ``L`` consists of shifts and xors, so it is linear.
    Modulo 2, squaring adds no mixed terms, hence ``z[n] = L^k(z[n-3k]) ^ z[n-2k] ^ z[n-k]`` for every power
    of two ``k``: 3k numbers determine the next k at once.
    """
    drawn = np.empty(max(count, _FIRST), np.uint64)
    drawn[:_FIRST] = _first_bits(seed & _MASK)
    known, level = _FIRST, 6  # 192 = 3 * 2 ** 6
    while known < count:
        step = 1 << level
        end = min(known + step, count)
        width, at = end - known, known
        mixed = _applied(_power(level), drawn[at - 3 * step : at - 3 * step + width])
        mixed ^= drawn[at - 2 * step : at - 2 * step + width]
        mixed ^= drawn[at - step : at - step + width]
        drawn[at:end] = mixed
        known = end
        while level < _LEVELS and known >= 6 << level:
            level += 1
    return drawn[:count]


def _first_bits(seed: int) -> list[int]:
    x, y, z = _X, _Y, _Z ^ seed
    found: list[int] = []
    for _ in range(_FIRST):
        x ^= x << 16 & _MASK
        x ^= x >> 5
        x ^= x << 1 & _MASK
        x, y, z = y, z, x ^ y ^ z
        found.append(z)
    return found


@cache
def _power(level: int) -> Array:
    """A table of ``L`` to the power ``2 ** level``: its value for each byte at each of 8 positions."""
    if level == 0:
        x = _spread(np.uint64(1) << np.arange(64, dtype=np.uint64))
    else:
        below = _power(level - 1)
        bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
        x = _applied(below, _applied(below, bits))
    table = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        for bit in range(8):
            if byte >> bit & 1:
                table[:, byte] ^= x[bit::8]
    return table


def _spread(x: Array) -> Array:
    x = x ^ x << np.uint64(16)
    x = x ^ x >> np.uint64(5)
    return x ^ x << np.uint64(1)


def _applied(table: Array, numbers: Array) -> Array:
    pieces = np.ascontiguousarray(numbers).astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    result = table[0][pieces[:, 0]]
    for k in range(1, 8):
        result ^= table[k][pieces[:, k]]
    return result


def _scaled(drawn: Array, type: DType, mode: str) -> Array:
    """64-bit numbers converted to elements of a type, as by MIGraphX's ``normalize``."""
    size, legacy = type.size, mode == "legacy"
    if type is DType.BOOL:
        return drawn % np.uint64(2) != 0
    if type.is_float and type is not DType.FP4X2:
        most = 32 if legacy else 1 << (8 * size - 1)
        kept = (drawn & np.uint64(most - 1)).astype(np.float64)
        kept *= 2 / most
        kept -= 1.0
        return kept.astype(type.numpy)
    wide = 8 * size - 1 if type.numpy.kind == "u" else 6 * size - 1
    most = 1 << (5 * size if legacy else wide)
    kept = drawn & np.uint64(most - 1)
    if type.numpy.kind == "i":
        kept = np.uint64(most // 2) - kept
    return kept.astype(type.numpy)


def _space(shape: Shape) -> int:
    if shape.dims is not None:
        raise InputError(
            f"no value can be generated for dynamic {shape}; give the length of every dimension"
        )
    space = shape.element_space
    if max(space, prod(shape.lens)) * shape.type.size > MAX_BYTES:
        raise InputError(f"no value can be generated for {shape}: over {MAX_BYTES:,} bytes")
    return space


def _laid_out(shape: Shape, memory: Array) -> Array:
    """The elements in the shape's lens, read from memory by its strides."""
    if shape.standard or not memory.size:
        return memory.reshape(shape.array_lens)
    strides = [s * memory.itemsize for s in shape.strides]
    bits = memory.view(f"u{memory.itemsize}")  # NumPy does not stride small floats
    made = np.lib.stride_tricks.as_strided(bits, shape.lens, strides, writeable=False)
    return made.view(memory.dtype)


def _argument(shape: Shape, value: Value) -> Argument:
    if isinstance(value, tuple):
        raise InputError(f"an argument holds one array; {shape} is a tuple")
    return Argument(shape, value)
