"""Descriptors for other sources: where an axis was repeated, it may come from the source."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.compiler.chains import (
    Chain,
    Ints,
    Lens,
    apply,
    chains,
    descriptor,
    lens_of,
    repeat,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from workbench.compiler.passes.shapes.transform.descriptor import Descriptor

REBASED: list[tuple[Ints, Chain, Ints, bool, Lens, Chain]] = [
    (
        (3, 4, 64, 1),
        [reshape(12, 8, 8, 1, 1), repeat(12, 8, 8, 2, 2)],
        (3, 4, 64, 4),
        False,
        [[3, 4], [8], [8], [2], [2]],
        [reshape(3, 4, 8, 8, 2, 2), reshape(12, 8, 8, 2, 2)],
    ),
    (
        (3, 4, 64, 1),
        [reshape(12, 8, 8, 1, 1), repeat(12, 8, 8, 2, 2)],
        (3, 5, 64, 1),
        False,
        [[3, 5], [8], [8], [2], [2]],
        [reshape(3, 5, 8, 8, 1, 1), reshape(15, 8, 8, 1, 1), repeat(15, 8, 8, 2, 2)],
    ),
    (
        (3, 4, 64, 1),
        [reshape(12, 8, 8, 1, 1), repeat(12, 8, 8, 2, 2)],
        (3, 4, 1, 1),
        False,
        [[3, 4], [1], [1], [2], [2]],
        [unsqueeze(3, 5), reshape(12, 1, 1, 1, 1), repeat(12, 1, 1, 2, 2)],
    ),
    (
        (1, 3, 1, 1),
        [unsqueeze(3, 5), repeat(1, 3, 256, 2, 256, 2)],
        (1, 3, 512, 512),
        False,
        [[1], [3], [256], [2], [256], [2]],
        [reshape(1, 3, 256, 2, 256, 2)],
    ),
    (
        (1, 1, 1, 3),
        [unsqueeze(3, 4), transpose(0, 5, 1, 2, 3, 4), repeat(1, 3, 256, 2, 256, 2)],
        (1, 512, 512, 3),
        False,
        [[1], [3], [256], [2], [256], [2]],
        [reshape(1, 256, 2, 256, 2, 3), transpose(0, 5, 1, 2, 3, 4)],
    ),
    (
        (1, 1, 1, 1, 1, 3),
        [squeeze(2, 4), transpose(0, 3, 1, 2), repeat(1, 3, 512, 512)],
        (1, 256, 2, 256, 2, 3),
        False,
        [[1], [3], [256, 2], [256, 2]],
        [transpose(0, 5, 1, 2, 3, 4), reshape(1, 3, 512, 512)],
    ),
    (
        (1, 3, 256, 2, 256, 2),
        [transpose(0, 2, 5, 3, 4, 1), reshape(1, 512, 512, 3)],
        (1, 3, 1, 1, 1, 1),
        False,
        [[1], [1, 1], [1, 1], [3]],
        [transpose(0, 2, 5, 3, 4, 1), squeeze(1, 3)],
    ),
    (
        (1, 16),
        [repeat(16, 16), reshape(2, 8, 16)],
        (1, 16),
        False,
        [[2], [8], [16]],
        [unsqueeze(1), repeat(2, 8, 16)],
    ),
    (
        (1, 1, 32),
        [repeat(4, 8, 32), reshape(2, 2, 2, 4, 32)],
        (1, 1, 32),
        True,
        [[2], [2], [2], [4], [32]],
        [unsqueeze(1, 3), repeat(2, 2, 2, 4, 32)],
    ),
    (
        (2, 1, 16),
        [repeat(2, 8, 16)],
        (2, 1, 16),
        True,
        [[2], [8], [16]],
        [repeat(2, 8, 16)],
    ),
    (
        (8, 1),
        [reshape(2, 4, 1), repeat(2, 4, 16)],
        (8, 1),
        False,
        [[2], [4], [16]],
        [reshape(2, 4, 1), repeat(2, 4, 16)],
    ),
    (
        (1, 1, 1, 16),
        [repeat(2, 4, 8, 16)],
        (1, 1, 1, 16),
        True,
        [[2], [4], [8], [16]],
        [repeat(2, 4, 8, 16)],
    ),
    ((1,), [repeat(16), reshape(2, 8)], (16,), False, [[2], [8]], [reshape(2, 8)]),
    (
        (16, 1),
        [reshape(2, 8, 1), repeat(2, 8, 32), reshape(2, 256)],
        (16, 1),
        False,
        [[2], [8, 32]],
        [reshape(2, 8, 1), repeat(2, 8, 32), reshape(2, 256)],
    ),
    (
        (1, 1, 32),
        [repeat(8, 4, 32), reshape(2, 4, 4, 32)],
        (1, 1, 32),
        True,
        [[2], [4], [4], [32]],
        [unsqueeze(1), repeat(2, 4, 4, 32)],
    ),
    (
        (1, 1, 1, 1, 1, 16),
        [repeat(2, 3, 4, 5, 6, 16), reshape(2, 3, 2, 2, 5, 2, 3, 16)],
        (1, 1, 1, 1, 1, 16),
        True,
        [[2], [3], [2], [2], [5], [2], [3], [16]],
        [unsqueeze(3, 6), repeat(2, 3, 2, 2, 5, 2, 3, 16)],
    ),
    (
        (1, 1, 1, 1, 64),
        [repeat(8, 4, 2, 6, 64), reshape(2, 4, 2, 2, 2, 3, 2, 2, 32)],
        (1, 1, 1, 1, 64),
        True,
        [[2], [4], [2], [2], [2], [3], [2], [2], [32]],
        [reshape(1, 1, 1, 1, 1, 1, 1, 2, 32), repeat(2, 4, 2, 2, 2, 3, 2, 2, 32)],
    ),
    (
        (1, 1, 1, 1, 1, 1, 32, 1, 1, 1, 1, 1),
        [
            squeeze(1, 2, 3, 4, 5, 7, 8, 9, 10),
            unsqueeze(1, 2, 3, 4, 5, 7, 8, 10, 11),
            repeat(1, 1, 1, 1, 1, 1, 32, 10, 16, 1, 90, 160),
        ],
        (1, 1, 1, 1, 1, 1, 32, 10, 16, 1, 90, 160),
        False,
        [[1], [1], [1], [1], [1], [1], [32], [10], [16], [1], [90], [160]],
        [],
    ),
    ((2, 32, 1), [repeat(2, 32, 64)], (2, 32, 64), True, [[2], [32], [64]], [repeat(2, 32, 64)]),
    ((2, 32, 1), [transpose(2, 0, 1)], (2, 32, 8), False, [[8], [2], [32]], [transpose(2, 0, 1)]),
]
"""Source, chain, other source, whether repeated axes stay marked, lens of the parts, chain on it."""


@pytest.mark.parametrize(("lens", "chain", "other", "mark", "sizes", "wanted"), REBASED)
def test_rebase(lens: Ints, chain: Chain, other: Ints, mark: bool, sizes: Lens, wanted: Chain):
    found = descriptor(lens, *chain).rebase(other, broadcast=mark)
    assert found is not None
    assert lens_of(found) == sizes
    assert list(found.generate()) == wanted


def test_axes_that_stay_repeated():
    many = descriptor((1, 1, 1, 16), repeat(2, 4, 8, 16)).rebase((1, 1, 1, 16), broadcast=True)
    assert many is not None
    assert many.hidden_axes == {0, 1, 2}
    reduced = descriptor((2, 32, 1), repeat(2, 32, 64)).rebase((2, 32, 64), broadcast=True)
    assert reduced is not None
    assert reduced.hidden_axes == {2}
    assert reduced.elements == 2 * 32 * 64


@pytest.mark.parametrize(
    ("lens", "chain", "other"),
    [
        ((6, 4), [reshape(2, 3, 4)], (5, 4)),
        ((2, 32, 5), [reshape(2, 160)], (2, 32, 8)),
        ((2, 3), [transpose(1, 0)], (2, 3, 1)),
    ],
)
def test_sources_for_which_there_is_no_chain(lens: Ints, chain: Chain, other: Ints):
    assert descriptor(lens, *chain).rebase(other, broadcast=True) is None


@given(chains(), st.data())
def test_a_rebased_chain_means_the_same_on_a_source_that_is_repeated_or_narrowed(case, data):
    x, chain = case
    found = Descriptor.of(x.shape, chain)
    assume(found is not None)
    whole = [prod(p.len for p in found.parts if p.path[:1] == (a,)) for a in range(x.ndim)]
    lens = tuple(data.draw(st.sampled_from([1, n, m])) for n, m in zip(x.shape, whole, strict=True))
    other = found.rebase(lens)
    assume(other is not None)
    least = tuple(map(min, x.shape, lens))
    y = np.arange(prod(least)).reshape(least)
    one = apply(np.broadcast_to(y, x.shape), *chain)
    two = apply(np.broadcast_to(y, lens), *other.generate())
    assert two.shape == other.lens
    sizes = [tuple(p.len for p in d.parts) for d in (found, other)]
    if len(sizes[0]) == len(sizes[1]):
        one, two = one.reshape(sizes[0]), two.reshape(sizes[1])
    assert np.array_equal(*np.broadcast_arrays(one, two))


@given(chains(), st.data())
def test_pieces_that_change_places_stay_right(case, data):
    x, chain = case
    found = Descriptor.of(x.shape, chain)
    assume(found is not None)
    sizes = [p.len for p in found.parts if p.repeats]
    pairs = [a * b for a in sizes for b in sizes]
    lens = tuple(n if n != 1 else data.draw(st.sampled_from([1, *sizes, *pairs])) for n in x.shape)
    other = found.rebase(lens)
    assume(other is not None and other.lens == found.lens)
    assert np.array_equal(apply(np.broadcast_to(x, lens), *other.generate()), apply(x, *chain))
