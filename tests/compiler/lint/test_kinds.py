"""The contract of kinds of findings: each has a program with the finding, one without, and a remedy."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import workbench as wb
from tests.models.registry import MODELS
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.runner import NumPyRunner
from workbench.compiler.errors import OperationError
from workbench.compiler.lint.finding import Finding, kind, kinds
from workbench.compiler.lint.subject import Subject
from workbench.compiler.record.lowered import HOST, KERNEL, Lowered, LoweredRow
from workbench.compiler.text.printing import names

CUBE = "float_type, {1, 2, 4, 4}, {32, 16, 4, 1}\n"
ATTENTION = (
    f"q = @param:q -> {CUBE}k = @param:k -> {CUBE}v = @param:v -> {CUBE}"
    "s = dot(q,k)\np = softmax[axis=3](s)\no = dot(p,v)\n"
)
XY = "x = @param:x -> float_type, {4, 6}, {6, 1}\ny = @param:y -> float_type, {4, 6}, {6, 1}\n"
IMAGE = (
    "x = @param:x -> float_type, {1, 3, 8, 8}, {192, 64, 8, 1}\n"
    "w = @param:w -> float_type, {4, 3, 3, 3}, {27, 9, 3, 1}\n"
)
PADDED = (
    IMAGE + "p = pad[pads={0, 0, 1, 1, 0, 0, 1, 1},value=VALUE](x)\n"
    "c = convolution(p,w)\nr = @return(c)\n"
)
TURNED = (
    XY + "t = transpose[permutation={1, 0}](x)\nc = contiguous(t)\nd = dot(c,y)\nr = @return(d)\n"
)
CASTS = (
    XY
    + "h = convert[target_type=TYPE](x)\nf = convert[target_type=2](h)\na = neg(f)\nr = @return(a)\n"
)
SUM = "x = @param:x -> TYPE_type, {2, N}, {N, 1}\ns = reduce_sum[axes={1}](x)\nr = @return(s)\n"
THERE = (
    XY + "t = transpose[permutation={1, 0}](x)\na = exp(t)\n"
    "b = transpose[permutation={1, 0}](a)\nr = @return(b)\n"
)
RANGE = "x = @param:x -> dynamic, float_type, {[1..4096], 6}\na = neg(x)\nr = @return(a)\n"
EQUAL = XY + "a = add(x,y)\nb = add(x,y)\nc = mul(a,b)\nr = @return(c)\n"
FOLDED = XY + (
    "c = @literal{1, 2, 3, 4, 5, 6} -> float_type, {6}, {1}\nd = exp(c)\n"
    "m = broadcast[axis=1,out_lens={4, 6}](d)\na = add(x,m)\nr = @return(a)\n"
)
OUTPUT = XY + "a = exp(x)\nt = transpose[permutation={1, 0}](a)\nr = @return(t)\n"
PLAIN = XY + "a = add(x,y)\nr = @return(a)\n"


class Sample(NamedTuple):
    """A program with a finding, and what it is compiled with; another one without, compiled likewise."""

    found: str
    absent: str
    passes: str = "ref"
    reason: str = ""
    remedy: str = ""


SAMPLES = {
    "cast-round-trip": Sample(
        CASTS.replace("TYPE", "1"),
        CASTS.replace("TYPE", "3"),
        "gpu",
        "half",
        "if the rounding is not meant",
    ),
    "copied-output": Sample(OUTPUT, PLAIN, "ref", "has strides [1, 6]", "return exp @2 instead"),
    "duplicate": Sample(
        EQUAL, PLAIN, "ref", "did not run eliminate_common_subexpression", "run the pass"
    ),
    "dynamic-shape": Sample(RANGE, PLAIN, "ref", "those of 1 instruction", "default_dim_value=1"),
    "foldable-padding": Sample(
        PADDED.replace("VALUE", "1"),
        PADDED.replace("VALUE", "0"),
        "eliminate_pad",
        "the pad's value is not 0",
        "pad with zeros",
    ),
    "host-step": Sample(PLAIN, PLAIN, "ref", "no kernel", "replace add in the model"),
    "layout-copy": Sample(TURNED, PLAIN, "ref", "did not run eliminate_contiguous", "run the pass"),
    "layout-round-trip": Sample(
        THERE, OUTPUT, "ref", "did not run simplify_reshapes", "run the pass simplify_reshapes"
    ),
    "missed-fusion": Sample(
        ATTENTION + "z = exp(p)\nr = @return(o,z)\n",
        ATTENTION + "r = @return(o)\n",
        "gpu",
        "has other users: exp @",
        "attention: remove what the reason names",
    ),
    "narrow-sum": Sample(
        SUM.replace("TYPE", "half").replace("N", "4096"),
        SUM.replace("TYPE", "float").replace("N", "4096"),
        "ref",
        "4,096 terms",
        "keep=['op:reduce_sum']",
    ),
    "unfolded-constant": Sample(
        FOLDED, PLAIN, "ref", "did not run propagate_constant", "run the pass"
    ),
}


def built(text: str, passes: str = "ref") -> Build:
    return wb.compile(wb.parse('module: "main"\n' + text), target="cpu", passes=passes)


def on_device(build: Build, kind: str) -> Build:
    """The build as a device's: every instruction but the last is of a kind in the lowering."""
    rows = [
        LoweredRow(i.id, i.name, kind, "no kernel for it")
        for i in build.program.main
        if i.name == "add"
    ]
    runner = Lowering(build.program)
    runner.made = Lowered(tuple(rows), 0, "test")
    return replace(build, runner=runner, _recording=None)


class Lowering(NumPyRunner):
    """NumPy with a lowering, as a device has."""

    made: Lowered | None = None

    def lowered(self) -> Lowered | None:
        return self.made


@cache
def builds(name: str) -> tuple[Build, Build]:
    """The build with the finding, and the one without."""
    sample = SAMPLES[name]
    found, absent = built(sample.found, sample.passes), built(sample.absent, sample.passes)
    if name == "host-step":
        return on_device(found, HOST), on_device(absent, KERNEL)
    return found, absent


@pytest.mark.parametrize("name", kinds())
def test_a_kind_is_found_where_it_is_and_only_there(name: str):
    found, absent = builds(name)
    assert not absent.lint(only=[name]), absent.lint()
    report = found.lint(only=name)
    assert report.counts == {name: 1}, report
    (finding,) = report
    sample = SAMPLES[name]
    assert sample.reason in finding.reason
    assert sample.remedy in finding.remedy
    assert finding.id in finding.ids
    assert finding.instruction.startswith(names(found.program)[finding.id])
    assert not any("#" in text for text in (finding.remedy, finding.reason, finding.instruction))


@pytest.mark.parametrize("name", kinds())
def test_a_kind_explains_itself_and_the_page_has_it(name: str):
    made = kinds()[name]
    assert name in SAMPLES, "add a program with the finding and one without"
    assert inspect.getdoc(made.check)
    assert made.summary.endswith(".")
    assert "\n\n" in made.explanation, (
        "the first line says what it is, the rest why it costs and what helps"
    )
    page = Path(__file__).parents[3] / "docs" / "lint.md"
    assert f"| `{name}` |" in page.read_text(encoding="utf-8")


def silent(_subject: Subject) -> Iterator[Finding]:
    return iter(())


def test_a_kind_needs_a_name_of_its_own_and_words():
    with pytest.raises(OperationError, match="'duplicate' is declared twice"):
        kind("duplicate")(silent)
    with pytest.raises(OperationError, match="'new' has no docstring"):
        kind("new")(silent)


GOLDEN = {
    "small_encoder": {},
    "small_decoder": {"dynamic-shape": 4, "layout-copy": 8, "missed-fusion": 7},
    "small_cnn": {"dynamic-shape": 1},
}


@pytest.mark.parametrize("name", GOLDEN)
def test_counts_of_real_models(name: str):
    build = wb.compile(wb.parse_onnx(MODELS[name].path), target="cpu", passes="gpu")
    report = build.lint()
    assert report.counts == GOLDEN[name]
    assert all(f.sources or f.kind == "dynamic-shape" for f in report)


# Cases at the edges


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = @param:x -> float_type, {0, 4}, {4, 1}\na = neg(x)\nr = @return(a)\n", {}),
        ("x = @param:x -> float_type, {}, {}\na = neg(x)\nr = @return(a)\n", {}),
        (SUM.replace("TYPE", "half").replace("N", "1023"), {}),
        (SUM.replace("TYPE", "bf16").replace("N", "128"), {"narrow-sum": 1}),
        (SUM.replace("TYPE", "int32").replace("N", "4096"), {}),
    ],
)
def test_edges(text: str, found: dict[str, int]):
    assert built(text).lint().counts == found


def test_an_empty_program_has_nothing():
    assert not wb.lint(wb.parse('module: "main"\n'))


def test_a_pad_that_a_pass_made_names_the_pass():
    text = IMAGE + "c = convolution[padding={0, 0, 1, 1}](x,w)\nr = @return(c)\n"
    build = wb.compile(
        wb.parse('module: "main"\n' + text),
        target="cpu",
        passes=["eliminate_pad", ("insert_pad", {"ops": ("convolution",)})],
    )
    (finding,) = build.lint(only="foldable-padding")
    assert finding.reason.startswith("insert_pad made it in step 1: ")
    assert "same padding on both sides" in finding.remedy
