"""Random chains of reshapes, transposes and broadcasts, and what they make of an array."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from workbench.compiler.passes.shapes.transform.descriptor import Descriptor, Transform, Transforms

Ints = tuple[int, ...]
Chain = list[Transform]
Lens = list[list[int]]
"""The lens of the parts of each dimension."""


def reshape(*dims: int) -> Transform:
    return Transform("reshape", dims)


def transpose(*permutation: int) -> Transform:
    return Transform("transpose", permutation)


def repeat(*lens: int) -> Transform:
    return Transform("multibroadcast", lens)


def broadcast(axis: int, *lens: int) -> Transform:
    return Transform("broadcast", lens, axis)


def unsqueeze(*axes: int) -> Transform:
    return Transform("unsqueeze", axes)


def squeeze(*axes: int) -> Transform:
    return Transform("squeeze", axes)


def apply(x: np.ndarray, *chain: Transform) -> np.ndarray:
    """The array after a chain, by NumPy."""
    for kind, values, axis in chain:
        if kind == "transpose":
            x = x.transpose(values)
        elif kind == "squeeze":
            x = np.squeeze(x, values)
        elif kind == "unsqueeze":
            x = np.expand_dims(x, values)
        elif kind == "reshape":
            x = x.reshape(values)
        else:
            if kind == "broadcast":
                x = x.reshape(x.shape + (1,) * (len(values) - axis - x.ndim))
            x = np.broadcast_to(x, values)
    return x


def descriptor(lens: Ints, *chain: Transform) -> Descriptor:
    """The descriptor in normal form of a chain that has one."""
    found = Descriptor.of(lens, chain)
    assert found is not None
    return found


def _factors(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


@st.composite
def reshapes(draw: st.DrawFn, lens: Ints) -> Transform:
    """A reshape of these lens that joins and splits."""
    split = draw(st.booleans())
    parts = [f for n in lens for f in draw(st.permutations(_factors(n)))] if split else list(lens)
    dims: list[int] = []
    for part in parts:
        if dims and draw(st.booleans()):
            dims[-1] *= part
        else:
            dims.append(part)
        dims += [1] * draw(st.sampled_from([0, 0, 0, 1]))
    return reshape(*(dims if 0 < len(dims) < 7 else [prod(lens)]))


@st.composite
def steps(draw: st.DrawFn, lens: Ints) -> Transform:
    """Any operation on these lens."""
    kind = draw(st.sampled_from(["reshape", "transpose", "squeeze", "unsqueeze", "repeat", "lay"]))
    ones = [i for i, n in enumerate(lens) if n == 1]
    if kind == "squeeze" and ones and len(lens) > 1:
        most = len(lens) - 1
        axes = draw(st.lists(st.sampled_from(ones), min_size=1, unique=True, max_size=most))
        return squeeze(*sorted(axes))
    if kind == "unsqueeze" and len(lens) < 6:
        return unsqueeze(draw(st.integers(0, len(lens))))
    if kind in ("repeat", "lay") and prod(lens) < 500 and len(lens) < 6:
        front = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=1))
        if kind == "lay":
            back = draw(st.lists(st.sampled_from([1, 2]), max_size=1))
            return broadcast(len(front), *front, *lens, *back)
        return repeat(*front, *[draw(st.sampled_from([1, 2, 3])) if n == 1 else n for n in lens])
    if kind == "reshape":
        return draw(reshapes(lens))
    return transpose(*draw(st.permutations(range(len(lens)))))


@st.composite
def chains(draw: st.DrawFn) -> tuple[np.ndarray, Transforms]:
    """A source whose elements all differ, and a chain on it."""
    lens = tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    x = value = np.arange(prod(lens)).reshape(lens)
    chain: list[Transform] = []
    for _ in range(draw(st.integers(1, 5))):
        chain.append(draw(steps(value.shape)))
        value = apply(value, chain[-1])
    return x, tuple(chain)


def lens_of(found: Descriptor) -> Lens:
    return [[p.len for p in dim] for dim in found.dims]
