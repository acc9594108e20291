"""The kind of reason that why_not gives for a pattern and what keeps it apart, as one table."""

import re
from pathlib import Path

import pytest

import workbench as wb
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.why_not import why_not
from workbench.compiler.ir.module import Instruction
from workbench.compiler.rewrite import worklist
from workbench.compiler.text.naming import ids_in, resolved
from workbench.compiler.text.printing import names

CUBE = "float_type, {1, 2, 4, 4}, {32, 16, 4, 1}\n"
QKV = (
    f"q = @param:q -> {CUBE}k = @param:k -> {CUBE}v = @param:v -> {CUBE}"
    "s = dot(q,k)\np = softmax[axis=3](s)\n"
)
ATTENTION = QKV + "o = dot(p,v)\n"
XY = "x = @param:x -> float_type, {4, 6}, {6, 1}\ny = @param:y -> float_type, {4, 6}, {6, 1}\n"
CONV = (
    "x = @param:x -> float_type, {1, 3, 8, 8}, {192, 64, 8, 1}\n"
    "w = @param:w -> float_type, {4, 3, 3, 3}, {27, 9, 3, 1}\n"
    "b = @param:b -> float_type, {4}, {1}\n"
    "c = convolution(x,w)\nm = broadcast[axis=1,out_lens={1, 4, 6, 6}](b)\na = add(c,m)\ne = relu(a)\n"
)
NORM = XY + (
    "m = reduce_mean[axes={1}](x)\nn = multibroadcast[out_lens={4, 6}](m)\nd = sub(x,n)\n"
    "q = mul(d,d)\nv = reduce_mean[axes={1}](q)\ni = rsqrt(v)\n"
    "j = multibroadcast[out_lens={4, 6}](i)\no = mul(d,j)\n"
)
DOT = (
    "x = @param:x -> float_type, {4, 6}, {6, 1}\nw = @param:w -> float_type, {6, 5}, {5, 1}\n"
    "b = @param:b -> float_type, {5}, {1}\nd = dot(x,w)\n"
    "m = broadcast[axis=1,out_lens={4, 5}](b)\na = add(d,m)\n"
)
PROGRAMS = {
    "attention": ATTENTION + "r = @return(o)\n",
    "attention, softmax returned": ATTENTION + "z = exp(p)\nr = @return(o,z)\n",
    "attention, turned": QKV
    + "t = transpose[permutation={0, 1, 3, 2}](p)\no = dot(t,v)\nr = @return(o)\n",
    "convolution": CONV + "r = @return(e)\n",
    "convolution returned": CONV + "r = @return(e,c)\n",
    "product": DOT + "r = @return(a)\n",
    "product returned": DOT + "r = @return(a,d)\n",
    "softmax": XY + "a = exp(x)\nb = softmax[axis=1](a)\nr = @return(b)\n",
    "norm": NORM + "r = @return(o)\n",
    "lengths open": "x = @param:x -> dynamic, float_type, {[1..4096], 6}\n"
    "m = reduce_mean[axes={1}](x)\nn = multibroadcast(m,x)\nd = sub(x,n)\nr = @return(d)\n",
    "norm, mean used": NORM + "z = reduce_max[axes={0}](m)\nr = @return(o,z)\n",
    "gathers": XY + "i = @param:i -> int64_type, {2}, {1}\nj = @param:j -> int64_type, {2}, {1}\n"
    "a = gather[axis=0](x,i)\nb = gather[axis=1](a,j)\nc = relu(b)\nr = @return(c)\n",
    "dead": XY + "a = exp(x)\nb = neg(y)\nc = neg(a)\nr = @return(c)\n",
}

# program | first | second | passes, or -left out | kind of reason | part of its text
TABLE = """
attention | dot | dot 1 | gpu | fused | one kernel: group @
attention, softmax returned | dot | softmax | gpu | near miss | has other users: exp @
attention, softmax returned | dot | dot 1 | gpu | near miss | find_attention of fuse_attention declined at @
attention | dot | dot 1 | -fuse_attention | not run | the pipeline did not run fuse_attention
attention | softmax | dot 1 | -fuse_attention | not run | the pipeline did not run fuse_attention
attention | dot | softmax | -fuse_attention.find_attention | not run | without its rule find_attention
attention | dot | dot 1 | rewrite_reduce, fuse_attention | not run | options of fuse_attention do not allow
attention | dot | dot 1 | optimize | not run | the pipeline did not run fuse_attention
attention | dot | dot 1 | -rewrite_reduce | not run | rewrite_reduce, which decomposes softmax @3
attention, turned | softmax | dot 1 | gpu | obstacle | lies between the softmax @
convolution | convolution | relu | gpu | fused | group @
convolution returned | convolution | relu | gpu | near miss | convolution @2 has other users: @return @
convolution | convolution | add | -fuse_pointwise | not run | the pipeline did not run fuse_pointwise
convolution | convolution | relu | -fuse_gemm_epilogue | not run | did not run fuse_gemm_epilogue
product | dot | add | gpu | fused | group @
product returned | dot | add | gpu | near miss | has other users
product returned | dot | add | -fuse_gemm_epilogue | obstacle | ; and the pipeline did not run
product | dot | add | -fuse_pointwise | not run | the pipeline did not run fuse_pointwise
product | dot | add | -fuse_gemm_epilogue | not run | the pipeline did not run fuse_gemm_epilogue
softmax | exp | softmax | -rewrite_reduce | not run | rewrite_reduce, which decomposes softmax @3
softmax | exp | softmax | -fuse_reduce | obstacle | reduce_max @3; and the pipeline did not run fuse_reduce
norm | reduce_mean | mul 1 | gpu | fused | one kernel: fused_reduce @
norm | reduce_mean | sub | -fuse_reduce | not run | the pipeline did not run fuse_reduce
norm | reduce_mean 1 | mul 1 | -fuse_pointwise | not run | the pipeline did not run fuse_pointwise
lengths open | reduce_mean | sub | gpu | near miss | has dynamic dimensions
norm, mean used | reduce_mean | sub | gpu | near miss | find_reduce_reduce of fuse_reduce
gathers | gather | gather 1 | gpu | obstacle | stands alone
gathers | gather 1 | relu | gpu | obstacle | gather @
dead | exp | neg | gpu | gone | removed it
"""


def found(build: Build, named: str) -> Instruction:
    name, _, number = named.partition(" ")
    return [i for i in build.source.main if i.name == name][int(number or 0)]


def built(program: str, passes: str) -> Build:
    disable = passes[1:] if passes.startswith("-") else ()
    given = ["gpu"] if disable else passes.split(", ")
    source = wb.parse('module: "main"\n' + PROGRAMS[program])
    return wb.compile(source, target="cpu", passes=given, disable=disable)


@pytest.mark.parametrize("line", TABLE.strip().split("\n"))
def test_the_kind_of_reason(line: str):
    program, first, second, passes, kind, says = line.split(" | ")
    build = built(program, passes)
    for pair in ((first, second), (second, first)):
        reason = why_not(build, *(found(build, one) for one in pair))
        assert reason.kind == kind, reason
        assert says in reason.text
        assert not re.search(r"#\d", reason.text), "an instruction with a name is shown by it"


def test_rewriting_that_stopped_is_the_reason():
    build = built("convolution returned", "gpu")
    step = next(s for s in reversed(build.recording.steps) if s.recorded_misses)
    (miss,) = step.recorded_misses
    step.recorded_misses[:] = [miss._replace(reason=f"edits have added too much; {worklist.LEFT}")]
    reason = why_not(build, found(build, "convolution"), found(build, "relu"))
    assert reason.kind == "near miss"
    assert worklist.LEFT in reason.text


def test_a_near_miss_speaks_of_what_its_step_shows_and_files_keep_ids(tmp_path: Path):
    build = built("attention, softmax returned", "gpu")
    step = next(s for s in build.recording if s.near_misses)
    shown = names(step.before)
    for recorded, miss in zip(step.recorded_misses, step.near_misses, strict=True):
        assert miss.reason == resolved(recorded.reason, shown)
        assert miss.at == shown[miss.instruction]
        assert ids_in(recorded.reason)
    wb.save(build.recording, tmp_path / "recording")
    assert wb.load(tmp_path / "recording").near_misses() == build.near_misses()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dot #7 and (#8) and #9", "dot @1 and ('x y') and #9"),
        ("body 'a#7' of b#7, [#7]", "body 'a#7' of b#7, [@1]"),
        ("", ""),
        ("#70 #7", "#70 @1"),
    ],
)
def test_only_ids_become_names(text: str, shown: str):
    assert resolved(text, {7: "@1"}, {7: "@2", 8: "'x y'"}) == shown
