"""Kernels made in one edit each: how many edits there are, what they say, and that they can be undone."""

import pytest

from tests.compiler.rule_samples import written_out
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.text.printing import parse

X = "x = @param:x -> float{2, 3, 4}\n"
CHAIN = X + "a = exp(x)\nb = neg(a)\nc = tanh(b)\nr = @return(c)"
TREE = X + "a = exp(x)\nb = neg(x)\nc = mul(a,b)\nd = tanh(c)\ne = add(d,x)\nr = @return(e)"
DIAMOND = X + "a = exp(x)\nb = neg(a)\nc = tanh(a)\nd = add(b,c)\nr = @return(d)"
TWO = X + "a = exp(x)\nb = neg(a)\nc = tanh(a)\nd = abs(c)\nr = @return(b,d)"
ACROSS = X + "a = exp(x)\ns = reshape[dims={6, 4}](a)\nb = neg(s)\nc = tanh(b)\nr = @return(c)"
NORM = X + (
    "m = reduce_mean[axes={2}](x)\nw = multibroadcast[out_lens={2, 3, 4}](m)\nd = sub(x,w)\n"
    "q = mul(d,d)\nv = reduce_mean[axes={2}](q)\ns = rsqrt(v)\n"
    "z = multibroadcast[out_lens={2, 3, 4}](s)\ny = mul(d,z)\nr = @return(y)"
)
WIDENED = (
    "x = @param:x -> half{2, 3}\nw = @param:w -> half{3, 4}\ny = @param:y -> float{2, 4}\nd = dot(x,w)\n"
    "c = convert[target_type=2](d)\na = add(c,y)\ns = reduce_sum[axes={1}](a)\nr = @return(s)"
)
ALL_OF_NORM = (
    "two reduce_mean instructions, two multibroadcasts, sub, two muls and rsqrt "
    "fused into fused_reduce"
)


def recorded(text: str, **options: object) -> tuple[Program, Recording]:
    """A program after both passes of fusion, and their recording."""
    program = parse(written_out(text))
    with Recording(program) as recording:
        for name in ("fuse_pointwise", "fuse_reduce"):
            run_pass(pass_named(name, **options), program)
    return program, recording


def rules(text: str, **options: object) -> list[str]:
    """The rules of all edits."""
    return [e.rule for step in recorded(text, **options)[1] for e in step.edits]


def test_a_chain_is_one_edit_however_long():
    lines = [f"a{n} = neg({f'a{n - 1}' if n else 'x'})\n" for n in range(50)]
    text = X + "".join(lines) + "r = @return(a49)"
    assert rules(text) == ["wrap_chain"]
    assert rules(text, stepwise=True) == ["wrap_pointwise"] * 50 + ["fuse_chain"] * 49


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (CHAIN, ["wrap_chain"]),
        (TREE, ["wrap_chain"]),
        (DIAMOND, ["wrap_chain"]),
        (TWO, ["wrap_pointwise", "wrap_pointwise", "wrap_chain"]),
        (NORM, ["wrap_pointwise"] * 4 + ["wrap_reductions"]),
    ],
)
def test_each_kernel_is_one_edit(text: str, made: list[str]):
    assert rules(text) == made


@pytest.mark.parametrize("text", [CHAIN, TREE, DIAMOND, TWO, ACROSS, NORM, WIDENED])
def test_the_kernels_are_those_of_single_steps(text: str):
    assert str(recorded(text)[0]) == str(recorded(text, stepwise=True)[0])


def test_kernels_that_others_move_are_made_one_by_one():
    made = rules(ACROSS)
    assert "rewrite_pointwise_reshapes" in made
    assert "wrap_chain" not in made
    assert made.count("wrap_pointwise") == 3


@pytest.mark.parametrize("stepwise", [False, True])
def test_work_that_widens_a_product_is_left_to_it(stepwise: bool):
    program, _ = recorded(WIDENED, stepwise=stepwise)
    names = [i.name for i in program.main if not i.name.startswith("@")]
    assert names == ["dot", "pointwise", "fused_reduce"]


def test_a_rule_that_is_left_out_leaves_kernels_apart():
    program = parse(written_out(CHAIN))
    run_pass(pass_named("fuse_pointwise", without=("fuse_chain",)), program)
    assert [i.name for i in program.main].count("pointwise") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CHAIN, ["exp, neg and tanh fused into pointwise"]),
        (
            NORM,
            [
                "sub became a pointwise kernel",
                "mul became a pointwise kernel",
                "rsqrt became a pointwise kernel",
                "mul became a pointwise kernel",
                ALL_OF_NORM,
            ],
        ),
    ],
)
def test_an_edit_says_what_it_fused(text: str, said: list[str]):
    assert [s for step in recorded(text)[1] for s in step.sentences] == said


@pytest.mark.parametrize("text", [CHAIN, TREE, DIAMOND, TWO, NORM])
def test_edits_are_undone_and_made_again(text: str):
    program, recording = recorded(text)
    before, after = str(parse(written_out(text))), str(program)
    count = sum(len(step.edits) for step in recording)
    recording.undo(count)
    assert str(program) == before
    recording.redo(count)
    assert str(program) == after


def test_values_inside_keep_their_ids_and_the_kernel_comes_from_all():
    program, recording = recorded(CHAIN)
    first = parse(written_out(CHAIN))
    exp, neg, tanh = (next(i.id for i in first.main if i.name == n) for n in ("exp", "neg", "tanh"))
    (kernel,) = [i for i in program.main if i.name == "pointwise"]
    assert recording.lineage(kernel).ancestors == (exp, neg, tanh)
    assert recording.lineage(kernel).equals == (tanh, kernel.id)
    assert {exp, neg, tanh} <= {i.id for i in kernel.modules[0]}
