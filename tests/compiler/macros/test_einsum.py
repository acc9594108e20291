"""The macro of Einstein sums: its instructions for given equations, its values, what it refuses."""

import numpy as np
import pytest

from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.macros import expand
from workbench.compiler.run.reference import run

LETTERS = {
    "transpose": "t", "unsqueeze": "u", "squeeze": "q", "reduce_sum": "s", "reshape": "r",
    "multibroadcast": "m", "dot": "dot", "gathernd": "g",
}  # fmt: skip


def made(equation, *lens):
    """The instructions, each as a letter and its first attribute."""
    program = Program()
    inputs = [
        program.main.add_parameter(f"x{i}", Shape("float_type", n)) for i, n in enumerate(lens)
    ]
    expand(program.main, None, "einsum", inputs, {"equation": equation})
    return program


def shown(program):
    found = []
    for i in program.main:
        if i.name in LETTERS:
            first = next(iter(i.op.attributes().values()), "")
            text = ",".join(map(str, first)) if isinstance(first, tuple) else str(first)
            found.append(LETTERS[i.name] + text)
    return " ".join(found)


CASES = {
    ("ij->ji", (2, 3)): "t0,1 u t1,0",
    ("ij->", (2, 3)): "t0,1 u s0,1 q0,1",
    ("ij->j", (2, 3)): "t0,1 u s0 q0 t0",
    ("ij->i", (2, 3)): "t0,1 u s1 q1 t0",
    ("ij,j->i", (2, 3), (3,)): (
        "t0,1 u t0 u0 t0,1 t0,1 r1,-1,3 r1,-1,3 t0,2,1 dot r2,1 t0,1 q1 t0"
    ),
    ("ij,kj->ik", (2, 3), (2, 3)): (
        "t0,1 u2 t1,0 u0 t0,2,1 t0,2,1 r1,-1,3 r1,-1,3 t0,2,1 dot r2,2,1 t0,2,1 q1 t0,1"
    ),
    ("i,i->", (3,), (3,)): "t0 u t0 u t0 t0 r1,-1,3 r1,-1,3 t0,2,1 dot r1 t0 q0",
    ("ij,ij->ij", (2, 3), (2, 3)): (
        "t0,1 u t0,1 u t0,1 t0,1 r6,-1,1 r6,-1,1 t0,2,1 dot r2,3 t0,1 t0,1"
    ),
    ("i,j->ij", (3,), (5,)): (
        "t0 u1 t0 u0 t0,1 t0,1 r1,-1,1 r1,-1,1 t0,2,1 dot r3,5 t0,1 t0,1"
    ),
    ("ijk,ikl->ijl", (3, 2, 5), (3, 5, 3)): (
        "t0,1,2 u3 t0,1,2 u1 t0,1,3,2 t0,1,3,2 r3,-1,5 r3,-1,5 t0,2,1 dot r3,2,3,1 t0,1,3,2 q2 t0,1,2"
    ),
    ("pqrs,tuqvr->pstuv", (2, 3, 5, 7), (1, 3, 3, 7, 5)): (
        "t0,1,2,3 u4,5,6 t2,4,0,1,3 u0,3 t0,3,4,5,6,1,2 t0,3,4,5,6,1,2 r1,-1,15 r1,-1,15 t0,2,1 dot "
        "r2,7,1,3,7,1,1 t0,5,6,1,2,3,4 q1,2 t0,1,2,3,4"
    ),
    ("ii->i", (3, 3)): "g0 t0 u t0",
    ("...ii->...i", (3, 3, 3)): "g1 t1,0 u t1,0",
    ("iii->i", (3, 3, 3)): "g0 t0 u t0",
    ("ii", (3, 3)): "g0 t0 u s0 q0",
    ("i,ij->i", (3,), (3, 4)): (
        "t0 u1 t0,1 u s1 t0,1 t0,1 r3,-1,1 r3,-1,1 t0,2,1 dot r3,1 t0,1 q1 t0"
    ),
    ("ij, jk -> ik", (3, 1), (2, 2)): (
        "t0,1 u2 t0,1 u0 t0,2,1 t0,2,1 m3,1,2 r1,-1,2 r1,-1,2 t0,2,1 dot r3,2,1 t0,2,1 q1 t0,1"
    ),
    ("bik,bkj->bij", (1, 3, 2), (2, 1, 4)): (
        "t0,1,2 u2 t0,2,1 u1 t0,1,2,3 t0,1,2,3 m2,3,1,2 m2,1,4,2 r2,-1,2 r2,-1,2 t0,2,1 dot r2,3,4,1 "
        "t0,1,2,3 q3 t0,1,2"
    ),
    ("bac,cd,def->ebc", (2, 2, 2), (2, 2), (2, 2, 2)): (
        "t1,0,2 u3,4,5 s0 t0,1 u0,1,4,5 t0,2,4,5,1,3 t0,2,4,5,1,3 r2,-1,1 r2,-1,1 t0,2,1 dot "
        "r1,2,1,1,2,2 t0,4,1,5,2,3 t0,1,2 u0,1,2 s5 t0,5,1,2,4,3 t0,5,1,2,4,3 r1,-1,2 r1,-1,2 t0,2,1 "
        "dot r1,1,2,2,2,1 t0,2,3,5,4,1 q0,3,5 t2,0,1"
    ),
    ("ik,jkl,il->ij", (2, 3), (5, 3, 7), (2, 7)): (
        "t0,1 u1,3 t0,1,2 u0 t0,1,3,2 t0,1,3,2 r1,-1,3 r1,-1,3 t0,2,1 dot r2,5,7,1 t0,1,3,2 t0,1 u1,2 "
        "t0,2,1,3 t0,2,1,3 r2,-1,7 r2,-1,7 t0,2,1 dot r2,1,5,1 t0,2,1,3 q2,3 t0,1"
    ),
    ("...ik,kj...->ij...", (3, 2, 3, 2), (2, 4, 3, 2)): (
        "t2,3,0,1 u1 t1,0,2,3 u0 t3,4,0,1,2 t3,4,0,1,2 r6,-1,2 r6,-1,2 t0,2,1 dot r3,2,3,4,1 "
        "t2,3,4,0,1 q2 t0,1,2,3"
    ),
    ("...qhd,...khd", (3, 2, 3, 2), (3, 4, 3, 2)): (
        "t3,2,1,0 u2 t3,2,1,0 u3 t4,3,2,0,1 t4,3,2,0,1 r3,-1,6 r3,-1,6 t0,2,1 dot r3,2,4,1,1 "
        "t3,4,2,1,0 q0,1 t2,0,1"
    ),
    ("..., ...", (2, 3), (2, 3)): (
        "t0,1 u t0,1 u t0,1 t0,1 r6,-1,1 r6,-1,1 t0,2,1 dot r2,3 t0,1 t0,1"
    ),
    ("bsnh,ctnh->nts", (2, 2, 2, 2), (2, 2, 2, 2)): (
        "t0,3,2,1 u1,5 s0 t0,3,2,1 u0,4 s1 t0,1,3,4,5,2 t0,1,3,4,5,2 r2,-1,2 r2,-1,2 t0,2,1 dot "
        "r1,1,2,2,2,1 t0,1,5,2,3,4 q0,1,2 t0,2,1"
    ),
    ("i...k,k...j->i...j", (3, 2, 2), (2, 2, 3)): (
        "t0,2,1 u1 t2,0,1 u0 t3,0,1,2 t3,0,1,2 r2,-1,2 r2,-1,2 t0,2,1 dot r2,3,3,1 t1,2,3,0 q2 t0,2,1"
    ),
    ("nhwpqc->nchpwq", (2, 3, 2, 3, 2, 3)): "t5,1,0,3,4,2 u t2,0,1,3,5,4",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_instructions(case):
    assert shown(made(*case)) == CASES[case]


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    equation, *lens = case
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(n).astype(np.float32) for n in lens]
    [found] = run(made(*case), {f"x{i}": a for i, a in enumerate(arrays)})
    full = list(map(np.array, arrays))
    if equation == "ij, jk -> ik":
        full[0] = np.broadcast_to(full[0], (3, 2))
    if equation == "bik,bkj->bij":
        full = [np.broadcast_to(full[0], (2, 3, 2)), np.broadcast_to(full[1], (2, 2, 4))]
    wanted = np.einsum(equation, *full)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


def test_the_places_of_a_diagonal_stay_where_they_are_used():
    names = [i.name for i in made("ii->i", (3, 3)).main]
    assert names[:3] == ["@param", "@literal", "gathernd"]


REFUSED = {
    ("ii,jj->->ij", (3, 3), (3, 3)): "a second '->'",
    ("ii,->ij", (3, 3), (3, 3)): "no term before '->'",
    ("......ii,...jj->...ij", (3, 3), (3, 3)): "two ellipses",
    ("ii,jj->i,j", (3, 3), (3, 3)): "a comma after '->'",
    ("ii,,jj->ij", (3, 3), (3, 3)): "no term before ','",
    ("ii,jj,", (3, 3), (3, 3)): "lacks its last term",
    ("ii,jj,kk->ijk", (3, 3), (3, 3)): "3 terms; expected 2, one per input",
    ("...ii,...jj->...ij", (3, 3, 3), (3, 3, 3, 3)): "cover 1 and 2 axes",
    ("iik,jj->ij", (3, 3), (3, 3)): "term 1 of",
    ("ii,jj->ijk", (3, 3), (3, 3)): "'k' of the output",
    ("...ii,...jj->ij", (3, 3, 3), (3, 3, 3)): "lacks the ellipsis",
    ("iijj->ij", (3, 3, 3, 3)): "labels i and j are repeated",
    ("ii->i", (3, 4)): "different lengths",
    ("ii...->i...", (3, 3, 3)): "expected its axes to be the last",
    ("i1->i", (3, 3)): "expected letters",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    with pytest.raises(OperationError, match="macro einsum") as error:
        made(*case)
    assert REFUSED[case] in str(error.value)
