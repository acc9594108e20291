"""Chains of reshapes, transposes and broadcasts: shortened, never lengthened, never changed in meaning."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.compiler.passes.base import pass_named
from workbench.compiler.passes.reshapes import TRANSFORMS, SimplifyReshapes
from workbench.compiler.passes.shape_transform import (
    Transform,
    canonical,
    common_dims,
    describe,
    shortest,
)
from workbench.compiler.program import Program
from workbench.compiler.recording import Recording
from workbench.compiler.reference import run
from workbench.compiler.shape import Shape
from workbench.compiler.validate import validate

Ints = tuple[int, ...]


def reshape(*dims: int) -> Transform:
    return Transform("reshape", dims)


def transpose(*permutation: int) -> Transform:
    return Transform("transpose", permutation)


def repeat(*lens: int) -> Transform:
    return Transform("multibroadcast", lens)


def unsqueeze(*axes: int) -> Transform:
    return Transform("unsqueeze", axes)


def squeeze(*axes: int) -> Transform:
    return Transform("squeeze", axes)


def apply(x: np.ndarray, step: Transform) -> np.ndarray:
    kind, values, axis = step
    if kind == "transpose":
        return x.transpose(values)
    if kind == "squeeze":
        return np.squeeze(x, values)
    if kind == "unsqueeze":
        return np.expand_dims(x, values)
    if kind == "reshape":
        return x.reshape(values)
    if kind == "broadcast":
        x = x.reshape(x.shape + (1,) * (len(values) - axis - x.ndim))
    return np.broadcast_to(x, values)


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
    kind = draw(st.sampled_from(["reshape", "transpose", "squeeze", "unsqueeze", "repeat", "lay"]))
    ones = [i for i, n in enumerate(lens) if n == 1]
    if kind == "squeeze" and ones and len(lens) > 1:
        axes = draw(
            st.lists(st.sampled_from(ones), min_size=1, unique=True, max_size=len(lens) - 1)
        )
        return squeeze(*sorted(axes))
    if kind == "unsqueeze" and len(lens) < 6:
        return unsqueeze(draw(st.integers(0, len(lens))))
    if kind in ("repeat", "lay") and prod(lens) < 500 and len(lens) < 6:
        front = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=1))
        if kind == "lay":
            back = draw(st.lists(st.sampled_from([1, 2]), max_size=1))
            return Transform("broadcast", (*front, *lens, *back), len(front))
        return repeat(*front, *[draw(st.sampled_from([1, 2, 3])) if n == 1 else n for n in lens])
    if kind == "reshape":
        return draw(reshapes(lens))
    return transpose(*draw(st.permutations(range(len(lens)))))


@st.composite
def chains(draw: st.DrawFn) -> tuple[np.ndarray, tuple[Transform, ...]]:
    """A source whose elements all differ, and a chain on it."""
    lens = tuple(draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    x = value = np.arange(prod(lens)).reshape(lens)
    chain: list[Transform] = []
    for _ in range(draw(st.integers(1, 5))):
        chain.append(draw(steps(value.shape)))
        value = apply(value, chain[-1])
    return x, tuple(chain)


@given(chains())
def test_the_shortest_chain_means_the_same_and_is_no_longer(case):
    x, chain = case
    best = shortest(x.shape, chain)
    value, wanted = x, x
    for step in best:
        value = apply(value, step)
    for step in chain:
        wanted = apply(wanted, step)
    assert value.shape == wanted.shape
    assert (value == wanted).all()
    assert len(best) <= len(chain)
    assert shortest(x.shape, best) == best


CANONICAL: list[tuple[Ints, list[Transform], list[Transform]]] = [
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
        [unsqueeze(3, 5), repeat(1, 1, 2, 2, 2, 3), reshape(1, 1, 4, 6), repeat(1, 2, 4, 6)],
        [unsqueeze(3, 5), repeat(1, 1, 2, 2, 2, 3), reshape(1, 1, 4, 6), repeat(1, 2, 4, 6)],
    ),
    (
        (32, 10),
        [unsqueeze(0, 3, 4), repeat(4, 32, 10, 16, 16)],
        [Transform("broadcast", (4, 32, 10, 16, 16), 1)],
    ),
    (
        (256, 1, 1),
        [squeeze(1, 2), Transform("broadcast", (256, 64, 1, 1), 0)],
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
    ((2, 3), [transpose(1, 0), transpose(1, 0)], []),
    ((1,), [repeat(4, 1), reshape(4)], [repeat(4)]),
    ((1, 1, 1), [repeat(2, 1, 3), reshape(6)], [squeeze(0, 1), repeat(6)]),
    ((1, 1), [squeeze(0), unsqueeze(0, 1)], [reshape(1, 1, 1)]),
    ((4, 1), [reshape(2, 2), reshape(1, 4)], [reshape(1, 4)]),
]
"""Chains and their canonical form as MIGraphX documents and tests it."""


@pytest.mark.parametrize(("lens", "chain", "wanted"), CANONICAL)
def test_canonical_form(lens: Ints, chain: list[Transform], wanted: list[Transform]):
    assert list(canonical(lens, tuple(chain)) or ()) == wanted


def test_what_cannot_be_described_stays():
    chain = (reshape(2, 3), transpose(1, 0), reshape(2, 3))
    assert describe((6,), chain) is None
    assert canonical((6,), chain) is None
    assert shortest((6,), chain) == chain


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


def program_of(lens: Ints, chain: tuple[Transform, ...], shared: bool) -> Program:
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", lens))
    keys = {"transpose": "permutation", "reshape": "dims"}
    values = [main.add("relu", x)]
    for kind, parameters, axis in chain:
        if kind in ("multibroadcast", "broadcast"):
            extra = {"axis": axis} if kind == "broadcast" else {}
            values.append(main.add(kind, values[-1], out_lens=parameters, **extra))
        else:
            values.append(main.add(kind, values[-1], **{keys.get(kind, "axes"): parameters}))
    main.add_return(*([values[-1], values[len(values) // 2]] if shared else [values[-1]]))
    return program


@given(chains(), st.booleans())
def test_simplify_keeps_values_and_adds_nothing(case, shared: bool):
    x, chain = case
    program = program_of(x.shape, chain, shared)
    inputs = {"x": x.astype(np.float32)}
    before, size = run(program, inputs), len(program.main)
    SimplifyReshapes().apply(program)
    validate(program)
    for one, other in zip(before, run(program, inputs), strict=True):
        assert np.array_equal(one, other)
    assert len(program.main) <= size
    with Recording(program) as recording:
        SimplifyReshapes().apply(program)
    assert not any(s.changed for s in recording.steps)


def test_a_shared_value_inside_a_chain_is_a_near_miss():
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 3, 4)))
    shared = main.add("reshape", main.add("transpose", x, permutation=(1, 0, 2)), dims=(6, 4))
    end = main.add("reshape", shared, dims=(3, 8))
    main.add_return(end, main.add("reduce_sum", shared, axes=(0,)))
    before = str(program)
    with Recording(program) as recording:
        SimplifyReshapes().apply(program)
    (miss,) = recording.near_misses()
    assert str(program) == before
    assert (miss.rule, miss.instruction) == ("find_nested_shape_transforms", end.id)
    assert miss.reason == (
        f"reshape #{shared.id} in the chain has other users, so it stays; 2 operations would replace 1"
    )


def test_every_rule_has_a_law_and_the_pass_its_name():
    rules = SimplifyReshapes.rules
    assert len({r.name for r in rules}) == len(rules) >= 10
    assert pass_named("simplify_reshapes") == SimplifyReshapes()
    assert "flatten" in TRANSFORMS
