"""Chains of reshapes, transposes and broadcasts in programs: simplified, never changed in meaning."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.chains import Ints, chains
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import pass_named
from workbench.compiler.passes.shapes.simplify_reshapes import SimplifyReshapes
from workbench.compiler.passes.shapes.transform.chains import TRANSFORMS, words_of
from workbench.compiler.passes.shapes.transform.descriptor import Transform, cost
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import names


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


def _cost(program: Program) -> tuple[int, int]:
    """Of all transforms: elements that reshapes may copy, and how many transforms there are."""
    words = [(i.inputs[0].shape.lens, words_of([i])) for i in program.main if i.name in TRANSFORMS]
    found = [cost(lens, chain) for lens, chain in words]
    return sum(c for c, _ in found), sum(n for _, n in found)


@given(chains(), st.booleans())
def test_simplify_keeps_values_and_adds_nothing(case, shared: bool):
    x, chain = case
    program = program_of(x.shape, chain, shared)
    inputs = {"x": x.astype(np.float32)}
    before, size = run(program, inputs), _cost(program)
    SimplifyReshapes().apply(program)
    validate(program)
    for one, other in zip(before, run(program, inputs), strict=True):
        assert np.array_equal(one, other)
    assert _cost(program) <= size
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
        f"reshape {names(program)[shared.id]} in the chain has other users, so it stays; "
        "transpose, reshape would replace reshape"
    )


def test_every_rule_has_a_law_and_the_pass_its_name():
    rules = SimplifyReshapes.rules
    assert len({r.name for r in rules}) == len(rules) >= 10
    assert pass_named("simplify_reshapes") == SimplifyReshapes()
    assert "flatten" in TRANSFORMS
