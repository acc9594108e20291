"""Sentences of edits, one of each kind; the samples of the passes have many more (tests/compiler/passes)."""

import pytest

from workbench.compiler.passes.base import pass_named
from workbench.compiler.record.recording import Recording
from workbench.compiler.text.printing import parse

X = 'module: "main"\nx = @param:x -> float_type, {2, 3}, {3, 1}\ny = @param:y -> float_type, {2, 3}, {3, 1}\n'
CONVS = (
    'module: "main"\nx = @param:x -> float_type, {1, 3, 8, 8}, {192, 64, 8, 1}\n'
    + "".join(
        f"w{k} = @literal{{ ... }} -> float_type, {{4, 3, 3, 3}}, {{27, 9, 3, 1}}\n"
        for k in range(4)
    )
    + "".join(f"c{k} = convolution(x,w{k})\n" for k in range(4))
    + "".join(f"e{k} = {op}(c{k})\n" for k, op in enumerate(("relu", "exp", "neg", "abs")))
    + "r = @return(e0,e1,e2,e3)\n"
)
CASES = {
    "eliminate_common_subexpression": (
        X + "a = add(x,y)\nb = add(x,y)\nc = mul(a,b)\nr = @return(c)\n",
        "two equal adds became one",
    ),
    "fuse_pointwise": (
        X + "a = add(x,y)\nb = relu(a)\nr = @return(b)\n",
        "add and relu fused into pointwise",
    ),
    "simplify_reshapes": (
        X + "t = transpose[permutation={0, 1}](x)\na = neg(t)\nr = @return(a)\n",
        "transpose removed: it moved nothing",
    ),
    "simplify_algebra": (CONVS, "4 convolutions merged into one, with concat and 4 slices"),
    "dead_code_elimination": (
        X + "a = add(x,y)\nb = neg(x)\nr = @return(b)\n",
        "add removed: nothing used it",
    ),
    "propagate_constant": (
        X
        + "c = @literal{1, 2, 3} -> float_type, {3}, {1}\nd = exp(c)\n"
        + "m = broadcast[axis=1,out_lens={2, 3}](d)\na = add(x,m)\nr = @return(a)\n",
        "exp folded into a constant",
    ),
    "rewrite_reduce": (
        X + "a = softmax[axis=1](x)\nr = @return(a)\n",
        "softmax rewritten as reduce_max, two multibroadcasts, sub, exp, reduce_sum and div",
    ),
    "normalize_ops": (
        X + "a = reduce_sum[axes={-1}](x)\nr = @return(a)\n",
        "reduce_sum changed: axes (1,) instead of (-1,)",
    ),
    "auto_contiguous": (
        X + "t = transpose[permutation={1, 0}](x)\na = neg(t)\nr = @return(a)\n",
        "contiguous inserted before neg",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edit_in_words(name: str):
    text, sentence = CASES[name]
    program = parse(text, fill_seed=0)
    recording = pass_named(name).run(program)
    said = [s for step in recording for s in step.sentences]
    assert sentence in said, said


def test_edits_by_hand_have_sentences_too():
    program = parse(X + "a = add(x,y)\nb = neg(a)\nr = @return(b)\n")
    _, _, add, neg, _ = program.main
    with Recording(program) as recording:
        program.main.replace(neg, add)
    assert [s for step in recording for s in step.sentences]
    assert len(recording[0].sentences) == len(recording[0].edits)


def test_a_step_without_edits_has_none():
    program = parse(X + "a = add(x,y)\nr = @return(a)\n")
    assert pass_named("dead_code_elimination").run(program)[0].sentences[:] == []
