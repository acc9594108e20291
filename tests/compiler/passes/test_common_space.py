"""The common space of both ends of a chain: its dimensions, and the ways into it and out of it."""

import numpy as np
import pytest
from hypothesis import assume, given

from tests.compiler.chains import (
    Chain,
    Ints,
    apply,
    chains,
    descriptor,
    repeat,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from workbench.compiler.passes.shapes.transform.common_space import CommonSpace
from workbench.compiler.passes.shapes.transform.descriptor import Descriptor, Transforms

SPACES: list[tuple[Ints, Chain, Ints, list[Ints], list[Ints]]] = [
    (
        (2, 32, 40, 8),
        [reshape(2, 1280, 8)],
        (2, 32, 40, 8),
        [(0,), (1,), (2,), (3,)],
        [(0,), (1, 2), (3,)],
    ),
    (
        (2, 32, 2560),
        [reshape(2, 1280, 8, 8)],
        (2, 32, 40, 8, 8),
        [(0,), (1,), (2, 3, 4)],
        [(0,), (1, 2), (3,), (4,)],
    ),
    (
        (2, 1280, 8, 8),
        [reshape(2, 32, 2560)],
        (2, 32, 40, 8, 8),
        [(0,), (1, 2), (3,), (4,)],
        [(0,), (1,), (2, 3, 4)],
    ),
    (
        (2, 32, 4096),
        [reshape(4, 16, 64, 64)],
        (2, 2, 16, 64, 64),
        [(0,), (1, 2), (3, 4)],
        [(0, 1), (2,), (3,), (4,)],
    ),
    (
        (2, 16, 64, 64),
        [transpose(0, 2, 3, 1), reshape(2, 32, 2048)],
        (2, 32, 2, 64, 16),
        [(0,), (4,), (1, 2), (3,)],
        [(0,), (1,), (2, 3, 4)],
    ),
    (
        (2, 32, 1),
        [repeat(2, 32, 4096), reshape(4, 16, 64, 64)],
        (2, 2, 16, 64, 64),
        [(0,), (1, 2), (3, 4)],
        [(0, 1), (2,), (3,), (4,)],
    ),
    (
        (4, 16, 32, 32),
        [reshape(4, 16, 32, 1, 32, 1), repeat(4, 16, 32, 2, 32, 2), reshape(4, 16, 64, 64)],
        (4, 16, 32, 2, 32, 2),
        [(0,), (1,), (2,), (4,)],
        [(0,), (1,), (2, 3), (4, 5)],
    ),
    ((1, 1), [squeeze(0)], (1, 1), [(0,), (1,)], [(0, 1)]),
]


@pytest.mark.parametrize(("lens", "chain", "dims", "source", "destination"), SPACES)
def test_the_axes_of_the_space(
    lens: Ints, chain: Chain, dims: Ints, source: list[Ints], destination: list[Ints]
):
    space = CommonSpace.of(descriptor(lens, *chain))
    assert space.dims == dims
    assert list(space.axes_of_source) == source
    assert list(space.axes_of_destination) == destination


LESS = ((2, 32, 40, 8), [reshape(2, 1280, 8)])
SPLIT = ((2, 32, 4096), [reshape(4, 16, 64, 64)])
JOIN = ((4, 16, 64, 64), [reshape(2, 32, 4096)])
TURN = ((2, 16, 64, 64), [transpose(0, 2, 3, 1), reshape(2, 32, 2048)])
REPEAT = ((2, 32, 1), [repeat(2, 32, 4096), reshape(4, 16, 64, 64)])
RESIZE = (
    (4, 16, 32, 32),
    [reshape(4, 16, 32, 1, 32, 1), repeat(4, 16, 32, 2, 32, 2), reshape(4, 16, 64, 64)],
)
TURNED = transpose(0, 4, 1, 2, 3)

WAYS: list[tuple[tuple[Ints, Chain], str, Ints, Chain]] = [
    (LESS, "from_source", (2, 32, 40, 8), []),
    (LESS, "from_destination", (2, 1280, 8), [reshape(2, 32, 40, 8)]),
    (LESS, "to_destination", (2, 32, 40, 8), [reshape(2, 1280, 8)]),
    (LESS, "to_source", (2, 32, 40, 8), []),
    (SPLIT, "from_source", (2, 32, 4096), [reshape(2, 2, 16, 64, 64)]),
    (SPLIT, "from_source", (2, 32, 1), [reshape(2, 2, 16, 1, 1)]),
    (SPLIT, "from_source", (2, 1, 4096), [reshape(2, 1, 1, 64, 64)]),
    (SPLIT, "from_destination", (4, 16, 64, 64), [reshape(2, 2, 16, 64, 64)]),
    (SPLIT, "from_destination", (4, 16, 1, 1), [reshape(2, 2, 16, 1, 1)]),
    (SPLIT, "from_destination", (4, 1, 64, 64), [reshape(2, 2, 1, 64, 64)]),
    (SPLIT, "to_destination", (2, 2, 16, 64, 64), [reshape(4, 16, 64, 64)]),
    (SPLIT, "to_destination", (2, 2, 1, 64, 64), [reshape(4, 1, 64, 64)]),
    (SPLIT, "to_destination", (2, 2, 16, 1, 1), [reshape(4, 16, 1, 1)]),
    (SPLIT, "to_destination", (2, 1, 16, 64, 64), [squeeze(1)]),
    (SPLIT, "to_source", (2, 2, 16, 64, 64), [reshape(2, 32, 4096)]),
    (SPLIT, "to_source", (2, 2, 1, 64, 64), [reshape(2, 2, 4096)]),
    (SPLIT, "to_source", (2, 2, 16, 1, 1), [reshape(2, 32, 1)]),
    (SPLIT, "to_source", (2, 1, 16, 64, 64), [reshape(2, 16, 4096)]),
    (JOIN, "from_destination", (2, 32, 1), [reshape(2, 2, 16, 1, 1)]),
    (JOIN, "from_destination", (2, 1, 4096), [reshape(2, 1, 1, 64, 64)]),
    (JOIN, "from_source", (4, 1, 64, 64), [reshape(2, 2, 1, 64, 64)]),
    (JOIN, "to_destination", (2, 2, 16, 1, 1), [reshape(2, 32, 1)]),
    (JOIN, "to_source", (2, 1, 16, 64, 64), [squeeze(1)]),
    (TURN, "from_destination", (2, 32, 2048), [reshape(2, 32, 2, 64, 16)]),
    (TURN, "from_destination", (2, 32, 1), [unsqueeze(3, 4)]),
    (TURN, "from_destination", (2, 1, 2048), [reshape(2, 1, 2, 64, 16)]),
    (
        TURN,
        "from_source",
        (2, 16, 64, 64),
        [reshape(2, 16, 32, 2, 64), transpose(0, 2, 3, 4, 1)],
    ),
    (TURN, "from_source", (2, 16, 1, 1), [unsqueeze(3), transpose(0, 2, 3, 4, 1)]),
    (TURN, "from_source", (2, 1, 64, 64), [reshape(2, 1, 32, 2, 64), transpose(0, 2, 3, 4, 1)]),
    (TURN, "to_destination", (2, 32, 2, 64, 16), [reshape(2, 32, 2048)]),
    (TURN, "to_destination", (2, 1, 2, 64, 16), [reshape(2, 1, 2048)]),
    (TURN, "to_destination", (2, 1, 1, 1, 16), [squeeze(2, 3)]),
    (TURN, "to_destination", (2, 32, 2, 64, 1), [reshape(2, 32, 128)]),
    (TURN, "to_source", (2, 32, 2, 64, 16), [TURNED, reshape(2, 16, 64, 64)]),
    (TURN, "to_source", (2, 1, 2, 64, 16), [TURNED, squeeze(2)]),
    (TURN, "to_source", (2, 1, 1, 1, 16), [TURNED, squeeze(2)]),
    (TURN, "to_source", (2, 32, 2, 64, 1), [TURNED, reshape(2, 1, 64, 64)]),
    (
        REPEAT,
        "from_source",
        (2, 32, 1),
        [reshape(2, 2, 16, 1, 1), repeat(2, 2, 16, 64, 64)],
    ),
    (REPEAT, "from_source", (2, 1, 1), [unsqueeze(2, 4), repeat(2, 1, 1, 64, 64)]),
    (REPEAT, "from_source", (2, 1, 4096), [reshape(2, 1, 1, 64, 64)]),
    (REPEAT, "from_source", (2, 32, 4096), [reshape(2, 2, 16, 64, 64)]),
    (REPEAT, "from_destination", (4, 16, 64, 64), [reshape(2, 2, 16, 64, 64)]),
    (REPEAT, "from_destination", (4, 16, 1, 1), [reshape(2, 2, 16, 1, 1)]),
    (REPEAT, "to_source", (2, 2, 16, 64, 64), [reshape(2, 32, 4096)]),
    (REPEAT, "to_source", (2, 2, 16, 1, 1), [reshape(2, 32, 1)]),
    (RESIZE, "from_source", (4, 16, 32, 32), [unsqueeze(3, 5), repeat(4, 16, 32, 2, 32, 2)]),
    (RESIZE, "from_source", (4, 16, 1, 1), [unsqueeze(3, 5), repeat(4, 16, 1, 2, 1, 2)]),
    (RESIZE, "from_source", (4, 1, 32, 32), [unsqueeze(3, 5), repeat(4, 1, 32, 2, 32, 2)]),
    (RESIZE, "from_destination", (4, 16, 64, 64), [reshape(4, 16, 32, 2, 32, 2)]),
    (RESIZE, "from_destination", (4, 16, 1, 1), [unsqueeze(3, 5)]),
    (RESIZE, "from_destination", (4, 1, 64, 64), [reshape(4, 1, 32, 2, 32, 2)]),
    (RESIZE, "to_destination", (4, 16, 32, 2, 32, 2), [reshape(4, 16, 64, 64)]),
    (RESIZE, "to_destination", (4, 16, 1, 2, 1, 2), [squeeze(2, 4)]),
    (RESIZE, "to_destination", (4, 16, 32, 1, 32, 1), [squeeze(3, 5)]),
    (RESIZE, "to_source", (4, 16, 32, 1, 32, 1), [squeeze(3, 5)]),
    (RESIZE, "to_source", (4, 16, 1, 1, 1, 1), [squeeze(3, 4)]),
    (RESIZE, "to_source", (4, 1, 32, 1, 32, 1), [squeeze(3, 5)]),
    (((1, 1), [squeeze(0)]), "from_source", (1, 1), []),
    (((1, 1), [squeeze(0)]), "from_destination", (1,), [unsqueeze(1)]),
    (((1, 1), [squeeze(0)]), "to_destination", (1, 1), [squeeze(0)]),
    (((1, 1), [squeeze(0)]), "to_source", (1, 1), []),
    (SPLIT, "from_source", (1,), [repeat(2, 2, 16, 64, 64)]),
]


@pytest.mark.parametrize(("case", "way", "lens", "wanted"), WAYS)
def test_ways_into_the_space_and_out_of_it(
    case: tuple[Ints, Chain], way: str, lens: Ints, wanted: Chain
):
    space = CommonSpace.of(descriptor(case[0], *case[1]))
    assert list(getattr(space, way)(lens)) == wanted


def test_ways_out_of_the_space_for_its_own_lens():
    space = CommonSpace.of(descriptor(*[RESIZE[0], *RESIZE[1]]))
    assert space.to_source() == (squeeze(3, 5),)
    assert space.to_destination() == (reshape(4, 16, 64, 64),)
    repeated = CommonSpace.of(descriptor(*[REPEAT[0], *REPEAT[1]]))
    assert repeated.to_source() == (reshape(2, 32, 4096),)


@given(chains())
def test_both_ends_of_a_chain_meet_in_the_space(case: tuple[np.ndarray, Transforms]):
    x, chain = case
    found = Descriptor.of(x.shape, chain)
    assume(found is not None)
    space = CommonSpace.of(found)
    inside = space.from_source(x.shape)
    outside = space.from_destination(found.lens)
    leaves = space.to_destination()
    assert inside is not None
    assert outside is not None
    assert leaves is not None
    value, end = apply(x, *inside), apply(x, *chain)
    assert value.shape == space.dims
    assert np.array_equal(value, apply(end, *outside))
    assert np.array_equal(apply(value, *leaves), end)
    if found.elements == x.size:
        assert np.array_equal(apply(value, *(space.to_source() or ())), x)
