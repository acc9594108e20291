"""Work on both ends of a chain of transforms, brought together: values stay, and the rule comes to rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.chains import chains
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes
from workbench.compiler.passes.shapes.transform.chains import is_transform
from workbench.compiler.run.reference import run

MOVE = SimplifyReshapes(enable_op_shape_transform_op=True)
KEYS = {"transpose": "permutation", "reshape": "dims", "multibroadcast": "out_lens"}


@st.composite
def works(draw: st.DrawFn, main: Module, x: Instruction) -> Instruction:
    """Elementwise work on a value and a parameter, a reduction, or an order in memory."""
    kind = draw(st.sampled_from(["add", "relu", "reduce_sum", "reduce_max", "argmax", "layout"]))
    rank = x.shape.ndim
    if kind == "add":
        lens = [draw(st.sampled_from([n, 1])) for n in x.shape.lens]
        y = main.add_parameter(f"y{len(main)}", Shape("float", lens))
        return main.add("add", x, main.add("multibroadcast", y, out_lens=x.shape.lens))
    if kind == "layout":
        return main.add(kind, x, permutation=draw(st.permutations(range(rank))))
    if kind == "relu":
        return main.add(kind, x)
    if kind == "argmax":
        found = main.add(kind, x, axis=draw(st.integers(0, rank - 1)), select_last_index=False)
        return main.add("convert", found, target_type=x.shape.type)
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    return main.add(kind, x, axes=sorted(axes))


@given(chains(), st.data())
def test_values_stay_and_the_rule_rests(case, data: st.DataObject):
    x, chain = case
    program = Program()
    main = program.main
    first = value = data.draw(works(main, main.add_parameter("x", Shape("float", x.shape))))
    if value.shape.lens == x.shape:
        for kind, values, axis in chain:
            extra = {"axis": axis, "out_lens": values} if kind == "broadcast" else {}
            value = main.add(kind, value, **(extra or {KEYS.get(kind, "axes"): values}))
    last = data.draw(works(main, data.draw(works(main, value))))
    main.add_return(*([last, first] if data.draw(st.booleans()) else [last]))
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    MOVE.apply(program)
    validate(program)
    for one, other in zip(before, run(program, inputs), strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, 1e-4, 1e-4, equal_nan=True)
    version = program.version
    MOVE.apply(program)
    assert program.version == version


@pytest.mark.parametrize("reduce", ["reduce_sum", "reduce_max", "reduce_mean"])
def test_a_normalization_over_groups_is_done_in_one_space(reduce: str):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 12, 4, 4)))
    scaled = main.add("sigmoid", x)
    groups = main.add("reshape", scaled, dims=(2, 3, 64))
    mean = main.add(reduce, groups, axes=(2,))
    centred = main.add("sub", groups, main.add("multibroadcast", mean, out_lens=(2, 3, 64)))
    main.add_return(main.add("relu", main.add("reshape", centred, dims=(2, 12, 4, 4))))
    MOVE.apply(program)
    moved = [i for i in main if is_transform(i) and i.name != "multibroadcast"]
    assert [i.name for i in moved] == ["reshape", "reshape"]
    assert moved[0].inputs[0] is x
    assert {i.shape.ndim for i in main if i.name in ("sigmoid", reduce, "sub", "relu")} == {5}


@pytest.mark.parametrize("work", ["mul", "neg"])
def test_two_users_of_a_repeated_sum_do_not_take_it_from_each_other(work: str):
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (4, 3)))
    spread = main.add("multibroadcast", main.add("reduce_sum", x, axes=(1,)), out_lens=(4, 3))
    turned = main.add("transpose", spread, permutation=(1, 0))
    one = main.add(work, *[turned] * (2 if work == "mul" else 1))
    main.add_return(one, main.add("reduce_sum", spread, axes=(1,)))
    inputs = generated_inputs(program, 1)
    before = run(program, inputs)
    MOVE.apply(program)
    assert len(main) < 12
    for a, b in zip(before, run(program, inputs), strict=True):
        assert np.allclose(a, b)
