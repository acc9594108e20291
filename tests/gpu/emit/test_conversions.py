"""Conversions on a device: every pair of types to the last bit, at ties, limits and odd codes."""

from functools import cache

import numpy as np
import pytest

from tests.compiler.variants import TYPES, Operand
from tests.gpu.emit.bodies import NARROW, Use, bits, edges, same_bits, together
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import make
from workbench.gpu.devices.base import Device

every_type = pytest.mark.parametrize("source", TYPES, ids=lambda t: t.name)


@cache
def floats() -> np.ndarray:
    """Numbers at, and close beside, ties between neighbours of narrow floats, and bounds of integers."""
    found = [np.array([s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64)
                       for s in (1, -1) for d in (-1, -0.5, 0, 0.5)])]  # fmt: skip
    for type in NARROW:
        values = bits(type, np.arange(1 << (8 * type.size - 1)).astype(f"u{type.size}").tobytes())
        values = values.astype(np.float64)
        values = values[np.isfinite(values)]
        some = np.r_[values[:200], values[:: max(1, len(values) // 200)], values[-100:]]
        middle = (some[:-1] + some[1:]) / 2
        found += [middle * (1 + d) for d in (0, 2**-24, -(2**-24), 2**-40, -(2**-40), 2**-52)]
        found.append(values[-1] * np.array([1, 1.01, 1.03, 1.0625, 1.1, 2]))
    positive = np.concatenate(found)
    return np.concatenate([positive, -positive])


def integers(type: DType) -> np.ndarray:
    """Powers of two, with a second bit where a narrow float has its last one, and neighbours."""
    info = np.iinfo(type.numpy)
    powers = [1 << k for k in range(8 * type.size)]
    some = [
        p + (p >> b) + d for p in powers for b in (64, 4, 8, 9, 11, 12, 24, 25) for d in (-1, 0, 1)
    ]
    kept = [v for s in some for v in (s, -s) if info.min <= v <= info.max]
    return np.array(kept, type.numpy)


def elements(type: DType) -> np.ndarray:
    """Edges, random codes, and numbers that round in a notable way."""
    codes = np.random.default_rng(0).bytes(1000 * type.size)
    found = [edges(type), bits(type, codes)]
    if type.is_float:
        with np.errstate(all="ignore"):
            found.append(floats().astype(type.numpy))
    elif type is not DType.BOOL:
        found.append(integers(type))
    return np.concatenate(found)


def expect_equal(name: str, source: DType, targets: list[DType], device: Device) -> None:
    operand = Operand(elements(source), source)
    uses = [Use(make(name, target_type=t), [operand]) for t in targets]
    made = together(uses, device)
    assert len(made) == len(targets)
    for use, found, wanted in made:
        wrong = np.flatnonzero(~same_bits(found, wanted))[:5]
        shown = [(operand.array[k], found[k], wanted[k]) for k in wrong]
        assert not shown, f"{source.name}: {use.op}: operand, found, expected: {shown}"


@every_type
def test_every_type_converts_to_every_other_one_as_in_the_reference(source: DType, device: Device):
    expect_equal("convert", source, [t for t in TYPES if t is not source], device)


@every_type
def test_bits_are_read_as_any_type_of_their_size(source: DType, device: Device):
    expect_equal("bit_cast", source, [t for t in TYPES if t.size == source.size], device)
