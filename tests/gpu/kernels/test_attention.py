"""Attention as one kernel: every form of scores, rows without any, caches, and what is left to others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.compiler.variants import parts
from tests.gpu.harness import Ran, run_plan, run_program
from tests.gpu.kernels.warps import run_warped
from tests.models.registry import MODELS
from workbench.compiler.errors import DeviceError
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.gpu.choices import Choices
from workbench.gpu.devices.base import Device
from workbench.gpu.devices.registry import compiler_for
from workbench.gpu.dialect import Dialect
from workbench.gpu.lowering.lower import lower

SIZES: dict[str, Any] = dict.fromkeys(("b", "h"), 2) | {"m": 13, "n": 37, "d": 20, "e": 12}
TOLERANCES = {"float": 1e-5, "half": 4e-3, "bf16": 4e-2, "double": 1e-12}


class Net:
    """A program of attention, made part by part."""

    def __init__(self, type: str = "float", **sizes: int) -> None:
        self.type = type
        self.b, self.h, self.m, self.n, self.d, self.e = (SIZES | sizes).values()
        self.program = Program()
        self.main = self.program.main
        self.lens = (self.b, self.h, self.m, self.n)

    def given(self, name: str, *lens: int, type: str | None = None) -> Instruction:
        return self.main.add_parameter(name, Shape(type or self.type, lens))

    def constant(self, value: float, lens: tuple[int, ...] | None = None) -> Instruction:
        one = self.main.add_literal(np.array([value], Shape(self.type, (1,)).type.numpy))
        return self.main.add("multibroadcast", one, out_lens=lens or self.lens)

    def scores(self, keys: Instruction | None = None) -> Instruction:
        add = self.main.add
        q = self.given("q", self.b, self.h, self.m, self.d)
        k = self.given("k", self.b, self.h, self.n, self.d) if keys is None else keys
        return add("dot", q, add("transpose", k, permutation=(0, 1, 3, 2)))

    def scaled(self, scores: Instruction) -> Instruction:
        return self.main.add("mul", scores, self.constant(self.d**-0.5))

    def masked(self, scores: Instruction) -> Instruction:
        mask = self.given("mask", self.b, 1, 1, self.n)
        wide = self.main.add("multibroadcast", mask, out_lens=self.lens)
        return self.main.add("add", scores, wide)

    def causal(self, scores: Instruction) -> Instruction:
        seen = np.tril(np.ones((self.m, self.n), bool), self.n - self.m)
        wide = self.main.add("multibroadcast", self.main.add_literal(seen), out_lens=self.lens)
        return self.main.add("where", wide, scores, self.constant(-np.inf))

    def guarded(self, weights: Instruction) -> Instruction:
        none = self.main.add("isnan", weights)
        return self.main.add("where", none, self.constant(0.0), weights)

    def output(self, scores: Instruction, values: Instruction | None = None) -> Instruction:
        weights = self.main.add("softmax", scores, axis=3)
        return self.product(weights, values)

    def product(self, weights: Instruction, values: Instruction | None = None) -> Instruction:
        v = self.given("v", self.b, self.h, self.n, self.e) if values is None else values
        return self.main.add("dot", weights, v)

    def done(self, *results: Instruction) -> "Net":
        self.main.add_return(*results)
        return self

    def inputs(self, **fixed: np.ndarray) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(7)
        made = {
            name: generator.standard_normal(one.shape.lens).astype(one.shape.type.numpy)
            for name, one in self.main.parameters.items()
        }
        return made | fixed


def compiled(program: Program) -> Program:
    return wb.compile(program, "cpu", passes="gpu").program


def kernels(ran: Ran) -> list[str]:
    return [s.launch.kernel.name.rsplit("_", 1)[0] for s in ran.plan.kernels]


def groups(program: Program) -> list[Instruction]:
    return [
        i for i in program.main if i.name == "group" and "attention" in i.op.attributes()["tag"]
    ]


def expect(net: Net, ran: Ran, inputs: dict[str, np.ndarray], *names: str) -> None:
    """The values of the reference, from these kernels and no other."""
    assert kernels(ran) == list(names)
    assert not ran.plan.host
    results = wb.compile(net.program, "ref").run(inputs)
    tolerance = TOLERANCES[net.type]
    for found, wanted in zip(ran.values, map(np.asarray, results.values()), strict=True):
        assert found.dtype == wanted.dtype
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(a, b, tolerance, tolerance * 2)


def check(net: Net, device: Device, *names: str, **fixed: np.ndarray) -> None:
    inputs = net.inputs(**fixed)
    expect(
        net, run_program(compiled(net.program), inputs, device), inputs, *(names or ("attention",))
    )


# Forms of scores


def plain(net: Net) -> Net:
    return net.done(net.output(net.scores()))


def masked(net: Net) -> Net:
    return net.done(net.output(net.masked(net.scaled(net.scores()))))


def causal(net: Net) -> Net:
    return net.done(net.output(net.causal(net.scaled(net.scores()))))


def guarded(net: Net) -> Net:
    scores = net.masked(net.scaled(net.scores()))
    return net.done(net.product(net.guarded(net.main.add("softmax", scores, axis=3))))


@pytest.mark.parametrize("form", [plain, masked, causal, guarded])
def test_each_form_of_scores_is_one_kernel(form: Any, device: Device):
    check(form(Net()), device)


@pytest.mark.parametrize("type", ["half", "bf16"])
def test_narrow_floats(type: str, device: Device):
    check(masked(Net(type, d=32, e=32)), device)


def test_a_guard_behind_a_conversion_is_one_kernel_as_well(device: Device):
    net = Net("half")
    weights = net.main.add("softmax", net.scaled(net.scores()), axis=3)
    none = net.main.add("isnan", net.main.add("convert", weights, target_type="float"))
    check(net.done(net.product(net.main.add("where", none, net.constant(0.0), weights))), device)


@pytest.mark.parametrize(("d", "e"), [(64, 64), (21, 11), (128, 3), (256, 256), (1, 1)])
def test_lengths_of_queries_and_values(d: int, e: int, device: Device):
    check(masked(Net(b=1, h=1, m=9, n=20, d=d, e=e)), device)


@pytest.mark.parametrize("sizes", [{"m": 270, "n": 5}, {"m": 9, "n": 150, "d": 200, "e": 200}])
def test_more_than_a_block_of_a_cpu_keeps(sizes: dict[str, int], device: Device):
    check(masked(Net(b=1, h=1, **sizes)), device)


def test_longer_queries_than_256_are_left_to_several_kernels(device: Device):
    net = plain(Net(b=1, h=1, m=6, n=5, d=260))
    inputs = net.inputs()
    ran = run_program(compiled(net.program), inputs, device)
    assert len(kernels(ran)) > 1
    expect(net, ran, inputs, *kernels(ran))


def test_doubles_are_left_to_several_kernels(device: Device):
    net = masked(Net("double", m=6, n=5))
    inputs = net.inputs()
    ran = run_program(compiled(net.program), inputs, device)
    assert "attention" not in kernels(ran)
    expect(net, ran, inputs, *kernels(ran))


def test_other_work_on_weights_is_left_to_several_kernels(device: Device):
    net = Net(m=6, n=5)
    weights = net.main.add("softmax", net.scores(), axis=3)
    net.done(net.product(net.main.add("sqrt", weights)))
    inputs = net.inputs()
    ran = run_program(compiled(net.program), inputs, device)
    assert len(groups(ran.plan.program)) == 1
    assert "attention" not in kernels(ran)
    expect(net, ran, inputs, *kernels(ran))


def test_weights_may_be_multiplied(device: Device):
    net = Net()
    weights = net.main.add("softmax", net.scores(), axis=3)
    dropped = net.given("dropped", *net.lens)
    check(net.done(net.product(net.main.add("mul", weights, dropped))), device)


def test_keys_that_lie_along_their_last_axis(device: Device):
    net = Net()
    q, k = net.given("q", 2, 2, 13, 20), net.given("k", 2, 2, 20, 37)
    check(net.done(net.output(net.main.add("dot", q, k))), device)


def test_fewer_heads_of_keys_than_of_queries(device: Device):
    net = Net(h=4)
    shared = net.given("k", 2, 1, 37, 20), net.given("v", 2, 1, 37, 12)
    keys, values = (
        net.main.add("multibroadcast", x, out_lens=(2, 4, *x.shape.lens[2:])) for x in shared
    )
    check(net.done(net.output(net.scores(keys), values)), device)


def test_one_product_split_in_queries_keys_and_values(device: Device):
    net = Net(b=2, h=3, m=10, n=10, d=8, e=8)
    add = net.main.add
    x = add("reshape", net.given("x", 2, 10, 72), dims=(2, 10, 9, 8))
    x = add("transpose", x, permutation=(0, 2, 1, 3))
    q, k, v = (add("slice", x, axes=(1,), starts=(s,), ends=(s + 3,)) for s in (0, 3, 6))
    scores = add("dot", q, add("transpose", k, permutation=(0, 1, 3, 2)))
    out = add("transpose", net.output(net.scaled(scores), v), permutation=(0, 2, 1, 3))
    ran = run_program(compiled(net.done(out).program), inputs := net.inputs(), device)
    expect(net, ran, inputs, *kernels(ran))
    assert kernels(ran).count("attention") == 1


def test_the_logarithm_of_the_sum_is_a_second_result(device: Device):
    net = Net(n=20)
    add, scores = net.main.add, net.scaled(net.scores())
    top = add("reduce_max", scores, axes=(3,))
    power = add("exp", add("sub", scores, add("multibroadcast", top, out_lens=net.lens)))
    total = add("reduce_sum", power, axes=(3,))
    weights = add("div", power, add("multibroadcast", total, out_lens=net.lens))
    net.done(net.product(weights), add("add", add("log", total), top))
    check(net, device)


# Rows without any finite score


def hidden(net: Net) -> np.ndarray:
    mask = np.zeros((net.b, 1, 1, net.n), np.float32)
    mask[0] = -np.inf
    mask[1, ..., :5] = -np.inf
    return mask


@pytest.mark.parametrize("rows", [2, 13])
def test_a_row_without_scores_is_nan_as_it_is_in_the_reference(rows: int, device: Device):
    net = masked(Net(m=rows))
    names = () if rows > 4 else ("attention_of_rows",)
    check(net, device, *names, mask=hidden(net))


@pytest.mark.parametrize("rows", [2, 13])
def test_a_guard_makes_it_zeros(rows: int, device: Device):
    net = guarded(Net(m=rows))
    names = () if rows > 4 else ("attention_of_rows",)
    check(net, device, *names, mask=hidden(net))


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("rows", [2, 13])
def test_scores_that_are_infinite_or_nan(value: float, rows: int, device: Device):
    net = masked(Net(m=rows))
    mask = np.zeros((2, 1, 1, 37), np.float32)
    mask[1, ..., 35] = value
    check(net, device, *(() if rows > 4 else ("attention_of_rows",)), mask=mask)


def test_an_infinite_value_stays_in_its_column(device: Device):
    net = plain(Net())
    values = np.ones((2, 2, 37, 12), np.float32)
    values[..., -1, 3] = np.inf
    check(net, device, v=values)


# A few queries


@pytest.mark.parametrize("form", [plain, masked, causal, guarded])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_few_queries_share_the_keys_among_work_items(form: Any, rows: int, device: Device):
    check(form(Net(m=rows)), device, "attention_of_rows")


@pytest.mark.parametrize("type", ["float", "half"])
def test_many_keys_are_split_among_blocks(type: str, device: Device):
    net = causal(Net(type, b=1, m=2, n=600, d=32))
    check(net, device, "attention_of_rows", "attention_joined")


def test_a_cache_of_keys_and_values(device: Device):
    net = Net(b=2, h=2, m=1, n=16, d=4, e=4)
    add = net.main.add
    length = net.given("length", 2, 1, type="int32")
    new = net.given("new", 2, 6, 1, 4)
    q, k, v = (add("slice", new, axes=(1,), starts=(s,), ends=(s + 2,)) for s in (0, 2, 4))
    keys, values = (
        add("concat_past_present", x, length, net.given(name, 2, 2, 16, 4), kv_num_heads=2)
        for x, name in ((k, "past_keys"), (v, "past_values"))
    )
    scores = add("dot", q, add("transpose", keys, permutation=(0, 1, 3, 2)))
    places = net.main.add_literal(np.arange(16, dtype=np.int32))
    places = add("broadcast", places, axis=3, out_lens=net.lens)
    last = add("multibroadcast", add("unsqueeze", length, axes=(1, 2)), out_lens=net.lens)
    behind = add("convert", add("greater", places, last), target_type=0)
    seen = add("where", behind, net.constant(-1000.0), net.scaled(scores))
    out = add("transpose", net.output(seen, values), permutation=(0, 2, 1, 3))
    net.done(add("reshape", out, dims=(2, 1, 8)), keys, values)
    inputs = net.inputs(length=np.array([[3], [9]], np.int32))
    program = compiled(net.program)
    assert [g.op.attributes()["tag"] for g in groups(program)] == ["kv_cache_attention"]
    ran = run_program(program, inputs, device)
    expect(net, ran, inputs, *kernels(ran))
    assert kernels(ran).count("attention_of_rows") == 1


# For other devices


@pytest.mark.parametrize("sizes", [{}, {"m": 3, "n": 150}, {"b": 2, "h": 24, "m": 65, "d": 8}])
def test_kernels_made_for_warps(sizes: dict[str, int], device: Device):
    net = causal(Net(**sizes))
    inputs = net.inputs()
    ran = run_warped(compiled(net.program), inputs, device, 32)
    expect(net, ran, inputs, "attention_of_rows" if net.m <= 4 else "attention")


@pytest.mark.parametrize("form", [masked, guarded])
def test_tiles_of_other_devices(form: Any, device: Device):
    net = form(Net("half", m=9, n=20))
    inputs = net.inputs()
    expect(net, run_warped(compiled(net.program), inputs, device, 32), inputs, "attention")


@pytest.mark.parametrize("spec", ["cuda:sm_90", "hip:gfx90a"])
@pytest.mark.parametrize("sizes", [{}, {"m": 1, "n": 600}, {"d": 256, "e": 256}])
def test_sources_compile_for_gpus(spec: str, sizes: dict[str, int]):
    try:
        compiler = compiler_for(spec)
        assert compiler is not None
        plan = lower(compiled(causal(Net("half", **sizes)).program), compiler.dialect)
        for step in plan.kernels:
            kernel = step.launch.kernel
            assert compiler.compile(compiler.dialect.prologue + kernel.source, kernel.name).binary
    except DeviceError as error:
        if "does not compile" in str(error):
            raise
        pytest.skip(str(error))


def variants(program: Program, dialect: Dialect) -> list[Choices]:
    """The choice of each kernel of the program's attention."""
    choices = Choices()
    lower(program, dialect, choices)
    return [
        Choices({problem: text})
        for problem, texts in choices.offers.items()
        if problem.startswith("attention")
        for text in texts
    ]


@pytest.mark.parametrize("form", [masked, causal])
def test_every_variant_gives_the_same(form: Any, device: Device):
    net = form(Net("half", m=9, n=150, d=128, e=128))
    program, inputs = compiled(net.program), net.inputs()
    found = variants(program, device.dialect)
    assert len(found) > 2
    for choices in found:
        expect(
            net,
            run_plan(lower(program, device.dialect, choices), inputs, device),
            inputs,
            "attention",
        )


@pytest.mark.parametrize(
    ("form", "sizes", "wanted"),
    [
        (plain, {"m": 512, "n": 512}, ["3 groups", "2 groups", "4 warps", "8 warps"]),
        (causal, {"m": 512, "n": 512}, ["2 groups", "4 warps", "8 warps"]),
        (plain, {"m": 64, "n": 128}, ["4 warps", "8 warps", "2 groups", "3 groups"]),
        (plain, {"m": 64, "n": 128, "d": 60}, ["4 warps", "8 warps"]),
        (plain, {"m": 64, "n": 128, "d": 160}, []),
    ],
)
def test_variants_on_matrix_units(form: Any, sizes: dict[str, int], wanted: list[str]):
    compiler = compiler_for("cuda:sm_90")
    program = compiled(form(Net("half", **{"h": 16, "d": 64, "e": 64} | sizes)).program)
    texts: list[str] = []
    for choices in variants(program, compiler.dialect):
        (kernel,) = (s.launch for s in lower(program, compiler.dialect, choices).kernels)
        assert kernel.problem in choices.chosen
        texts += [text for text in choices.chosen.values() if kernel.kernel.matrix]
    assert sorted(" ".join(text.split()[:2]) for text in texts) == sorted(wanted)
    assert not texts or texts[0].split()[1] == wanted[0].split()[1]


@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_any_lengths(data: st.DataObject, device: Device):
    m, n = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 70))
    d, e = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    net = masked(Net(b=1, h=data.draw(st.integers(1, 3)), m=m, n=n, d=d, e=e))
    if groups(compiled(net.program)):
        check(net, device, "attention" if m > 4 else "attention_of_rows")


# Whole models


@pytest.mark.parametrize("name", ["small_encoder", "small_decoder"])
def test_a_model_has_one_kernel_for_each_group_of_attention(name: str, device: Device):
    model = MODELS[name]
    inputs = model.inputs()
    lens = {n: list(v.shape) for n, v in inputs.items()}
    program = wb.parse_onnx(model.path, map_input_dims=lens)
    results = wb.compile(program, "ref").run(inputs)
    work = compiled(program)
    ran = run_program(work, inputs, device)
    assert kernels(ran).count("attention") == len(groups(work)) == 2
    assert not ran.plan.host
    for found, wanted in zip(ran.values, results.values(), strict=True):
        np.testing.assert_allclose(found, parts(wanted)[0], 1e-4, 1e-4)
