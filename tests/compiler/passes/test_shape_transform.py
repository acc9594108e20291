"""Shape transform descriptors: canonical chains, other sources, and the common space of both ends."""

import numpy as np
import pytest
from hypothesis import assume, given

from tests.compiler.chains import (
    Chain,
    Ints,
    Lens,
    apply,
    broadcast,
    chains,
    lens_of,
    repeat,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from workbench.compiler.passes.shapes.transform.descriptor import (
    Descriptor,
    Transform,
    Transforms,
    canonical,
    cost,
    simplified_chain,
)
from workbench.compiler.passes.shapes.transform.parts import Part, common_dims

# What is recorded of each operation

RECORDED: list[tuple[Ints, Chain, Lens, list[list[Ints]]]] = [
    (
        (256, 3, 16, 16),
        [reshape(16, 16, 48, 16)],
        [[16], [16], [3, 16], [16]],
        [[(0, 0)], [(0, 1)], [(1,), (2,)], [(3,)]],
    ),
    (
        (3, 4, 4),
        [reshape(3, 1, 4, 1, 4)],
        [[3], [1], [4], [1], [4]],
        [[(0,)], [(1, 0)], [(1, 1)], [(2, 0)], [(2, 1)]],
    ),
    (
        (3, 4, 4),
        [reshape(3, 4, 4, 1, 1)],
        [[3], [4], [4], [1], [1]],
        [[(0,)], [(1,)], [(2, 0)], [(2, 1)], [(2, 2)]],
    ),
    ((3, 4, 5), [reshape(3, 20)], [[3], [4, 5]], [[(0,)], [(1,), (2,)]]),
    ((3, 20), [reshape(3, 4, 5)], [[3], [4], [5]], [[(0,)], [(1, 0)], [(1, 1)]]),
    (
        (3, 10, 16),
        [reshape(3, 40, 2, 2)],
        [[3], [10, 4], [2], [2]],
        [[(0,)], [(1,), (2, 0)], [(2, 1)], [(2, 2)]],
    ),
    ((3, 4, 4, 1, 1), [reshape(3, 4, 4)], [[3], [4], [4]], [[(0,)], [(1,)], [(2,)]]),
    (
        (3, 4, 4),
        [reshape(3, 4, 4, 1, 1), reshape(3, 4, 4)],
        [[3], [4], [4]],
        [[(0,)], [(1,)], [(2, 0)]],
    ),
    (
        (256, 3, 16, 16),
        [transpose(0, 2, 3, 1)],
        [[256], [16], [16], [3]],
        [[(0,)], [(2,)], [(3,)], [(1,)]],
    ),
    (
        (1, 3, 1, 1),
        [repeat(256, 3, 16, 16)],
        [[256], [3], [16], [16]],
        [[()], [(1,)], [()], [()]],
    ),
    (
        (3,),
        [broadcast(1, 256, 3, 16, 16)],
        [[256], [3], [16], [16]],
        [[()], [(0,)], [()], [()]],
    ),
    (
        (32, 10),
        [broadcast(1, 256, 32, 10, 16, 16)],
        [[256], [32], [10], [16], [16]],
        [[()], [(0,)], [(1,)], [()], [()]],
    ),
]


@pytest.mark.parametrize(("lens", "chain", "sizes", "axes"), RECORDED)
def test_what_is_recorded(lens: Ints, chain: Chain, sizes: Lens, axes: list[list[Ints]]):
    found = Descriptor.recorded(lens, chain)
    assert found is not None
    assert lens_of(found) == sizes
    assert [[() if p.hidden else p.path for p in dim] for dim in found.dims] == axes


def test_lens_that_do_not_factor_have_no_descriptor():
    assert Descriptor.of((2, 3, 5), (reshape(10, 3),)) is None
    assert Descriptor.of((0, 3), (transpose(1, 0),)) is None


def test_axes_that_are_all_squeezed_have_no_descriptor_until_one_is_back():
    squeeze = Transform("squeeze", (0, 1))
    assert Descriptor.of((1, 1), (squeeze,)) is None
    found = Descriptor.of((1, 1), (squeeze, Transform("multibroadcast", (3,))))
    assert found is not None
    assert found.lens == (3,)
    assert Descriptor.of((), ()) is not None


def test_parts_of_a_dimension_are_joined_or_dropped():
    def simple(*parts: tuple[int, Ints]) -> list[int]:
        found = Descriptor.made(2, [[Part(*p) for p in parts], [Part(7, (1,))]]).simplified()
        return [p.len for p in found.dims[0]]

    assert simple((2, (0, 0)), (3, (0, 1))) == [6]
    assert simple((2, (0, 1)), (3, (0, 0))) == [2, 3]
    assert simple((2, (0, 0, 0)), (3, (0, 1, 1))) == [2, 3]
    assert simple((2, (0, 1)), (1, (1,)), (3, (0, 0))) == [2, 3]


# Canonical chains, as MIGraphX's documentation and tests have them

CANONICAL: list[tuple[Ints, Chain, Chain]] = [
    (
        (6, 5, 2),
        [reshape(2, 3, 5, 2), transpose(0, 1, 3, 2), reshape(6, 2, 5)],
        [transpose(0, 2, 1)],
    ),
    (
        (3, 4, 4),
        [reshape(3, 1, 4, 1, 4), repeat(3, 2, 4, 2, 4), reshape(3, 8, 8)],
        [unsqueeze(1, 3), repeat(3, 2, 4, 2, 4), reshape(3, 8, 8)],
    ),
    (
        (1, 1, 2, 2),
        [reshape(1, 1, 2, 1, 2, 1), repeat(1, 2, 2, 2, 2, 3), reshape(1, 2, 4, 6)],
        [unsqueeze(3, 5), repeat(1, 1, 2, 2, 2, 3), reshape(1, 1, 4, 6), repeat(1, 2, 4, 6)],
    ),
    (
        (32, 10),
        [unsqueeze(0, 3, 4), repeat(4, 32, 10, 16, 16)],
        [broadcast(1, 4, 32, 10, 16, 16)],
    ),
    (
        (256, 1, 1),
        [squeeze(1, 2), broadcast(0, 256, 64, 1, 1)],
        [unsqueeze(3), repeat(256, 64, 1, 1)],
    ),
    (
        (1, 5, 2),
        [repeat(20, 5, 2), transpose(0, 2, 1), reshape(20, 10)],
        [transpose(0, 2, 1), reshape(1, 10), repeat(20, 10)],
    ),
    (
        (320, 1, 1),
        [repeat(2, 320, 64, 64), transpose(0, 2, 3, 1)],
        [unsqueeze(0), transpose(0, 2, 3, 1), repeat(2, 64, 64, 320)],
    ),
    ((3, 1, 5, 1, 2, 1, 1), [reshape(3, 5, 2)], [squeeze(1, 3, 5, 6)]),
    ((3, 5, 2), [reshape(3, 1, 5, 1, 2, 1, 1)], [unsqueeze(1, 3, 5, 6)]),
    (
        (2, 16, 1),
        [repeat(2, 16, 10240), reshape(2, 160, 32, 32), transpose(0, 2, 3, 1)],
        [
            unsqueeze(3, 4),
            transpose(0, 3, 4, 1, 2),
            repeat(2, 1, 1, 16, 10),
            reshape(2, 1, 1, 160),
            repeat(2, 32, 32, 160),
        ],
    ),
    ((3, 5, 2), [transpose(0, 2, 1), transpose(1, 0, 2)], [transpose(2, 0, 1)]),
    ((3, 5, 2), [reshape(30), reshape(3, 10)], [reshape(3, 10)]),
    ((15, 4), [reshape(3, 5, 2, 2), reshape(15, 2, 2)], [reshape(15, 2, 2)]),
    ((6, 5, 2), [reshape(6, 5, 2, 1, 1), transpose(0, 1, 2, 4, 3), reshape(6, 5, 2)], []),
    (
        (1, 112, 7, 7),
        [reshape(1, 4, 28, 7, 7), transpose(0, 2, 1, 3, 4), reshape(1, 112, 7, 7)],
        [reshape(1, 4, 28, 7, 7), transpose(0, 2, 1, 3, 4), reshape(1, 112, 7, 7)],
    ),
    ((6, 5, 2), [reshape(6, 5, 2, 1), transpose(0, 1, 3, 2), reshape(6, 10)], [reshape(6, 10)]),
    (
        (1, 4, 1),
        [repeat(2, 4, 6), reshape(2, 2, 2, 6)],
        [reshape(1, 2, 2, 1), repeat(2, 2, 2, 6)],
    ),
    (
        (1, 128, 1),
        [squeeze(0), repeat(128, 768)],
        [squeeze(0), repeat(128, 768)],
    ),
    (
        (256,),
        [unsqueeze(0), squeeze(0), broadcast(0, 256, 64, 1, 1)],
        [broadcast(0, 256, 64, 1, 1)],
    ),
    ((3, 3, 3, 1), [transpose(3, 2, 0, 1), reshape(3, 1, 3, 3)], [transpose(2, 3, 0, 1)]),
    ((1,), [repeat(2), unsqueeze(1)], [repeat(2, 1)]),
    (
        (320, 1, 1),
        [unsqueeze(0), transpose(0, 2, 1, 3), squeeze(0, 1), repeat(320, 320)],
        [repeat(320, 1, 320), squeeze(1)],
    ),
    (
        (16, 1, 16),
        [squeeze(1), repeat(4, 16, 16), transpose(1, 0, 2)],
        [repeat(16, 4, 16)],
    ),
    ((1, 1), [squeeze(0)], [squeeze(0)]),
    (
        (2, 32, 1, 1, 1),
        [repeat(2, 32, 40960, 1, 1), squeeze(3, 4), reshape(2, 32, 10, 64, 64)],
        [repeat(2, 32, 10, 64, 64)],
    ),
    ((4, 1), [reshape(1, 4)], [unsqueeze(0), squeeze(2)]),
    ((2, 3), [transpose(1, 0), transpose(1, 0)], []),
    ((2, 3), [], []),
    ((1,), [repeat(4, 1), reshape(4)], [repeat(4)]),
    ((1,), [repeat(4, 2)], [repeat(4, 2)]),
    ((1, 1, 1), [repeat(2, 1, 3)], [repeat(2, 1, 3)]),
]


@pytest.mark.parametrize(("lens", "chain", "wanted"), CANONICAL)
def test_canonical_form(lens: Ints, chain: Chain, wanted: Chain):
    assert list(canonical(lens, tuple(chain)) or ()) == wanted
    assert list(canonical(lens, tuple(wanted)) or ()) == wanted


@given(chains())
def test_the_canonical_chain_means_the_same(case: tuple[np.ndarray, Transforms]):
    x, chain = case
    found = Descriptor.of(x.shape, chain)
    assume(found is not None)
    made = found.generate()
    assert np.array_equal(apply(x, *chain), apply(x, *made))
    assert found.elements == apply(x, *chain).size
    again = found.simplified().generate()
    assert np.array_equal(apply(x, *chain), apply(x, *again))
    best = canonical(x.shape, chain)
    assert best is not None
    assert np.array_equal(apply(x, *chain), apply(x, *best))
    assert cost(x.shape, best) <= cost(x.shape, made) or x.size == found.elements == 1


@given(chains())
def test_the_simplified_chain_means_the_same_and_costs_no_more(case: tuple[np.ndarray, Transforms]):
    x, chain = case
    best = simplified_chain(x.shape, chain)
    assert np.array_equal(apply(x, *chain), apply(x, *best))
    assert cost(x.shape, best) <= cost(x.shape, chain) or x.size == 1
    if len(best) > 1:
        assert simplified_chain(x.shape, best) == best


def test_a_repeated_simplification_finds_the_first_axis():
    chain = (repeat(2, 32, 40960), reshape(2, 32, 10, 64, 64))
    wanted = (unsqueeze(1, 2, 3, 4), repeat(2, 32, 10, 64, 64))
    assert simplified_chain((1,), chain) == wanted


def test_what_cannot_be_described_stays():
    chain = (reshape(2, 3), transpose(1, 0), reshape(2, 3))
    assert Descriptor.of((6,), chain) is None
    assert canonical((6,), chain) is None
    assert simplified_chain((6,), chain) == chain


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ([2, 32, 64], [64, 64], [2, 32, 64]),
        ([6, 4], [2, 12], [2, 3, 4]),
        ([6, 35], [3, 7, 2, 5], None),
        ([2, 1], [2], [2, 1]),
    ],
)
def test_common_dims(one: list[int], other: list[int], common: list[int] | None):
    assert common_dims(one, other) == common
